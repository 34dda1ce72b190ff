"""Windows read anew from the samples that a Prometheus holds. Pure.

What comes out for a window depends on the samples in (start - CONTEXT_SECONDS, start + 60] alone, where those tell
nothing on what the target was within MEMORY_SECONDS before, and on when the next reading comes, within AHEAD_SECONDS:
not on how much is read at once, nor on who reads. So whoever reads it once all that is there, early or late, writes the
same rows. They are those of `minutes`, reading by reading.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median_low

from exporters.observation import Labels, Observation, Series
from monitor.history.minutes import LOOKBACK_SECONDS, WINDOW_SECONDS, Event, Minute, State, Window, advance
from monitor.history.raw import Raw
from monitor.history.steps import Copies, Counted, Reading, Steps, observed
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


class Reread:
    """The windows of one target that start at `since` or later and before `until`."""

    def __init__(self, excerpt: Excerpt, since: int, until: int) -> None:
        self._excerpt = excerpt
        self._starts = range(since, until, WINDOW_SECONDS)
        self._readings = observed(excerpt.target, excerpt.gauges)
        self._moments = [reading.at for reading in self._readings]
        self._told = Told(self._readings)
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

    def found(self, counters: Copies, memory: Copies) -> Found:
        """`counters` are those of `spans(self.unsteady)`; `memory` is what the target was from MEMORY_SECONDS before
        the first window on, if that is wanted."""
        found, raw = Found(), Raw(self._excerpt.target, self._excerpt.gauges, counters)
        told = Told([*observed(self._excerpt.target, memory), *self._readings]) if memory else self._told
        for start in self._starts:
            before = start - MEMORY_SECONDS, start
            if self._between(start, start + WINDOW_SECONDS):
                facts = told.facts(start - CONTEXT_SECONDS, start) or told.facts(*before)
                self._read(start, raw, State(facts=facts), found)
            elif of := told.target(*before):
                found.windows.append(Window(start, {of: Minute()}))
        return found

    def _read(self, start: int, raw: Raw, state: State, found: Found) -> None:
        recent = self._recent(start)
        counted = self._counted.get(start) or raw.counted(start, recent)
        state.base = counted.base
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


class Told:
    """What a target said it was, from reading to reading."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self._observations = [reading.observation for reading in readings]
        self._moments = [observation.at for observation in self._observations]
        known: dict[frozenset[Series], dict[str, str]] = {}
        self._facts = [_facts(observation, known) for observation in self._observations]

    def facts(self, after: float, until: float) -> dict[str, str]:
        """Each as it was told last in that time."""
        found: dict[str, str] = {}
        last = found
        for now in self._facts[self._slice(after, until)]:
            if now is not last:
                found, last = {**found, **now}, now
        return found

    def target(self, after: float, until: float) -> Labels | None:
        of = self._observations[self._slice(after, until)]
        return target(of[-1]) if of else None

    def _slice(self, after: float, until: float) -> slice:
        return slice(bisect_right(self._moments, after), bisect_right(self._moments, until))


def _facts(observation: Observation, known: dict[frozenset[Series], dict[str, str]]) -> dict[str, str]:
    """`known` holds what the same series told before: it hardly ever changes, and takes long to work out."""
    if not observation.available:
        return _NOTHING
    series = frozenset(s for s, v in observation.values.items() if v == 1 or s.metric != "llm_server_state")
    if series not in known:
        known[series] = facts(observation)
    return known[series]


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
