"""The statements that write, each of which changes nothing when it is repeated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from exporters.observation import Labels
from exporters.schema import IDENTITY, Scope
from monitor.history import tables
from monitor.history.minutes import Event, Minute
from monitor.history.rows import is_engine

Insert = sqlite.Insert | postgresql.Insert
"""Both say ON CONFLICT alike."""


def _insert(table: Table, *, postgres: bool) -> Insert:
    return postgresql.insert(table) if postgres else sqlite.insert(table)


@cache
def _upsert_minutes(table: Table, *, postgres: bool) -> Insert:
    """Made once: it names every column several times over."""
    insert = _insert(table, postgres=postgres)
    new = insert.excluded
    return insert.on_conflict_do_update(
        index_elements=table.primary_key.columns,
        set_={c.name: new[c.name] for c in table.columns if not c.primary_key},
        where=new.samples >= table.c.samples,
    )


class Upsert:
    """Within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._postgres = connection.dialect.name == "postgresql"

    def _insert(self, table: Table) -> Insert:
        return _insert(table, postgres=self._postgres)

    def minutes(self, table: Table, rows: Sequence[dict[str, Any]]) -> None:
        """A row with more readings is never overwritten with one of fewer."""
        if rows:
            self._connection.execute(_upsert_minutes(table, postgres=self._postgres), rows)

    def event(self, series_id: int, event: Event) -> None:
        values = {"at": event.at, "kind": event.kind, "before": event.before, "after": event.after}
        insert = self._insert(tables.events).values(series_id=series_id, **values)
        self._connection.execute(insert.on_conflict_do_nothing())

    def checkpoint(self, node: str, server: str, at: float, state: bytes) -> None:
        table = tables.checkpoints
        insert = self._insert(table).values(node=node, server=server, uuid="", at=at, state=state)
        upsert = insert.on_conflict_do_update(
            index_elements=table.primary_key.columns,
            set_={"at": insert.excluded.at, "state": insert.excluded.state},
        )
        self._connection.execute(upsert)

    def seen(self, series_id: int, minute: Minute) -> None:
        """When the series answered, and what it said of itself."""
        if minute.last_seen is None:
            return
        series = tables.series
        values: dict[str, Any] = {
            "first_seen": func.coalesce(series.c.first_seen, minute.first_seen),
            "last_seen": minute.last_seen,
        }
        if minute.info:
            values["info"] = minute.info
        earlier = or_(series.c.last_seen.is_(None), series.c.last_seen <= minute.last_seen)
        self._connection.execute(update(series).where(series.c.id == series_id, earlier).values(values))

    def series(self, identity: Labels) -> int:
        """The id of the series, which is made where it is new."""
        text = json.dumps(dict(identity), sort_keys=True)
        known = select(tables.series.c.id).where(tables.series.c.identity == text)
        found: int | None = self._connection.scalar(known)
        if found is None:
            insert = self._insert(tables.series).values(identity=text, **_series_values(dict(identity)))
            self._connection.execute(insert.on_conflict_do_nothing())
            return int(self._connection.execute(known).scalar_one())
        return found

    def bounds(self, bounds: tuple[float, ...]) -> int:
        text = ",".join(map(repr, bounds))
        known = select(tables.bounds.c.id).where(tables.bounds.c.bounds == text)
        found: int | None = self._connection.scalar(known)
        if found is None:
            self._connection.execute(self._insert(tables.bounds).values(bounds=text).on_conflict_do_nothing())
            return int(self._connection.execute(known).scalar_one())
        return found


def _series_values(identity: dict[str, str]) -> dict[str, Any]:
    names = IDENTITY[Scope.ENGINE if is_engine(tuple(identity.items())) else Scope.TARGET]
    return {
        "scope": "engine" if "engine" in names else "target",
        **{name: identity.get(name) for name in names},
        "labels": {name: value for name, value in identity.items() if name not in names},
        "info": {},
    }


class Ids:
    """Ids given out, remembered."""

    def __init__(self) -> None:
        self._series: dict[Labels, int] = {}
        self._bounds: dict[tuple[float, ...], int] = {}

    def of_series(self, upsert: Upsert, identity: Labels) -> int:
        if identity not in self._series:
            self._series[identity] = upsert.series(identity)
        return self._series[identity]

    def of_bounds(self, upsert: Upsert, bounds: tuple[float, ...]) -> int:
        if bounds not in self._bounds:
            self._bounds[bounds] = upsert.bounds(bounds)
        return self._bounds[bounds]
