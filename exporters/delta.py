"""Reset-aware differences of cumulative readings: the one place that turns counters into increases.

A step from one reading to the next adds, per series and before any sum:

- the difference, where the value did not fall;
- the value itself, where it fell (a counter reset) or where the process is another one;
- nothing at the first sight of a series, which is only a base line, unless it is known to have begun at zero: then
  the value itself.

A series is known to have begun at zero if the reading that shows it first proves absence, and so did an earlier one of
the same process, e.g. of an empty page; or instead of the earlier one the process started inside the window or is
another one than before.

An increase belongs to the moment of the later reading, so increases summed over a window equal "last value at or
before its end minus last value at or before its start".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

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
    fallen: frozenset[str] = frozenset()
    """Metrics of which a series fell."""
    seconds: float | None = None
    """Time since the reading before; None for the first."""


class Deltas:
    """Follows one target. `advance` takes its successive successful readings, in order of time."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._start: float | None = None
        self._values: dict[Series, float] = {}
        self._histograms: dict[Series, Histogram] = {}
        self._knows_zero = False

    @property
    def knows_zero(self) -> bool:
        """Whether all that the process counts, and that was not read so far, stood at zero at some reading."""
        return self._knows_zero

    def advance(
        self,
        at: float,
        values: Mapping[Series, float],
        histograms: Mapping[Series, Histogram],
        *,
        start_time: float | None = None,
        window_start: float | None = None,
        proves_absence: bool = True,
    ) -> Increase:
        """`values` are counters only. A process that started after `window_start` counts from zero at first sight.

        `proves_absence`: whether what is not in this reading is not there, see `Observation.proves_absence`.
        A reading that is not later than the one before is ignored: it adds nothing and keeps the base line.
        """
        if self._at is not None and at <= self._at:
            return Increase(seconds=0.0)
        restarted = is_another_process(self._start, start_time)
        born_inside = start_time is not None and window_start is not None and start_time >= window_start
        self._knows_zero |= restarted or born_inside
        how = _How(restarted, from_zero=self._knows_zero and proves_absence)
        added, fallen = _increases(values, self._values, _difference, how)
        added_histograms, more = _increases(histograms, self._histograms, subtract, how)
        fallen |= more
        if restarted:
            self._values, self._histograms = {}, {}
        self._knows_zero |= proves_absence
        seconds = None if self._at is None else at - self._at
        self._at = at
        self._start = self._start if start_time is None else start_time
        self._values.update(values)
        self._histograms.update(histograms)
        return Increase(added, added_histograms, restarted or bool(fallen), fallen, seconds)


class _How(NamedTuple):
    restarted: bool
    from_zero: bool
    """At first sight all counts, not nothing."""


def _increases(
    now: Mapping[Series, T], before: Mapping[Series, T], difference: Callable[[T, T], T | None], how: _How
) -> tuple[dict[Series, T], frozenset[str]]:
    """What was added by series, and the metrics of those that fell."""
    added: dict[Series, T] = {}
    fallen: set[str] = set()
    for series, value in now.items():
        known = before.get(series)
        if known is None:
            if how.from_zero:
                added[series] = value
            continue
        step = None if how.restarted else difference(value, known)
        if step is None and not how.restarted:
            fallen.add(series.metric)
        added[series] = value if step is None else step
    return added, frozenset(fallen)


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
