"""What several series and minutes come to as one number: pure.

- Additive gauges (requests, tokens, counts) add up over the series of a minute; ratios, seconds and flags are averaged,
  utilisation by capacity where it is known of all. Minutes are then averaged by their number of readings.
- Rates add up over the series of a minute; minutes are averaged by the time in which their increases came about, so
  the rate of one series is its increase by that time.
- A hit ratio is hits by queries wherever both were counted.
- Quantiles come from merged histograms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from exporters.histogram import Histogram, quantile
from exporters.schema import PHASE_OF_METRIC, Metric, Unit
from monitor.history.question import Aggregation, Question

ADDITIVE_UNITS = (Unit.REQUESTS, Unit.TOKENS, Unit.COUNT, Unit.BYTES, Unit.WATTS, Unit.JOULES)
"""Units of gauges whose sum over servers means something."""


@dataclass(frozen=True, slots=True)
class Fraction:
    """A ratio with what it is made of."""

    part: float
    whole: float


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of one series and minute."""

    series: int
    start: int
    covered_seconds: float
    samples: float
    increase_seconds: float
    value: float | Fraction | list[Histogram]
    weight: float | None = None
    """Of a ratio among others of the same minute, where it is known."""


@dataclass(frozen=True, slots=True)
class Value:
    value: float
    lower: float | None = None
    upper: float | None = None
    """Infinite where nothing is known above `lower`."""


def aggregate(question: Question, cells: Sequence[Cell]) -> Value | None:
    """None where there is nothing to tell, such as a quantile of no requests."""
    return _ways(question)[question.aggregation](cells)


def _ways(question: Question) -> dict[Aggregation, Callable[[Sequence[Cell]], Value | None]]:
    return {
        Aggregation.AVERAGE: partial(_average, question.metric),
        Aggregation.MAXIMUM: lambda cells: Value(max(_numbers(cells))),
        Aggregation.SUM: lambda cells: Value(_sum(cells)),
        Aggregation.RATE: _rate,
        Aggregation.QUANTILE: partial(_quantile, question.metric, question.q or 0.0),
    }


def _average(metric: Metric, cells: Sequence[Cell]) -> Value | None:
    fractions = [c.value for c in cells if isinstance(c.value, Fraction)]
    if fractions:
        whole = sum(f.whole for f in fractions)
        return Value(sum(f.part for f in fractions) / whole) if whole else None
    merged = _sum if metric.unit in ADDITIVE_UNITS else _weighted_mean
    minutes = [(merged(same), max(c.samples for c in same)) for same in _by_minute(cells)]
    return _mean_over_time(minutes)


def _sum(cells: Sequence[Cell]) -> float:
    return sum(_numbers(cells))


def _weighted_mean(cells: Sequence[Cell]) -> float:
    weights = [c.weight or 0.0 for c in cells]
    if not all(weights):
        weights = [1.0] * len(cells)
    return sum(v * w for v, w in zip(_numbers(cells), weights, strict=True)) / sum(weights)


def _rate(cells: Sequence[Cell]) -> Value | None:
    """The increase of a series in a minute may come in several cells, one for each value of an own label."""
    timed = [c for c in cells if c.increase_seconds > 0]
    minutes = [
        (
            sum(v / c.increase_seconds for c, v in zip(same, _numbers(same), strict=True)),
            max(c.increase_seconds for c in same),
        )
        for same in _by_minute(timed)
    ]
    return _mean_over_time(minutes)


def _mean_over_time(minutes: Sequence[tuple[float, float]]) -> Value | None:
    """Of (value, weight)."""
    weight = sum(w for _, w in minutes)
    return Value(sum(v * w for v, w in minutes) / weight) if weight else None


def _quantile(metric: Metric, q: float, cells: Sequence[Cell]) -> Value | None:
    histograms = [h for c in cells if isinstance(c.value, list) for h in c.value]
    found = quantile(histograms, q, PHASE_OF_METRIC[metric.name].grid)
    return None if found is None else Value(found.estimate, found.lower, found.upper)


def _by_minute(cells: Iterable[Cell]) -> Iterable[list[Cell]]:
    minutes: defaultdict[int, list[Cell]] = defaultdict(list)
    for cell in cells:
        minutes[cell.start].append(cell)
    return minutes.values()


def _numbers(cells: Iterable[Cell]) -> list[float]:
    return [c.value for c in cells if isinstance(c.value, float | int)]


def covered(cells: Iterable[Cell]) -> tuple[float, int]:
    """Seconds observed, on average over the series that have any; and how many those are."""
    seconds: dict[tuple[int, int], float] = {(c.series, c.start): c.covered_seconds for c in cells}
    series = {of for of, _ in seconds}
    return sum(seconds.values()) / len(series), len(series)
