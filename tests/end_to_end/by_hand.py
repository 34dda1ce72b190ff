"""The rows of the history once more, from raw samples and by the definition alone: written apart from the code that it
checks, of which it shares the schema's names and nothing else.

A window is (start, start + 60]. Gauges: mean and maximum of the readings inside. Counters and buckets: the increase
from reading to reading, series by series, belongs to the window of the later one; what fell, or is of another process,
counts whole; what a page did not show before counts whole; a reading older than five minutes is no base line.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from exporters.schema import METRICS, PHASE_OF_METRIC, PHASES, Scope, Type
from tests.end_to_end.samples import Sample, Scrape

Row = dict[str, Any]
Table = dict[tuple[str, int], Row]
Own = tuple[str, str]
"""Metric, and the value of its own label."""
Bounds = tuple[float, ...]

LOOKBACK, MEMORY = 300, 3600
_PARTS = ("bucket", "sum", "count")
_FACTS = (
    "version", "model", "wire_model", "state", "max_model_len", "dtype", "tp", "pp", "dp", "quantization",
    "prefix_caching", "kv_cache_dtype", "block_size",
)  # fmt: skip
_INCOMPLETE = ("documents_unread", "dropped_samples", "several_models", "many_engines")
"""A reading with one of these does not prove that what it does not show is not there."""
_NOT_KEPT = ("llm_process_start_time_seconds", "llm_latency_native_max_seconds", "llm_latency_quantile_seconds")
_NOT_OF_ENGINES = ("llm_latency_overflow_total", "llm_length_overflow_total", "llm_latency_native_bounds_info",
                   "llm_length_native_bounds_info", "llm_latency_native_max_seconds")  # fmt: skip


@dataclass
class Engine:
    gauges: dict[Own, float] = field(default_factory=dict)
    counters: dict[Own, float] = field(default_factory=dict)
    parts: dict[str, dict[str | float, Any]] = field(default_factory=lambda: defaultdict(dict))
    """By phase: what the histogram is put together from."""
    info: dict[str, str] = field(default_factory=dict)
    is_shown: bool = False

    def histogram(self, phase: str) -> tuple[Bounds, tuple[float, ...], float] | None:
        """Native bounds that are on the grid, and the largest; counts at each, and of all."""
        of = self.parts[phase]
        if not {"count", "overflow", "bounds"} <= of.keys():
            return None
        largest = of["bounds"][-1]
        shown = tuple(b for b in of["bounds"] if b in of and b < largest)
        counts = (*(of[b] for b in shown), of["count"] - of["overflow"], of["count"])
        return (*shown, largest), counts, of["sum"]


@dataclass
class Reading:
    at: float
    copy: tuple[str, str]
    target: dict[str, str] = field(default_factory=dict)
    values: dict[Own, float] = field(default_factory=dict)
    start: float | None = None
    findings: set[str] = field(default_factory=set)
    engines: dict[str, Engine] = field(default_factory=lambda: defaultdict(Engine))

    @property
    def is_available(self) -> bool:
        return self.values["llm_metrics_available", ""] == 1

    def shown(self) -> dict[str, Engine]:
        return {of: engine for of, engine in self.engines.items() if engine.is_shown} if self.is_available else {}


def reading(scrape: Scrape) -> Reading:
    found = Reading(scrape.at, scrape.copy)
    for sample in scrape.samples:
        _read(found, sample)
    return found


class Meaning(NamedTuple):
    """Of a series; `part` is that of a histogram, or where its bound is said."""

    metric: str
    part: str
    own: tuple[str, ...]
    bound: float
    labels: dict[str, str]
    identity: str


@cache
def meaning(name: str, told: tuple[tuple[str, str], ...]) -> Meaning | None:
    labels = {k: v for k, v in told if k not in ("job", "instance")}
    bound = float(labels.pop("le", "0"))
    metric, _, part = name.rpartition("_")
    if metric not in PHASE_OF_METRIC or part not in _PARTS:
        metric, part = name, ""
    if metric not in METRICS or not metric.startswith("llm_"):
        return None
    own = tuple(labels.pop(label, "") for label in METRICS[metric].labels)
    return Meaning(metric, part, own, bound, labels, json.dumps(labels, sort_keys=True))


def _read(found: Reading, sample: Sample) -> None:
    of = meaning(sample.name, sample.labels)
    if of is None:
        found.findings |= {sample.of("reason")} if sample.name == "inferwatch_finding" else set()
        return
    if METRICS[of.metric].scope is Scope.TARGET:
        found.values[of.metric, ",".join(of.own)] = sample.value
        found.target = of.labels if of.metric == "llm_up" else found.target
        return
    found.start = sample.value if of.metric == "llm_process_start_time_seconds" else found.start
    engine = found.engines[of.identity]
    engine.is_shown |= of.metric not in _NOT_OF_ENGINES
    if of.part:
        part = of.bound if of.part == "bucket" else of.part
        engine.parts[PHASE_OF_METRIC[of.metric].name][part] = sample.value
    elif of.metric.endswith("_overflow_total"):
        engine.parts[of.own[0]]["overflow"] = sample.value
    elif of.metric.endswith("_native_bounds_info"):
        engine.parts[of.own[0]]["bounds"] = tuple(map(float, of.own[1].split(",")))
    elif of.metric == "llm_server_info":
        named = zip(METRICS[of.metric].labels, of.own, strict=True)
        engine.info |= {label: text for label, text in named if text}
    elif of.metric == "llm_server_state":
        engine.info |= {"state": of.own[0]} if sample.value else {}
    elif of.metric not in _NOT_KEPT:
        kind = engine.counters if METRICS[of.metric].type is Type.COUNTER else engine.gauges
        kind[of.metric, ",".join(of.own)] = sample.value


def chosen(readings: Iterable[Reading]) -> list[Reading]:
    """Of each window those of one copy: of the one with the most, or else of the first by name."""
    windows: defaultdict[int, defaultdict[tuple[str, str], list[Reading]]] = defaultdict(lambda: defaultdict(list))
    for each in sorted(readings, key=lambda r: r.at):
        windows[window_of(each.at)][each.copy].append(each)
    most = [min(of.items(), key=lambda item: (-len(item[1]), item[0])) for _, of in sorted(windows.items())]
    return [each for _, of in most for each in of]


def window_of(at: float) -> int:
    return (math.ceil(at / 60) - 1) * 60


@dataclass
class Told:
    """The tables, and what changed: (target, moment, kind, before, after)."""

    targets: Table = field(default_factory=dict)
    engines: Table = field(default_factory=dict)
    gpus: Table = field(default_factory=dict)
    events: list[tuple[Any, ...]] = field(default_factory=list)
    seen: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __or__(self, other: Told) -> Told:
        events = sorted([*self.events, *other.events])
        return Told(
            self.targets | other.targets,
            self.engines | other.engines,
            self.gpus | other.gpus,
            events,
            self.seen | other.seen,
        )


def told(scrapes: Iterable[Scrape], until: int) -> Told:
    """Of one target: all its windows that start before `until`."""
    readings = chosen(map(reading, scrapes))
    found = Told()
    steps, found.events = walked(readings)
    found.events = [event for event in found.events if window_of(event[1]) < until]
    moments = [r.at for r in readings]
    for start in range(window_of(readings[0].at), until, 60):
        near = readings[bisect_right(moments, start - MEMORY) : bisect_right(moments, start + 60 + LOOKBACK)]
        _window(found, near, steps, start)
    return found


def _window(found: Told, readings: Sequence[Reading], steps: Mapping[float, Step], start: int) -> None:
    inside = [r for r in readings if start < r.at <= start + 60]
    known = [r for r in readings if start - MEMORY < r.at <= start]
    if not inside:
        if known:
            target = json.dumps(known[-1].target, sort_keys=True)
            found.targets[target, start] = {"samples": 0, "covered_seconds": 0.0}
        return
    target = json.dumps(inside[-1].target, sort_keys=True)
    of_target = [({own: v for own, v in r.values.items() if own[0] != "llm_field_info"}, r) for r in inside]
    found.targets[target, start] = {
        **gauges([values for values, _ in of_target]), "covered_seconds": covered(readings, start, lambda _: True),
    }  # fmt: skip
    _see(found, target, [r.at for r in inside if r.values["llm_up", ""] == 1])
    for of in sorted({of for r in inside for of in r.shown()}):
        read = [r for r in inside if of in r.shown()]
        found.engines[of, start] = {
            **gauges([r.engines[of].gauges for r in read]),
            "covered_seconds": covered(readings, start, lambda r: of in r.shown()),  # noqa: B023 (used at once)
            **increase([steps[r.at].of[of] for r in inside if r.at in steps and of in steps[r.at].of]),
        }
        _see(found, of, [r.at for r in read])


def _see(found: Told, of: str, moments: Sequence[float]) -> None:
    if moments:
        first, last = found.seen.get(of, (moments[0], moments[-1]))
        found.seen[of] = min(first, moments[0]), max(last, moments[-1])


def gauges(readings: Sequence[Mapping[Own, float]]) -> Row:
    row: Row = {"samples": len(readings)}
    for own in {own for values in readings for own in values}:
        values = [read[own] for read in readings if own in read]
        name = column(own)
        row |= {f"{name}_avg": sum(values) / len(values), f"{name}_max": max(values)}
        row[f"{name}_readings"] = None if len(values) == len(readings) else len(values)
    return row


class Dated(Protocol):
    at: float


def column(own: Own) -> str:
    name = own[0].removeprefix("llm_").removeprefix("gpu_").removesuffix("_total")
    return f"{name}_{own[1]}" if own[1] else name


def covered(readings: Sequence[Dated], start: int, counts: Any) -> float:
    """Between readings not further apart than twice what is usual for the last five minutes, cut at the minute."""
    recent = [r.at for r in readings if start - LOOKBACK < r.at <= start + 60]
    usual = sorted(b - a for a, b in pairwise(recent))
    longest = min(2 * usual[(len(usual) - 1) // 2], LOOKBACK) if usual else 0.0
    pairs = [(a.at, b.at) for a, b in pairwise(readings) if b.at - a.at <= longest and counts(a) and counts(b)]
    return sum((max(min(b, start + 60) - max(a, start), 0.0) for a, b in pairs), 0.0)


@dataclass
class Added:
    """By one step, to one engine."""

    seconds: float = 0.0
    counters: dict[Own, float] = field(default_factory=dict)
    histograms: list[tuple[str, Bounds, tuple[float, ...], float]] = field(default_factory=list)


@dataclass
class Step:
    of: dict[str, Added] = field(default_factory=lambda: defaultdict(Added))
    restarted: bool = False


@dataclass
class Known:
    """Of the process that is read: the last value of each series, and whether what was not shown stood at zero."""

    values: dict[tuple[str, Any], Any] = field(default_factory=dict)
    is_all: bool = False


def walked(readings: Sequence[Reading]) -> tuple[dict[float, Step], list[tuple[Any, ...]]]:
    """What each reading added, and what it changed."""
    steps: dict[float, Step] = {}
    events: list[tuple[Any, ...]] = []
    known = Known()
    facts: dict[str, tuple[str, float]] = {}
    before: Reading | None = None
    for now in readings:
        if not now.is_available:
            continue
        if before is not None and now.at - before.at > LOOKBACK:
            before, known = None, Known()
        step = steps[now.at] = _step(before, now, known)
        of = json.dumps(now.target, sort_keys=True)
        if step.restarted:
            events.append((of, now.at, "restart", None, None))
        for kind, text in told_facts(now).items():
            was, when = facts.get(kind, (text, now.at))
            if was != text and now.at - when < MEMORY:
                events.append((of, now.at, kind, was, text))
            facts[kind] = text, now.at
        before = now
    return steps, events


def told_facts(now: Reading) -> dict[str, str]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for of, engine in now.shown().items():
        for kind, text in (engine.info | {"model": json.loads(of).get("model", "")}).items():
            found[kind] |= {text} - {""}
    return {kind: ", ".join(sorted(texts)) for kind, texts in found.items() if kind in _FACTS and texts}


def _step(before: Reading | None, now: Reading, known: Known) -> Step:
    """Changes `known`."""
    step = Step()
    is_other = before is not None and None not in (before.start, now.start) and abs(now.start - before.start) > 1  # type: ignore[operator]
    is_born = before is None and now.start is not None and now.start >= window_of(now.at)
    tells_all = now.findings.isdisjoint(_INCOMPLETE)
    known.is_all |= is_other or is_born
    seconds = now.at - before.at if before is not None else now.at - (now.start or now.at)
    step.restarted = is_other
    values: dict[tuple[str, Any], Any] = {}
    for of, name, value in _cumulative(now):
        was = known.values.get((of, name))
        last = None if is_other else was
        fell = last is not None and _fell(last, value)
        step.restarted |= fell
        values[of, name] = value
        if was is None and not (known.is_all and tells_all):
            continue
        added = value if last is None or fell else _difference(last, value)
        step.of[of].seconds = seconds
        if isinstance(value, float):
            step.of[of].counters[name] = added
        else:
            step.of[of].histograms.append((name, *added))
    known.values = values if step.restarted else known.values | values
    known.is_all |= tells_all
    return step


def _cumulative(now: Reading) -> Iterator[tuple[str, Any, Any]]:
    for of, engine in now.engines.items():
        yield from ((of, own, value) for own, value in engine.counters.items())
        histograms = ((phase, engine.histogram(phase)) for phase in PHASES)
        yield from ((of, phase, told) for phase, told in histograms if told is not None)


def _fell(last: Any, now: Any) -> bool:
    if isinstance(now, float):
        return bool(now < last)
    steps = [b - a for a, b in zip(last[1], now[1], strict=False)]
    return last[0] != now[0] or steps[0] < 0 or any(b < a for a, b in pairwise(steps))


def _difference(last: Any, now: Any) -> Any:
    if isinstance(now, float):
        return now - last
    return now[0], tuple(b - a for a, b in zip(last[1], now[1], strict=True)), max(now[2] - last[2], 0.0)


def increase(steps: Sequence[Added]) -> Row:
    row: Row = {"increase_seconds": sum((step.seconds for step in steps), 0.0)}
    rejected: dict[str, float] = {}
    for step in steps:
        for own, value in step.counters.items():
            if own[0] == "llm_requests_rejected_total":
                rejected[own[1]] = rejected.get(own[1], 0.0) + value
            else:
                row[column(own)] = row.get(column(own), 0.0) + value
    if rejected:
        row["requests_rejected"] = rejected
    for phase in PHASES:
        parts: dict[Bounds, list[tuple[tuple[float, ...], float]]] = defaultdict(list)
        for name, bounds, counts, total in (h for step in steps for h in step.histograms):
            if name == phase:
                parts[bounds].append((counts, total))
        if parts:
            row[f"{phase}_histogram"] = {bounds: added_up(each) for bounds, each in parts.items()}
    return row


def added_up(parts: Iterable[tuple[tuple[float, ...], float]]) -> tuple[tuple[float, ...], float]:
    counts, sums = zip(*parts, strict=True)
    return tuple(map(sum, zip(*counts, strict=True))), sum(sums)
