"""Windows read anew from the samples that a Prometheus holds. Pure.

What comes out for a window depends on the samples in (start - CONTEXT_SECONDS, start + 60] alone, on the presence and
the facts of the target within MEMORY_SECONDS before, and on when the next reading comes, within AHEAD_SECONDS: not on
how much is read at once, nor on who reads. So whoever reads it once all that is there, early or late, writes the same
rows. They are those of `minutes`, reading by reading.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median_low

from exporters.observation import Observation
from monitor.history.minutes import LOOKBACK_SECONDS, WINDOW_SECONDS, Event, Minute, State, Window, advance
from monitor.history.raw import Raw
from monitor.history.steps import Copies, Counted, Reading, Steps, observed
from monitor.readings import facts, target
from monitor.sources.prometheus.readings import Target

CONTEXT_SECONDS = 600
MEMORY_SECONDS = 3600
AHEAD_SECONDS = int(LOOKBACK_SECONDS)
"""What lies between the last reading of a window and the next is covered up to the window's end."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is known of one target. `gauges` hold all but counters, from CONTEXT_SECONDS before the first window to
    AHEAD_SECONDS after the last; what was up, and the facts, from MEMORY_SECONDS before. `minutes` and `resets` are for
    `Steps`."""

    target: Target
    gauges: Copies
    minutes: Copies
    resets: Collection[int] = ()


@dataclass(slots=True)
class Found:
    windows: list[Window] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class Reread:
    """The windows of one target that start at `since` or later and before `until`."""

    def __init__(self, excerpt: Excerpt, since: int, until: int) -> None:
        self._excerpt = excerpt
        self._starts = range(since, until, WINDOW_SECONDS)
        self._readings = observed(excerpt.target, excerpt.gauges)
        self._moments = [reading.at for reading in self._readings]
        self._told = _told(self._readings)
        steps = Steps(excerpt.target, excerpt.minutes, excerpt.resets)
        self._counted: dict[int, Counted | None] = {
            start: steps.counted(start, self._recent(start)) for start in self._starts if self._has_counters(start)
        }

    @property
    def unsteady(self) -> list[int]:
        """Windows whose counters are wanted reading by reading."""
        return [start for start, counted in self._counted.items() if counted is None]

    def found(self, counters: Copies) -> Found:
        """`counters` are those of `spans(self.unsteady)`."""
        found, raw = Found(), Raw(self._excerpt.target, self._excerpt.gauges, counters)
        for start in self._starts:
            if self._between(start, start + WINDOW_SECONDS):
                self._read(start, raw, found)
            elif known := self._between(start - MEMORY_SECONDS, start):
                found.windows.append(Window(start, {target(known[-1].observation): Minute()}))
        return found

    def _read(self, start: int, raw: Raw, found: Found) -> None:
        recent = self._recent(start)
        counted = self._counted.get(start) or raw.counted(start, recent)
        state = State(base=counted.base, facts=self._facts_before(start))
        max_step = _max_step([reading.at for reading in recent if reading.at > start - LOOKBACK_SECONDS])
        before = [reading for reading in recent if reading.at <= start]
        for reading in before[-1:]:
            advance(state, counted.shown(reading), max_step, counted=False)
        for reading in recent[len(before) :]:
            found.events += advance(state, counted.shown(reading), max_step, counted=reading.at in counted.whole).events
        found.windows.append(_closed(state, [counted.shown(reading) for reading in self._next(start)], max_step))

    def _next(self, start: int) -> Sequence[Reading]:
        return self._between(start + WINDOW_SECONDS, start + WINDOW_SECONDS + AHEAD_SECONDS)[:1]

    def _recent(self, start: int) -> Sequence[Reading]:
        return self._between(start - CONTEXT_SECONDS, start + WINDOW_SECONDS)

    def _between(self, after: float, until: float) -> Sequence[Reading]:
        return self._readings[bisect_right(self._moments, after) : bisect_right(self._moments, until)]

    def _has_counters(self, start: int) -> bool:
        return any(r.observation.is_complete for r in self._between(start, start + WINDOW_SECONDS))

    def _facts_before(self, start: int) -> dict[str, str]:
        known: dict[str, str] = {}
        for told in self._told:
            if told.until > start - MEMORY_SECONDS and told.since <= start:
                known |= told.facts
        return known


@dataclass(slots=True)
class _Told:
    """The same facts, in one reading after the other."""

    since: float
    until: float
    facts: dict[str, str]


def _told(readings: Iterable[Reading]) -> list[_Told]:
    runs: list[_Told] = []
    for reading in readings:
        now = facts(reading.observation) if reading.observation.available else {}
        if runs and runs[-1].facts == now:
            runs[-1].until = reading.at
        elif now:
            runs.append(_Told(reading.at, reading.at, now))
    return runs


def _closed(state: State, following: Iterable[Observation], max_step: float) -> Window:
    window = state.window
    for observation in following:
        window = advance(state, observation, max_step, counted=False).finished or window
    if window is None:
        raise ValueError("a window without readings")
    return window


def _max_step(moments: Sequence[float]) -> float:
    """Twice the usual distance of readings: how often a target is scraped is not known otherwise."""
    distances = [later - earlier for earlier, later in pairwise(moments)]
    return min(2 * median_low(distances), LOOKBACK_SECONDS) if distances else 0.0


def spans(starts: Iterable[int]) -> list[tuple[int, int]]:
    """What must be read of these windows and their context: after the first moment, until the second."""
    found: list[tuple[int, int]] = []
    for start in starts:
        after, until = start - CONTEXT_SECONDS, start + WINDOW_SECONDS
        if found and after <= found[-1][1]:
            found[-1] = found[-1][0], until
        else:
            found.append((after, until))
    return found
