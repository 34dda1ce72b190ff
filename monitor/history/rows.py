"""What a minute has gathered, as the values of its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from exporters.observation import Labels
from monitor.history.columns import (
    ENGINE_COLUMNS,
    TARGET_COLUMNS,
    Column,
    CounterColumn,
    GaugeColumns,
    HistogramColumn,
)
from monitor.history.encoding import encode
from monitor.history.minutes import Minute

BoundsId = Callable[[tuple[float, ...]], int]


def is_engine(identity: Labels) -> bool:
    return any(name == "engine" for name, _ in identity)


def row_values(identity: Labels, minute: Minute, bounds_id: BoundsId) -> tuple[str, dict[str, Any]]:
    """Table and values of all its columns but the key; what was not observed is None."""
    measures: dict[str, Any] = {"samples": minute.samples, "covered_seconds": minute.covered_seconds}
    if not is_engine(identity):
        return "target_minute", measures | _values(TARGET_COLUMNS, minute, bounds_id)
    measures["increase_seconds"] = minute.increase_seconds
    return "engine_minute", measures | _values(ENGINE_COLUMNS, minute, bounds_id)


def _values(columns: Mapping[str, tuple[Column, ...]], minute: Minute, bounds_id: BoundsId) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for metric, parts in columns.items():
        for column in parts:
            values |= _value(metric, column, minute, bounds_id)
    return values


def _value(metric: str, column: Column, minute: Minute, bounds_id: BoundsId) -> dict[str, Any]:
    if isinstance(column, GaugeColumns):
        mean = minute.gauges.get((metric, column.label))
        if mean is None:
            return dict.fromkeys(column.names)
        readings = None if mean.count == minute.samples else mean.count
        return {column.average: mean.average, column.maximum: mean.maximum, column.readings: readings}
    if isinstance(column, CounterColumn):
        return {column.name: minute.counters.get((metric, column.label))}
    if isinstance(column, HistogramColumn):
        parts = minute.histograms.get(column.phase.name)
        return {column.name: None if parts is None else encode((bounds_id(h.bounds), h) for h in parts)}
    by_label = {label: value for (name, label), value in minute.counters.items() if name == metric}
    return {column.name: by_label or None}
