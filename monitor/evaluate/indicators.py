"""From rows to good, bad, unknown and certainly bad requests or minutes: the definitions of `alerts.rules`, in numbers.

A key is a group and a cell as one number. A row of an hour answers for its minutes only where these would come to the
same; which rows do not, `blurred` says.
"""

from __future__ import annotations

import json
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alerts.burn import HOUR, MINUTE, SLICE
from alerts.rules.availability import BAD, GOOD, SUCCESSES_ALONE, UNKNOWN
from alerts.rules.latency import QUEUED_BEFORE_THE_CLOCK
from alerts.slo import sticking
from alerts.slo.spec import LatencyBelow, Slo, TimeSlices
from alerts.slo.thresholds import REACH
from exporters.schema import PHASES
from monitor.evaluate.members import Members
from monitor.evaluate.plausible import counted
from monitor.history.cells import Columns
from monitor.history.columns import STORED, GaugeColumns
from monitor.history.packed import Floats, Ints, Merged, add_up

Flags = NDArray[np.bool_]
Bounds = Mapping[int, tuple[float, ...]]
KINDS = ("good", "bad", "unknown", "certainly_bad")
_WAITING, _UNFINISHED, _REJECTED = "requests_waiting_api_max", "requests_unfinished_avg", "requests_rejected"
_HELD: dict[str, Callable[[Floats, float], Any]] = {
    "below": operator.lt, "at_most": operator.le, "above": operator.gt, "at_least": operator.ge,
}  # fmt: skip
_ACROSS = {"max": np.fmax, "min": np.fmin}
_MOMENTS = 10**9
"""More than there are minutes since 1970."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Of engines, in order of series and time. `key` is below 0 where a row only is the one before another."""

    members: Members
    columns: Columns
    key: Ints
    keys: int
    bounds: Bounds
    restarts: Sequence[tuple[int, float]] = ()
    """Targets by number, and when they restarted."""

    @property
    def start(self) -> Ints:
        return self.columns["start"]

    @property
    def length(self) -> Ints:
        return self.columns["length"]

    @property
    def target(self) -> Ints:
        return self.members.engine_target[self.columns["series"]]

    @property
    def is_hour(self) -> Flags:
        found: Flags = self.length == HOUR
        return found

    def sums(self, value: Floats) -> Floats:
        """By key; what is not known adds nothing."""
        known = ~np.isnan(value) & (self.key >= 0)
        return np.bincount(self.key[known], value[known], self.keys).astype(np.float64)


class Judge(ABC):
    columns: tuple[str, ...]
    """Of the rows of engines."""
    lead_seconds = 0
    """How far back the row before may lie, where one is needed."""

    @abstractmethod
    def blurred(self, rows: Rows) -> Flags: ...

    @abstractmethod
    def count(self, rows: Rows) -> Floats:
        """`KINDS` by key."""


def judge_of(slo: Slo, members: Members) -> Judge:
    indicator = slo.indicator
    if indicator.latency:
        return Latency(indicator.latency)
    return Slices(indicator.slices, members) if indicator.slices else Available(members)


