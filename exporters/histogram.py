"""Latency histograms: onto the fixed grid, merged, and read as quantiles with the bounds of what is known.

Counts are cumulative: `counts[i]` observations were <= `bounds[i]`, and the last count is that of +Inf.
Inside a bucket observations are taken as evenly spread, the assumption of PromQL's `histogram_quantile`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Histogram:
    """`bounds` are finite and ascending; `counts` is one longer, its last entry being the total."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float | None = None

    @property
    def count(self) -> float:
        return self.counts[-1]

    @property
    def overflow(self) -> float:
        """Observations beyond the largest finite bound."""
        return self.counts[-1] - self.counts[-2] if self.bounds else self.counts[-1]

    def is_monotone(self) -> bool:
        return all(a <= b for a, b in pairwise(self.counts))


@dataclass(frozen=True, slots=True)
class Quantile:
    """The true quantile lies in [lower, upper]; `upper` is infinite where it lies beyond the largest bound."""

    estimate: float
    lower: float
    upper: float

    @property
    def at_least(self) -> bool:
        return math.isinf(self.upper)


class Projection:
    """Puts counts at `native` bounds on `grid`, compiled once per pair.

    Between two native bounds a grid point takes its linear share, so counts stay monotone in `le` and in time and a
    native bound that is on the grid keeps its exact count. Beyond the largest native bound nothing is known: the
    first grid point above it takes the overflow.
    """

    __slots__ = ("_steps",)

    def __init__(self, native: tuple[float, ...], grid: tuple[float, ...]) -> None:
        self._steps = tuple(_step(native, g) for g in grid)

    def apply(self, counts: Sequence[float]) -> list[float]:
        """Cumulative counts at the grid's bounds, +Inf not included."""
        return [
            counts[high]
            if low == high
            else (counts[low] + (counts[high] - counts[low]) * share if low >= 0 else counts[high] * share)
            for low, high, share in self._steps
        ]


def _step(native: tuple[float, ...], point: float) -> tuple[int, int, float]:
    """(index below, index at or above, share of the bucket between them); -1 stands for a count of 0 at bound 0."""
    high = bisect_left(native, point)
    if high == len(native) or native[high] == point:
        return high, high, 1.0
    if high == 0:
        # PromQL takes 0 as the lower edge of the first bucket when its bound is positive.
        return (-1, 0, point / native[0]) if native[0] > 0 else (-1, 0, 0.0)
    low_bound, high_bound = native[high - 1], native[high]
    return high - 1, high, (point - low_bound) / (high_bound - low_bound)


@lru_cache(maxsize=1024)
def projection(native: tuple[float, ...], grid: tuple[float, ...]) -> Projection:
    return Projection(native, grid)


def on_grid(histogram: Histogram, grid: tuple[float, ...]) -> Histogram:
    if histogram.bounds == grid:
        return histogram
    counts = projection(histogram.bounds, grid).apply(histogram.counts)
    return Histogram(grid, (*counts, histogram.count), histogram.sum)


def add(a: Histogram, b: Histogram) -> Histogram:
    """Raises ValueError where the bounds differ: such counts have no common `le` (put both on the grid first)."""
    if a.bounds != b.bounds:
        raise ValueError(f"histograms with different bounds do not add: {a.bounds} and {b.bounds}")
    counts = tuple(x + y for x, y in zip(a.counts, b.counts, strict=True))
    return Histogram(a.bounds, counts, None if a.sum is None or b.sum is None else a.sum + b.sum)


def add_up(histograms: Sequence[Histogram]) -> list[Histogram]:
    """One histogram for each set of bounds that occurs, in order of first sight: an exact merge."""
    merged: dict[tuple[float, ...], Histogram] = {}
    for h in histograms:
        known = merged.get(h.bounds)
        merged[h.bounds] = h if known is None else add(known, h)
    return list(merged.values())


def quantile(histograms: Sequence[Histogram], q: float, grid: tuple[float, ...]) -> Quantile | None:
    """The `q` quantile over all observations of `histograms`, whose native bounds may differ; None without any.

    The bounds hold for the nearest-rank definition and for linear interpolation between neighbours alike: they
    enclose the order statistics floor(q (n-1)) + 1 and the next. The estimate interpolates as PromQL does: in the
    native buckets where all histograms share them, else on the grid; it never leaves the bounds. In the overflow it is
    the largest bound, as in PromQL: read it as "at least".
    """
    parts = add_up([h for h in histograms if h.count > 0])
    total = sum(h.count for h in parts)
    if total <= 0:
        return None
    first = math.floor(q * (total - 1)) + 1
    last = min(first + 1, total)
    if len(parts) == 1:
        only = parts[0]
        lower, upper = _enclose(only.bounds, only.counts, only.counts, first, last)
        return Quantile(_clip(_interpolate(only, q * total), lower, upper), lower, upper)
    bounds = tuple(sorted({b for h in parts for b in h.bounds}))
    at_least = [sum(_known_below(h, b) for h in parts) for b in bounds]
    at_most = [sum(_possible_below(h, b) for h in parts) for b in bounds]
    lower, upper = _enclose(bounds, at_least, at_most, first, last)
    projected = [on_grid(h, grid) for h in parts]
    merged = Histogram(grid, tuple(sum(column) for column in zip(*(h.counts for h in projected), strict=True)))
    return Quantile(_clip(_interpolate(merged, q * total), lower, upper), lower, upper)


def _enclose(
    bounds: Sequence[float], at_least: Sequence[float], at_most: Sequence[float], first: float, last: float
) -> tuple[float, float]:
    lower = 0.0
    for bound, count in zip(bounds, at_most, strict=False):
        if count >= first:
            break
        lower = bound
    upper = next((b for b, count in zip(bounds, at_least, strict=False) if count >= last), math.inf)
    return min(lower, upper), upper


def _known_below(h: Histogram, bound: float) -> float:
    """Observations certainly <= bound."""
    i = bisect_right(h.bounds, bound) - 1
    return h.counts[i] if i >= 0 else 0.0


def _possible_below(h: Histogram, bound: float) -> float:
    """Observations possibly <= bound."""
    return h.counts[bisect_left(h.bounds, bound)]


def _interpolate(h: Histogram, rank: float) -> float:
    i = bisect_left(h.counts, rank)
    if i >= len(h.bounds):
        return h.bounds[-1] if h.bounds else 0.0
    low_bound = h.bounds[i - 1] if i else 0.0
    low_count = h.counts[i - 1] if i else 0.0
    if i == 0 and h.bounds[0] <= 0:
        return h.bounds[0]
    width = h.counts[i] - low_count
    return h.bounds[i] if width <= 0 else low_bound + (h.bounds[i] - low_bound) * (rank - low_count) / width


def _clip(value: float, lower: float, upper: float) -> float:
    return min(max(value, lower), upper)
