"""Which columns hold which metric of the schema: tables, writer and questions all go through here."""

from __future__ import annotations

from dataclasses import dataclass

from exporters.schema import METRICS, PHASE_OF_METRIC, Metric, Phase, Scope, Type

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
}
"""Metrics of servers without a column, and what to ask instead."""

_SCOPES_WITHOUT_HISTORY = {
    Scope.GPU: "GPUs have no history yet",
    Scope.SELF: "what the product says of itself is not kept: scrape /metrics",
}


@dataclass(frozen=True, slots=True)
class GaugeColumns:
    """Mean and maximum of the readings in the minute."""

    metric: Metric
    average: str
    maximum: str


@dataclass(frozen=True, slots=True)
class CounterColumn:
    """The increase in the minute; `label` is the own label's value, "" where the metric has no own label."""

    metric: Metric
    label: str
    name: str


@dataclass(frozen=True, slots=True)
class OpenCounterColumn:
    """Increases by the value of the one own label, whose values are not known beforehand: a JSON object."""

    metric: Metric
    name: str


@dataclass(frozen=True, slots=True)
class HistogramColumn:
    """What was added in the minute, at the server's native bounds, as `encoding` packs it."""

    metric: Metric
    phase: Phase
    name: str


Column = GaugeColumns | CounterColumn | OpenCounterColumn | HistogramColumn


def why_not_stored(metric: Metric) -> str | None:
    if metric.name.startswith("inferwatch_"):
        return _SCOPES_WITHOUT_HISTORY[Scope.SELF]
    return _SCOPES_WITHOUT_HISTORY.get(metric.scope) or NOT_STORED.get(metric.name)


def columns_of(metric: Metric) -> tuple[Column, ...]:
    """Raises ValueError for a shape of metric that the history has no columns for."""
    name = metric.name.removeprefix("llm_")
    if metric.type is Type.HISTOGRAM:
        return (
            HistogramColumn(metric, PHASE_OF_METRIC[metric.name], f"{PHASE_OF_METRIC[metric.name].name}_histogram"),
        )
    if metric.type is Type.GAUGE and not metric.labels:
        return (GaugeColumns(metric, f"{name}_avg", f"{name}_max"),)
    if metric.type is Type.COUNTER and len(metric.labels) <= 1:
        return _counter_columns(metric, name.removesuffix("_total"))
    raise ValueError(f"{metric.name}: neither a column nor an entry of NOT_STORED for this {metric.type.value}")


def _counter_columns(metric: Metric, name: str) -> tuple[Column, ...]:
    if not metric.labels:
        return (CounterColumn(metric, "", name),)
    values = metric.values.get(metric.labels[0])
    if values is None:
        return (OpenCounterColumn(metric, name),)
    return tuple(CounterColumn(metric, value, f"{name}_{value}") for value in values)


def _stored(scope: Scope) -> dict[str, tuple[Column, ...]]:
    metrics = (m for m in METRICS.values() if m.scope is scope and why_not_stored(m) is None)
    return {m.name: columns_of(m) for m in metrics}


ENGINE_COLUMNS = _stored(Scope.ENGINE)
TARGET_COLUMNS = _stored(Scope.TARGET)
STORED: dict[str, tuple[Column, ...]] = {**TARGET_COLUMNS, **ENGINE_COLUMNS}


def column_names(columns: tuple[Column, ...]) -> list[str]:
    return [n for c in columns for n in ((c.average, c.maximum) if isinstance(c, GaugeColumns) else (c.name,))]
