"""A sidecar's exposition back into the observations it was written from.

Histograms come on the shared grid. Their native counts are known exactly at the native bounds that are on it, and at
the largest native bound, above which the overflow lies; other native bounds are left out: their neighbours widen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from exporters.exposition import Sample, read_samples
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
"""Series in the text that an observation tells by other means, as it does all `inferwatch_…`."""


@dataclass(slots=True)
class _Text:
    """The series of one target."""

    values: dict[Series, float] = field(default_factory=dict)
    buckets: defaultdict[Series, dict[float, float]] = field(default_factory=lambda: defaultdict(dict))
    sums: dict[Series, float] = field(default_factory=dict)
    counts: dict[Series, float] = field(default_factory=dict)


def observations(text: str, at: float) -> list[Observation]:
    """One for each target of the sidecar, as of `at`. Raises InvalidExposition."""
    targets: defaultdict[tuple[str, str], _Text] = defaultdict(_Text)
    for sample in read_samples(text):
        node, server = sample.labels.get("node"), sample.labels.get("server")
        if node and server and not sample.name.startswith("gpu_"):
            _take(targets[node, server], sample)
    return [_observation(node, server, at, target) for (node, server), target in targets.items()]


def _take(target: _Text, sample: Sample) -> None:
    if sample.name in METRICS:
        target.values[Series(sample.name, labels(sample.labels))] = sample.value
        return
    metric, _, part = sample.name.rpartition("_")
    if metric not in PHASE_OF_METRIC:
        return
    bound = sample.labels.pop("le", None)
    series = Series(metric, labels(sample.labels))
    if part == "bucket" and bound is not None:
        target.buckets[series][float(bound)] = sample.value
    elif part == "sum":
        target.sums[series] = sample.value
    elif part == "count":
        target.counts[series] = sample.value


def _observation(node: str, server: str, at: float, target: _Text) -> Observation:
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
    )


def _histograms(target: _Text) -> dict[Series, Histogram]:
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


def _beside(target: _Text, metrics: Iterable[str]) -> Iterator[tuple[Series, float]]:
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
