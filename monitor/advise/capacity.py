"""How many more requests a second an objective allows, from the curve of what was measured. Pure.

Stretches of time are sorted by their rate of requests and put into bins of as many requests each. The share of
requests that missed the objective's threshold may only rise with the rate: the bins are levelled until it does (the
pooling of isotonic regression). Where it passes the objective's budget, between two bins, the capacity lies. The
interval comes from blocks of stretches that are drawn anew, as that of a comparison does. It takes in both bins: a
queue has a knee, and how the curve bends between them nobody has seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from alerts.conditions.condition import Limit
from monitor.compare.bootstrap import draws, likeness
from monitor.history.packed import Floats, Ints

LEAST_STRETCHES = Limit(
    "stretches with requests, at least", 60, "", "an hour of minutes, or two and a half days of hours"
)
LEAST_REQUESTS = Limit("requests, at least", 1000, "", "a share of a hundredth is ten of them")
LEAST_BINS, MOST_BINS, STRETCHES_OF_BIN = 10, 40, 6
"""As many as there are stretches for, so that bins are near each other."""
BEYOND = Limit("beyond the highest rate seen at most, times", 1.25, "", "a queue has a knee, and no line tells where")
APPROACHED = Limit(
    "of the budget, spent at the highest rate, at least", 0.5, "ratio", "else the curve says nothing of where it ends"
)
_SEED = 7


@dataclass(frozen=True, slots=True)
class Measured:
    """Stretches of time in order, in parallel: requests that were judged, those that were too slow, and seconds."""

    requests: Floats
    slow: Floats
    seconds: Floats

    def of(self, chosen: NDArray[np.bool_] | Ints) -> Measured:
        return Measured(self.requests[chosen], self.slow[chosen], self.seconds[chosen])

    @property
    def rate(self) -> Floats:
        return self.requests / self.seconds


@dataclass(frozen=True, slots=True)
class Point:
    """Of the curve: requests a second, and which share of them was too slow."""

    rate: float
    share: float
    requests: float


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests a second at which the budget is just spent: with the interval that 95 of 100 of its like hold.

    `value` is infinite where the threshold was never approached: at least `seen`. An `extrapolated` one lies beyond.
    """

    value: float
    low: float
    high: float
    seen: float
    extrapolated: bool


@dataclass(frozen=True)
class Capacity:
    """Of one group of one objective. `now` is the rate at the end of the window."""

    slo: str
    labels: Mapping[str, str]
    since: int
    until: int
    stretch: int
    """Seconds: a minute or an hour."""
    now: float
    budget: float
    curve: tuple[Point, ...]
    limits: Limits

    @property
    def more(self) -> tuple[float, float, float]:
        """Requests a second beyond those of now: the estimate, and between what it lies. Below 0 there are too many."""
        limits = self.limits
        return limits.value - self.now, limits.low - self.now, limits.high - self.now


def lacking(measured: Measured) -> str:
    """What is missing for a curve, "" where nothing is."""
    busy = int((measured.requests > 0).sum())
    if busy < LEAST_STRETCHES.value:
        return f"{LEAST_STRETCHES.value:.0f} minutes or hours with requests; there are {busy}"
    if measured.requests.sum() < LEAST_REQUESTS.value:
        return f"{LEAST_REQUESTS.value:.0f} requests; there are {measured.requests.sum():.0f}"
    return ""


def limits_of(measured: Measured, budget: float) -> tuple[Limits, tuple[Point, ...]]:
    busy = measured.of(measured.requests > 0)
    bins = _bins(busy)
    columns = _by_bin(busy, bins)
    curve = _curve(columns.sum(axis=0))
    value = _crossing(curve, budget)
    low, high = _interval(columns, likeness(_unlike_its_bin(busy, bins)), budget)
    limits = Limits(value, min(low, value), max(high, value), curve[-1].rate, curve[-1].rate < value < math.inf)
    return limits, curve


def _bins(busy: Measured) -> Ints:
    """Of each stretch: bins of about as many requests, by rate."""
    many = min(max(len(busy.requests) // STRETCHES_OF_BIN, LEAST_BINS), MOST_BINS)
    order = np.argsort(busy.rate, kind="stable")
    so_far = np.cumsum(busy.requests[order]) - busy.requests[order] / 2
    found = np.empty(len(order), np.int64)
    found[order] = np.minimum(so_far / busy.requests.sum() * many, many - 1).astype(np.int64)
    return found


def _by_bin(busy: Measured, bins: Ints) -> Floats:
    """A line for each stretch: requests of each bin, slow ones, and seconds."""
    many = int(bins.max()) + 1
    found = np.zeros((len(bins), 3 * many))
    for column, values in enumerate((busy.requests, busy.slow, busy.seconds)):
        found[np.arange(len(bins)), column * many + bins] = values
    return found


def _unlike_its_bin(busy: Measured, bins: Ints) -> Floats:
    """By how much the share of slow requests in each stretch is above that of its bin."""
    requests, slow = (np.bincount(bins, values) for values in (busy.requests, busy.slow))
    return busy.slow / busy.requests - slow[bins] / requests[bins]


def _curve(sums: Floats) -> tuple[Point, ...]:
    """Of sums of requests, slow ones and seconds by bin: the shares are levelled until they rise with the rate."""
    bins = [each for each in sums.reshape(3, -1).T.tolist() if each[0]]
    pools: list[tuple[float, float, int]] = []
    for requests, slow, _ in bins:
        pool = requests, slow, 1
        while pools and pools[-1][1] * pool[0] > pool[1] * pools[-1][0]:
            before = pools.pop()
            pool = before[0] + pool[0], before[1] + pool[1], before[2] + pool[2]
        pools.append(pool)
    shares = [slow / requests for requests, slow, many in pools for _ in range(many)]
    return tuple(Point(n / seconds, share, n) for (n, _, seconds), share in zip(bins, shares, strict=True))


def _crossing(curve: tuple[Point, ...], budget: float) -> float:
    """The rate at which the share passes the budget; infinite where that is not in sight."""
    if curve[0].share >= budget:
        return curve[0].rate * budget / curve[0].share
    for a, b in pairwise(curve):
        if b.share >= budget:
            return a.rate + (b.rate - a.rate) * (budget - a.share) / (b.share - a.share)
    return _beyond(curve, budget)


def _beyond(curve: tuple[Point, ...], budget: float) -> float:
    """On the line through the highest point and the nearest below it; not further than is honest."""
    last = curve[-1]
    lower = next((point for point in reversed(curve) if point.share < last.share), None)
    if lower is None or last.share < APPROACHED.value * budget:
        return math.inf
    found = last.rate + (last.rate - lower.rate) * (budget - last.share) / (last.share - lower.share)
    return found if found <= BEYOND.value * last.rate else math.inf


def _between(curve: tuple[Point, ...], budget: float) -> tuple[float, float]:
    """The rates between which the share passes the budget, whatever the curve is like there."""
    above = next((n for n, point in enumerate(curve) if point.share >= budget), None)
    if above is None:
        return curve[-1].rate, _beyond(curve, budget)
    return curve[above - 1].rate if above else 0.0, curve[above].rate


def _interval(columns: Floats, alike: float, budget: float) -> tuple[float, float]:
    """Of the crossing; from 0 on where there are too few stretches to draw from."""
    drawn = draws(len(columns), 1, _SEED, alike=alike)
    if drawn is None:
        return 0.0, math.inf
    found = np.array([_between(_curve(sums), budget) for sums in drawn.sums(columns)])
    return drawn.interval(found[:, 0], found[:, 1]) or (0.0, math.inf)
