"""Minutes as plain numbers: what conditions judge where no Prometheus does. Whoever has minutes fills these in."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from exporters.observation import Labels, labels

Key = tuple[str, Labels]
"""A metric and its own labels, those beside the identity."""


_DIGITS = 9
_LONE = 1.0
"""Seconds for which a reading stands that none came before."""


def key(metric: str, **own: str) -> Key:
    return metric, labels(own)


@dataclass(frozen=True, slots=True)
class Reading:
    average: float
    maximum: float


@dataclass(frozen=True, slots=True)
class Minute:
    """The window (start, start + seconds]: rows of an hour or a day may stand in for minutes long past.

    `counters` are increases over restarts, and the first event of a series that was born counts; of a histogram they
    are those of its `…_sum` and `…_count`. What was not observed is missing. `covered`: how many seconds its
    readings stand for.
    """

    start: int
    covered: float = 60.0
    gauges: Mapping[Key, Reading] = field(default_factory=dict)
    counters: Mapping[Key, float] = field(default_factory=dict)
    seconds: int = 60

    @property
    def end(self) -> int:
        return self.start + self.seconds


class SeriesRows:
    """The minutes of one engine, target, GPU or process of ours, with its identity and user labels."""

    def __init__(self, of: Labels, minutes: Iterable[Minute]) -> None:
        self.labels = of
        self.minutes = sorted(minutes, key=lambda m: m.start)
        self._starts = [m.start for m in self.minutes]
        self._ends = [m.end for m in self.minutes]
        self._sums: dict[tuple[Key, bool], tuple[list[float], list[float]]] = {}
        self.keys: frozenset[Key] = frozenset(k for m in self.minutes for k in (*m.gauges, *m.counters))

    def at(self, moment: int) -> Minute | None:
        """The row that ends there, or a longer one around it."""
        place = bisect_left(self._ends, moment)
        found = self.minutes[place] if place < len(self.minutes) else None
        return found if found is not None and found.start < moment else None

    def within(self, start: int, end: int) -> list[Minute]:
        return self.minutes[slice(*self._places(start, end))]

    def increase(self, of: Key, start: int, end: int) -> float | None:
        """None where it was never observed."""
        total, count = self._added(of, start, end, counter=True)
        return total if count else None

    def average(self, of: Key, start: int, end: int) -> float | None:
        """Over the time that was read, however often: at a constant interval that is the mean of all readings."""
        total, count = self._added(of, start, end, counter=False)
        # sums from the beginning leave dust, which must not decide at a limit
        return round(total / count, _DIGITS) if count else None

    def _places(self, start: int, end: int) -> tuple[int, int]:
        return bisect_left(self._starts, start), bisect_right(self._ends, end)

    def _added(self, of: Key, start: int, end: int, *, counter: bool) -> tuple[float, float]:
        first, last = self._places(start, end)
        totals, counts = self._sums.get((of, counter)) or self._sum_up(of, counter=counter)
        return (totals[last] - totals[first], counts[last] - counts[first]) if first < last else (0.0, 0.0)

    def _sum_up(self, of: Key, *, counter: bool) -> tuple[list[float], list[float]]:
        """Sums from the beginning to each row, so that a long window costs as little as a short one."""
        parts = [_counted(m, of) if counter else _read(m, of) for m in self.minutes]
        totals = list(accumulate((value for value, _ in parts), initial=0.0))
        counts = list(accumulate((count for _, count in parts), initial=0.0))
        return self._sums.setdefault((of, counter), (totals, counts))


def _counted(minute: Minute, of: Key) -> tuple[float, float]:
    return (minute.counters[of], 1.0) if of in minute.counters else (0.0, 0.0)


def _read(minute: Minute, of: Key) -> tuple[float, float]:
    found = minute.gauges.get(of)
    weight = max(minute.covered, _LONE)
    return (0.0, 0.0) if found is None else (found.average * weight, weight)


class MinuteRows:
    def __init__(self, series: Iterable[SeriesRows]) -> None:
        self.series = tuple(series)
        self._of_metric: defaultdict[str, list[tuple[Labels, SeriesRows, Key]]] = defaultdict(list)
        for each in self.series:
            for metric, own in sorted(each.keys):
                whole = tuple(sorted((*each.labels, *own)))
                self._of_metric[metric].append((whole, each, (metric, own)))

    def of(self, metric: str) -> list[tuple[Labels, SeriesRows, Key]]:
        """With all labels of each series of the metric."""
        return self._of_metric.get(metric, [])

    def ends(self) -> list[int]:
        """Of every minute that there is a row of."""
        return sorted({m.end for s in self.series for m in s.minutes})
