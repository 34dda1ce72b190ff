"""Backups: all of a history at one moment as one SQLite file, whichever database it lies in."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import mkstemp
from typing import cast

from alembic import command
from sqlalchemy import Connection, Engine, MetaData, Table

from monitor.history.database import HistoryError, alembic_config, for_writing, open_database, sqlite_url
from monitor.history.file import path_of
from monitor.history.postgres import is_postgres
from monitor.history.transfer import Progress, contents, copy_rows, revisions
from monitor.history.trouble import explaining

_PAGES_AT_ONCE = 4096
_BESIDE = ("", "-wal", "-shm", "-journal")


class BackupError(HistoryError):
    """There is no new backup."""


def back_up(engine: Engine, file: Path, progress: Progress, *, overwrite: bool = False) -> None:
    """Written aside and put in its place when it is whole; writers of the history go on meanwhile.

    Raises BackupError, and DatabaseError where there is no history that this release knows.
    """
    _check(engine, file, overwrite=overwrite)
    try:
        with explaining(engine.url, BackupError, "could not back up the history"), _aside(file) as partial:
            made_by, _ = revisions(engine)
            if is_postgres(engine):
                _from_postgres(engine, partial, made_by, progress)
            else:
                _from_sqlite(engine, partial, progress)
            _finish(partial)
            partial.replace(file)
            _sync(file.parent)
    except (OSError, sqlite3.Error) as cause:
        raise BackupError(f"could not write the backup {file}: {cause}") from cause


def _check(engine: Engine, file: Path, *, overwrite: bool) -> None:
    own = path_of(engine.url)
    if not file.exists():
        return
    if own is not None and own.exists() and own.samefile(file):
        raise BackupError(f"could not write the backup {file}: that is the history itself")
    if not file.is_file():
        raise BackupError(f"could not write the backup {file}: it is a folder or a device; name a file")
    if not overwrite:
        raise BackupError(f"could not write the backup {file}: it exists already; name another, or --overwrite")


@contextmanager
def _aside(file: Path) -> Iterator[Path]:
    """A new file in the same folder, gone at the end unless it was moved away."""
    descriptor, name = mkstemp(prefix=f"{file.name}.", suffix=".partial", dir=file.parent)
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        for suffix in _BESIDE:
            Path(f"{name}{suffix}").unlink(missing_ok=True)


def _from_sqlite(engine: Engine, partial: Path, progress: Progress) -> None:
    """SQLite's own copying, page by page; an open transaction keeps all pages of one moment."""

    def tell(_status: int, remaining: int, total: int) -> None:
        progress(f"{100 * (total - remaining) // max(total, 1)} %")

    with closing(sqlite3.connect(partial)) as target, engine.connect() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM alembic_version")
        source = cast("sqlite3.Connection", connection.connection.driver_connection)
        source.backup(target, pages=_PAGES_AT_ONCE, progress=tell)


def _from_postgres(engine: Engine, partial: Path, made_by: str, progress: Progress) -> None:
    """By the tables of the revision that the history is at, so that no migration is needed for a backup.

    Days that are dropped are gone for older snapshots as well: so all are held before the snapshot is taken.
    """
    target_engine = open_database(sqlite_url(partial))
    snapshot = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    try:
        with for_writing(target_engine).begin() as target, snapshot.connect() as source:
            command.upgrade(alembic_config(target), made_by)
            held = contents(_reflected(target))
            source.exec_driver_sql(f"LOCK TABLE {', '.join(table.name for table in held)} IN ACCESS SHARE MODE")
            for table in held:
                copy_rows(source, target, table, progress)
    finally:
        target_engine.dispose()


def _reflected(connection: Connection) -> list[Table]:
    found = MetaData()
    found.reflect(connection)
    return [table for table in found.sorted_tables if table.name != "alembic_version"]


def _finish(partial: Path) -> None:
    """One file without leases, and on the disk before it is called whole."""
    with closing(sqlite3.connect(partial, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'leases'").fetchone():
            connection.execute("DELETE FROM leases")
    _sync(partial)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
