"""Rows of finer windows merged into one: exact, and pure. Merging hours comes to the same as merging their minutes.

Increases, seconds and numbers of readings add up; means are weighed by their own readings; of maxima the largest stays;
histograms are added bucket by bucket. Quantiles do not merge: they are taken from the merged histograms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from exporters.histogram import Histogram, quantile
from exporters.schema import Scope
from monitor.history.columns import (
    COLUMNS,
    QUANTILE_COLUMNS,
    Column,
    CounterColumn,
    GaugeColumns,
    HistogramColumn,
)
from monitor.history.encoding import known_sum
from monitor.history.encoding import merge as merge_encoded
from monitor.history.storable import as_json

Rows = Mapping[str, Sequence[Any]]
"""One series' rows in order of time, column by column."""


def merged(scope: Scope, rows: Rows) -> dict[str, Any]:
    """By column, as rows are written: JSON as text."""
    found = {"samples": sum(rows["samples"]), "covered_seconds": math.fsum(rows["covered_seconds"])}
    if scope is not Scope.TARGET:
        found["increase_seconds"] = math.fsum(rows["increase_seconds"])
    for column in COLUMNS[scope]:
        found.update(zip(column.names, _merged(column, rows), strict=True))
    return found


def _merged(column: Column, rows: Rows) -> tuple[Any, ...]:
    if isinstance(column, GaugeColumns):
        return _gauge(column, rows)
    known = [value for value in rows[column.name] if value is not None]
    if not known:
        return (None,)
    if isinstance(column, CounterColumn):
        return (known_sum(known),)
    if isinstance(column, HistogramColumn):
        return (merge_encoded(known),)
    return (as_json(_added(known)),)


def _gauge(column: GaugeColumns, rows: Rows) -> tuple[Any, ...]:
    given = zip(*(rows[name] for name in (*column.names, "samples")), strict=True)
    read = [
        (mean, mean if maximum is None else maximum, samples if readings is None else readings)
        for mean, maximum, readings, samples in given
        if mean is not None and math.isfinite(mean)
    ]
    count = sum(readings for _, _, readings in read)
    if not count:
        return None, None, None
    maximum = max(maximum for _, maximum, _ in read)
    total = known_sum(mean * readings for mean, _, readings in read)
    if total is None:
        return None, None, None
    # Rounding lifts no mean above the largest reading.
    average = min(total / count, maximum)
    return average, None if maximum == average else maximum, None if count == sum(rows["samples"]) else count


def _added(increases: Iterable[Mapping[str, float]]) -> dict[str, float]:
    by_label: dict[str, list[float]] = {}
    for each in increases:
        for label, value in each.items():
            by_label.setdefault(label, []).append(value)
    sums = {label: known_sum(values) for label, values in by_label.items()}
    return {label: total for label, total in sums.items() if total is not None}


def quantiles(histograms: Mapping[str, Sequence[Histogram]]) -> dict[str, float | None]:
    """The columns of `QUANTILE_COLUMNS`, from all histograms of a server's window by phase."""
    found: dict[str, float | None] = dict.fromkeys(chain.from_iterable(c.names for c in QUANTILE_COLUMNS))
    for column in QUANTILE_COLUMNS:
        phase = column.phase
        told = quantile(histograms.get(phase.name, ()), column.q, phase.grid)
        if told is not None:
            upper = None if told.at_least else told.upper
            found.update(zip(column.names, (told.estimate, told.lower, upper), strict=True))
    return found
