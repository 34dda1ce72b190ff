"""Writes minute rows: each with the checkpoint that goes with it in one transaction, and never less than was there."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Engine, delete, select
from sqlalchemy.exc import SQLAlchemyError

from monitor.history import tables
from monitor.history.database import DatabaseError, HistoryError, ReadError, for_writing, make_folder, upgrade
from monitor.history.file import DatabaseFile
from monitor.history.minutes import WINDOW_SECONDS, Event, Window
from monitor.history.rows import row_values
from monitor.history.trouble import explained
from monitor.history.upsert import Ids, Upsert

log = logging.getLogger(__name__)


class WriteError(HistoryError):
    """Nothing of what was handed in was written."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a target has to write, and the checkpoint of having written it."""

    node: str
    server: str
    at: float
    windows: tuple[Window, ...]
    events: tuple[Event, ...]
    checkpoint: bytes


class Store:
    """For one writer at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ids = Ids()
        self._file = DatabaseFile(engine.url)
        self._following = Lock()
        self.losses: list[str] = []
        """What became of the file while this process ran, the last at the end."""

    def write(self, batches: Sequence[Batch]) -> None:
        """All or nothing. Raises WriteError."""
        self._follow_file()
        try:
            with for_writing(self._engine).begin() as connection:
                _write(Upsert(connection), self._ids, batches)
        except SQLAlchemyError as cause:
            self._ids = Ids()  # those given out in the transaction are gone
            raise WriteError(f"could not write the history at {explained(self._engine.url, cause)}") from cause

    def checkpoint(self, node: str, server: str) -> bytes | None:
        table = tables.checkpoints
        wanted = select(table.c.state).where(table.c.node == node, table.c.server == server)
        with self._reading() as connection:
            return connection.scalar(wanted)

    def newest(self, until: float = math.inf) -> float | None:
        """End of the newest stored window of those that end by `until`, in unix seconds."""
        minute = tables.target_minute
        last = select(minute.c.start).where(minute.c.series_id == tables.series.c.id)
        if math.isfinite(until):
            last = last.where(minute.c.start <= until - WINDOW_SECONDS)
        last = last.order_by(minute.c.start.desc()).limit(1)
        with self._reading() as connection:
            starts = connection.scalars(select(last.scalar_subquery()).select_from(tables.series)).all()
        return max((start + WINDOW_SECONDS for start in starts if start is not None), default=None)

    def forget(self, before: float) -> int:
        """Deletes minutes that started before that moment, in a transaction per series; returns how many.

        Reads the file anew, so that damage which SQLite's cache hides shows here at the latest. Raises WriteError.
        """
        self._follow_file()
        self._engine.dispose()
        try:
            with self._engine.connect() as connection:
                known = connection.scalars(select(tables.series.c.id)).all()
            return sum(self._forget(series_id, before) for series_id in known)
        except SQLAlchemyError as cause:
            told = explained(self._engine.url, cause)
            raise WriteError(f"could not delete old minutes from the history at {told}") from cause

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as cause:
            raise ReadError(f"could not read the history at {explained(self._engine.url, cause)}") from cause

    def _follow_file(self) -> None:
        """Goes on in a new file where the one that was opened is gone. Raises WriteError."""
        with self._following:
            change = self._file.change()
            if change is None:
                return
            try:
                make_folder(self._engine.url)
                self._engine.dispose()
                upgrade(self._engine)
            except DatabaseError as cause:
                raise WriteError(f"{change} while inferwatch ran: what it held is lost; {cause}") from cause
            self._ids = Ids()
            self._file.accept()
            self.losses.append(f"{change} while inferwatch ran: what it held is lost; the history goes on without it")
            log.error("history: %s", self.losses[-1])

    def _forget(self, series_id: int, before: float) -> int:
        with for_writing(self._engine).begin() as connection:
            old = (
                delete(table).where(table.c.series_id == series_id, table.c.start < before)
                for table in (tables.engine_minute, tables.target_minute)
            )
            return sum(connection.execute(statement).rowcount for statement in old)


def _write(upsert: Upsert, ids: Ids, batches: Sequence[Batch]) -> None:
    rows: dict[str, list[dict[str, Any]]] = {"engine_minute": [], "target_minute": []}
    windows = ((window.start, item) for batch in batches for window in batch.windows for item in window.rows.items())
    for start, (of, minute) in windows:
        series_id = ids.of_series(upsert, of)
        upsert.seen(series_id, minute)
        table, values = row_values(of, minute, lambda bounds: ids.of_bounds(upsert, bounds))
        rows[table].append({"series_id": series_id, "start": start, **values})
    for name, of_table in rows.items():
        upsert.minutes(tables.metadata.tables[name], of_table)
    for batch in batches:
        for event in batch.events:
            upsert.event(ids.of_series(upsert, event.target), event)
        upsert.checkpoint(batch.node, batch.server, batch.at, batch.checkpoint)
