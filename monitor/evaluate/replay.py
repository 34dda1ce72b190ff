"""When an objective's alerts would have fired, by the stored history: every five minutes, as the rules' windows move.

Where only hours are kept, windows are judged each hour, and alerts with a window shorter than that cannot be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from alerts.budget import Counts
from alerts.burn import DAY, HOUR, MINUTE, SLICE, BurnWindow, Severity
from alerts.slo.spec import Slo
from monitor.evaluate.counts import Counter
from monitor.evaluate.members import Group
from monitor.evaluate.status import burn_of, judged_of, lengths, nobody_is_up
from monitor.evaluate.tally import FIELDS, Tally
from monitor.history.packed import Floats


@dataclass(frozen=True, slots=True)
class Fired:
    """An alert that would have fired over [start, end); `end` is None where it still would. Unix seconds."""

    severity: Severity
    group: Group
    start: int
    end: int | None
    window: BurnWindow
    """The first that held."""


@dataclass(frozen=True, slots=True)
class Gap:
    """[start, end) in which it cannot be told whether an alert fired, and why."""

    start: int
    end: int
    why: str


@dataclass(frozen=True, slots=True)
class Replay:
    slo: Slo
    since: int
    until: int
    fired: tuple[Fired, ...]
    gaps: tuple[Gap, ...]
    groups: tuple[Group, ...]


def replay(counter: Counter, slo: Slo, since: int, until: int) -> Replay:
    """Both moments are whole five minutes. Raises ReadError."""
    windows = slo.burn_windows()[0]
    first = since - max((w.long for w in windows), default=0)
    tally = counter.tally(slo, [first // HOUR * HOUR, until], fine=True)
    moments = list(range(since + SLICE, until + 1, SLICE))
    hours = _coarse_hours(tally, since, until)
    gaps = (*_unjudged(slo, hours), *_unseen(tally))
    fired = [f for n, group in enumerate(tally.groups) for f in _fired(slo, group, tally, n, moments, hours)]
    return Replay(slo, since, until, tuple(fired), tuple(_within(gaps, since, until)), tally.groups)


def _coarse_hours(tally: Tally, since: int, until: int) -> set[int]:
    """Starts of hours of which no minutes are kept; of the one that `until` cuts then nothing is read."""
    read = int(tally.cells.end.max(initial=since))
    cut = {read // HOUR * HOUR} if read < until else set()
    return cut | set(tally.cells.start[tally.cells.length == HOUR].tolist())


def _fired(
    slo: Slo, group: Group, tally: Tally, number: int, moments: Sequence[int], hours: set[int]
) -> Iterator[Fired]:
    sums, windows = _Sums(tally, number), [n for n in lengths(slo) if n < slo.days * DAY]
    holding: dict[Severity, list[BurnWindow | None]] = {s: [] for s in slo.alerts}
    for at in moments:
        counts = {n: sums.over(at - n, at) for n in windows}
        found = _holding(slo, counts, is_coarse=(at - 1) // HOUR * HOUR in hours)
        for severity, held in holding.items():
            held.append(found.get(severity))
    for severity, held in holding.items():
        yield from _stretches(severity, group, moments, held)


def _holding(slo: Slo, counts: Mapping[int, Counts], *, is_coarse: bool) -> dict[Severity, BurnWindow]:
    found: dict[Severity, BurnWindow] = {}
    judged, nobody = {n: judged_of(slo, of) for n, of in counts.items()}, nobody_is_up(counts[MINUTE])
    for window in slo.burn_windows()[0]:
        if (not is_coarse or window.short >= HOUR) and burn_of(slo, window, judged, nobody=nobody).holds:
            found.setdefault(window.severity, window)
    return found


def _stretches(
    severity: Severity, group: Group, moments: Sequence[int], held: Sequence[BurnWindow | None]
) -> Iterator[Fired]:
    at = 0
    for holds, run in groupby(held, key=lambda window: window is not None):
        found = list(run)
        if holds and found[0] is not None:
            end = at + len(found)
            yield Fired(severity, group, moments[at], moments[end] if end < len(moments) else None, found[0])
        at += len(found)


class _Sums:
    """Counts over any window, by sums from the beginning."""

    def __init__(self, tally: Tally, group: int) -> None:
        counts = tally.counts[:, group, :]
        self._sums: Floats = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(counts, axis=1)], axis=1)
        self._cells = tally.cells

    def over(self, since: int, until: int) -> Counts:
        first = np.searchsorted(self._cells.start, since)
        last = np.searchsorted(self._cells.end, until, side="right")
        found = self._sums[:, max(first, last)] - self._sums[:, first]
        return _clean(Counts(*found.tolist()), until - since)


def _clean(counts: Counts, seconds: int) -> Counts:
    """Without the dust of long sums, which must not decide at a limit."""
    rounded = {name: round(getattr(counts, name), 6) for name in ("good", "bad", "unknown", "certainly_bad")}
    rounded["unknown"] = max(0.0, rounded["unknown"])
    return replace(counts, **rounded, minutes=seconds / MINUTE - counts.minutes_excluded)


def _within(gaps: Iterable[Gap], since: int, until: int) -> Iterator[Gap]:
    """What was read before `since` is for the windows alone."""
    for gap in gaps:
        start, end = max(gap.start, since), min(gap.end, until)
        if start < end:
            yield Gap(start, end, gap.why)


def _unjudged(slo: Slo, hours: set[int]) -> Iterator[Gap]:
    short = [w for w in slo.burn_windows()[0] if w.short < HOUR]
    if not short:
        return
    names = ", ".join(f"{w.severity} at {w.factor}x" for w in short)
    for start, end in _runs(sorted(hours), HOUR):
        yield Gap(start, end, f"only hours are kept: {names} cannot be judged")


def _unseen(tally: Tally) -> Iterator[Gap]:
    """Minutes of which of no group it is known whether a server was up."""
    cells = tally.cells
    unknown = tally.counts[FIELDS.index("minutes_unknown")].min(axis=0) if len(tally.groups) else cells.length / MINUTE
    whole = unknown >= cells.length / MINUTE
    for length in (HOUR, MINUTE):
        for start, end in _runs(cells.start[whole & (cells.length == length)].tolist(), length):
            yield Gap(start, end, "not known whether a server was up")


def _runs(starts: Sequence[int], length: int) -> Iterator[tuple[int, int]]:
    for _, run in groupby(enumerate(starts), key=lambda pair: pair[1] - pair[0] * length):
        found = [start for _, start in run]
        yield found[0], found[-1] + length
