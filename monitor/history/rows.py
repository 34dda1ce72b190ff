"""What a minute has gathered, as the values of its row."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from exporters.observation import Labels
from exporters.schema import IDENTITY, Scope
from monitor.history.columns import COLUMNS, Column, CounterColumn, GaugeColumns, HistogramColumn
from monitor.history.encoding import encode
from monitor.history.minutes import Minute

BoundsId = Callable[[tuple[float, ...]], int]

_OF_ENGINES = frozenset(IDENTITY[Scope.ENGINE]) - frozenset(IDENTITY[Scope.TARGET])


def scope_of(identity: Labels) -> Scope:
    names = {name for name, _ in identity}
    if "server" not in names:
        return Scope.GPU
    return Scope.TARGET if names.isdisjoint(_OF_ENGINES) else Scope.ENGINE


def row_values(scope: Scope, minute: Minute, bounds_id: BoundsId) -> tuple[Any, ...]:
    """Of all the table's columns but the key, in their order; what was not observed is None."""
    values: list[Any] = [minute.samples, minute.covered_seconds]
    if scope is not Scope.TARGET:
        values.append(minute.increase_seconds)
    for column in COLUMNS[scope]:
        values += _values(column, minute, bounds_id)
    return tuple(values)


def _values(column: Column, minute: Minute, bounds_id: BoundsId) -> tuple[Any, ...]:
    metric = column.metric.name
    if isinstance(column, GaugeColumns):
        return _gauge(column, minute)
    if isinstance(column, CounterColumn):
        return (minute.counters.get((metric, column.label)),)
    if isinstance(column, HistogramColumn):
        parts = minute.histograms.get(column.phase.name)
        return (None if parts is None else encode((bounds_id(h.bounds), h) for h in parts),)
    by_label = {label: value for (name, label), value in minute.counters.items() if name == metric}
    return (json.dumps(by_label, sort_keys=True) if by_label else None,)


def _gauge(column: GaugeColumns, minute: Minute) -> tuple[Any, ...]:
    mean = minute.gauges.get((column.metric.name, column.label))
    if mean is None:
        return None, None, None
    return mean.average, mean.maximum, None if mean.count == minute.samples else mean.count
