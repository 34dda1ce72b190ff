"""Observations of one target become minute rows: pure, and the same however the process is restarted in between.

What is said here of windows holds for GPUs too, whose readings `gpu_minutes` takes.

A window is the minute (start, start + 60]: a reading exactly on the boundary belongs to the window that ends there.

- Gauges: mean and maximum of the readings inside the window, as `avg_over_time` and `max_over_time` give them.
- Counters and histograms: an increase belongs to the window of the later of its two readings, so that the increases
  of adjacent windows add up. A reading older than `LOOKBACK_SECONDS` is no base line any more.
- `covered_seconds`: the parts of the window between two successful readings not further apart than twice the
  interval. Nothing is interpolated over a failed or missing one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporters.delta import Deltas, Increase, is_another_process
from exporters.histogram import Histogram, add_up
from exporters.observation import Labels, Observation, Series
from exporters.schema import PHASE_OF_METRIC, SERVER_INFO_LABELS
from exporters.tables import FRONTENDS
from monitor.history.columns import ENGINE_COLUMNS, TARGET_COLUMNS, GaugeColumns
from monitor.readings import counters, engines, facts, identity, of_metric, own_labels, target

WINDOW_SECONDS = 60
LOOKBACK_SECONDS = 300.0
"""Prometheus' look-back: after a longer silence the next reading is only a base line, and what passed is lost."""

FLAGS = tuple(name for name in SERVER_INFO_LABELS if name not in ("version", "frontend", "wire_model"))
_EVENTS = ("version", "model", "wire_model", "state", *FLAGS)
"""Facts whose changes are events."""
_RECORDS = tuple(f"{d.name}: " for f in FRONTENDS.values() for d in f.documents if d.destructive)
"""How a field's source begins that the sidecar adds up itself, from zero on when it starts."""

Key = tuple[str, str]
"""Metric and the value of its own label, "" where it has none."""


@dataclass(slots=True)
class Mean:
    """Of the readings of one gauge."""

    sum: float = 0.0
    count: int = 0
    maximum: float = -math.inf

    def add(self, value: float) -> None:
        self.sum += value
        self.count += 1
        self.maximum = max(self.maximum, value)

    @property
    def average(self) -> float:
        return self.sum / self.count


@dataclass(slots=True)
class Minute:
    """What one engine, or one target as a whole, has gathered in one window."""

    samples: int = 0
    first_seen: float | None = None
    last_seen: float | None = None
    """Unix seconds of the first and last answer in the window; a target may have given none."""
    covered_seconds: float = 0.0
    increase_seconds: float = 0.0
    """The time in which `counters` and `histograms` were added: more than covered where a gap was stepped over."""
    gauges: dict[Key, Mean] = field(default_factory=dict)
    counters: dict[Key, float] = field(default_factory=dict)
    histograms: dict[str, list[Histogram]] = field(default_factory=dict)
    """By phase; one for each set of bounds."""
    info: dict[str, str] = field(default_factory=dict)
    """What `llm_server_info` or `gpu_info` said last."""

    def add_reading(self, seen: float | None, values: Mapping[Key, float]) -> None:
        self.samples += 1
        self.first_seen = seen if self.first_seen is None else self.first_seen
        self.last_seen = self.last_seen if seen is None else seen
        for key, value in values.items():
            self.gauges.setdefault(key, Mean()).add(value)

    def add_counter(self, series: Series, value: float) -> None:
        key = key_of(series)
        self.counters[key] = self.counters.get(key, 0.0) + value

    def add_histogram(self, series: Series, added: Histogram) -> None:
        phase = PHASE_OF_METRIC[series.metric].name
        self.histograms[phase] = add_up([*self.histograms.get(phase, ()), added])


@dataclass(slots=True)
class Window:
    """One minute of one target: the row of the target as a whole and those of its engines, by identity; or of a GPU."""

    start: int
    rows: dict[Labels, Minute] = field(default_factory=dict)

    def row(self, of: Labels) -> Minute:
        return self.rows.setdefault(of, Minute())


