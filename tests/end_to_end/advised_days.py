"""Days of history that take no time to live: minutes that were lived are copied to earlier hours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Connection, Engine, insert, literal, select, update

from exporters.schema import Scope
from monitor.history import tables
from monitor.history.rollup import SETTLING_SECONDS, roll_up
from monitor.history.tables import Tier, rows_table
from monitor.history.upsert import Upsert

HOUR = Tier.HOUR.seconds


class Copy(NamedTuple):
    """Of all minutes in [since, until), the first of them to `to`. All are unix seconds."""

    since: int
    until: int
    to: int


def copy(database: Engine, copies: Iterable[Copy]) -> None:
    """Hours are rolled up afterwards."""
    latest = 0
    with database.begin() as connection:
        for each in copies:
            for scope in (Scope.ENGINE, Scope.TARGET, Scope.GPU):
                _copy(connection, scope, each)
            end = each.to + each.until - each.since
            Upsert(connection).due(range(each.to // HOUR * HOUR, end, HOUR), Tier.HOUR)
            _began(connection, each.to)
            latest = max(latest, end)
    while roll_up(database, latest + HOUR + SETTLING_SECONDS):
        pass


def _copy(connection: Connection, scope: Scope, each: Copy) -> None:
    table = rows_table(scope, Tier.MINUTE)
    columns = [c if c.name != "start" else (c + literal(each.to - each.since)).label("start") for c in table.columns]
    wanted = select(*columns).where(table.c.start >= each.since, table.c.start < each.until)
    connection.execute(insert(table).from_select([c.name for c in table.columns], wanted))


def _began(connection: Connection, at: int) -> None:
    c = tables.series.c
    connection.execute(update(tables.series).where(c.first_seen > at).values(first_seen=at))
