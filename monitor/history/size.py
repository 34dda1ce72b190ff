"""How much there is: bytes on disk, and rows by tier."""

from __future__ import annotations

from sqlalchemy import Connection, ScalarSelect, Table, func, select, text

from exporters.schema import Scope
from monitor.history.postgres import is_postgres
from monitor.history.tables import Tier, metadata, rows_table, series

SCOPES = (Scope.TARGET, Scope.ENGINE, Scope.GPU)
_ON_POSTGRES = text(
    "WITH ours AS (SELECT to_regclass(name) AS part FROM unnest(CAST(:names AS text[])) AS name) "
    "SELECT sum(pg_total_relation_size(part)) FROM "
    "(SELECT part FROM ours UNION SELECT inhrelid FROM pg_inherits WHERE inhparent IN (SELECT part FROM ours)) AS parts"
)
"""Of our tables with their partitions and indexes: the database may hold others."""
_ON_SQLITE = text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")


def size_bytes(connection: Connection) -> int:
    """On disk. A file of SQLite does not shrink: what was deleted in it is used again."""
    if is_postgres(connection):
        return int(connection.scalar(_ON_POSTGRES, {"names": sorted(metadata.tables)}) or 0)
    return int(connection.scalar(_ON_SQLITE) or 0)


def tables_of(tier: Tier) -> list[Table]:
    return [rows_table(scope, tier) for scope in SCOPES]


def rows(connection: Connection, tier: Tier) -> int:
    """Counts every one, which takes seconds in a large history."""
    return sum(connection.scalar(select(func.count()).select_from(table)) or 0 for table in tables_of(tier))


def oldest(connection: Connection, tier: Tier, since: int = 0) -> int | None:
    """Start of the tier's first row from `since` on, found series by series, as their key allows."""
    found = [connection.scalar(select(func.min(_first(table, since))).select_from(series)) for table in tables_of(tier)]
    return min((start for start in found if start is not None), default=None)


def _first(table: Table, since: int) -> ScalarSelect[int]:
    of_series = select(table.c.start).where(table.c.series_id == series.c.id, table.c.start >= since)
    return of_series.order_by(table.c.start).limit(1).scalar_subquery()
