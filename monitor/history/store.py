"""Writes minute rows: each with the checkpoint that goes with it in one transaction, and never less than was there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, delete, select
from sqlalchemy.exc import SQLAlchemyError

from monitor.history import tables
from monitor.history.database import HistoryError, for_writing
from monitor.history.minutes import WINDOW_SECONDS, Event, Window
from monitor.history.rows import row_values
from monitor.history.upsert import Ids, Upsert


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

    def write(self, batches: Sequence[Batch]) -> None:
        """All or nothing. Raises WriteError."""
        try:
            with for_writing(self._engine).begin() as connection:
                _write(Upsert(connection), self._ids, batches)
        except SQLAlchemyError as cause:
            self._ids = Ids()  # those given out in the transaction are gone
            raise WriteError(f"could not write the history: {cause}") from cause

    def checkpoint(self, node: str, server: str) -> bytes | None:
        table = tables.checkpoints
        wanted = select(table.c.state).where(table.c.node == node, table.c.server == server)
        with self._engine.connect() as connection:
            return connection.scalar(wanted)

    def newest(self, until: float = math.inf) -> float | None:
        """End of the newest stored window of those that end by `until`, in unix seconds."""
        minute = tables.target_minute
        last = select(minute.c.start).where(minute.c.series_id == tables.series.c.id)
        if math.isfinite(until):
            last = last.where(minute.c.start <= until - WINDOW_SECONDS)
        last = last.order_by(minute.c.start.desc()).limit(1)
        with self._engine.connect() as connection:
            starts = connection.scalars(select(last.scalar_subquery()).select_from(tables.series)).all()
        return max((start + WINDOW_SECONDS for start in starts if start is not None), default=None)

    def forget(self, before: float) -> int:
        """Deletes minutes that started before that moment, in a transaction per series; returns how many.

        Raises WriteError.
        """
        try:
            with self._engine.connect() as connection:
                known = connection.scalars(select(tables.series.c.id)).all()
            return sum(self._forget(series_id, before) for series_id in known)
        except SQLAlchemyError as cause:
            raise WriteError(f"could not delete old minutes: {cause}") from cause

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
