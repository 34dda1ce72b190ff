"""The statements that write, each of which changes nothing when it is repeated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Double, Table, bindparam, case, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from exporters.observation import Labels
from exporters.schema import IDENTITY
from monitor.history import tables
from monitor.history.minutes import Event, Minute
from monitor.history.postgres import is_postgres
from monitor.history.rows import scope_of
from monitor.history.storable import key_of, storable
from monitor.history.tables import Tier

Insert = sqlite.Insert | postgresql.Insert
"""Both say ON CONFLICT alike."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Of a source that can be asked again, all windows from `since` to `until` (unix seconds) are stored."""

    source: str
    since: int
    until: int

    @classmethod
    def read(cls, connection: Connection, source: str) -> Progress | None:
        c = tables.progress.c
        row = connection.execute(select(c.source, c.since, c.until).where(c.source == source)).one_or_none()
        return None if row is None else cls(*row)


@dataclass(frozen=True, slots=True)
class Seen:
    """When a series answered, and what it said of itself last."""

    first: float
    last: float
    info: dict[str, str]

    @classmethod
    def of(cls, minute: Minute) -> Seen | None:
        if minute.first_seen is None or minute.last_seen is None:
            return None
        info = {name: storable(text) for name, text in minute.info.items()}
        return cls(minute.first_seen, minute.last_seen, info)

    def __or__(self, other: Seen) -> Seen:
        earlier, later = (self, other) if self.last <= other.last else (other, self)
        return Seen(min(self.first, other.first), later.last, later.info or earlier.info)


class Upsert:
    """Within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._postgres = is_postgres(connection)

    def _insert(self, table: Table) -> Insert:
        return postgresql.insert(table) if self._postgres else sqlite.insert(table)

    def due(self, starts: Iterable[int], tier: Tier = Tier.HOUR) -> None:
        """Finer windows of these starts are written, so that the tier's have to be rolled up (again)."""
        windows = sorted({start // tier.seconds * tier.seconds for start in starts})
        self._touch(tables.rollup_due, [{"tier": tier.value, "start": window} for window in windows])

    def budgets_due(self, days: Iterable[int]) -> None:
        """What these days counted of objectives is to be counted (again)."""
        self._touch(tables.budgets_due, [{"start": day} for day in sorted(set(days))])

    def _touch(self, table: Table, keys: list[dict[str, Any]]) -> None:
        insert = self._insert(table).values(touched=1)
        again = insert.on_conflict_do_update(
            index_elements=table.primary_key.columns, set_={"touched": table.c.touched + 1}
        )
        if keys:
            self.connection.execute(again, keys)

    def objective(self, values: dict[str, Any]) -> None:
        """One that is there stays as it is."""
        self.connection.execute(self._insert(tables.objectives).values(values).on_conflict_do_nothing())

    def budgets(self, rows: list[dict[str, Any]]) -> None:
        table = tables.budgets
        insert = self._insert(table)
        changed = {c.name: insert.excluded[c.name] for c in table.columns if not c.primary_key}
        if rows:
            upsert = insert.on_conflict_do_update(index_elements=table.primary_key.columns, set_=changed)
            self.connection.execute(upsert, rows)

    def event(self, series_id: int, event: Event) -> None:
        before, after = (text and storable(text) for text in (event.before, event.after))
        values = {"at": event.at, "kind": event.kind, "before": before, "after": after}
        insert = self._insert(tables.events).values(series_id=series_id, **values)
        changed = {"before": insert.excluded.before, "after": insert.excluded.after}
        key = tables.events.primary_key.columns
        self.connection.execute(insert.on_conflict_do_update(index_elements=key, set_=changed))

    def no_event(self, series_id: int, at: float, kind: str) -> None:
        c = tables.events.c
        self.connection.execute(delete(tables.events).where(c.series_id == series_id, c.at == at, c.kind == kind))

    def checkpoint(self, node: str, server: str, uuid: str, at: float, state: bytes) -> None:
        table = tables.checkpoints
        insert = self._insert(table).values(node=node, server=server, uuid=uuid, at=at, state=state)
        upsert = insert.on_conflict_do_update(
            index_elements=table.primary_key.columns,
            set_={"at": insert.excluded.at, "state": insert.excluded.state},
        )
        self.connection.execute(upsert)

    def progress(self, told: Progress) -> None:
        """What adjoins is added up; of two spans with a gap between them the later one stays."""
        table = tables.progress
        insert = self._insert(table).values(source=told.source, since=told.since, until=told.until)
        new = insert.excluded
        since = case(
            (new.since > table.c.until, new.since),
            (new.until < table.c.since, table.c.since),
            (new.since < table.c.since, new.since),
            else_=table.c.since,
        )
        until = case((new.until > table.c.until, new.until), else_=table.c.until)
        key = table.primary_key.columns
        self.connection.execute(insert.on_conflict_do_update(index_elements=key, set_={"since": since, "until": until}))

    def seen(self, found: dict[int, Seen]) -> None:
        """By the id of the series."""
        c = tables.series.c
        first, last = bindparam("first", type_=Double), bindparam("last", type_=Double)
        info = bindparam("told", type_=c.info.type)
        is_old = c.last_seen > last
        values: dict[str, Any] = {
            "first_seen": case((c.first_seen <= first, c.first_seen), else_=first),
            "last_seen": case((is_old, c.last_seen), else_=last),
            "info": case((is_old | bindparam("silent"), c.info), else_=info),
        }
        rows = [
            {"of": of, "first": seen.first, "last": seen.last, "told": seen.info, "silent": not seen.info}
            for of, seen in sorted(found.items())
        ]
        if rows:
            self.connection.execute(update(tables.series).where(c.id == bindparam("of")).values(values), rows)

    def series(self, identity: Labels) -> int:
        """The id of the series, which is made where it is new."""
        stored = tuple((name, storable(text)) for name, text in identity)
        text = key_of(stored)
        known = select(tables.series.c.id).where(tables.series.c.identity == text)
        found: int | None = self.connection.scalar(known)
        if found is None:
            insert = self._insert(tables.series).values(identity=text, **_series_values(stored))
            self.connection.execute(insert.on_conflict_do_nothing())
            return int(self.connection.execute(known).scalar_one())
        return found

    def bounds(self, bounds: tuple[float, ...]) -> int:
        text = ",".join(map(repr, bounds))
        known = select(tables.bounds.c.id).where(tables.bounds.c.bounds == text)
        found: int | None = self.connection.scalar(known)
        if found is None:
            self.connection.execute(self._insert(tables.bounds).values(bounds=text).on_conflict_do_nothing())
            return int(self.connection.execute(known).scalar_one())
        return found


def _series_values(identity: Labels) -> dict[str, Any]:
    scope, given = scope_of(identity), dict(identity)
    names = IDENTITY[scope]
    return {
        "scope": scope.value,
        "server": "",
        **{name: given.get(name) for name in names},
        "labels": {name: value for name, value in identity if name not in names},
        "info": {},
    }


class Ids:
    """Ids given out, remembered."""

    def __init__(self) -> None:
        self._series: dict[Labels, int] = {}
        self._bounds: dict[tuple[float, ...], int] = {}

    def of_series(self, upsert: Upsert, identity: Labels) -> int:
        known = self._series.get(identity)
        if known is None:
            known = self._series[identity] = upsert.series(identity)
        return known

    def of_bounds(self, upsert: Upsert, bounds: tuple[float, ...]) -> int:
        known = self._bounds.get(bounds)
        if known is None:
            known = self._bounds[bounds] = upsert.bounds(bounds)
        return known