class Latency(Judge):
    def __init__(self, indicator: LatencyBelow) -> None:
        self._below = indicator.below
        self._histogram = f"{indicator.phase}_histogram"
        self._queues_at = QUEUED_BEFORE_THE_CLOCK.get(indicator.phase)
        self._grid = PHASES[indicator.phase].grid
        self.columns = (self._histogram, *([_WAITING] if self._queues_at else ()))

    def blurred(self, rows: Rows) -> Flags:
        return self._waiting(rows) & rows.is_hour

    def count(self, rows: Rows) -> Floats:
        values = rows.columns[self._histogram]
        known = np.array([value is not None for value in values], bool) & (rows.key >= 0)
        queued = self._queued(rows)
        found = np.zeros((len(KINDS), rows.keys))
        for merged in _merged(rows, values, known & ~queued):
            total, good, certain = self._told(merged)
            found[0, merged.cells] += good
            found[1, merged.cells] += total - good
            found[3, merged.cells] += certain
        for merged in _merged(rows, values, known & queued):
            found[2, merged.cells] += merged.counts[:, -1]
        return found

    def _told(self, merged: Merged) -> tuple[Floats, Floats, Floats]:
        """All, those up to the threshold as the grid has them, and those that are certainly beyond it."""
        total, bounds = merged.counts[:, -1], merged.bounds
        own = next((n for n, bound in enumerate(bounds) if self._is_own(bound)), len(bounds))
        certain = total - merged.counts[:, own]
        high = int(np.searchsorted(bounds, self._below))
        if high == len(bounds):  # the first bound of the grid above takes what is beyond the largest
            return total, total, certain
        at_high = merged.counts[:, high]
        low, low_bound = (merged.counts[:, high - 1], bounds[high - 1]) if high else (0.0 * total, 0.0)
        width = bounds[high] - low_bound
        share = (self._below - low_bound) / width if width > 0 else 1.0
        return total, low + (at_high - low) * share, certain

    def _is_own(self, bound: float) -> bool:
        """Whether it tells what is certainly slower, as Prometheus knows it."""
        return self._below <= bound <= self._below * REACH and bound in self._grid

    def _waiting(self, rows: Rows) -> Flags:
        if self._queues_at is None:
            return np.zeros(len(rows.start), bool)
        of_it = rows.members.of_framework(self._queues_at)
        return (rows.columns[_WAITING] > 0) & of_it[rows.columns["series"]]

    def _queued(self, rows: Rows) -> Flags:
        """All rows of a target in the five minutes in which requests waited there."""
        place = rows.target * _MOMENTS + rows.start // SLICE
        return np.isin(place, place[self._waiting(rows)])


def _merged(rows: Rows, values: NDArray[Any], chosen: Flags) -> list[Merged]:
    return add_up(values[chosen].tolist(), rows.key[chosen], rows.bounds) if chosen.any() else []


class Available(Judge):
    columns = (
        *(f"requests_finished_{reason}" for reason in (*GOOD, *BAD, *UNKNOWN)), _REJECTED, _UNFINISHED,
    )  # fmt: skip
    lead_seconds = SLICE

    def __init__(self, members: Members) -> None:
        self._untelling = np.zeros(len(members.engine_ids), bool)
        """Engines that count successes alone."""
        for frontend, versions in SUCCESSES_ALONE.items():
            self._untelling |= members.of_releases(frontend, versions)

    def blurred(self, rows: Rows) -> Flags:
        """Hours with a restart: what was unfinished before did not finish."""
        return self._restarted(rows) & ~np.isnan(rows.columns[_UNFINISHED]) & rows.is_hour

    def count(self, rows: Rows) -> Floats:
        untelling = self._untelling[rows.columns["series"]]
        good, bad = (self._finished(rows, of, ~untelling) for of in (GOOD, BAD))
        unknown = self._finished(rows, UNKNOWN, np.ones(len(untelling), bool))
        unknown += self._finished(rows, (*GOOD, *BAD), untelling)
        bad += rows.sums(counted(np.array([_added(text) for text in rows.columns[_REJECTED]], np.float64)))
        unknown += rows.sums(self._vanished(rows))
        return np.array([good, bad, unknown, bad])

    def _finished(self, rows: Rows, reasons: Sequence[str], of: Flags) -> Floats:
        counts = (counted(rows.columns[f"requests_finished_{reason}"]) for reason in reasons)
        return sum((rows.sums(np.where(of, each, np.nan)) for each in counts), np.zeros(rows.keys))

    def _vanished(self, rows: Rows) -> Floats:
        """More unfinished than in the row before; NaN where that is not known."""
        value, rise = rows.columns[_UNFINISHED], np.full(len(rows.start), np.nan)
        if len(value) < 2:
            return rise
        same = rows.columns["series"][1:] == rows.columns["series"][:-1]
        gap = rows.start[1:] - (rows.start + rows.length)[:-1]
        follows = same & (gap >= 0) & (gap < self.lead_seconds)
        rise[1:] = np.where(follows & ~self._restarted(rows)[1:], value[1:] - value[:-1], np.nan)
        return rise

    def _restarted(self, rows: Rows) -> Flags:
        found = np.zeros(len(rows.start), bool)
        for target, at in rows.restarts:
            found |= (rows.target == target) & (rows.start < at) & (at <= rows.start + rows.length)
        return found


def _added(text: str | None) -> float:
    return sum(json.loads(text).values()) if text else 0.0


