"""Many rows at once, by the drivers' own means: SQLAlchemy would make a dictionary of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, cast

import psycopg
from sqlalchemy import JSON, BigInteger, Boolean, Connection, Double, Integer, LargeBinary, String, Table, Text
from sqlalchemy.exc import OperationalError

from monitor.history.postgres import is_postgres

Row = tuple[Any, ...]
"""All columns of the table, in their order."""

_WIRE_TYPES = {
    Boolean: "bool",
    Integer: "int4",
    BigInteger: "int8",
    Double: "float8",
    LargeBinary: "bytea",
    String: "text",
    Text: "text",
    JSON: "text",  # rows hold it as text already, and so it travels
}


def upsert_rows(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    """A row with more readings is never overwritten with one of fewer."""
    # Always in the same order, so that two writers of the same rows wait for each other in turn.
    ordered = sorted(_once(rows), key=itemgetter(0, 1))
    if not ordered:
        return
    if is_postgres(connection):
        _copy(connection, table, ordered)
    else:
        connection.exec_driver_sql(f"{_insert_values(table)} {_on_conflict(table)}", ordered)


def append_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Rows that are not there yet, of any table."""
    if not rows:
        return
    if is_postgres(connection):
        _copy_into(connection, table.name, table, rows)
    else:
        connection.exec_driver_sql(_insert_values(table), list(rows))


def _once(rows: Iterable[Row]) -> Iterable[Row]:
    """PostgreSQL refuses to change a row twice in one statement; a clock that was set back gives a minute twice."""
    chosen: dict[Row, Row] = {}
    for row in rows:
        key, samples = row[:2], row[2]
        if key not in chosen or samples >= chosen[key][2]:
            chosen[key] = row
    return chosen.values()


@cache
def _names(table: Table) -> str:
    """By name, since a migration adds columns at the end."""
    return ", ".join(c.name for c in table.columns)


def _insert(table: Table) -> str:
    return f"INSERT INTO {table.name} ({_names(table)})"


def _insert_values(table: Table) -> str:
    return f"{_insert(table)} VALUES ({', '.join('?' * len(table.columns))})"


@cache
def _on_conflict(table: Table) -> str:
    key = ", ".join(c.name for c in table.primary_key.columns)
    changed = ", ".join(f"{c.name} = excluded.{c.name}" for c in table.columns if not c.primary_key)
    return f"ON CONFLICT ({key}) DO UPDATE SET {changed} WHERE excluded.samples >= {table.name}.samples"


def _copy(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Into a table that only this connection sees, and from there."""
    staged = f"incoming_{table.name}"
    connection.exec_driver_sql(
        f"CREATE TEMPORARY TABLE IF NOT EXISTS {staged} (LIKE {table.name}) ON COMMIT DELETE ROWS"
    )
    _copy_into(connection, staged, table, rows)
    select = f"SELECT {_names(table)} FROM {staged}"  # noqa: S608 (names of our own tables)
    connection.exec_driver_sql(f"{_insert(table)} {select} {_on_conflict(table)}")


def _copy_into(connection: Connection, name: str, table: Table, rows: Sequence[Row]) -> None:
    """Into the table of that name, whose columns are those of `table`."""
    statement = f"COPY {name} ({_names(table)}) FROM STDIN (FORMAT BINARY)"
    driver = cast("psycopg.Connection", connection.connection.driver_connection)
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([_WIRE_TYPES[type(c.type)] for c in table.columns])
            for row in rows:
                copy.write_row(row)
    except psycopg.Error as cause:
        raise OperationalError(statement, None, cause) from cause