@dataclass(frozen=True, slots=True)
class Event:
    """Something changed at a target or a GPU."""

    target: Labels
    at: float
    kind: str
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Base:
    """The last readings of counters and histograms: what increases are counted from."""

    at: float
    start_time: float | None
    values: Mapping[Series, float]
    histograms: Mapping[Series, Histogram]
    absent: Mapping[Series, float] = field(default_factory=dict)
    """When those of a GPU's `values` were read that the last reading did not have."""
    knows_zero: bool = True
    """As `Deltas.knows_zero`."""


@dataclass(slots=True)
class State:
    """Everything that the next observation of a target or a GPU is judged by."""

    at: float = -math.inf
    """Of the last observation."""
    window: Window | None = None
    """The open one."""
    base: Base | None = None
    read: frozenset[Labels] = frozenset()
    """What the last observation had readings of."""
    facts: dict[str, str] = field(default_factory=dict)
    """As last seen."""


@dataclass(frozen=True, slots=True)
class Step:
    """What an observation completed and what it says has changed."""

    finished: Window | None = None
    events: tuple[Event, ...] = ()


def key_of(series: Series) -> Key:
    return series.metric, ",".join(value for _, value in own_labels(series))


def window_of(at: float) -> int:
    """Start of the window that a moment belongs to."""
    return (math.ceil(at / WINDOW_SECONDS) - 1) * WINDOW_SECONDS


def advance(state: State, observation: Observation, max_step: float, *, counted: bool = True) -> Step:
    """Takes the next observation into `state`; one that is not later than the last is ignored.

    Readings further apart than `max_step` seconds do not cover the time between them. Without `counted` the counters
    are not known and not missed: the next that are count from the same base.
    """
    opened = open_window(state, observation.at, read_of(observation), max_step)
    if opened is None:
        return Step()
    finished, window = opened
    _read_gauges(window, observation)
    _keep_info(window, observation, state.facts)
    if not observation.is_complete:
        return Step(finished)
    restarts = _read_counters(state, window, observation) if counted else ()
    now = _told(observation) if observation.available else {}
    return Step(finished, (*restarts, *changes(state, target(observation), observation.at, now, _EVENTS)))


def _told(observation: Observation) -> dict[str, str]:
    """A state that is unknown, of one engine or all, is not told: its document may come later than the page."""
    found = facts(observation)
    if "unknown" in found.get("state", "").split(", "):
        del found["state"]
    return found


def read_of(observation: Observation) -> frozenset[Labels]:
    """Identities of what it has readings of."""
    return frozenset([target(observation), *(engines(observation) if observation.available else ())])


def open_window(
    state: State, at: float, read: frozenset[Labels], max_step: float
) -> tuple[Window | None, Window] | None:
    """The window that a reading at `at` completed, and the open one; both have the time covered up to that reading.

    None where it is not later than the last.
    """
    if 0 <= state.at - at <= LOOKBACK_SECONDS:
        return None
    if at < state.at:  # the clock was set back: what it said before cannot be built upon
        state.at, state.window, state.base, state.read = -math.inf, None, None, frozenset()
    window, finished = state.window or Window(window_of(at)), None
    if window.start != window_of(at):
        finished, window = window, Window(window_of(at))
    if at - state.at <= max_step:
        for each in (finished, window):
            if each is not None:
                _cover(each, state.at, at, read & state.read)
    state.at, state.window, state.read = at, window, read
    return finished, window


def _cover(window: Window, since: float, until: float, read: Iterable[Labels]) -> None:
    inside = max(0.0, min(until, window.start + WINDOW_SECONDS) - max(since, window.start))
    for each in read:
        window.row(each).covered_seconds += inside


