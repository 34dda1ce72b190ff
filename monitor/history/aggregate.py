"""What the rows of several series and windows come to as one number per cell: pure.

A cell is one group in one step. First the windows of each series are merged, then the series, so that it does not
matter whether minutes, hours or days are read.

- A series' mean over the step is that of all its readings.
- Additive gauges (requests, tokens, counts) add up over the series, each for the share of the observed time in which
  it was there. Ratios, seconds and flags are averaged by time, utilisation also by capacity where it is known of all.
- Rates: the increases of all series by the observed time. A counter that is there at any time of a step counts for all
  of the step's observed time.
- The observed time is, window by window, that of the series that was observed for longest, or more where series
  followed upon each other.
- A hit ratio is hits by queries wherever both were counted.
- Quantiles come from merged histograms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from exporters.schema import PHASE_OF_METRIC, Unit
from monitor.history.packed import Floats, Ints, add_up
from monitor.history.quantiles import quantiles
from monitor.history.question import Aggregation, Question

Bounds = Mapping[int, tuple[float, ...]]
"""Of histograms, by id."""

ADDITIVE_UNITS = (Unit.REQUESTS, Unit.TOKENS, Unit.COUNT, Unit.BYTES, Unit.WATTS, Unit.JOULES)
"""Units of gauges whose sum over servers means something."""

_NEARLY_ALL = 0.99
"""Of a window: who was observed for that long, was observed all the time."""


@dataclass(frozen=True, slots=True)
class Lives:
    """When each series was seen first and last, by its number; infinite where that is not known."""

    first: Floats
    last: Floats


@dataclass(frozen=True, slots=True)
class Entries:
    """Values of rows in parallel, in order of series and time. A NaN of `weight` is "not known"."""

    cell: Ints
    row: Ints
    series: Ints
    start: Ints
    length: Ints
    """Of the row's window."""
    value: NDArray[np.object_] | Floats
    readings: Floats
    seconds: Floats
    """The time that the value stands for."""
    weight: Floats

    @property
    def numbers(self) -> Floats:
        """The values, where they are numbers."""
        return self.value.astype(np.float64, copy=False)

    def of(self, chosen: NDArray[np.bool_] | Ints) -> Entries:
        return Entries(
            self.cell[chosen], self.row[chosen], self.series[chosen], self.start[chosen], self.length[chosen],
            self.value[chosen], self.readings[chosen], self.seconds[chosen], self.weight[chosen],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Told:
    """Of each cell; NaN where there is nothing to tell. Only quantiles have bounds, the upper one may be infinite."""

    value: Floats
    lower: Floats | None = None
    upper: Floats | None = None


def aggregate(asked: Question, entries: Entries, cells: int, lives: Lives, bounds: Bounds) -> Told:
    """`cells` is how many there are; `bounds` are those of histograms, by id."""
    match asked.aggregation:
        case Aggregation.QUANTILE:
            merged = add_up(entries.value.tolist(), entries.cell, bounds)
            return Told(*quantiles(merged, asked.q or 0.0, PHASE_OF_METRIC[asked.metric.name].grid, cells))
        case Aggregation.MAXIMUM:
            return Told(_maxima(entries.cell, entries.numbers, cells))
        case Aggregation.SUM:
            return Told(_or_nan(entries.cell, entries.numbers, cells))
        case Aggregation.RATE:
            increase = _sums(entries.cell, entries.numbers, cells)
            return Told(_divided(increase, _observed(entries, cells, lives)))
        case Aggregation.AVERAGE:
            return Told(_means(asked, entries, cells, lives))


def ratios(cell: Ints, part: Floats, whole: Floats, cells: int) -> Floats:
    """Part by whole of each cell."""
    return _divided(_sums(cell, part, cells), _sums(cell, whole, cells))


def _means(asked: Question, entries: Entries, cells: int, lives: Lives) -> Floats:
    if not len(entries.cell):
        return np.full(cells, np.nan)
    # Of a cell that was only glimpsed, each reading by itself, the readings say who was there for longest.
    seconds = _sums(entries.cell, entries.seconds, cells)
    timed = replace(entries, seconds=np.where(seconds[entries.cell] > 0, entries.seconds, entries.readings))
    merged = _by_series(timed)
    if asked.metric.unit in ADDITIVE_UNITS:
        share = merged.seconds / _observed(timed, cells, lives)[merged.cell]
        return _or_nan(merged.cell, merged.numbers * share, cells)
    known = ~np.isnan(merged.weight) & (merged.weight > 0)
    all_known = _sums(merged.cell, ~known, cells) == 0
    weight = merged.seconds * np.where(all_known[merged.cell], merged.weight, 1.0)
    return _divided(_sums(merged.cell, merged.numbers * weight, cells), _sums(merged.cell, weight, cells))


def _by_series(entries: Entries) -> Entries:
    """One for each series and cell: its mean over all readings, and the sum of the time it stands for."""
    of, first = _numbered(entries.cell, entries.series)
    readings, seconds = (_sums(of, each, len(first)) for each in (entries.readings, entries.seconds))
    value, weight = (_sums(of, each * entries.readings, len(first)) for each in (entries.numbers, entries.weight))
    return replace(
        entries.of(first), value=value / readings, readings=readings, seconds=seconds, weight=weight / readings
    )


def _numbered(cells: Ints, others: Ints) -> tuple[Ints, Ints]:
    """The number of each pair among those that there are, in order, and where each is met first."""
    least = others.min()
    keys = cells * (others.max() - least + 1) + others - least
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return which, first


def _observed(entries: Entries, cells: int, lives: Lives) -> Floats:
    """Seconds in which any series of each cell was observed: of its windows together, but not less than of any series.

    What increased in a minute may have taken longer than that, from the end of the minute before.
    """
    if not len(entries.cell):
        return np.zeros(cells)
    # Increases under several values of an own label took the same time.
    once = entries.of(_numbered(entries.cell, entries.row)[1])
    which, first = _numbered(once.cell, once.series)
    of_one = _maxima(once.cell[first], _sums(which, once.seconds, len(first)), cells)
    which, first = _numbered(once.cell, once.start)
    windows = _of_windows(replace(once, seconds=np.minimum(once.seconds, once.length)), which, first, lives)
    return np.fmax(_sums(once.cell[first], windows, cells), of_one)


def _of_windows(entries: Entries, which: Ints, first: Ints, lives: Lives) -> Floats:
    """Seconds in which any series was observed, of each window; `which` says which one each entry is in."""
    longest, total = _maxima(which, entries.seconds, len(first)), _sums(which, entries.seconds, len(first))
    unclear = (longest < entries.length[first] * _NEARLY_ALL) & (longest < total)
    for window in np.flatnonzero(unclear):
        longest[window] = max(longest[window], _spread(entries.of(which == window), lives))
    return longest


def _spread(window: Entries, lives: Lives) -> float:
    """Seconds that series were observed in one window, each taken as observed evenly for as long as it lived in it."""
    start, end = window.start[0], window.start[0] + window.length[0]
    first, last = (np.clip(edge[window.series], start, end) for edge in (lives.first, lives.last))
    lived = np.maximum(last - first, window.seconds)
    density = np.divide(window.seconds, lived, out=np.zeros(len(lived)), where=lived > 0)
    edges = np.unique([start, *first, *last, end])
    alive = ((density[(first <= a) & (b <= last)], b - a) for a, b in pairwise(edges))
    return float(sum(densities.max() * length for densities, length in alive if len(densities)))


def _sums(of: Ints, value: Floats | NDArray[np.bool_], many: int) -> Floats:
    return np.bincount(of, value, many).astype(np.float64)


def _maxima(of: Ints, value: Floats, many: int) -> Floats:
    found = np.full(many, np.nan)
    np.fmax.at(found, of, value)
    return found


def _or_nan(of: Ints, value: Floats, many: int) -> Floats:
    """Sums; NaN of what has no value."""
    return np.where(np.bincount(of, minlength=many) > 0, _sums(of, value, many), np.nan)


def _divided(part: Floats, whole: Floats) -> Floats:
    """NaN where the whole is nothing."""
    found = np.full(len(whole), np.nan)
    np.divide(part, whole, out=found, where=whole > 0)
    return found
