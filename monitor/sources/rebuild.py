"""The samples of a sidecar's exposition back into the observations it was written from.

Histograms come on the shared grid. Their native counts are known exactly at the native bounds that are on it, and at
the largest native bound, above which the overflow lies; other native bounds are left out: their neighbours widen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from exporters.exposition import Sample, parse_value
from exporters.findings import KINDS, Finding, Severity, finding
from exporters.histogram import Histogram
from exporters.observation import FieldStatus, Labels, Observation, Series, labels
from exporters.schema import IDENTITY, METRICS, PHASE_OF_METRIC, PHASES, Scope
from monitor.readings import of_metric

_OVERFLOW = ("llm_latency_overflow_total", "llm_length_overflow_total")
_BOUNDS = ("llm_latency_native_bounds_info", "llm_length_native_bounds_info")
_NO_VALUES = frozenset({
    *_OVERFLOW, *_BOUNDS, "llm_latency_native_max_seconds", "llm_up", "llm_metrics_available", "llm_field_info",
})  # fmt: skip
"""Series among the samples that an observation tells by other means, as it does all `inferwatch_…`."""


class Part(NamedTuple):
    """What a sample is of its target: a series' value, or, with `part` (bucket, sum, count), some of a histogram."""

    series: Series
    part: str = ""
    bound: float = 0.0


@dataclass(slots=True)
class _Samples:
    """Of one target."""

    values: dict[Series, float] = field(default_factory=dict)
    buckets: defaultdict[Series, dict[float, float]] = field(default_factory=lambda: defaultdict(dict))
    sums: dict[Series, float] = field(default_factory=dict)
    counts: dict[Series, float] = field(default_factory=dict)


def observations(samples: Iterable[Sample], at: float) -> list[Observation]:
    """One for each target of the sidecar, as of `at`."""
    targets: defaultdict[tuple[str, str], list[tuple[Part, float]]] = defaultdict(list)
    for sample in samples:
        node, server = sample.labels.get("node"), sample.labels.get("server")
        if node and server and not sample.name.startswith("gpu_") and (part := part_of(sample.name, sample.labels)):
            targets[node, server].append((part, sample.value))
    return [observation(node, server, at, parts) for (node, server), parts in targets.items()]


def part_of(name: str, of: Mapping[str, str]) -> Part | None:
    """None of what is not in the schema."""
    if name in METRICS:
        return Part(Series(name, labels(of)))
    metric, _, part = name.rpartition("_")
    if metric not in PHASE_OF_METRIC or part not in ("bucket", "sum", "count"):
        return None
    series = Series(metric, labels({name: text for name, text in of.items() if name != "le"}))
    bound = parse_value(of.get("le", "")) if part == "bucket" else 0.0
    return None if bound is None else Part(series, part, bound)


def observation(node: str, server: str, at: float, parts: Iterable[tuple[Part, float]]) -> Observation:
    target = _sorted(parts)
    values = target.values

    def first(metric: str) -> float | None:
        return next((v for _, v in of_metric(values, metric)), None)

    return Observation(
        node=node,
        server=server,
        at=at,
        up=first("llm_up") == 1,
        available=first("llm_metrics_available") == 1,
        values={
            s: v for s, v in values.items() if s.metric not in _NO_VALUES and not s.metric.startswith("inferwatch_")
        },
        histograms=_histograms(target),
        start_time=first("llm_process_start_time_seconds"),
        findings=tuple(_finding(s) for s, _ in of_metric(values, "inferwatch_finding")),
        fields=tuple(_field(s) for s, _ in of_metric(values, "llm_field_info")),
        user_labels=_user_labels(s for s, _ in of_metric(values, "llm_up")),
        duration=first("inferwatch_scrape_duration_seconds") or 0.0,
        unmapped=None if (unmapped := first("inferwatch_unmapped_families")) is None else round(unmapped),
    )


def _sorted(parts: Iterable[tuple[Part, float]]) -> _Samples:
    target = _Samples()
    for (series, part, bound), value in parts:
        match part:
            case "bucket":
                target.buckets[series][bound] = value
            case "sum":
                target.sums[series] = value
            case "count":
                target.counts[series] = value
            case _:
                target.values[series] = value
    return target


def _histograms(target: _Samples) -> dict[Series, Histogram]:
    overflow = {of: v for s, v in _beside(target, _OVERFLOW) if (of := _histogram_of(s))}
    native = {
        of: tuple(map(float, s.label("bounds").split(",")))
        for s, _ in _beside(target, _BOUNDS)
        if (of := _histogram_of(s))
    }
    return {
        series: _native(native[series], target.buckets[series], count, overflow[series], target.sums.get(series))
        for series, count in target.counts.items()
        if series in native and series in overflow
    }


def _beside(target: _Samples, metrics: Iterable[str]) -> Iterator[tuple[Series, float]]:
    return chain.from_iterable(of_metric(target.values, metric) for metric in metrics)


def _histogram_of(beside: Series) -> Series | None:
    """The histogram that a series with a `phase` stands beside; None of a phase that is not known here."""
    phase = PHASES.get(beside.label("phase"))
    identity = {name: value for name, value in beside.labels if name not in ("phase", "bounds")}
    return None if phase is None else Series(phase.metric, labels(identity))


def _native(
    native: tuple[float, ...], buckets: Mapping[float, float], count: float, overflow: float, total: float | None
) -> Histogram:
    largest = native[-1]
    known = tuple(b for b in native if b in buckets and b < largest)
    return Histogram((*known, largest), (*(buckets[b] for b in known), count - overflow, count), total)


def _finding(series: Series) -> Finding:
    reason, severity = series.label("reason"), series.label("severity")
    if reason in KINDS:
        return finding(reason)
    known = next((s for s in Severity if s.value == severity), Severity.WARNING)
    return Finding(reason, known, f"The sidecar reports {reason!r}.")


def _field(series: Series) -> FieldStatus:
    return FieldStatus(*(series.label(name) for name in ("field", "source", "quality", "reason")))


def _user_labels(series: Iterable[Series]) -> Labels:
    of_target = IDENTITY[Scope.TARGET]
    return next((tuple((k, v) for k, v in s.labels if k not in of_target) for s in series), ())
