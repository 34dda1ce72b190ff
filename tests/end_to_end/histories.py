"""Databases that a world is read into, to be compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, select

from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.rollup import roll_up
from monitor.history.tables import progress
from tests.end_to_end.worlds import HOURS, World
from tests.monitor.following import followed
from tests.monitor.history.stored import everything, rows

NOTHING = "global: {scrape_interval: 1h}"
FOR_EVER = "--storage.tsdb.retention.time=100y"
BACKFILL = (HOURS + 3) * 3600.0
SETTLED = 700.0
"""After the end: what concerns the windows before is all there then."""
_MORE = ("gpu_minute", *(f"{of}_{tier}" for of in ("target", "engine", "gpu") for tier in ("hour", "day")))


@contextmanager
def history(url: str) -> Iterator[Engine]:
    """A database at head."""
    engine = open_database(url)
    try:
        upgrade(engine)
        yield engine
    finally:
        engine.dispose()


def in_file(folder: Path) -> str:
    return sqlite_url(folder / "history.sqlite")


async def read_late(url: str, database: Engine, seen: World) -> None:
    """All at once."""
    await followed(url, database, seen.until + SETTLED, backfill=BACKFILL)
    roll_up_all(database, seen)


def roll_up_all(database: Engine, seen: World) -> None:
    while roll_up(database, seen.until + 2 * 86_400):
        pass


def tables(of: Engine, seen: World) -> dict[str, Any]:
    """All that is stored of the time before the end, in every tier."""
    found = everything(of) | {table: rows(of, table) for table in _MORE}
    return {
        name: {key: row for key, row in part.items() if key[1] < seen.until} if isinstance(part, dict) else part
        for name, part in found.items()
    }


def read_until(database: Engine) -> int:
    """How far a Prometheus was read, but for its alerts; 0 if not at all."""
    c = progress.c
    with database.connect() as connection:
        found = connection.scalar(select(func.max(c.until)).where(~c.source.startswith("alerts of ")))
    return found or 0
