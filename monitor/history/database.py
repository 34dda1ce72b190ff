"""The database: where it is, how SQLite is set up, and bringing its tables up to date."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

from monitor.history import postgres
from monitor.history.postgres import Turn
from monitor.history.trouble import CHOOSE_ANOTHER, elsewhere, explaining, place

MIGRATIONS = Path(__file__).parents[2] / "migrations"
"""Beside the packages in a checkout, which an editable installation runs from; a wheel does not have it."""

_BUSY_MILLISECONDS = 10_000
_BETWEEN_ATTEMPTS_SECONDS = 0.02
_ALWAYS_THERE = {"id", "scope", "identity", "node", "server", "labels", "info"}
"""Columns of `series` in every release."""
_VERSION_TABLE = "alembic_version"


class HistoryError(Exception):
    """Base of what can go wrong with the history."""


class DatabaseError(HistoryError):
    """The database cannot be used as it is."""


class ReadError(HistoryError):
    """The database could not be read."""


def default_url() -> str:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return sqlite_url(Path(state) / "inferwatch" / "history.sqlite")


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path.absolute()}"


def open_database(url: str, password_file: Path | None = None) -> Engine:
    """Makes the folder of an SQLite file; the tables are `upgrade`'s business. Raises DatabaseError."""
    try:
        parsed = postgres.with_driver(make_url(url))
    except ArgumentError as cause:
        raise DatabaseError(f"could not open the history's database at {url!r}: {cause}") from cause
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed)
    if parsed.get_backend_name() == "postgresql":
        return _postgres(parsed, password_file)
    raise DatabaseError(f"could not open the history's database at {url!r}: neither SQLite nor PostgreSQL speaks that")


def _sqlite(url: URL) -> Engine:
    make_folder(url)
    engine = create_engine(url, pool_pre_ping=True)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _postgres(url: URL, password_file: Path | None) -> Engine:
    try:
        engine = create_engine(url, pool_pre_ping=True, connect_args=postgres.connect_args(url))
    except (ArgumentError, ImportError) as cause:
        raise DatabaseError(f"could not open the history's database at {place(url)}: {cause}") from cause
    if password_file is not None:
        postgres.read_password(engine, password_file)
    return engine


def make_folder(url: URL) -> None:
    """Of an SQLite file. Raises DatabaseError."""
    folder = Path(url.database or "").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        file = next((p for p in (folder, *folder.parents) if p.exists() and not p.is_dir()), None)
        why = f"{file} is a file, not a folder" if file is not None else cause.strerror
        raise DatabaseError(f"could not make the history's folder {folder}: {why}; {CHOOSE_ANOTHER}") from cause


@contextmanager
def reading(engine: Engine, what: str = "history") -> Iterator[Connection]:
    """All that is read is of one moment, whatever is written or rolled up meanwhile. Raises ReadError."""
    with explaining(engine.url, ReadError, f"could not read the {what}"), engine.connect() as connection:
        if postgres.is_postgres(connection):
            connection.execution_options(isolation_level="REPEATABLE READ")
        yield connection


def for_writing(engine: Engine) -> Engine:
    """The same connections; their transactions take SQLite's write lock at once and wait for it as long as need be."""
    return engine.execution_options(sqlite_begin="BEGIN IMMEDIATE")


def _prepare_sqlite(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    """WAL lets others read while one writes; with it, NORMAL loses no committed row when the process dies.

    Rows of half a kilobyte leave less room unused in pages of 8: 5 % of the file. A file that exists keeps its own.
    """
    connection.isolation_level = None  # the driver would begin only before the first change, and not before DDL
    connection.execute("PRAGMA page_size = 8192")
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
    _keep_write_ahead_log(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")


def _keep_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Of two that switch a new file at once SQLite refuses one without waiting: each would wait for the other.

    The last attempt begins when the time is over: this process may have stood still for all of it.
    """
    deadline = time.monotonic() + _BUSY_MILLISECONDS / 1000
    is_last = False
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or is_last:
                raise
        else:
            return
        is_last = time.monotonic() >= deadline
        time.sleep(_BETWEEN_ATTEMPTS_SECONDS)


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))


def upgrade(engine: Engine) -> None:
    """Brings the tables up to date. Raises DatabaseError, also where this installation has no migrations for it."""
    if not (MIGRATIONS / "env.py").is_file():
        raise DatabaseError(
            f"could not bring the history's tables up to date: no migrations at {MIGRATIONS}; run from a checkout "
            "(make run), or put its migrations folder there"
        )
    failed = "could not use the history"
    try:
        with explaining(engine.url, DatabaseError, failed), for_writing(engine).begin() as connection:
            _refuse_unfit(connection)
            postgres.take_turn(connection, Turn.MIGRATE)
            _refuse_foreign(connection)
            command.upgrade(alembic_config(connection), "head")
    except CommandError as cause:
        raise DatabaseError(
            f"could not use the history at {place(engine.url)}: a newer release wrote it ({cause}); "
            f"start that release, or {elsewhere(engine.url)}"
        ) from cause


def _refuse_unfit(connection: Connection) -> None:
    """Raises DatabaseError."""
    why = postgres.unfit(connection) if postgres.is_postgres(connection) else None
    if why is not None:
        raise DatabaseError(f"could not use the history at {place(connection.engine.url)}: {why}")


def _refuse_foreign(connection: Connection) -> None:
    """Another program's tables are left alone. Raises DatabaseError."""
    found = inspect(connection)
    names = set(found.get_table_names())
    if "series" in names:
        ours = _VERSION_TABLE in names and {c["name"] for c in found.get_columns("series")} >= _ALWAYS_THERE
    else:
        # Others may share a database server, not a file.
        ours = names <= {_VERSION_TABLE} or (connection.dialect.name != "sqlite" and _VERSION_TABLE not in names)
    if not ours:
        some = ", ".join(sorted(names)[:5])
        raise DatabaseError(
            f"could not use the history at {place(connection.engine.url)}: it is another program's database "
            f"(its tables: {some}); {elsewhere(connection.engine.url)}"
        )


def alembic_config(connection: Connection) -> Config:
    """For Alembic's commands; what they do is part of the connection's transaction."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
