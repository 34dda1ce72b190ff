"""From minutes of servers to a comparison. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.compare.asked import Asked, Prices
from monitor.compare.cells import cell
from monitor.compare.definitions import definitions
from monitor.compare.groups import SIDES, Grouped, grouped
from monitor.compare.matched import alike
from monitor.compare.model import Band, Cell, Comparison, Group, Left, Place
from monitor.compare.notes import notes
from monitor.compare.observed import Observed
from monitor.compare.rows import Flags, Number, Rows
from monitor.compare.windows import counts_live, longest, steady, steady_bands, window_minutes
from monitor.history.packed import Ints


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Rows with the group and the band that each belongs to."""

    rows: Rows
    group: Ints
    band: Ints

    def of(self, chosen: Flags | Ints) -> _Sorted:
        return _Sorted(self.rows.of(chosen), self.group[chosen], self.band[chosen])

    def parts(self, by: Sequence[Ints]) -> Iterator[Ints]:
        """Numbers of the rows that have the same in all of these."""
        _, number = np.unique(np.stack(by, axis=1), axis=0, return_inverse=True)
        number = number.reshape(-1)
        for each in range(int(number.max(initial=-1)) + 1):
            yield np.flatnonzero(number == each)

    @property
    def minutes(self) -> int:
        return int(self.rows.number(Number.MINUTES).sum())


def compare(seen: Observed, asked: Asked, prices: Prices, imported: Sequence[Cell] = ()) -> Comparison:
    groups = grouped(seen, asked)
    whole = ~seen.partial & ~seen.changed
    usable = whole & (groups.of >= 0)
    band, is_steady = steady_bands(seen.rows)
    busy, least = usable & (band >= 0), _least(seen, whole)
    chosen = busy & is_steady
    whole_windows, left_over = _windows(_Sorted(seen.rows, groups.of, band).of(chosen), least[chosen])
    steadily = whole_windows.of(~_silent(whole_windows.rows))
    kept = _alike(steadily, groups) if asked.matched else steadily
    cells = [*_cells(kept, groups.groups, prices), *imported]
    left = Left(
        idle=int((usable & ~busy).sum()) + whole_windows.minutes - steadily.minutes,
        partial=int((seen.partial & ~seen.changed).sum()),
        restarted=int(seen.changed.sum()),
        unsteady=int((busy & ~is_steady).sum()) + left_over,
        unlike=steadily.minutes - kept.minutes,
    )
    told = Comparison(
        asked.since,
        asked.until,
        tuple(sorted(cells, key=_order)),
        left,
        definitions=definitions(sorted({server.frontend for server in seen.servers})),
        split="" if asked.split is None else str(asked.split),
        matched=asked.matched,
        currency=prices.currency,
    )
    return notes(told, seen, groups, _windowed(seen, least), _lost(steadily, kept, groups.groups))


def _silent(rows: Rows) -> Flags:
    """Without any token, whatever runs by a gauge: some keep their last value when a server falls idle."""
    found: Flags = rows.number(Number.PROMPT) + rows.number(Number.GENERATION) == 0
    return found


def _order(of: Cell) -> tuple[object, ...]:
    group = of.group
    side = SIDES.index(group.side) if group.side else 0
    before = group.model, group.gpu, group.role, of.band.at_once, group.simulated
    return (*before, group.is_imported, group.framework, group.server, side, group.version, group.tool, group.file)


def _least(seen: Observed, whole: Flags) -> Ints:
    """Minutes of a window, by row: of each server and release."""
    found = np.ones(len(seen.rows), np.int64)
    for server, one in enumerate(seen.servers):
        of_server = seen.rows.server == server
        for version in np.unique(seen.version.of[of_server]).tolist():
            own = of_server & (seen.version.of == version)
            if not counts_live(one.frontend, seen.version.names[version]):
                found[own] = window_minutes(longest(seen.rows.of(own & whole)))
    return found


def _windowed(seen: Observed, least: Ints) -> dict[str, int]:
    """By frontend, the longest windows in minutes, where any is longer than a minute."""
    long = np.flatnonzero(least > 1)
    found: dict[str, int] = {}
    for server, minutes in zip(seen.rows.server[long].tolist(), least[long].tolist(), strict=True):
        frontend = seen.servers[server].frontend
        found[frontend] = max(minutes, found.get(frontend, 0))
    return found


def _windows(busy: _Sorted, least: Ints) -> tuple[_Sorted, int]:
    """And how many minutes are left over."""
    inside, first = steady(busy.rows, busy.band, busy.group, least)
    left = int((~inside).sum())
    inner = busy.of(inside)
    if not len(first):
        return inner, left
    return _Sorted(inner.rows.merged(first), inner.group[first], inner.band[first]), left


def _alike(found: _Sorted, groups: Grouped) -> _Sorted:
    """Compared is what has the same model, type of GPU and role."""
    contexts: dict[tuple[str, str, str], int] = {}
    of_group = [contexts.setdefault((g.model, g.gpu, g.role), len(contexts)) for g in groups.groups]
    kept = np.zeros(len(found.rows), bool)
    for own in found.parts([np.array(of_group, np.int64)[found.group], found.band]):
        kept[own] = alike(found.rows.of(own), found.group[own])
    return found.of(kept)


def _lost(before: _Sorted, after: _Sorted, groups: Sequence[Group]) -> list[Place]:
    """Where nothing is left to be compared, though there was."""
    there, left = (
        {
            Place.of(groups[group], Band(2**band))
            for group, band in zip(of.group.tolist(), of.band.tolist(), strict=True)
        }
        for of in (before, after)
    )
    return sorted(there - left)


def _cells(found: _Sorted, groups: Sequence[Group], prices: Prices) -> Iterator[Cell]:
    for own in found.parts([found.group, found.band]):
        group, band = groups[int(found.group[own[0]])], Band(2 ** int(found.band[own[0]]))
        yield cell(group, band, found.rows.of(own), prices.of(group.gpu))
