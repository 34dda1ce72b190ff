"""Minutes in which it is known whether a server of a group was up, and those in which none was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from alerts.burn import HOUR, MINUTE
from alerts.rules.outage import SIGHT_SECONDS
from monitor.evaluate.members import Members
from monitor.evaluate.tally import Cells
from monitor.history.cells import Columns
from monitor.history.packed import Floats, Ints

COLUMNS = ("up_avg", "up_max", "covered_seconds")
LEAD_SECONDS = SIGHT_SECONDS - MINUTE
"""How far before a minute one may lie in which a server was seen last, so that it was within `SIGHT_SECONDS`."""
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


@dataclass(frozen=True, slots=True)
class Unseen:
    """Minutes in which nothing was seen of targets that were up when they were seen last, not long before."""

    series: Ints
    start: Ints


def unseen(targets: Columns) -> Unseen:
    """Of rows in order of series and time. What a minute saw last is not kept: up at any time of it is taken for up."""
    seen = ~np.isnan(targets["up_avg"])
    series, start = targets["series"][seen], targets["start"][seen]
    again = np.full(len(start), start.max(initial=0) + HOUR)
    again[:-1] = np.where(series[1:] == series[:-1], start[1:], again[:-1])
    up = (targets["up_max"][seen] >= 1) & (targets["length"][seen] == MINUTE) & (again > start + MINUTE)
    later = start[up, None] + np.arange(MINUTE, LEAD_SECONDS + 1, MINUTE)
    missing = later < again[up, None]
    return Unseen(np.broadcast_to(series[up, None], later.shape)[missing], later[missing])


def beginnings(cells: Cells, suspected: Flags) -> Ints:
    """Where minutes begin to be read of any group: what was seen shortly before is to be read with them."""
    fine = suspected | (cells.length == MINUTE)
    goes_on = np.zeros_like(fine)
    goes_on[:, 1:] = fine[:, :-1] & (cells.start[1:] == cells.end[:-1])
    found: Ints = cells.start[(fine & ~goes_on).any(axis=0)]
    return found


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


def suspect(cells: Cells, served: Flags, targets: Columns) -> Flags:
    """By group and cell: hours in which a server was down or not observed, and no other was up or observed throughout.

    Of a single server its hour says how long it was observed.
    """
    at = cells.of(targets["start"])
    hours = targets["length"] == HOUR
    is_up, whole = targets["up_avg"] >= 1, targets["covered_seconds"] >= _WHOLE_HOUR
    down, always, throughout = (
        _count(cells, served, targets, hours & each, at) > 0 for each in (~is_up, is_up & whole, whole)
    )
    several = _count(cells, served, targets, hours, at) > 1
    return (down & ~always) | (several & ~throughout)


def _count(cells: Cells, served: Flags, targets: Columns, chosen: Flags, at: Ints) -> Ints:
    """How many of the chosen rows are of targets that served the group then."""
    of_groups = _by_group(served, targets["series"], at, chosen)
    counts = [np.bincount(at[of], minlength=cells.many) for of in of_groups]
    return np.array(counts, np.int64).reshape(served.shape[1], cells.many)


def _by_group(served: Flags, series: Ints, at: Ints, chosen: Flags) -> Iterator[Ints]:
    """The chosen rows that lie in a cell, of targets that served the group then."""
    rows = np.flatnonzero(chosen & (at >= 0))
    for group in range(served.shape[1]):
        yield rows[served[series[rows], group, at[rows]]]


def blurred(cells: Cells, served: Flags, targets: Columns, suspected: Flags) -> Flags:
    """Rows of hours whose minutes tell what is suspected: by group and cell."""
    at = cells.of(targets["start"])
    hours = np.flatnonzero((targets["length"] == HOUR) & (at >= 0))
    found = np.zeros(len(at), bool)
    found[hours] = (served[targets["series"][hours], :, at[hours]] & suspected[:, at[hours]].T).any(axis=1)
    return found


def presence(cells: Cells, served: Flags, targets: Columns, suspected: Flags, away: Unseen) -> Presence:
    """Hours that are not suspected have no outage. One whose minutes are gone has as much as its best server."""
    at, at_away = cells.of(targets["start"]), cells.of(away.start)
    seen, is_hour = ~np.isnan(targets["up_avg"]), targets["length"] == HOUR
    minutes, hours = (_by_group(served, targets["series"], at, seen & of) for of in (~is_hour, is_hour))
    missing = _by_group(served, away.series, at_away, at_away >= 0)
    known, outage = np.zeros((2, served.shape[1], cells.many))
    for group, (m, h, a) in enumerate(zip(minutes, hours, missing, strict=True)):
        maybe = _moments(at_away[a], away.start[a])
        told = _by_minutes(cells, _moments(at[m], targets["start"][m]), targets["up_max"][m], maybe)
        best = _by_hours(cells, at[h], targets["covered_seconds"][h], targets["up_avg"][h])
        known[group], outage[group] = np.maximum(told[0], best[0]), told[1] + best[1]
    return Presence(known, np.where(suspected | (cells.length == MINUTE), outage, 0.0))


def _by_hours(cells: Cells, at: Ints, covered: Floats, up: Floats) -> tuple[Floats, Floats]:
    """Minutes by cell, and for how many the best server was down."""
    known, best = np.zeros((2, cells.many))
    np.maximum.at(known, at, np.round(covered / MINUTE))
    np.maximum.at(best, at, up)
    return known, (1 - best) * known


def _moments(at: Ints, start: Ints) -> Ints:
    """Minutes of cells, as one number."""
    return at * _MOMENTS + start // MINUTE


def _by_minutes(cells: Cells, when: Ints, up: Floats, maybe: Ints) -> tuple[Floats, Floats]:
    """Minutes by cell, and those in which nobody was up; without those in which somebody may have been."""
    different, which = np.unique(when, return_inverse=True)
    best = np.zeros(len(different))
    np.maximum.at(best, which, up)
    told = (best >= 1) | ~np.isin(different, maybe)
    cell, down = different[told] // _MOMENTS, best[told] < 1
    known, out = (np.bincount(cell, of, cells.many) for of in (np.ones(len(cell)), down))
    return known.astype(np.float64), out.astype(np.float64)
