"""Writes minute rows: each with the checkpoint that goes with it in one transaction, and never less than was there."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock

from sqlalchemy import Engine, Table, exists, select
from sqlalchemy.exc import SQLAlchemyError

from exporters.observation import Labels
from monitor.history import tables
from monitor.history.bulk import Row, upsert_rows
from monitor.history.database import DatabaseError, HistoryError, for_writing, make_folder, reading, upgrade
from monitor.history.file import DatabaseFile
from monitor.history.lease import Lease
from monitor.history.minutes import WINDOW_SECONDS, Event, Window
from monitor.history.partitions import Partition, make_partitions, partition_of
from monitor.history.retold import retell
from monitor.history.rows import row_values, scope_of
from monitor.history.tables import Tier, rows_table
from monitor.history.trouble import explained, is_about_values, repeatedly
from monitor.history.upsert import Ids, Progress, Seen, Upsert

log = logging.getLogger(__name__)

Key = tuple[str, str, str]
"""Node, and server or uuid; "" is the other one."""


class WriteError(HistoryError):
    """Nothing of what was handed in was written."""


class RowsRefused(WriteError):
    """By the database, for what they hold: it may take others."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a target or a GPU has to write, and the checkpoint of having written it."""

    node: str
    server: str
    at: float
    windows: tuple[Window, ...]
    events: tuple[Event, ...]
    checkpoint: bytes
    uuid: str = ""
    """Of a GPU, which has no server."""


class Store:
    """Safe to call from several threads: one write waits for the other."""

    def __init__(self, engine: Engine, lease: Lease | None = None) -> None:
        """`lease` is what only one process may have that writes with checkpoints."""
        self.lease = lease
        self._engine = engine
        self._forget_what_is_there()
        self._file = DatabaseFile(engine.url)
        self._following = Lock()
        self._writing = Lock()
        self.losses: list[str] = []
        """What became of the file while this process ran, the last at the end."""

    def write(self, batches: Sequence[Batch]) -> None:
        """All or nothing. Raises WriteError, RowsRefused among them, and LeaseLost where another writes these now."""
        windows = [window for batch in batches for window in batch.windows]
        events = [event for batch in batches for event in batch.events]

        def and_checkpoints(upsert: Upsert) -> None:
            for each in sorted(batches, key=lambda batch: (batch.node, batch.server, batch.uuid)):
                upsert.checkpoint(each.node, each.server, each.uuid, each.at, each.checkpoint)
            if self.lease is not None:
                self.lease.hold(upsert.connection)

        self._write(windows, events, and_checkpoints)

    def write_windows(self, windows: Sequence[Window], events: Sequence[Event], progress: Progress | None) -> None:
        """Of a source that can be asked again; `events` are all of these windows. All or nothing. Raises WriteError."""

        def and_progress(upsert: Upsert) -> None:
            retell(upsert, self._ids, windows, events)
            if progress is not None:
                upsert.progress(progress)

        self._write(windows, (), and_progress)

    def _write(self, windows: Sequence[Window], events: Sequence[Event], mark: Callable[[Upsert], None]) -> None:
        """`mark` writes how far this goes."""
        self.follow_file()

        def once() -> None:
            with self._writing:  # or one would build on ids of another that comes to nothing
                self._write_once(windows, events, mark)

        try:
            repeatedly(once)
        except SQLAlchemyError as cause:
            kind = RowsRefused if is_about_values(cause) else WriteError
            raise kind(f"could not write the history at {explained(self._engine.url, cause)}") from cause

    def _write_once(self, windows: Sequence[Window], events: Sequence[Event], mark: Callable[[Upsert], None]) -> None:
        wanted = {partition_of(_table(of), window.start) for window in windows for of in window.rows}
        try:
            make_partitions(self._engine, wanted - self._partitions)
            self._partitions |= wanted
            with for_writing(self._engine).begin() as connection:
                upsert = Upsert(connection)
                _write(upsert, self._ids, windows, events)
                mark(upsert)
        except Exception:
            self._forget_what_is_there()  # what was made in the transaction is gone
            raise

    def _forget_what_is_there(self) -> None:
        self._ids = Ids()
        self._partitions: set[Partition] = set()

    def checkpoint(self, node: str, server: str, uuid: str = "") -> bytes | None:
        c = tables.checkpoints.c
        wanted = select(c.state).where(c.node == node, c.server == server, c.uuid == uuid)
        with reading(self._engine) as connection:
            return connection.scalar(wanted)

    def progress(self, source: str) -> Progress | None:
        """Raises ReadError."""
        with reading(self._engine) as connection:
            return Progress.read(connection, source)

    def newest(self, until: float = math.inf) -> float | None:
        """End of the newest stored window of those that end by `until`, in unix seconds."""
        minute = tables.target_minute
        last = select(minute.c.start).where(minute.c.series_id == tables.series.c.id)
        if math.isfinite(until):
            last = last.where(minute.c.start <= until - WINDOW_SECONDS)
        last = last.order_by(minute.c.start.desc()).limit(1)
        with reading(self._engine) as connection:
            starts = connection.scalars(select(last.scalar_subquery()).select_from(tables.series)).all()
        return max((start + WINDOW_SECONDS for start in starts if start is not None), default=None)

    def written_since(self, moment: float) -> set[Key]:
        """Targets and GPUs of which a minute that starts then or later is stored. Raises ReadError."""
        c = tables.series.c
        found: set[Key] = set()
        with reading(self._engine) as connection:
            for minute in (tables.target_minute, tables.gpu_minute):
                is_there = exists().where(minute.c.series_id == c.id, minute.c.start >= moment)
                found |= {
                    (row.node, row.server, row.uuid or "")
                    for row in connection.execute(select(c.node, c.server, c.uuid).where(is_there))
                }
        return found

    def follow_file(self) -> None:
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
            self._forget_what_is_there()
            if self.lease is not None:
                self.lease.acquire()
            self._file.accept()
            self.losses.append(f"{change} while inferwatch ran: what it held is lost; the history goes on without it")
            log.error("history: %s", self.losses[-1])


@cache
def _table(of: Labels) -> Table:
    return rows_table(scope_of(of), Tier.MINUTE)


def _write(upsert: Upsert, ids: Ids, windows: Sequence[Window], events: Iterable[Event]) -> None:
    """In an order that is the same for all writers, so that they wait for each other in turn."""
    upsert.due(window.start for window in windows)
    rows: defaultdict[Table, list[Row]] = defaultdict(list)
    seen: dict[int, Seen] = {}
    for of in sorted({of for window in windows for of in window.rows} | {event.target for event in events}):
        ids.of_series(upsert, of)
    for start, of, minute in ((w.start, of, minute) for w in windows for of, minute in w.rows.items()):
        series_id = ids.of_series(upsert, of)
        values = row_values(scope_of(of), minute, lambda bounds: ids.of_bounds(upsert, bounds))
        rows[_table(of)].append((series_id, start, *values))
        now = Seen.of(minute)
        if now is not None:
            seen[series_id] = seen[series_id] | now if series_id in seen else now
    upsert.seen(seen)
    for table, of_table in sorted(rows.items(), key=lambda item: item[0].name):
        upsert_rows(upsert.connection, table, of_table)
    for event in events:
        upsert.event(ids.of_series(upsert, event.target), event)
