"""What days counted of objectives: by which definition each was judged, which are to be counted, and writing them.

A day is judged by the definition that is in force when it is rolled up, and stays so: a changed objective begins anew
with the next one. One that was never there is counted back to the first day there is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from alerts.budget import Counts
from exporters.observation import Labels
from monitor.history.scan import kept_since
from monitor.history.storable import key_of
from monitor.history.tables import COUNTED, Tier, budgets, budgets_due, objectives, target_day
from monitor.history.upsert import Upsert

DAY = Tier.DAY.seconds
_PER_TURN = 24


@dataclass(frozen=True, slots=True)
class Definition:
    """`text` is all that counts depend on, as JSON, but for `maintenance`: from when to when, unix seconds."""

    name: str
    text: str
    indicator: str
    objective: float
    window_days: int
    unknown: str
    counts_outage: bool
    maintenance: tuple[tuple[float, float], ...] = ()

    @property
    def identity(self) -> str:
        return key_of((("name", self.name), ("definition", self.text)))


@dataclass(frozen=True, slots=True)
class Judged:
    """A group of an objective on one day."""

    labels: Labels
    subject: str
    counts: Counts


@dataclass(frozen=True, slots=True)
class Day:
    """To be counted; `touched` tells whether it was rolled up again meanwhile."""

    start: int
    touched: int
    settled: frozenset[str] = field(default_factory=frozenset)
    """Identities of definitions in force that are not counted: another one judged the day, or its minutes, of which
    they were counted, are gone."""


def ids(connection: Connection, definitions: Iterable[Definition]) -> dict[str, int]:
    """By identity, of those that are there."""
    c = objectives.c
    wanted = select(c.identity, c.id).where(c.identity.in_([each.identity for each in definitions]))
    return {row.identity: row.id for row in connection.execute(wanted)}


def come_into_force(connection: Connection, definition: Definition) -> None:
    """Days that no definition of this name has judged are due, and those whose planned maintenance is another now."""
    c, upsert = objectives.c, Upsert(connection)
    until = connection.scalar(select(func.max(c.until)).where(c.name == definition.name)) or 0
    upsert.objective(_values(definition))
    own = c.identity == definition.identity
    days = set(connection.scalars(select(target_day.c.start).where(target_day.c.start >= until).distinct()))
    planned = json.loads(connection.execute(select(c.maintenance).where(own)).scalar_one())
    changed = {tuple(each) for each in planned} ^ set(definition.maintenance)
    upsert.budgets_due(days | {day for each in changed for day in _days(each, until)})
    known = {"until": max([until, *(day + DAY for day in days)]), "maintenance": json.dumps(definition.maintenance)}
    connection.execute(update(objectives).where(own).values(known))


def _values(of: Definition) -> dict[str, Any]:
    return {
        "name": of.name,
        "identity": of.identity,
        "definition": of.text,
        "indicator": of.indicator,
        "objective": of.objective,
        "window_days": of.window_days,
        "unknown": of.unknown,
        "counts_outage": of.counts_outage,
        "maintenance": json.dumps(of.maintenance),
        "until": 0,
    }


def _days(planned: Sequence[float], until: int) -> range:
    since, end = planned
    return range(int(since) // DAY * DAY, min(math.ceil(end), until), DAY)


def due(connection: Connection, definitions: Sequence[Definition]) -> list[Day]:
    """The newest first, as many as one turn takes."""
    c = budgets_due.c
    found = connection.execute(select(c.start, c.touched).order_by(c.start.desc()).limit(_PER_TURN)).all()
    fine = kept_since(connection).get(Tier.MINUTE, 0)
    return [Day(start, touched, _settled(connection, definitions, start, start >= fine)) for start, touched in found]


def _settled(
    connection: Connection, definitions: Sequence[Definition], start: int, has_minutes: bool
) -> frozenset[str]:
    c = objectives.c
    wanted = select(c.name, c.identity).join(budgets, budgets.c.objective_id == c.id).where(budgets.c.start == start)
    judged = {(name, identity) for name, identity in connection.execute(wanted.distinct())}
    names = {name for name, _ in judged}
    own = {each.identity for each in definitions if (each.name, each.identity) in judged}
    others = {each.identity for each in definitions if each.name in names} - own
    return frozenset(others if has_minutes else others | own)


def keep(connection: Connection, day: Day, judged: Mapping[int, Sequence[Judged]]) -> None:
    """`judged` by the id of the definition. The day stays due where it was rolled up again meanwhile."""
    for objective_id, groups in judged.items():
        rows = [_row(objective_id, day.start, group) for group in groups]
        c = budgets.c
        gone = c.identity.not_in([row["identity"] for row in rows])
        connection.execute(delete(budgets).where(c.objective_id == objective_id, c.start == day.start, gone))
        Upsert(connection).budgets(rows)
    until = update(objectives).where(objectives.c.id.in_(list(judged)), objectives.c.until < day.start + DAY)
    connection.execute(until.values(until=day.start + DAY))
    done = budgets_due.c.start == day.start, budgets_due.c.touched == day.touched
    connection.execute(delete(budgets_due).where(*done))


def _row(objective_id: int, start: int, of: Judged) -> dict[str, Any]:
    return {
        "objective_id": objective_id,
        "identity": key_of(of.labels),
        "start": start,
        "labels": json.dumps(dict(of.labels), sort_keys=True, ensure_ascii=False),
        "subject": of.subject,
        **{name: getattr(of.counts, name) for name in COUNTED},
    }
