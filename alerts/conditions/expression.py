"""What a condition compares, said once: as PromQL, and worked out from minute rows.

Each expression yields a number for each set of labels, or nothing. A window of rows is (end - seconds, end].
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from alerts import promql
from alerts.conditions.rows import Key, MinuteRows, SeriesRows, key
from exporters.observation import Labels
from exporters.schema import METRICS

Vector = Mapping[Labels, float]
On = tuple[str, ...] | None
"""Labels that both sides must have in common; None: all of them."""


_UP, _STEP = "llm_up", 60


@dataclass(frozen=True, slots=True)
class Match:
    label: str
    values: tuple[str, ...]
    way: Literal["is", "is_not", "holds"] = "is"

    @property
    def matcher(self) -> promql.Matcher:
        if self.way == "holds":
            return promql.containing(self.label, self.values[0])
        return (promql.one_of if self.way == "is" else promql.none_of)(self.label, self.values)

    def fits(self, labels: Labels) -> bool:
        value = next((v for k, v in labels if k == self.label), "")
        if self.way == "holds":
            return self.values[0] in value
        return (value in self.values) == (self.way == "is")


class Expression(ABC):
    @abstractmethod
    def promql(self) -> str: ...

    @abstractmethod
    def at(self, rows: MinuteRows, end: int) -> Vector: ...

    @property
    @abstractmethod
    def reach(self) -> int:
        """Seconds before an evaluation that it looks at."""

    def above(self, limit: Expression | float) -> Expression:
        return Two(self, ">", limit)

    def at_least(self, limit: Expression | float) -> Expression:
        return Two(self, ">=", limit)

    def below(self, limit: Expression | float) -> Expression:
        return Two(self, "<", limit)

    def at_most(self, limit: Expression | float) -> Expression:
        return Two(self, "<=", limit)

    def equal(self, value: float) -> Expression:
        return Two(self, "==", value)

    def per(self, other: Expression | float) -> Expression:
        return Two(self, "/", other)

    def times(self, factor: Expression | float, on: On = None) -> Expression:
        return Two(self, "*", factor, on)

    def plus(self, other: Expression) -> Expression:
        return Two(self, "+", other)

    def where(self, other: Expression, on: On = None) -> Expression:
        """As it is, where `other` has a value too."""
        return Two(self, "and", other, on)

    def unless(self, other: Expression, on: On = None) -> Expression:
        return Two(self, "unless", other, on)

    def otherwise(self, other: Expression) -> Expression:
        return Two(self, "or", other)


@dataclass(frozen=True, slots=True)
class Now(Expression):
    """A gauge; of a row the mean of its readings."""

    metric: str
    matches: tuple[Match, ...] = ()

    def promql(self) -> str:
        return _series(self.metric, self.matches)

    def at(self, rows: MinuteRows, end: int) -> Vector:
        found = ((labels, series.at(end), of) for labels, series, of in _matching(rows, self.metric, self.matches))
        return {labels: row.gauges[of].average for labels, row, of in found if row is not None and of in row.gauges}

    @property
    def reach(self) -> int:
        return 60


def firing(alert: str) -> Expression:
    """Prometheus knows by it what it said before. Rows know nothing of alerts."""
    return Now("ALERTS", (Match("alertname", (alert,)), Match("alertstate", ("firing",))))


@dataclass(frozen=True, slots=True)
class Over(Expression):
    """A gauge over a window that ended `ago` seconds ago."""

    function: Literal["avg", "max", "last"]
    metric: str
    seconds: int
    matches: tuple[Match, ...] = ()
    ago: int = 0

    def promql(self) -> str:
        # A second less: a sample at the window's very start is that of the window before.
        within = promql.raw(_series(self.metric, self.matches), self.seconds - 1)
        return promql.call(f"{self.function}_over_time", promql.offset(within, self.ago))

    def at(self, rows: MinuteRows, end: int) -> Vector:
        until = end - self.ago
        matching = _matching(rows, self.metric, self.matches)
        found = ((labels, self._of(series, of, until)) for labels, series, of in matching)
        return {labels: value for labels, value in found if value is not None}

    def _of(self, series: SeriesRows, of: Key, until: int) -> float | None:
        start = until - self.seconds
        if self.function == "avg":
            return series.average(of, start, until)
        found = [m.gauges[of] for m in series.within(start, until) if of in m.gauges]
        if self.function == "max":
            return max((reading.maximum for reading in found), default=None)
        return found[-1].average if found else None

    @property
    def reach(self) -> int:
        return self.seconds + self.ago


@dataclass(frozen=True, slots=True)
class SinceUp(Expression):
    """1 where a gauge of servers, which is 0 or 1, was 1 since the server was down last, within `seconds`.

    Prometheus looks back `asked` seconds only: each minute of them costs it as much as the gauge itself.
    """

    metric: str
    seconds: int
    asked: int

    def promql(self) -> str:
        # While it is up and the gauge is 0 they differ: what is left is a server that is down, or a gauge that is 1.
        same = promql.binary(promql.series(self.metric), "==", promql.series(_UP))
        return promql.binary(promql.call("last_over_time", promql.at_steps(same, self.asked - 1, _STEP)), "==", "1")

    def at(self, rows: MinuteRows, end: int) -> Vector:
        matching = _matching(rows, self.metric, ())
        return {labels: 1.0 for labels, series, of in matching if self._was(series, of, end)}

    def _was(self, series: SeriesRows, of: Key, end: int) -> bool:
        for minute in reversed(series.within(end - self.seconds, end)):
            up, found = minute.gauges.get(key(_UP)), minute.gauges.get(of)
            if up is not None and up.average < 1:
                return False
            if found is not None and found.maximum > 0:
                return True
        return False

    @property
    def reach(self) -> int:
        return self.seconds


@dataclass(frozen=True, slots=True)
class Rise(Expression):
    """What a counter rose by. With `born_on` a series that is new counts in full, if others with these labels are not.

    A histogram's counters are named as their samples are: `…_sum`, `…_count`.
    """

    metric: str
    seconds: int
    matches: tuple[Match, ...] = ()
    ago: int = 0
    born_on: tuple[str, ...] = ()

    def promql(self) -> str:
        raw = promql.raw(_series(self.metric, self.matches), self.seconds)
        rise = promql.call("increase", promql.offset(raw, self.ago))
        return promql.first_of(self._born(), rise) if self.born_on else rise

    def _born(self) -> str:
        now, before = _series(self.metric, self.matches), promql.offset(promql.series(self.metric), self.seconds)
        one = (*self.born_on, *METRICS[self.metric].labels)  # a GPU may have got another number
        new = promql.binary(promql.binary(now, "unless", before, on=one), ">", "0")
        return promql.binary(new, "and", before, on=self.born_on)

    def at(self, rows: MinuteRows, end: int) -> Vector:
        until = end - self.ago
        matching = _matching(rows, self.metric, self.matches)
        found = ((labels, series.increase(of, until - self.seconds, until)) for labels, series, of in matching)
        return {labels: value for labels, value in found if value is not None}

    @property
    def reach(self) -> int:
        return self.seconds + self.ago


@dataclass(frozen=True, slots=True)
class Merged(Expression):
    """Over all series that agree in the labels named, or in all but these."""

    function: Literal["sum", "max", "min", "count"]
    of: Expression
    by: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def promql(self) -> str:
        if self.by:
            return promql.aggregate(self.function, self.by, self.of.promql())
        return promql.without(self.function, self.without, self.of.promql())

    def at(self, rows: MinuteRows, end: int) -> Vector:
        groups: defaultdict[Labels, list[float]] = defaultdict(list)
        for labels, value in self.of.at(rows, end).items():
            groups[_only(labels, self.by) if self.by else _but(labels, self.without)].append(value)
        return {labels: _MERGE[self.function](values) for labels, values in groups.items()}

    @property
    def reach(self) -> int:
        return self.of.reach


@dataclass(frozen=True, slots=True)
class Two(Expression):
    """A comparison leaves the left side as it is, or nothing. With `on`, many on the left may go with one."""

    left: Expression
    sign: str
    right: Expression | float
    on: On = None

    def promql(self) -> str:
        right = self.right.promql() if isinstance(self.right, Expression) else promql.number(self.right)
        many = self.on is not None and self.sign not in _SETS
        return promql.binary(self.left.promql(), self.sign, right, on=self.on, group="left" if many else "")

    def at(self, rows: MinuteRows, end: int) -> Vector:
        left = self.left.at(rows, end)
        if not isinstance(self.right, Expression):
            return _kept((labels, self._value(value, self.right)) for labels, value in left.items())
        right = self.right.at(rows, end)
        if self.sign == "or":
            return {**right, **left}
        other = {_only(labels, self.on): value for labels, value in right.items()}
        places = {labels: _only(labels, self.on) for labels in left}
        if self.sign in _SETS:
            return {labels: v for labels, v in left.items() if (places[labels] in other) == (self.sign == "and")}
        pairs = ((labels, v, other[places[labels]]) for labels, v in left.items() if places[labels] in other)
        return _kept((labels, self._value(a, b)) for labels, a, b in pairs)

    def _value(self, a: float, b: float) -> float | None:
        if self.sign in _COMPARE:
            return a if _COMPARE[self.sign](a, b) else None
        return _CALCULATE[self.sign](a, b)

    @property
    def reach(self) -> int:
        return max(self.left.reach, self.right.reach if isinstance(self.right, Expression) else 0)


@dataclass(frozen=True, slots=True)
class Always(Expression):
    def promql(self) -> str:
        return promql.call("vector", "1")

    def at(self, rows: MinuteRows, end: int) -> Vector:  # noqa: ARG002
        return {(): 1.0}

    @property
    def reach(self) -> int:
        return 0


def _divided(a: float, b: float) -> float:
    """As PromQL: nothing by nothing is not a number, and no comparison holds for it."""
    if b:
        return a / b
    return math.nan if not a else math.copysign(math.inf, a)


_SETS = ("and", "or", "unless")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq,
}  # fmt: skip
_CALCULATE: dict[str, Callable[[float, float], float]] = {"+": operator.add, "*": operator.mul, "/": _divided}
_MERGE: dict[str, Callable[[list[float]], float]] = {
    "sum": sum, "max": max, "min": min, "count": lambda values: float(len(values)),
}  # fmt: skip


def _series(metric: str, matches: Iterable[Match]) -> str:
    return promql.series(metric, *(m.matcher for m in matches))


def _matching(rows: MinuteRows, metric: str, matches: tuple[Match, ...]) -> Iterable[tuple[Labels, SeriesRows, Key]]:
    return (found for found in rows.of(metric) if all(m.fits(found[0]) for m in matches))


def _kept(found: Iterable[tuple[Labels, float | None]]) -> Vector:
    return {labels: value for labels, value in found if value is not None}


def _only(labels: Labels, names: On) -> Labels:
    return labels if names is None else tuple((k, v) for k, v in labels if k in names)


def _but(labels: Labels, names: tuple[str, ...]) -> Labels:
    return tuple((k, v) for k, v in labels if k not in names)
