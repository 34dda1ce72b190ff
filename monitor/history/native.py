"""The native bounds of stored histograms."""

from __future__ import annotations

from sqlalchemy import Connection, select

from monitor.history import tables


def bounds(connection: Connection) -> dict[int, tuple[float, ...]]:
    """By id."""
    rows = connection.execute(select(tables.bounds.c.id, tables.bounds.c.bounds)).all()
    return {of: tuple(map(float, text.split(","))) if text else () for of, text in rows}
