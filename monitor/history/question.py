"""What may be asked of the history, checked before any row is read.

HistoryError
└── QuestionError         has the parameter, what is allowed instead, and what was probably meant
    ├── UnknownMetric
    ├── UnknownLabel
    └── InvalidParameter  aggregation, q, since, until, step
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import StrEnum

from exporters.quote import quoted
from exporters.schema import METRICS, Metric, Type
from monitor.history.columns import STORED, why_not_stored
from monitor.history.database import HistoryError
from monitor.history.minutes import WINDOW_SECONDS

MAX_POINTS = 11_000
"""Of one answer, as in Prometheus."""
MAX_POINTS_IN_ALL = 200_000
"""Of all answers to a question: a day of minutes of 64 servers is half of it."""

_YEAR_10000 = 253_402_300_800.0
"""Beyond it moments are not written as dates."""
_LONGEST_STEP = 4_102_444_800
"""From 1970 to 2099."""
_Q_ALLOWED = "0 to 1 for a histogram metric"
_NEAR = 0.75
"""How alike names must be for one to be meant by the other, from 0 to 1."""


class Aggregation(StrEnum):
    AVERAGE = "avg"
    MAXIMUM = "max"
    RATE = "rate"
    SUM = "sum"
    QUANTILE = "quantile"


AGGREGATIONS = {
    Type.GAUGE: (Aggregation.AVERAGE, Aggregation.MAXIMUM),
    Type.COUNTER: (Aggregation.RATE, Aggregation.SUM),
    Type.HISTOGRAM: (Aggregation.QUANTILE,),
}
"""What can be asked of each type; the first is meant where none is named."""


class QuestionError(HistoryError):
    def __init__(self, parameter: str, problem: str, allowed: Iterable[str] = (), meant: str | None = None) -> None:
        self.parameter = parameter
        self.allowed = tuple(allowed)
        self.meant = meant
        super().__init__(f"{parameter}: {problem}" + (f"; did you mean {meant!r}?" if meant else ""))


class UnknownMetric(QuestionError):
    pass


class UnknownLabel(QuestionError):
    pass


class InvalidParameter(QuestionError):
    pass


@dataclass(frozen=True, slots=True)
class Question:
    """A question that can be answered. Moments are unix seconds; `since` and `step` are multiples of the minute."""

    metric: Metric
    aggregation: Aggregation
    q: float | None
    since: int
    until: float
    step: int
    group_by: tuple[str, ...]
    where: Mapping[str, str]


def question(
    metric: str,
    q: float | None,
    since: float,
    until: float,
    step: float,
    group_by: Sequence[str],
    where: Mapping[str, str],
    aggregation: str | None,
) -> Question:
    """`since` is rounded down to the step. Raises QuestionError."""
    known = _metric(metric)
    whole_step = _step(step)
    refuse_backwards(since, until)
    start = int(since // whole_step) * whole_step
    chosen = _aggregation(known, aggregation)
    return Question(
        known, chosen, _quantile(chosen, q), start, until, whole_step, tuple(dict.fromkeys(group_by)), dict(where)
    )


def refuse_backwards(since: float, until: float) -> None:
    """Raises InvalidParameter."""
    if not (math.isfinite(since) and math.isfinite(until) and since < until):
        told = f"{_time(until)} is not after since={_time(since)}"
        raise InvalidParameter("until", told, ["a moment after `since`"])


def _time(moment: float) -> str:
    if not 0 <= moment < _YEAR_10000:
        return repr(moment)
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%SZ}"


def refuse_too_many(asked: Question, groups: int = 1) -> None:
    """Raises InvalidParameter where one answer, or all of so many groups, would have too many points."""
    steps = (asked.until - asked.since) / asked.step
    for points, most, told in ((steps, MAX_POINTS, ""), (steps * groups, MAX_POINTS_IN_ALL, f" with {groups} groups")):
        if points > most:
            longer = math.ceil(asked.step * points / most / WINDOW_SECONDS) * WINDOW_SECONDS
            raise InvalidParameter("step", f"{asked.step}{told} makes more than {most} points", [f"{longer} or more"])


def _metric(name: str) -> Metric:
    if name not in METRICS:
        raise UnknownMetric("metric", f"{quoted(name)} is not in the schema", STORED, closest(name, STORED))
    reason = why_not_stored(METRICS[name])
    if reason is not None:
        raise UnknownMetric("metric", f"{name} has no history: {reason}", STORED)
    return METRICS[name]


def _step(step: float) -> int:
    if not math.isfinite(step) or step < WINDOW_SECONDS or step % WINDOW_SECONDS:
        raise InvalidParameter("step", f"{step:.15g} is not a number of whole minutes", ["60, 120, 180 … seconds"])
    if step > _LONGEST_STEP:
        raise InvalidParameter("step", f"{step:.15g} is longer than all time", [f"at most {_LONGEST_STEP} seconds"])
    return int(step)


def _aggregation(metric: Metric, name: str | None) -> Aggregation:
    allowed = AGGREGATIONS[metric.type]
    if name is None:
        return allowed[0]
    if name not in allowed:
        raise InvalidParameter(
            "aggregation", f"{quoted(name)} cannot be asked of {metric.name}, a {metric.type.value}", allowed
        )
    return Aggregation(name)


def _quantile(aggregation: Aggregation, q: float | None) -> float | None:
    if aggregation is Aggregation.QUANTILE and (q is None or not 0 <= q <= 1):
        raise InvalidParameter("q", "missing" if q is None else f"{q:g} is no quantile", [_Q_ALLOWED])
    if aggregation is not Aggregation.QUANTILE and q is not None:
        histograms = [m for m in STORED if METRICS[m].type is Type.HISTOGRAM]
        raise InvalidParameter(
            "q", "only histograms have quantiles", [f"none, or as `metric`: {', '.join(histograms)}"]
        )
    return q


def closest(name: str, known: Iterable[str]) -> str | None:
    """What was probably meant, the prefix of the schema left out or not; None where nothing is near."""
    candidates = {each.removeprefix("llm_"): each for each in known}
    near = get_close_matches(name.removeprefix("llm_"), candidates, 1, _NEAR)
    return candidates[near[0]] if near else None
