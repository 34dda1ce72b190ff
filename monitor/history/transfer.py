"""Copies all rows of a history from one database to another, of either kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import JSON, ColumnElement, Connection, Engine, Table, Text, cast, func, select, text

from monitor.history import tables
from monitor.history.bulk import append_rows
from monitor.history.database import DatabaseError, alembic_config
from monitor.history.postgres import is_postgres
from monitor.history.trouble import explaining, place

Progress = Callable[[str], None]
"""Told where the work stands, in a few words."""

_AT_ONCE = 5000
_NUMBERED = (tables.series, tables.bounds, tables.objectives)
"""Tables whose ids the database gives out."""


def contents(of: Iterable[Table] = tables.metadata.sorted_tables) -> list[Table]:
    """What a history holds, parents first: who has a lease says nothing of another time."""
    return [table for table in of if table.name != tables.leases.name]


def copy_rows(source: Connection, target: Connection, table: Table, progress: Progress) -> None:
    """Values as they are, JSON to the letter."""
    rows = source.execute(select(*map(_as_stored, table.columns))).yield_per(_AT_ONCE)
    copied = 0
    while chunk := [tuple(row) for row in islice(rows, _AT_ONCE)]:
        append_rows(target, table, chunk)
        copied += len(chunk)
        progress(f"{table.name}: {copied:,} rows")


def _as_stored(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return cast(column, Text) if isinstance(column.type, JSON) else column


def give_out_new_ids(target: Connection) -> None:
    """From behind those that were copied; SQLite looks for itself."""
    for table in _NUMBERED if is_postgres(target) else ():
        highest = target.scalar(select(func.max(table.c.id)))
        if highest is not None:
            sequence = text("SELECT setval(pg_get_serial_sequence(:name, 'id'), :highest)")
            target.execute(sequence, {"name": table.name, "highest": highest})


def revisions(engine: Engine) -> tuple[str, str | None]:
    """Which migration made the tables, and which is this release's last.

    Raises DatabaseError where there are none, or none that this release knows.
    """
    with explaining(engine.url, DatabaseError, "could not read the history"), engine.connect() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
        known = ScriptDirectory.from_config(alembic_config(connection))
    where = place(engine.url)
    if found is None:
        raise DatabaseError(f"{where} holds no history of inferwatch")
    try:
        known.get_revision(found)
    except CommandError as cause:
        raise DatabaseError(f"a newer release wrote {where} (revision {found}): use that release") from cause
    return found, known.get_current_head()
