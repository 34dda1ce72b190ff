"""Minutes in which a group was observed at all, and those in which none of its servers was up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from alerts.burn import HOUR, MINUTE
from monitor.evaluate.members import Members
from monitor.evaluate.tally import Cells
from monitor.history.cells import Columns
from monitor.history.packed import Floats, Ints

COLUMNS = ("up_avg", "up_max", "covered_seconds")
Flags = NDArray[np.bool_]
_WHOLE_HOUR = HOUR - MINUTE / 2
"""Observed so long, a server that was always up leaves no minute of an outage."""
_MOMENTS = 10**9
"""More than there are minutes since 1970."""


@dataclass(frozen=True, slots=True)
class Presence:
    """Minutes by group and cell."""

    known: Floats
    outage: Floats


def serving(members: Members, cells: Cells, engines: Columns, at: Ints) -> Flags:
    """By target, group and cell: which target served which group, as it did last while it does not say.

    `at` says in which cell the rows of engines lie.
    """
    shape = (len(members.target_ids), len(members.groups), cells.many)
    seen = np.zeros(shape, bool)
    inside = at >= 0
    series = engines["series"][inside]
    seen[members.engine_target[series], members.engine_group[series], at[inside]] = True
    said = np.where(seen.any(axis=1), np.arange(cells.many), -1)
    last = np.maximum.accumulate(said, axis=1) if cells.many else said
    carried = np.take_along_axis(seen, np.maximum(last, 0)[:, None, :], axis=2)
    return np.where(last[:, None, :] >= 0, carried, _before(members, cells, shape))


def _before(members: Members, cells: Cells, shape: tuple[int, int, int]) -> Flags:
    """What targets served last before the first cell in which they say so."""
    found = np.zeros(shape, bool)
    first, last = members.engine_seen.T
    for target in range(shape[0]):
        own = np.flatnonzero(members.engine_target == target)
        for engine in own[last[own] >= last[own].max() - MINUTE]:
            found[target, members.engine_group[engine]] |= cells.end > first[engine]
    return found


def suspect(members: Members, cells: Cells, served: Flags, targets: Columns) -> Flags:
    """By group and cell: hours in which a server was down or not observed, and no other was up or observed throughout.

    Of a single server its hour says how long it was observed.
    """
    at = cells.of(targets["start"])
    hours = (targets["length"] == HOUR) & (at >= 0)
    is_up, whole = targets["up_avg"] >= 1, targets["covered_seconds"] >= _WHOLE_HOUR
    down, always, throughout = (
        _count(members, cells, served, targets, hours & each, at) > 0 for each in (~is_up, is_up & whole, whole)
    )
    several = _count(members, cells, served, targets, hours, at) > 1
    return (down & ~always) | (several & ~throughout)


def _count(members: Members, cells: Cells, served: Flags, targets: Columns, chosen: Flags, at: Ints) -> Ints:
    """How many of the chosen rows are of targets that served the group then."""
    rows = np.flatnonzero(chosen)
    of_groups = (rows[served[targets["series"][rows], group, at[rows]]] for group in range(len(members.groups)))
    counts = [np.bincount(at[of], minlength=cells.many) for of in of_groups]
    return np.array(counts, np.int64).reshape(len(members.groups), cells.many)


def blurred(cells: Cells, served: Flags, targets: Columns, suspected: Flags) -> Flags:
    """Rows of hours whose minutes tell what is suspected: by group and cell."""
    at = cells.of(targets["start"])
    hours = np.flatnonzero((targets["length"] == HOUR) & (at >= 0))
    found = np.zeros(len(at), bool)
    found[hours] = (served[targets["series"][hours], :, at[hours]] & suspected[:, at[hours]].T).any(axis=1)
    return found


def presence(members: Members, cells: Cells, served: Flags, targets: Columns, suspected: Flags) -> Presence:
    """Hours that are not suspected have no outage. One whose minutes are gone has as much as its best server."""
    at = cells.of(targets["start"])
    read = (at >= 0) & ~np.isnan(targets["up_avg"])
    minutes, hours = (np.flatnonzero(read & ((targets["length"] == HOUR) == is_hour)) for is_hour in (False, True))
    known, outage = np.zeros((2, len(members.groups), cells.many))
    for group in range(len(members.groups)):
        of = minutes[served[targets["series"][minutes], group, at[minutes]]]
        known[group], outage[group] = _by_minutes(cells, at[of], targets["start"][of], targets["up_max"][of])
        of = hours[served[targets["series"][hours], group, at[hours]]]
        by_hours, best = np.zeros(cells.many), np.zeros(cells.many)
        np.maximum.at(by_hours, at[of], np.round(targets["covered_seconds"][of] / MINUTE))
        np.maximum.at(best, at[of], targets["up_avg"][of])
        outage[group] += (1 - best) * by_hours
        known[group] = np.maximum(known[group], by_hours)
    return Presence(known, np.where(suspected | (cells.length == MINUTE), outage, 0.0))


def _by_minutes(cells: Cells, at: Ints, start: Ints, up: Floats) -> tuple[Floats, Floats]:
    """Minutes by cell, and those in which nobody was up."""
    different, which = np.unique(at * _MOMENTS + start // MINUTE, return_inverse=True)
    best, cell = np.zeros(len(different)), different // _MOMENTS
    np.maximum.at(best, which, up)
    known, down = (np.bincount(cell, of, cells.many) for of in (np.ones(len(cell)), best < 1))
    return known.astype(np.float64), down.astype(np.float64)