def _read_gauges(window: Window, observation: Observation) -> None:
    own = {("llm_up", ""): float(observation.up), ("llm_metrics_available", ""): float(observation.available)}
    probed = {key_of(s): v for s, v in observation.values.items() if s.metric in TARGET_COLUMNS}
    window.row(target(observation)).add_reading(observation.at if observation.up else None, probed | own)
    if not observation.available:
        return
    gauges: dict[Labels, dict[Key, float]] = {engine: {} for engine in engines(observation)}
    for series, value in observation.values.items():
        if any(isinstance(c, GaugeColumns) for c in ENGINE_COLUMNS.get(series.metric, ())):
            gauges[identity(series)][key_of(series)] = value
    for engine, values in gauges.items():
        window.row(engine).add_reading(observation.at, values)


def _keep_info(window: Window, observation: Observation, known: Mapping[str, str]) -> None:
    """With the type of GPU that the server runs on, where it is known; the target tells which ones these are."""
    on = {name: known[name] for name in ("gpu", "gpus") if known.get(name)}
    window.row(target(observation)).info = on
    if not observation.available:
        return
    of_type = {name: text for name, text in on.items() if name == "gpu"}
    for series, _ in of_metric(observation.values, "llm_server_info"):
        told = {name: series.label(name) for name in SERVER_INFO_LABELS}
        window.row(identity(series)).info = {name: text for name, text in told.items() if text} | of_type


def _read_counters(state: State, window: Window, observation: Observation) -> tuple[Event, ...]:
    before = state.base
    increase, state.base = increase_since(before, observation, window.start)
    _add_increase(window, increase, observation)
    other = before is not None and is_another_process(before.start_time, observation.start_time)
    fell = increase.fallen.difference(_added_up(observation))
    return (Event(target(observation), observation.at, "restart"),) if other or fell else ()


def _added_up(observation: Observation) -> Iterable[str]:
    """Metrics that fall when the sidecar is started anew, and not when the server is."""
    return (status.field for status in observation.fields if status.source.startswith(_RECORDS))


def changes(state: State, of: Labels, at: float, now: Mapping[str, str], kinds: Iterable[str]) -> tuple[Event, ...]:
    """One for each fact that was known and is another now; what is not known now stays as it was."""
    before, state.facts = state.facts, {**state.facts, **now}
    changed = [kind for kind in kinds if kind in before and kind in now and before[kind] != now[kind]]
    return tuple(Event(of, at, kind, before[kind], now[kind]) for kind in changed)


def _add_increase(window: Window, increase: Increase, observation: Observation) -> None:
    for series, value in increase.values.items():
        window.row(identity(series)).add_counter(series, value)
    for series, histogram in increase.histograms.items():
        window.row(identity(series)).add_histogram(series, histogram)
    born = observation.at if observation.start_time is None else observation.start_time
    seconds = observation.at - born if increase.seconds is None else increase.seconds
    for engine in {identity(series) for series in (*increase.values, *increase.histograms)}:
        window.row(engine).increase_seconds += seconds


def increase_since(base: Base | None, observation: Observation, window_start: float) -> tuple[Increase, Base]:
    """What was added since `base`, and the base for the next step."""
    values = {s: v for s, v in counters(observation.values).items() if s.metric in ENGINE_COLUMNS}
    histograms = {s: h for s, h in observation.histograms.items() if s.metric in ENGINE_COLUMNS}
    at, start_time = observation.at, observation.start_time
    deltas = Deltas()
    if base is not None and at - base.at > LOOKBACK_SECONDS:
        base = None
    if base is not None:
        deltas.advance(
            base.at,
            base.values,
            base.histograms,
            start_time=base.start_time,
            proves_absence=base.knows_zero,
        )
        start_time = base.start_time if start_time is None else start_time
    increase = deltas.advance(
        at,
        values,
        histograms,
        start_time=start_time,
        window_start=window_start,
        proves_absence=observation.proves_absence,
    )
    if base is not None and not increase.restarted:
        values, histograms = {**base.values, **values}, {**base.histograms, **histograms}
    return increase, Base(at, start_time, values, histograms, knows_zero=deltas.knows_zero)
