"""Error budgets as arithmetic: counts in, burn and what is left out. Whoever has counts, from SQL or PromQL, asks here.

A request counts once; what lasts is never an average of averages. Minutes in which no server was up have no requests:
each of them weighs as much as an average minute of its window, all of it bad.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from decimal import Decimal
from enum import StrEnum
from typing import Literal

Unknown = Literal["bad", "exclude"]


class State(StrEnum):
    OK = "ok"
    BURNING = "burning"
    EXHAUSTED = "exhausted"
    IDLE = "idle"
    INSUFFICIENT = "insufficient"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests (of a time slice objective: minutes) over a window, and minutes of that window.

    `unknown` requests are in none of the others; `certainly_bad` is the part of `bad` that no interpolation touches.
    `minutes` is the window's length without excluded ones; of `minutes_unknown` nobody knows whether a server was up.
    """

    good: float = 0.0
    bad: float = 0.0
    unknown: float = 0.0
    certainly_bad: float = 0.0
    minutes: float = 0.0
    minutes_outage: float = 0.0
    minutes_unknown: float = 0.0
    minutes_excluded: float = 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def requests(self) -> float:
        return self.good + self.bad + self.unknown


def total(parts: Iterable[Counts]) -> Counts:
    return sum(parts, start=Counts())


def bad_ratio(counts: Counts, unknown: Unknown = "exclude") -> float | None:
    """None where nothing was judged: idle is not good."""
    added = counts.unknown if unknown == "bad" else 0.0
    return _with_outage(counts, _ratio(counts.bad + added, counts.good + counts.bad + added))


def certain_ratio(counts: Counts, unknown: Unknown = "exclude") -> float | None:
    """As `bad_ratio`, of what is certainly bad: a page rests on it."""
    added = counts.unknown if unknown == "bad" else 0.0
    return _with_outage(counts, _ratio(counts.certainly_bad + added, counts.good + counts.bad + added))


def _ratio(bad: float, judged: float) -> float | None:
    return bad / judged if judged > 0 else None


def _with_outage(counts: Counts, ratio: float | None) -> float | None:
    if counts.minutes_outage <= 0 or counts.minutes <= 0:
        return ratio
    out = min(1.0, counts.minutes_outage / counts.minutes)
    return out + (1 - out) * (ratio or 0.0)


def burn(ratio: float, objective: Decimal) -> float:
    """1 spends the budget exactly within the objective's window."""
    return ratio / float(1 - objective)


def remaining(ratio: float, objective: Decimal) -> float:
    """Share of the budget that is left when `ratio` is that of the whole window; below 0 it is overspent."""
    return 1 - burn(ratio, objective)


def seconds_to_exhaustion(left: float, rate: float, window: float) -> float | None:
    """Until nothing of `left` remains at this burn rate; None where it lasts as long as the window or longer."""
    if left <= 0:
        return 0.0
    seconds = left * window / rate if rate > 0 else window
    return seconds if seconds < window else None


def state(
    counts: Counts, objective: Decimal, *, burning: bool, minimum: float = 0.0, unknown: Unknown = "exclude"
) -> State:
    """Of an objective whose window has these counts. `burning`: one of its burn alerts holds."""
    ratio = bad_ratio(counts, unknown)
    if ratio is None:
        return _without_judgement(counts)
    if counts.requests < minimum and counts.minutes_outage <= 0:
        return State.INSUFFICIENT
    if remaining(ratio, objective) <= 0:
        return State.EXHAUSTED
    return State.BURNING if burning else State.OK


def _without_judgement(counts: Counts) -> State:
    seen = counts.minutes > counts.minutes_unknown
    return State.IDLE if seen and counts.unknown <= 0 else State.UNKNOWN
