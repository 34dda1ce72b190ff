"""Reads the tables with plain SQL, as another program would, and gives the same of SQLite and PostgreSQL."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import Engine

from monitor.history.encoding import decode
from tests.end_to_end.processes import DEADLINE

Row = dict[str, Any]
Stored = Path | Engine
"""An SQLite file, or any database."""

JSON = ("labels", "info", "requests_rejected", "xid_errors")


@contextmanager
def connected(to: Stored) -> Iterator[sqlite3.Connection | psycopg.Connection[Row]]:
    url = None if isinstance(to, Path) else to.url
    if url is not None and url.get_backend_name() == "postgresql":
        plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(plain, row_factory=dict_row) as postgres:
            yield postgres
        return
    file = to if isinstance(to, Path) else to.url.database or ""
    with closing(sqlite3.connect(file, timeout=DEADLINE)) as sqlite:
        sqlite.row_factory = sqlite3.Row
        yield sqlite


def asked(connection: sqlite3.Connection | psycopg.Connection[Row], query: str) -> list[Row]:
    found = connection.execute(query)
    return [{name: _plain(name, value) for name, value in dict(row).items()} for row in found]


def _plain(name: str, value: Any) -> Any:
    """JSON is a text in SQLite."""
    return json.loads(value) if name in JSON and isinstance(value, str) else value


def rows(of: Stored, table: str) -> dict[tuple[str, int], Row]:
    """By identity and window start; histograms decoded, so that ids of bounds do not matter; maxima always told."""
    with connected(of) as connection:
        bounds = {
            row["id"]: tuple(map(float, row["bounds"].split(",")))
            for row in asked(connection, "SELECT id, bounds FROM bounds")
        }
        series = {row["id"]: row["identity"] for row in asked(connection, "SELECT id, identity FROM series")}
        found = {}
        for row in asked(connection, f"SELECT * FROM {table}"):
            key = series[row.pop("series_id")], row.pop("start")
            found[key] = {name: _decoded(name, value, bounds) for name, value in (row | _maxima(row)).items()}
    return {key: found[key] for key in sorted(found)}


def _maxima(row: Row) -> Row:
    """NULL where they are the mean."""
    names = [name for name, value in row.items() if name.endswith("_max") and value is None]
    return {name: row[f"{name.removesuffix('_max')}_avg"] for name in names}


def _decoded(name: str, value: Any, bounds: dict[int, tuple[float, ...]]) -> Any:
    return decode(value, bounds) if name.endswith("_histogram") and value is not None else value


def engine_rows(of: Stored) -> dict[int, Row]:
    """Of the only engine there is, by window start."""
    found = rows(of, "engine_minute")
    assert len({identity for identity, _ in found}) <= 1
    return {start: row for (_, start), row in found.items()}


_SERIES = "identity, scope, node, server, framework, model, role, engine, labels, info, first_seen, last_seen"


def everything(of: Stored) -> dict[str, Any]:
    """All that is stored, but for ids and checkpoints."""
    with connected(of) as connection:
        series = asked(connection, f"SELECT {_SERIES} FROM series")
        events = asked(
            connection,
            "SELECT s.identity, e.at, e.kind, e.before, e.after FROM events e JOIN series s ON s.id = e.series_id",
        )
    return {
        "series": _tuples(series),
        "events": _tuples(events),
        "engine_minute": rows(of, "engine_minute"),
        "target_minute": rows(of, "target_minute"),
    }


def _tuples(found: list[Row]) -> list[tuple[Any, ...]]:
    """In an order that is no database's own."""
    return sorted((tuple(row.values()) for row in found), key=lambda values: values[:3])
