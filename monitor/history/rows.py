"""What a minute has gathered, as the values of its row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exporters.observation import Labels
from exporters.schema import IDENTITY, Scope
from monitor.history.columns import COLUMNS, Column, CounterColumn, GaugeColumns, HistogramColumn
from monitor.history.encoding import encode
from monitor.history.minutes import Minute
from monitor.history.storable import as_json, storable

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
    for of, key in _PARTS[scope]:
        values += of(key, minute, bounds_id)
    return tuple(values)


def _gauge(key: Any, minute: Minute, _bounds_id: BoundsId) -> tuple[Any, ...]:
    mean = minute.gauges.get(key)
    if mean is None:
        return None, None, None
    average, maximum = mean.average, mean.maximum
    return average, None if maximum == average else maximum, None if mean.count == minute.samples else mean.count


def _counter(key: Any, minute: Minute, _bounds_id: BoundsId) -> tuple[Any, ...]:
    return (minute.counters.get(key),)


def _open_counter(metric: Any, minute: Minute, _bounds_id: BoundsId) -> tuple[Any, ...]:
    by_label = {storable(label): value for (name, label), value in minute.counters.items() if name == metric}
    return (as_json(by_label) if by_label else None,)


def _histogram(phase: Any, minute: Minute, bounds_id: BoundsId) -> tuple[Any, ...]:
    parts = minute.histograms.get(phase)
    return (None if parts is None else encode((bounds_id(h.bounds), h) for h in parts),)


def _part(column: Column) -> tuple[Callable[[Any, Minute, BoundsId], tuple[Any, ...]], Any]:
    """What reads the column's values, and by which key: worked out once, since writing spends its time here."""
    if isinstance(column, GaugeColumns):
        return _gauge, (column.metric.name, column.label)
    if isinstance(column, CounterColumn):
        return _counter, (column.metric.name, column.label)
    if isinstance(column, HistogramColumn):
        return _histogram, column.phase.name
    return _open_counter, column.metric.name


_PARTS = {scope: tuple(map(_part, columns)) for scope, columns in COLUMNS.items()}
