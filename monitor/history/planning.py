"""Which rows answer a question: the coarsest that can, and every moment by one row only. Pure.

A row answers for its whole window. It is read where the window lies within one step and within what was asked for, and
where the roll-up has caught up with it; finer rows are read for the rest: hours that are still to be rolled up, the
open one, ragged ends. Where retention has left coarser rows than the step, that part of the answer has a longer one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from monitor.history.tables import Tier

HOUR, DAY = Tier.HOUR.seconds, Tier.DAY.seconds

Stale = Mapping[Tier, Collection[int]]
"""Starts of hours and days whose rows are not to be trusted."""

KeptSince = Mapping[Tier, int]
"""Rows of minutes and hours that start earlier are gone: unix seconds."""


@dataclass(frozen=True, slots=True)
class Span:
    """All rows of a tier that start in [since, until)."""

    tier: Tier
    since: int
    until: int

    @property
    def windows(self) -> int:
        return (self.until - self.since) // self.tier.seconds

    def slices(self, most_windows: float) -> Iterator[Span]:
        length = int(min(most_windows * self.tier.seconds, self.until - self.since))
        for since in range(self.since, self.until, max(1, length)):
            yield replace(self, since=since, until=min(self.until, since + length))


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the answer: [since, until) in steps of one length, aligned to multiples of themselves."""

    since: int
    until: int
    step: int
    spans: tuple[Span, ...]

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """That rows are read of, the finest first."""
        used = {span.tier for span in self.spans}
        return tuple(tier for tier in Tier if tier in used)

    @property
    def steps(self) -> int:
        return _up(self.until, self.step) // self.step - self.since // self.step

    def window(self, number: int) -> tuple[int, int]:
        """Start and length of a step, counted from 0: the first is cut where the part begins within it."""
        end = (self.since // self.step + number + 1) * self.step
        start = max(self.since, end - self.step)
        return start, end - start

    def pieces(self, most_windows: int) -> Iterator[Part]:
        """Whole steps at a time, with about that many windows of one series in each."""
        windows = sum(span.windows for span in self.spans)
        at_once = max(1, most_windows * self.steps // max(1, windows)) * self.step
        since = self.since
        while since < self.until:
            until = min(self.until, since // self.step * self.step + at_once)
            yield Part(since, until, self.step, tuple(_cut(self.spans, since, until)))
            since = until


def _cut(spans: Iterable[Span], since: int, until: int) -> Iterator[Span]:
    for span in spans:
        if span.since < until and since < span.until:
            yield replace(span, since=max(since, span.since), until=min(until, span.until))


def plan(since: int, until: int, step: int, stale: Stale, kept_since: KeptSince) -> list[Part]:
    """One part for each length of step, the oldest first."""
    hours, minutes = kept_since.get(Tier.HOUR, 0), kept_since.get(Tier.MINUTE, 0)
    left = ((Tier.DAY, min(hours, minutes)), (Tier.HOUR, minutes), (Tier.MINUTE, until))
    parts: list[Part] = []
    at = since
    for finest, before in left:
        widened = _up(step, finest.seconds)
        end = min(until, _up(before, widened))
        if at >= end:
            continue
        start = at if parts else at // widened * widened
        parts = _with(parts, Part(start, end, widened, _joined(_spans(start, end, widened, finest, stale))))
        at = end
    return parts


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _with(parts: list[Part], further: Part) -> list[Part]:
    if not parts or parts[-1].step != further.step:
        return [*parts, further]
    last = parts[-1]
    runs = [(span.tier, span.since, span.until) for span in (*last.spans, *further.spans)]
    return [*parts[:-1], Part(last.since, further.until, last.step, _joined(runs))]


_Run = tuple[Tier, int, int]
"""A span in the making: there may be thousands of hours."""


def _spans(since: int, until: int, step: int, finest: Tier, stale: Stale) -> Iterator[_Run]:
    """`finest` is the finest tier that is kept: its rows are read even where they reach over the end."""

    def answers(tier: Tier, start: int, end: int) -> bool:
        inside = tier is finest or (since <= start and end <= until)
        return inside and start // step == (end - 1) // step and start not in stale.get(tier, ())

    for day in _starts(DAY, since, until):
        if answers(Tier.DAY, day, day + DAY):
            yield Tier.DAY, day, day + DAY
            continue
        for hour in _starts(HOUR, max(since, day), min(until, day + DAY)):
            if answers(Tier.HOUR, hour, hour + HOUR):
                yield Tier.HOUR, hour, hour + HOUR
            else:
                yield Tier.MINUTE, max(since, hour), min(until, hour + HOUR)


def _starts(length: int, since: int, until: int) -> Iterable[int]:
    return range(since // length * length, until, length)


def _joined(runs: Iterable[_Run]) -> tuple[Span, ...]:
    joined: list[_Run] = []
    for tier, since, until in runs:
        if joined and joined[-1][0] is tier and joined[-1][2] == since:
            joined[-1] = (tier, joined[-1][1], until)
        else:
            joined.append((tier, since, until))
    return tuple(Span(*run) for run in joined)
