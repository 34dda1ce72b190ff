"""Conditions, evaluated minute by minute: those of the history where it has minutes, those of ourselves by the clock.

An alert begins with the first judgement that has it: never before anybody judged. Minutes of before only tell for how
long a `for` has held.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from alerts.burn import HOUR, MINUTE
from alerts.conditions import CONDITIONS
from alerts.conditions.condition import Condition
from alerts.conditions.holding import Firing, Holder
from alerts.conditions.rows import MinuteRows
from exporters.observation import Labels
from monitor.evaluate import ourselves
from monitor.evaluate.condition_rows import Judgeable, longest, metrics_of

OWN = tuple(c for c in CONDITIONS.values() if metrics_of(c.expression) <= ourselves.METRICS)
STORED = tuple(c for c in CONDITIONS.values() if c not in OWN)
_BY_MINUTES = 30 * MINUTE
"""A longer `for` is looked back for hour by hour."""
_LATE = HOUR
"""Minutes that come later than this are not judged any more."""
REACH = max(longest(STORED) + _BY_MINUTES + _LATE, *(c.for_seconds + c.expression.reach + HOUR for c in STORED))
_EXCUSED = 5 * MINUTE
"""After a pause a condition may take so long to say again what it said before."""
_FORGOTTEN = HOUR
"""After so long a pause nothing is known of what held before."""


@dataclass(frozen=True, slots=True)
class Fired:
    """An alert that fired when it was last judged; moments in unix seconds."""

    of: Labels
    since: int
    seen: int


@dataclass(frozen=True, slots=True)
class Judged:
    """What fires, and what is over since it was asked before."""

    firing: list[tuple[Condition, Firing]]
    over: list[tuple[Condition, Firing]]


class _Course:
    """One condition's."""

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.at: int | None = None
        self.is_resumed = False
        self._holder: Holder = condition.holder()
        self._excused = False

    def take(self, moment: int, rows: MinuteRows, step: int = MINUTE) -> list[Firing]:
        missed = 0 if self.at is None else max(0, moment - self.at - step)
        if missed > _FORGOTTEN:
            self._holder.forget_pending()
        if missed or self._excused:
            self._holder.pause(missed, moment + _EXCUSED)
        self.at, self._excused = moment, False
        return self._holder.take(moment, self.condition.expression.at(rows, moment))

    def resume(self, fired: Iterable[Fired]) -> None:
        """What held until now fires with the next evaluation, and these do already."""
        self._holder.suspend()
        for each in fired:
            self._holder.resume(each.of, each.since, each.seen)
        self.is_resumed = self._excused = True

    def firing(self) -> list[Firing]:
        return self._holder.firing()


class Causes:
    def __init__(self, firing: Iterable[tuple[str, Fired]], judged_until: int | None) -> None:
        """`firing` by the name of the condition: those that fired when they were last judged."""
        self._fired = list(firing)
        self._judged_until = judged_until
        self._courses = {c.name: _Course(c) for c in CONDITIONS.values()}
        self._over: list[tuple[Condition, Firing]] = []

    def needed_since(self, at: int) -> int:
        """The first moment that is looked at to judge up to `at`."""
        is_first = not all(self._courses[c.name].is_resumed for c in STORED)
        return self._moments(at)[0] - (MINUTE + _BY_MINUTES if is_first else 0)

    def judge(self, found: Judgeable, at: int) -> None:
        """By the history: at the end of every minute that has rows and was not judged yet, up to `at`."""
        moments = self._moments(at)
        for condition in STORED:
            course = self._courses[condition.name]
            if not course.is_resumed:
                _look_back(course, found, moments[0])
                course.resume(self._fired_of(condition))
            for moment in moments:
                if moment in found.minutes:
                    self._over += ((condition, over) for over in course.take(moment, found.rows))
        self._judged_until = at

    def judge_ourselves(self, rows: MinuteRows, at: int) -> None:
        for condition in OWN:
            course = self._courses[condition.name]
            if not course.is_resumed:
                course.resume(self._fired_of(condition))
            self._over += ((condition, over) for over in course.take(at, rows))

    def told(self) -> Judged:
        """Ends are told once."""
        over, self._over = self._over, []
        firing = [(course.condition, f) for course in self._courses.values() for f in course.firing()]
        return Judged([*firing, *self._not_judged_yet()], over)

    def _moments(self, at: int) -> list[int]:
        until = self._judged_until
        if until is None or until >= at:
            return [at]
        return list(range(max(until + MINUTE, at - _LATE), at + 1, MINUTE))

    def _not_judged_yet(self) -> Iterator[tuple[Condition, Firing]]:
        for name, fired in self._fired:
            if not self._courses[name].is_resumed:
                yield CONDITIONS[name], Firing(fired.of, fired.since, None, math.nan, fired.seen)

    def _fired_of(self, condition: Condition) -> list[Fired]:
        return [fired for name, fired in self._fired if name == condition.name]


def _look_back(course: _Course, found: Judgeable, first: int) -> None:
    """Before the first judgement of this process: since when the condition has held."""
    hold = course.condition.for_seconds
    recent = first - min(hold, _BY_MINUTES)
    if hold > _BY_MINUTES:
        recent = recent // HOUR * HOUR + MINUTE
        for moment in range((recent - hold) // HOUR * HOUR, recent, HOUR):
            if moment in found.hours:
                course.take(moment, found.rows, HOUR)
    for moment in range(recent, first, MINUTE):
        if moment in found.minutes:
            course.take(moment, found.rows)
