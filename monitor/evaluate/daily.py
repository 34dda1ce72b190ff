"""Keeps what each day counted of the objectives in force, as `status` and `report` count it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from sqlalchemy import Engine

from alerts.slo.spec import Slo
from monitor.evaluate.counts import Counter
from monitor.evaluate.members import Group
from monitor.evaluate.objectives import Objectives
from monitor.history.budgets import DAY, Day, Definition, Judged, come_into_force, due, ids, keep
from monitor.history.database import HistoryError, for_writing
from monitor.history.storable import storable
from monitor.history.trouble import explaining
from monitor.history.upkeep import Pause

_TOLD = {"indicator", "select", "group_by", "unknown"}
_USUAL = ("role", "unified")


class BudgetError(HistoryError):
    """Days stay due; those before are kept."""


class Daily:
    """Of one history. Meant for the process that keeps it up."""

    def __init__(self, database: Engine, objectives: Objectives) -> None:
        self._engine = database
        self._objectives = objectives
        self._in_force: tuple[Definition, ...] = ()

    def turn(self, pause: Pause) -> None:
        """Days that are due, each in one transaction. `pause` is called between, and says whether to stop.

        Raises HistoryError.
        """
        slos = [(definition(slo), slo) for slo in self._objectives.slos]
        if not slos:
            return
        with explaining(self._engine.url, BudgetError, "could not keep budgets in the history"):
            known = self._known([each for each, _ in slos])
            with self._engine.connect() as connection:
                days = due(connection, [each for each, _ in slos])
            for day in days:
                wanted = [(known[each.identity], slo) for each, slo in slos if each.identity not in day.settled]
                if not self._count(day, wanted, pause):
                    return

    def _known(self, definitions: Sequence[Definition]) -> dict[str, int]:
        """Ids by identity."""
        with for_writing(self._engine).begin() as connection:
            found = ids(connection, definitions)
            for each in definitions:
                if each not in self._in_force or each.identity not in found:
                    come_into_force(connection, each)
            found = ids(connection, definitions)
        self._in_force = tuple(definitions)
        return found

    def _count(self, day: Day, slos: Sequence[tuple[int, Slo]], pause: Pause) -> bool:
        """Whether to go on."""
        judged: dict[int, list[Judged]] = {}
        counter = Counter(self._engine)  # one that remembers would not read the day before with it
        with counter.together():
            for objective_id, slo in slos:
                judged[objective_id] = list(_judged(counter, slo, day.start))
                if pause():
                    return False
        with for_writing(self._engine).begin() as connection:
            keep(connection, day, judged)
        return True


def definition(slo: Slo) -> Definition:
    told = slo.model_dump(mode="json", include=_TOLD, exclude_none=True)
    told |= {"objective": float(slo.objective), "window_days": slo.days, "outage": slo.counts_outage}
    return Definition(
        slo.name,
        storable(json.dumps(told, sort_keys=True, ensure_ascii=False)),
        next(iter(slo.indicator.model_fields_set)),
        float(slo.objective),
        slo.days,
        slo.unknown,
        slo.counts_outage,
        tuple((each.start.timestamp(), each.end.timestamp()) for each in slo.maintenance),
    )


def _judged(counter: Counter, slo: Slo, start: int) -> Iterator[Judged]:
    """The day before is read with it: what a server served last while it does not say."""
    tally = counter.tally(slo, [start - DAY, start, start + DAY])
    for group, counts in tally.over(start, start + DAY).items():
        if counts.minutes_unknown < counts.minutes or counts.minutes_excluded:
            yield Judged(tuple(zip(slo.groups, group, strict=True)), _subject(slo, group), counts)


def _subject(slo: Slo, group: Group) -> str:
    """Values in the order in which the objective groups by them; no two groups have the same."""
    shown = [value or "–" for name, value in zip(slo.groups, group, strict=True) if (name, value) != _USUAL]
    return " ".join(shown) or "all"
