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


def fractions(asked: Question, rows: Columns, step: int) -> Fractions | None:
    """Of series that have both counters; None where the metric is not made of two. `step` is as for `values`."""
    names = _FRACTIONS.get(asked.metric.name)
    if names is None or asked.aggregation is not Aggregation.AVERAGE:
        return None
    counted = [_counted(rows[name], rows, step) for name in names]
    row = np.flatnonzero(np.isfinite(counted).all(axis=0))
    part, whole = (increases[row] for increases in counted)
    return Fractions(row, part, whole)


def values(asked: Question, rows: Columns, step: int) -> Iterator[Values]:
    """Of rows in order of series and time; `step` seconds are told together."""
    for column in STORED[asked.metric.name]:
        if isinstance(column, GaugeColumns):
            yield _of_gauge(asked, column, rows)
        elif isinstance(column, CounterColumn):
            yield _of_counter(asked, column.label, rows[column.name], rows, step)
        elif isinstance(column, OpenCounterColumn):
            for label, increases in sorted(_by_label(rows[column.name]).items()):
                yield _of_counter(asked, label, increases, rows, step)
        elif isinstance(column, HistogramColumn):
            known = np.flatnonzero([value is not None for value in rows[column.name]])
            yield Values("", known, rows[column.name][known])


def _of_gauge(asked: Question, column: GaugeColumns, rows: Columns) -> Values:
    if asked.aggregation is Aggregation.MAXIMUM:
        known = np.flatnonzero(np.isfinite(rows[column.maximum]))
        return Values(column.label, known, rows[column.maximum][known])
    known = np.flatnonzero(np.isfinite(rows[column.average]))
    samples, readings = rows["samples"][known], rows[column.readings][known]
    readings = np.where(np.isnan(readings), samples, readings)
    weight = rows[_WEIGHTS[asked.metric.name]][known] if asked.metric.name in _WEIGHTS else None
    seconds = rows["covered_seconds"][known] * readings / samples
    return Values(column.label, known, rows[column.average][known], readings, seconds, weight)


def _of_counter(asked: Question, label: str, increases: Floats, rows: Columns, step: int) -> Values:
    counted = _counted(increases, rows, step)
    known = np.isfinite(counted)
    if asked.aggregation is Aggregation.SUM:
        row = np.flatnonzero(known)
        return Values(label, row, counted[row])
    row = np.flatnonzero(known & (rows["increase_seconds"] > 0))
    return Values(label, row, counted[row], seconds=rows["increase_seconds"][row])


def _counted(increases: Floats, rows: Columns, step: int) -> Floats:
    """0 where a series did not have the counter, but has it in another row of the step: so minutes say the same as the
    row of their hour, which cannot tell since when it was there."""
    known = ~np.isnan(increases)
    begins = np.diff(rows["series"], prepend=-1) | np.diff(rows["start"] // step, prepend=-1)
    run = np.cumsum(begins != 0) - 1
    return np.where(known, increases, np.where(np.bincount(run, known)[run] > 0, 0.0, np.nan))


def _by_label(texts: NDArray[Any]) -> dict[str, Floats]:
    """A column of its own for each label in a column of JSON objects."""
    found: dict[str, Floats] = {}
    parse: Callable[[str], dict[str, float]] = json.loads
    for row, text in enumerate(texts):
        for label, value in parse(text).items() if text is not None else ():
            found.setdefault(label, np.full(len(texts), np.nan))[row] = value
    return found
