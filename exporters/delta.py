"""Reset-aware differences of cumulative readings: the one place that turns counters into increases.

A step from one reading to the next adds, per series and before any sum:

- the difference, where the value did not fall;
- the value itself, where it fell (a counter reset) or where the process is another one;
- nothing at the first sight of a series, which is only a base line, unless the process started inside the window or
  the series was absent from an earlier successful reading of the same process, e.g. of an empty page: then the value
  itself.

An increase belongs to the moment of the later reading, so increases summed over a window equal "last value at or
before its end minus last value at or before its start".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from exporters.histogram import Histogram
from exporters.observation import Series

T = TypeVar("T", float, Histogram)

_SAME_START_SECONDS = 1.0
"""Start times are derived from clock ticks and boot time and may differ by rounding between reads."""


@dataclass(frozen=True, slots=True)
class Increase:
    """What was added between two readings; a series without a base line is absent, not 0."""

    values: dict[Series, float] = field(default_factory=dict)
    histograms: dict[Series, Histogram] = field(default_factory=dict)
    restarted: bool = False
    resets: int = 0
    seconds: float | None = None
    """Time since the reading before; None for the first."""


class Deltas:
    """Follows one target. `advance` takes its successive successful readings, in order of time."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._start: float | None = None
        self._values: dict[Series, float] = {}
        self._histograms: dict[Series, Histogram] = {}

    def advance(
        self,
        at: float,
        values: Mapping[Series, float],
        histograms: Mapping[Series, Histogram],
        *,
        start_time: float | None = None,
        window_start: float | None = None,
    ) -> Increase:
        """`values` are counters only. A process that started after `window_start` counts from zero at first sight.

        A reading that is not later than the one before is ignored: it adds nothing and keeps the base line.
        """
        if self._at is not None and at <= self._at:
            return Increase(seconds=0.0)
        first = self._at is None
        restarted = not first and is_another_process(self._start, start_time)
        if restarted:
            self._values, self._histograms = {}, {}
        born_inside = start_time is not None and window_start is not None and start_time >= window_start
        from_zero = born_inside or not first
        added, resets = _increases(values, self._values, _difference, from_zero=from_zero)
        added_histograms, more = _increases(histograms, self._histograms, subtract, from_zero=from_zero)
        resets += more
        seconds = None if self._at is None else at - self._at
        self._at = at
        self._start = self._start if start_time is None else start_time
        self._values.update(values)
        self._histograms.update(histograms)
        return Increase(added, added_histograms, restarted or resets > 0, resets, seconds)


def _increases(
    now: Mapping[Series, T],
    before: Mapping[Series, T],
    difference: Callable[[T, T], T | None],
    *,
    from_zero: bool,
) -> tuple[dict[Series, T], int]:
    """What was added by series, and how many of them were reset; at first sight all, or with a base line nothing."""
    added: dict[Series, T] = {}
    resets = 0
    for series, value in now.items():
        known = before.get(series)
        if known is not None:
            step = difference(value, known)
            resets += step is None
            added[series] = value if step is None else step
        elif from_zero:
            added[series] = value
    return added, resets


def _difference(later: float, earlier: float) -> float | None:
    return later - earlier if later >= earlier else None


def subtract(later: Histogram, earlier: Histogram) -> Histogram | None:
    """None where it is a reset: a bucket's own count fell or the bounds are others."""
    if later.bounds != earlier.bounds:
        return None
    counts = tuple(a - b for a, b in zip(later.counts, earlier.counts, strict=True))
    total = None if later.sum is None or earlier.sum is None else max(later.sum - earlier.sum, 0.0)
    added = Histogram(later.bounds, counts, total)
    return added if counts[0] >= 0 and added.is_monotone() else None


def is_another_process(before: float | None, now: float | None) -> bool:
    return before is not None and now is not None and abs(now - before) > _SAME_START_SECONDS
