"""Puts the rows of a backup into an empty database of either kind."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.pool import NullPool

from monitor.history import tables
from monitor.history.database import HistoryError, for_writing, open_database, sqlite_url, upgrade
from monitor.history.lease import SCRAPED, Lease
from monitor.history.partitions import Partition, make_partitions
from monitor.history.postgres import is_postgres
from monitor.history.size import tables_of
from monitor.history.tables import Tier
from monitor.history.transfer import Progress, contents, copy_rows, give_out_new_ids, revisions
from monitor.history.trouble import explaining, place
from monitor.history.upkeep import UPKEEP


class RestoreError(HistoryError):
    """The database is as it was."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a database holds."""

    series: int
    rows: int
    """Of all tables together."""

    def __str__(self) -> str:
        return f"{self.series:,} series and {self.rows - self.series:,} other rows"


def restore(file: Path, engine: Engine, progress: Progress, *, replace: bool = False) -> Found:
    """In one transaction; returns what was replaced. A backup of an older release is brought up to date in a copy.

    Raises RestoreError where the database holds something, unless it is to be replaced, and DatabaseError.
    """
    if not file.is_file():
        raise RestoreError(f"could not restore {file}: there is no such file")
    with explaining(engine.url, RestoreError, "could not restore the history"), _up_to_date(file) as backup:
        upgrade(engine)
        with _alone(engine), backup.connect() as source:
            return _restore(source, engine, progress, replace=replace)


def _restore(source: Connection, engine: Engine, progress: Progress, *, replace: bool) -> Found:
    if is_postgres(engine):
        make_partitions(engine, _partitions(source))
    with for_writing(engine).begin() as target:
        if is_postgres(target):
            target.exec_driver_sql(f"LOCK TABLE {_names()} IN SHARE ROW EXCLUSIVE MODE")
        found = _found(target)
        if found.rows and not replace:
            raise RestoreError(
                f"could not restore into {place(engine.url)}: it is not empty ({found}); "
                "name an empty database, or lose what it holds with --force"
            )
        _clear(target)
        for table in contents():
            copy_rows(source, target, table, progress)
        give_out_new_ids(target)
    return found


def _names() -> str:
    return ", ".join(table.name for table in contents())


def _found(connection: Connection) -> Found:
    counted = {table: connection.scalar(select(func.count()).select_from(table)) or 0 for table in contents()}
    return Found(counted[tables.series], sum(counted.values()))


def _clear(connection: Connection) -> None:
    if is_postgres(connection):
        connection.exec_driver_sql(f"TRUNCATE {_names()}")
        return
    for table in reversed(contents()):
        connection.execute(table.delete())


def _partitions(source: Connection) -> Iterator[Partition]:
    for table in tables_of(Tier.MINUTE):
        day = table.c.start - table.c.start % Tier.DAY.seconds
        yield from (Partition(table.name, start) for start in source.scalars(select(day).distinct()))


@contextmanager
def _alone(engine: Engine) -> Iterator[None]:
    """Raises RestoreError while another process writes the history."""
    with ExitStack() as taken:
        for name in (SCRAPED, UPKEEP):
            lease = Lease(engine, name)
            if not lease.acquire():
                raise RestoreError(
                    f"could not restore into {place(engine.url)}: inferwatch in {lease.other} writes it; end that first"
                )
            taken.callback(lease.release)
        yield


@contextmanager
def _up_to_date(file: Path) -> Iterator[Engine]:
    """The backup with the tables of this release. The file itself is never written."""
    _check_readable(file)
    backup = _read_only(file)
    made_by, newest = revisions(backup)
    if made_by == newest:
        yield backup
        return
    with TemporaryDirectory(prefix="inferwatch-restore-") as folder, _upgraded(file, Path(folder) / "copy") as copy:
        yield copy


def _check_readable(file: Path) -> None:
    try:
        with closing(_connect(file)) as source:
            source.execute("PRAGMA schema_version")
    except sqlite3.Error as cause:
        told = "is no backup" if cause.sqlite_errorname == "SQLITE_NOTADB" else "cannot be read"
        raise RestoreError(f"could not restore {file}: it {told} ({cause})") from cause


@contextmanager
def _upgraded(file: Path, copy: Path) -> Iterator[Engine]:
    try:
        with closing(_connect(file)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    except sqlite3.Error as cause:
        raise RestoreError(f"could not copy the backup {file} to {copy}: {cause}") from cause
    engine = open_database(sqlite_url(copy))
    try:
        upgrade(engine)
        yield engine
    finally:
        engine.dispose()


def _read_only(file: Path) -> Engine:
    """Not set up as a history is: that would write the file."""
    engine = create_engine(sqlite_url(file), creator=lambda: _connect(file), poolclass=NullPool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _connect(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True, isolation_level=None)
