"""Which columns hold which metric of the schema: tables, writer and questions all go through here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from exporters.schema import METRICS, PHASE_OF_METRIC, PHASES, Metric, Phase, Scope, Type

_IN_HISTOGRAMS = "it is part of the histograms: ask a quantile of the phase's histogram"

NOT_STORED = {
    "llm_server_info": "it is kept with the series, its changes as events: ask /api/v1/servers",
    "llm_server_state": "its changes are kept as events",
    "llm_field_info": "it holds now only: ask /api/v1/servers",
    "llm_latency_overflow_total": _IN_HISTOGRAMS,
    "llm_latency_native_max_seconds": _IN_HISTOGRAMS,
    "llm_latency_native_bounds_info": _IN_HISTOGRAMS,
    "llm_latency_quantile_seconds": "quantiles do not merge: ask a quantile of the phase's histogram",
    "llm_length_overflow_total": _IN_HISTOGRAMS,
    "llm_length_native_bounds_info": _IN_HISTOGRAMS,
    "llm_process_start_time_seconds": "restarts are kept as events",
    "gpu_info": "it is kept with the series, its changes as events: ask /api/v1/gpus",
    "gpu_server_info": "its changes are kept as events of the server",
}
"""Metrics of servers and GPUs without a column, and what to ask instead."""

_OF_OURSELVES = "what the product says of itself is not kept: scrape /metrics"


@dataclass(frozen=True, slots=True)
class GaugeColumns:
    """Mean and maximum of the readings in the window, and how many those were where not all of the row had one.

    The maximum is NULL where it is the mean: most gauges stand still most of the time.

    `label` is the own label's value, "" where the metric has no own label.
    """

    metric: Metric
    label: str
    average: str
    maximum: str
    readings: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.average, self.maximum, self.readings


@dataclass(frozen=True, slots=True)
class CounterColumn:
    """The increase in the minute; `label` is the own label's value, "" where the metric has no own label."""

    metric: Metric
    label: str
    name: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True, slots=True)
class OpenCounterColumn:
    """Increases by the value of the one own label, whose values are not known beforehand: a JSON object."""

    metric: Metric
    name: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True, slots=True)
class HistogramColumn:
    """What was added in the minute, at the server's native bounds, as `encoding` packs it."""

    metric: Metric
    phase: Phase
    name: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)


Column = GaugeColumns | CounterColumn | OpenCounterColumn | HistogramColumn


def why_not_stored(metric: Metric) -> str | None:
    if metric.scope is Scope.SELF or metric.name.startswith("inferwatch_"):
        return _OF_OURSELVES
    return NOT_STORED.get(metric.name)


def columns_of(metric: Metric) -> tuple[Column, ...]:
    """Raises ValueError for a shape of metric that the history has no columns for."""
    name = metric.name.removeprefix("llm_").removeprefix("gpu_").removesuffix("_total")
    if metric.type is Type.HISTOGRAM:
        phase = PHASE_OF_METRIC[metric.name]
        return (HistogramColumn(metric, phase, f"{phase.name}_histogram"),)
    if not metric.labels:
        return (_closed(metric, "", name),)
    values = metric.values.get(metric.labels[0]) if len(metric.labels) == 1 else None
    if values is not None:
        return tuple(_closed(metric, value, f"{name}_{value}") for value in values)
    if metric.type is Type.COUNTER and len(metric.labels) == 1:
        return (OpenCounterColumn(metric, name),)
    raise ValueError(f"{metric.name}: neither a column nor an entry of NOT_STORED for this {metric.type.value}")


def _closed(metric: Metric, value: str, name: str) -> Column:
    if metric.type is Type.GAUGE:
        return GaugeColumns(metric, value, f"{name}_avg", f"{name}_max", f"{name}_readings")
    return CounterColumn(metric, value, name)


def _stored(scope: Scope) -> dict[str, tuple[Column, ...]]:
    metrics = (m for m in METRICS.values() if m.scope is scope and why_not_stored(m) is None)
    return {m.name: columns_of(m) for m in metrics}


ENGINE_COLUMNS = _stored(Scope.ENGINE)
TARGET_COLUMNS = _stored(Scope.TARGET)
GPU_COLUMNS = _stored(Scope.GPU)
STORED: dict[str, tuple[Column, ...]] = {**TARGET_COLUMNS, **ENGINE_COLUMNS, **GPU_COLUMNS}
COLUMNS: Mapping[Scope, tuple[Column, ...]] = {
    scope: tuple(chain.from_iterable(by_metric.values()))
    for scope, by_metric in (
        (Scope.ENGINE, ENGINE_COLUMNS),
        (Scope.TARGET, TARGET_COLUMNS),
        (Scope.GPU, GPU_COLUMNS),
    )
}
"""Of each kind of series, in the order of its tables."""
MEANS = {c.maximum: c.average for columns in COLUMNS.values() for c in columns if isinstance(c, GaugeColumns)}
"""By the column of the maximum, for which they stand where it is NULL."""


@dataclass(frozen=True, slots=True)
class QuantileColumns:
    """A quantile of a server's merged histograms over the window, and the bounds between which the true one lies.

    The upper one is NULL where nothing is known above the lower.
    """

    phase: Phase
    q: float
    estimate: str
    lower: str
    upper: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.estimate, self.lower, self.upper


def _quantile(phase: Phase, q: float) -> QuantileColumns:
    name = f"{phase.name}_p{q * 100:g}"
    return QuantileColumns(phase, q, name, f"{name}_lower", f"{name}_upper")


QUANTILE_COLUMNS = tuple(_quantile(phase, q) for phase in PHASES.values() if phase.quantiles for q in (0.5, 0.99))
"""Only of roll-ups, and of a server as a whole: whatever else is asked is merged from the histograms."""
