"""Minutes on PostgreSQL lie in partitions, one per UTC day, so that retention drops whole days. SQLite has none."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, Table, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from monitor.history.postgres import Turn, is_postgres, take_turn
from monitor.history.tables import Tier
from monitor.history.trouble import is_worth_repeating, repeatedly

DAY = Tier.DAY.seconds
_NAME = re.compile(r"(?P<table>\w+)_p(?P<day>\d{8})")
_COLUMNS = """
    SELECT string_agg(
        format('%I %s%s', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN ' NOT NULL' END),
        ', ' ORDER BY attnotnull DESC, attlen DESC, attnum
    )
    FROM pg_attribute WHERE attrelid = to_regclass(:parent) AND attnum > 0 AND NOT attisdropped
"""
"""The parent's, the longest first: a row has no gaps then between what is aligned to 4 and to 8 bytes."""
_LOCK_TIMEOUT = "2s"
_ATTEMPTS = 5
_LOCK_NOT_AVAILABLE = "55P03"


@dataclass(frozen=True, slots=True)
class Partition:
    """Minutes that start in [start, start + DAY)."""

    table: str
    start: int

    @property
    def name(self) -> str:
        return f"{self.table}_p{datetime.fromtimestamp(self.start, UTC):%Y%m%d}"

    @classmethod
    def named(cls, name: str) -> Partition | None:
        """None where a table of that name is no partition."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        return cls(found["table"], int(datetime.strptime(f"{found['day']}+0000", "%Y%m%d%z").timestamp()))


def partition_of(table: Table, start: int) -> Partition:
    return Partition(table.name, start // DAY * DAY)


def partitions(connection: Connection, table: Table) -> list[Partition]:
    """The oldest first; none on SQLite."""
    if not is_postgres(connection):
        return []
    names = connection.scalars(
        text("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass(:parent)"),
        {"parent": table.name},
    )
    found = (Partition.named(name) for name in names)
    return sorted((p for p in found if p is not None), key=lambda p: p.start)


def make_partitions(engine: Engine, wanted: Iterable[Partition]) -> None:
    """In a transaction of its own, since it locks more than a write should for long."""
    missing = sorted(set(wanted), key=lambda p: (p.table, p.start))
    if not missing or not is_postgres(engine):
        return
    with engine.begin() as connection:
        take_turn(connection, Turn.MAKE_PARTITIONS)
        for partition in missing:
            if not connection.scalar(text("SELECT to_regclass(:name) IS NOT NULL"), {"name": partition.name}):
                _make(connection, partition)


def _make(connection: Connection, partition: Partition) -> None:
    """Attached rather than made in place: that does not wait for questions that run, nor they for it."""
    name, table, end = partition.name, partition.table, partition.start + DAY
    columns = connection.scalar(text(_COLUMNS), {"parent": table})
    connection.exec_driver_sql(f"CREATE TABLE {name} ({columns})")
    connection.exec_driver_sql(
        f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({partition.start}) TO ({end})"
    )


def drop_before(
    connection: Connection, table: Table, moment: float, kept: Container[int] = frozenset()
) -> list[Partition]:
    """Drops the partitions that end by then, each in a transaction of its own, and returns them.

    Those that start at one of `kept` stay.

    Dropping waits for all questions that run, and those that come wait behind it: so it gives up soon, and tries again.
    Raises OperationalError where a question runs on and on.
    """
    with connection.begin():
        old = [p for p in partitions(connection, table) if p.start + DAY <= moment and p.start not in kept]
    for partition in old:
        _drop(connection, partition)
    return old


def _drop(connection: Connection, partition: Partition) -> None:
    def once() -> None:
        with connection.begin():
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {partition.name}")

    repeatedly(once, _ATTEMPTS, _passes)


def _passes(error: SQLAlchemyError) -> bool:
    timed_out = isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE
    return timed_out or is_worth_repeating(error)
