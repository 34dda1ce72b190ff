"""Windows read anew from the samples that a Prometheus holds. Pure.

What comes out for a window depends on the samples in (start - CONTEXT_SECONDS, start + 60] alone, where those tell
nothing on what the target was within MEMORY_SECONDS before, and on when the next reading comes, within AHEAD_SECONDS:
not on how much is read at once, nor on who reads. So whoever reads it once all that is there, early or late, writes the
same rows. They are those of `minutes`, reading by reading.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median_low

from exporters.observation import Observation, Series
from monitor.history.minutes import (
    LOOKBACK_SECONDS,
    WINDOW_SECONDS,
    Event,
    Minute,
    State,
    Window,
    advance,
    open_window,
    read_of,
)
from monitor.history.placed import NOWHERE, Placed
from monitor.history.raw import Raw
from monitor.history.steps import Copies, Counted, Reading, Steps, observed
from monitor.history.told import Said, Told
from monitor.readings import facts, target
from monitor.sources.prometheus.readings import Target

CONTEXT_SECONDS = 600
MEMORY_SECONDS = 3600
AHEAD_SECONDS = int(LOOKBACK_SECONDS)
"""What lies between the last reading of a window and the next is covered up to the window's end."""

_NOTHING: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is known of one target. `gauges` hold all but counters, from CONTEXT_SECONDS before the first window to
    AHEAD_SECONDS after the last. `minutes` and `resets` are for `Steps`."""

    target: Target
    gauges: Copies
    minutes: Copies
    resets: Collection[int] = ()


@dataclass(slots=True)
class Found:
    windows: list[Window] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def add(self, other: Found) -> None:
        self.windows += other.windows
        self.events += other.events


class Reread:
    """The windows of one target that start at `since` or later and before `until`."""

    def __init__(self, excerpt: Excerpt, since: int, until: int) -> None:
        self._excerpt = excerpt
        self._starts = range(since, until, WINDOW_SECONDS)
        self._readings = observed(excerpt.target, excerpt.gauges)
        self._moments = [reading.at for reading in self._readings]
        self._told = Told(_said(self._readings))
        steps = Steps(excerpt.target, excerpt.minutes, excerpt.resets)
        self._counted: dict[int, Counted | None] = {
            start: steps.counted(start, self._recent(start)) for start in self._starts if self._has_counters(start)
        }

    @property
    def unsteady(self) -> list[int]:
        """Windows whose counters are wanted reading by reading."""
        return [start for start, counted in self._counted.items() if counted is None]

    @property
    def wants_memory(self) -> bool:
        """Whether something is to be known of before the context."""
        return not all(self._told.facts(start - CONTEXT_SECONDS, start) for start in self._starts)

    def found(self, counters: Copies, memory: Copies, placed: Placed = NOWHERE) -> Found:
        """`counters` are those of `spans(self.unsteady)`; `memory` is what the target was from MEMORY_SECONDS before
        the first window on, if that is wanted; `placed` says which GPUs it ran on."""
        found, raw = Found(), Raw(self._excerpt.target, self._excerpt.gauges, counters)
        remembered = observed(self._excerpt.target, memory)
        told = Told(_said([*remembered, *self._readings])) if remembered else self._told
        for start in self._starts:
            before = start - MEMORY_SECONDS, start
            of = told.last(*before)
            if self._between(start, start + WINDOW_SECONDS):
                facts = told.facts(start - CONTEXT_SECONDS, start) or told.facts(*before)
                facts |= placed.facts(start - CONTEXT_SECONDS, start) or placed.facts(*before)
                self._read(start, raw, State(facts=facts), placed, found)
            elif of is not None:
                found.windows.append(Window(start, {of: Minute()}))
        return found

    def _read(self, start: int, raw: Raw, state: State, placed: Placed, found: Found) -> None:
        recent = self._recent(start)
        counted = self._counted.get(start) or raw.counted(start, recent)
        state.base = counted.base
        step = max_step([reading.at for reading in recent if reading.at > start - LOOKBACK_SECONDS])
        before = [reading for reading in recent if reading.at <= start]
        for reading in before[-1:]:
            state.at, state.read = reading.at, read_of(counted.shown(reading))
        since: float = start
        for reading in recent[len(before) :]:
            found.events += advance(state, counted.shown(reading), step, counted=reading.at in counted.whole).events
            found.events += placed.place(state, since, reading.at)
            since = reading.at
        found.events += placed.place(state, since, start + WINDOW_SECONDS)
        found.windows.append(_closed(state, [counted.shown(reading) for reading in self._next(start)], step))

    def _next(self, start: int) -> Sequence[Reading]:
        return self._between(start + WINDOW_SECONDS, start + WINDOW_SECONDS + AHEAD_SECONDS)[:1]

    def _recent(self, start: int) -> Sequence[Reading]:
        return self._between(start - CONTEXT_SECONDS, start + WINDOW_SECONDS)

    def _between(self, after: float, until: float) -> Sequence[Reading]:
        return self._readings[bisect_right(self._moments, after) : bisect_right(self._moments, until)]

    def _has_counters(self, start: int) -> bool:
        return any(r.observation.is_complete for r in self._between(start, start + WINDOW_SECONDS))


def _said(readings: Iterable[Reading]) -> Iterator[Said]:
    """Facts hardly ever change, and take long to work out."""
    known: dict[frozenset[Series], dict[str, str]] = {}
    for observation in (reading.observation for reading in readings):
        told = _NOTHING
        if observation.available:
            series = frozenset(s for s, v in observation.values.items() if v == 1 or s.metric != "llm_server_state")
            told = known.setdefault(series, _NOTHING) or facts(observation)
            known[series] = told
        yield Said(observation.at, target(observation), told)


def _closed(state: State, following: Iterable[Observation], step: float) -> Window:
    window = state.window
    for observation in following:
        opened = open_window(state, observation.at, read_of(observation), step)
        window = opened[0] if opened is not None else window
    if window is None:
        raise ValueError("a window without readings")
    return window


def max_step(moments: Sequence[float]) -> float:
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