class Slices(Judge):
    def __init__(self, indicator: TimeSlices, members: Members) -> None:
        self._held = _HELD[indicator.condition]
        self._limit, self._across = indicator.value, indicator.across
        self._tells_hours = indicator.condition in ("below", "at_most")
        (column,) = STORED[indicator.metric]
        if not isinstance(column, GaugeColumns):
            raise TypeError(indicator.metric)
        self._average, self._maximum = column.average, column.maximum
        self._sticks = members.of_frontends([f.name for f in sticking.always(indicator.metric)])
        """By engine: whether its gauge says nothing while it is idle."""
        self._work = [n for m in sticking.WORK for c in STORED[m] for n in c.names] if self._sticks.any() else []
        self.columns = (self._average, self._maximum, "covered_seconds", *self._work)

    def blurred(self, rows: Rows) -> Flags:
        """Hours in which the group's largest reading does not hold, or that no engine was there for throughout."""
        known = self._known(rows) & rows.is_hour
        unclear = _most_minutes(rows, known) < np.where(np.bincount(rows.key[known], minlength=rows.keys) > 1, 60, 0)
        unclear[rows.key[known & ~self._hour_holds(rows)]] = True
        tells_work = self._sticking(rows) & rows.is_hour & (rows.key >= 0)
        return (known | tells_work) & unclear[rows.key]

    def _known(self, rows: Rows) -> Flags:
        found: Flags = ~np.isnan(rows.columns[self._average]) & (rows.key >= 0) & ~self._idle(rows)
        return found

    def _sticking(self, rows: Rows) -> Flags:
        found: Flags = self._sticks[rows.columns["series"]]
        return found

    def _idle(self, rows: Rows) -> Flags:
        """Rows of gauges that stick, in whose time their server showed no work."""
        if not self._work:
            return np.zeros(len(rows.start), bool)
        worked = np.any([counted(rows.columns[name]) > 0 for name in self._work], axis=0)
        place = (
            rows.members.engine_replica[rows.columns["series"]] * _MOMENTS + rows.start // MINUTE
        ) * 2 + rows.is_hour
        return self._sticking(rows) & ~np.isin(place, place[worked])

    def _hour_holds(self, rows: Rows) -> Flags:
        """Of a gauge that sticks not even then, as some of its minutes do not count."""
        held: Flags = self._held(rows.columns[self._maximum], self._limit) & ~self._sticking(rows)
        return held if self._tells_hours else np.zeros(len(held), bool)

    def count(self, rows: Rows) -> Floats:
        """Of an hour that cannot be told by its minutes any more nothing is known."""
        good, bad = self._of_minutes(rows, np.flatnonzero(self._known(rows) & ~rows.is_hour))
        hours, unclear = self._known(rows) & rows.is_hour, np.zeros(rows.keys, bool)
        unclear[rows.key[hours & ~self._hour_holds(rows)]] = True
        minutes = _most_minutes(rows, hours)
        return np.array([good + np.where(unclear, 0, minutes), bad, np.where(unclear, minutes, 0), bad])

    def _of_minutes(self, rows: Rows, chosen: Ints) -> tuple[Floats, Floats]:
        """By key: minutes in which the condition held, and others."""
        each, which = np.unique(rows.key[chosen] * _MOMENTS + rows.start[chosen] // MINUTE, return_inverse=True)
        held = self._held(self._merged(rows.columns[self._average][chosen], which, len(each)), self._limit)
        good, bad = (np.bincount(each // _MOMENTS, of, rows.keys).astype(np.float64) for of in (held, ~held))
        return good, bad

    def _merged(self, value: Floats, of: Ints, many: int) -> Floats:
        if self._across == "avg":
            mean: Floats = np.bincount(of, value, many) / np.bincount(of, minlength=many)
            return mean
        found = np.full(many, -inf if self._across == "max" else inf)
        _ACROSS[self._across].at(found, of, value)
        return found


def _most_minutes(rows: Rows, chosen: Flags) -> Floats:
    """By key, of the series that was observed for longest."""
    found = np.zeros(rows.keys)
    np.fmax.at(found, rows.key[chosen], np.round(rows.columns["covered_seconds"][chosen] / MINUTE))
    return found
