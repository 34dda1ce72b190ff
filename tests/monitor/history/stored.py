"""Reads the tables with plain SQL, as another program would."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from monitor.history.encoding import decode

Row = dict[str, Any]


def rows(path: Path, table: str) -> dict[tuple[str, int], Row]:
    """By identity and window start; histograms decoded, so that ids of bounds do not matter."""
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        bounds = {
            of: tuple(map(float, text.split(","))) for of, text in connection.execute("SELECT id, bounds FROM bounds")
        }
        joined = (
            f"SELECT s.identity, m.* FROM {table} m JOIN series s ON s.id = m.series_id ORDER BY s.identity, m.start"
        )
        found = {}
        for row in connection.execute(joined):
            values = {k: row[k] for k in row.keys() if k not in ("identity", "series_id", "start")}  # noqa: SIM118
            for name, value in values.items():
                if name.endswith("_histogram") and value is not None:
                    values[name] = decode(value, bounds)
            found[row["identity"], row["start"]] = values
    connection.close()
    return found


def engine_rows(path: Path) -> dict[int, Row]:
    """Of the only engine there is, by window start."""
    found = rows(path, "engine_minute")
    assert len({identity for identity, _ in found}) <= 1
    return {start: row for (_, start), row in found.items()}


def everything(path: Path) -> dict[str, Any]:
    """All that is stored, but for ids and checkpoints."""
    with sqlite3.connect(path) as connection:
        series = connection.execute(
            "SELECT identity, scope, node, server, framework, model, role, engine, labels, info, first_seen, last_seen "
            "FROM series ORDER BY identity"
        ).fetchall()
        events = connection.execute(
            "SELECT s.identity, e.at, e.kind, e.before, e.after FROM events e JOIN series s ON s.id = e.series_id "
            "ORDER BY s.identity, e.at, e.kind"
        ).fetchall()
    connection.close()
    return {
        "series": [(*s[:8], json.loads(s[8]), json.loads(s[9]), *s[10:]) for s in series],
        "events": events,
        "engine_minute": rows(path, "engine_minute"),
        "target_minute": rows(path, "target_minute"),
    }
