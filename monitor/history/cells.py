"""Takes what a question needs out of rows: columns in, values out, all side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.history.columns import STORED, CounterColumn, GaugeColumns, HistogramColumn, OpenCounterColumn
from monitor.history.packed import Floats, Ints
from monitor.history.question import Aggregation, Question

Columns = Mapping[str, NDArray[Any]]
"""Of rows, by name. Numbers that are NULL are NaN; histograms and JSON (as text) are objects, None where NULL."""

_FRACTIONS = {"llm_prefix_cache_hit_ratio": ("prefix_cache_hit_tokens", "prefix_cache_query_tokens")}
"""Ratios that two counters tell better than a gauge: columns of part and whole."""

_WEIGHTS = {"llm_kv_cache_utilization_ratio": "kv_cache_capacity_tokens_avg"}
"""Column by which a ratio is weighted among several series."""


@dataclass(frozen=True, slots=True)
class Values:
    """What rows hold of a metric under one value of its own label ("" where it has none), in parallel.

    `row` says which row each comes from. Only what the aggregation needs is there; a weight that is not known is NaN.
    """

    label: str
    row: Ints
    value: NDArray[Any]
    """Numbers, or encoded histograms."""
    readings: Floats | None = None
    seconds: Floats | None = None
    """How long the value was observed: the time it stands for."""
    weight: Floats | None = None


@dataclass(frozen=True, slots=True)
class Fractions:
    """Ratios by what they are made of."""

    row: Ints
    part: Floats
    whole: Floats


def columns(asked: Question) -> list[str]:
    """Those to be read, the key left out."""
    name, names = asked.metric.name, ["covered_seconds"]
    for column in STORED[name]:
        if isinstance(column, GaugeColumns):
            names += [column.maximum] if asked.aggregation is Aggregation.MAXIMUM else [column.average, column.readings]
        else:
            names.append(column.name)
    if asked.aggregation is Aggregation.AVERAGE:
        names += ["samples", *_FRACTIONS.get(name, ()), *([_WEIGHTS[name]] if name in _WEIGHTS else ())]
    if asked.aggregation is Aggregation.RATE:
        names.append("increase_seconds")
    return names


def fractions(asked: Question, rows: Columns) -> Fractions | None:
    """Of the rows that have both counters; None where the metric is not made of two."""
    names = _FRACTIONS.get(asked.metric.name)
    if names is None or asked.aggregation is not Aggregation.AVERAGE:
        return None
    part, whole = (rows[name] for name in names)
    known = np.flatnonzero(~(np.isnan(part) | np.isnan(whole)))
    return Fractions(known, part[known], whole[known])


def values(asked: Question, rows: Columns) -> Iterator[Values]:
    for column in STORED[asked.metric.name]:
        if isinstance(column, GaugeColumns):
            yield _of_gauge(asked, column, rows)
        elif isinstance(column, CounterColumn):
            yield _of_counter(asked, column.label, rows[column.name], rows)
        elif isinstance(column, OpenCounterColumn):
            for label, increases in sorted(_by_label(rows[column.name]).items()):
                yield _of_counter(asked, label, increases, rows)
        elif isinstance(column, HistogramColumn):
            known = np.flatnonzero([value is not None for value in rows[column.name]])
            yield Values("", known, rows[column.name][known])


def _of_gauge(asked: Question, column: GaugeColumns, rows: Columns) -> Values:
    if asked.aggregation is Aggregation.MAXIMUM:
        known = np.flatnonzero(~np.isnan(rows[column.maximum]))
        return Values(column.label, known, rows[column.maximum][known])
    known = np.flatnonzero(~np.isnan(rows[column.average]))
    samples, readings = rows["samples"][known], rows[column.readings][known]
    readings = np.where(np.isnan(readings), samples, readings)
    weight = rows[_WEIGHTS[asked.metric.name]][known] if asked.metric.name in _WEIGHTS else None
    seconds = rows["covered_seconds"][known] * readings / samples
    return Values(column.label, known, rows[column.average][known], readings, seconds, weight)


def _of_counter(asked: Question, label: str, increases: Floats, rows: Columns) -> Values:
    if asked.aggregation is Aggregation.SUM:
        known = np.flatnonzero(~np.isnan(increases))
        return Values(label, known, increases[known])
    timed = np.flatnonzero(~np.isnan(increases) & (rows["increase_seconds"] > 0))
    return Values(label, timed, increases[timed], seconds=rows["increase_seconds"][timed])


def _by_label(texts: NDArray[Any]) -> dict[str, Floats]:
    """A column of its own for each label in a column of JSON objects."""
    found: dict[str, Floats] = {}
    parse: Callable[[str], dict[str, float]] = json.loads
    for row, text in enumerate(texts):
        for label, value in parse(text).items() if text is not None else ():
            found.setdefault(label, np.full(len(texts), np.nan))[row] = value
    return found


def is_number(asked: Question, name: str) -> bool:
    """Whether the column holds numbers rather than bytes or JSON."""
    return all(
        isinstance(column, GaugeColumns | CounterColumn) or column.name != name for column in STORED[asked.metric.name]
    )
