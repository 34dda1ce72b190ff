"""Reads what a question needs out of a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from exporters.schema import Scope
from monitor.history.aggregate import Cell, Fraction
from monitor.history.columns import STORED, Column, CounterColumn, GaugeColumns, HistogramColumn, column_names
from monitor.history.encoding import decode
from monitor.history.question import Aggregation, Question

Row = Mapping[Any, Any]
Bounds = Mapping[int, tuple[float, ...]]

_FRACTIONS = {"llm_prefix_cache_hit_ratio": ("prefix_cache_hit_tokens", "prefix_cache_query_tokens")}
"""Ratios that two counters tell better than a gauge: columns of part and whole."""

_WEIGHTS = {"llm_kv_cache_utilization_ratio": "kv_cache_capacity_tokens_avg"}
"""Column by which a ratio is weighted among several series."""


def columns(asked: Question) -> list[str]:
    """Those to be read, the key left out."""
    name = asked.metric.name
    weights = [_WEIGHTS[name]] if name in _WEIGHTS else []
    timing = ["increase_seconds"] if asked.metric.scope is Scope.ENGINE else []
    return ["samples", "covered_seconds", *timing, *column_names(STORED[name]), *_FRACTIONS.get(name, ()), *weights]


def cells(asked: Question, row: Row, bounds: Bounds) -> Iterator[tuple[str, Cell]]:
    """With the value of the metric's own label, "" where it has none; nothing where the row has NULL."""
    weight = _WEIGHTS.get(asked.metric.name)
    for label, value in _values(asked, row, bounds):
        yield (
            label,
            Cell(
                series=row["series_id"],
                start=row["start"],
                covered_seconds=row["covered_seconds"],
                samples=row["samples"],
                increase_seconds=row.get("increase_seconds", 0.0),
                value=value,
                weight=row[weight] if weight else None,
            ),
        )


def _values(asked: Question, row: Row, bounds: Bounds) -> Iterator[tuple[str, Any]]:
    fraction = _fraction(asked, row)
    if fraction is not None:
        yield "", fraction
        return
    for column in STORED[asked.metric.name]:
        yield from ((label, v) for label, v in _of_column(asked, column, row, bounds) if v is not None)


def _fraction(asked: Question, row: Row) -> Fraction | None:
    names = _FRACTIONS.get(asked.metric.name)
    if names is None or asked.aggregation is not Aggregation.AVERAGE:
        return None
    part, whole = (row[name] for name in names)
    return None if part is None or whole is None else Fraction(part, whole)


def _of_column(asked: Question, column: Column, row: Row, bounds: Bounds) -> list[tuple[str, Any]]:
    if isinstance(column, GaugeColumns):
        return [("", row[column.maximum if asked.aggregation is Aggregation.MAXIMUM else column.average])]
    if isinstance(column, CounterColumn):
        return [(column.label, row[column.name])]
    data = row[column.name]
    if isinstance(column, HistogramColumn):
        return [("", None if data is None else decode(data, bounds))]
    return list((data or {}).items())
