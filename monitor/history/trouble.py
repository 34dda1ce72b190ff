"""What is wrong with a database, in one line: where it is, the cause, and what to do; and doing again what passes."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

CHOOSE_ANOTHER = "name another place with --state-dir FOLDER or `history.path`"
_MOVE_AWAY = "stop inferwatch, move the file away (or put a copy of it back), and start again"
_BY_CODE = {
    "SQLITE_BUSY": ("another inferwatch or another program uses it", f"stop that one, or {CHOOSE_ANOTHER}"),
    "SQLITE_NOTADB": ("the file is no SQLite database", f"move it away, or {CHOOSE_ANOTHER}"),
    "SQLITE_CORRUPT": ("the file is damaged", _MOVE_AWAY),
    "SQLITE_FULL": ("the disk is full", "make room there"),
    "SQLITE_IOERR": ("the disk reports an error", "check the disk and its mount"),
    "SQLITE_READONLY": ("it cannot be written", f"let this user write the file and its folder, or {CHOOSE_ANOTHER}"),
    "SQLITE_CANTOPEN": ("it cannot be opened", f"let this user read and write the file, or {CHOOSE_ANOTHER}"),
}
"""Cause and remedy of SQLite's errors; extended codes begin with these."""


_NO_ANSWER = ("no PostgreSQL answers there", "start it, or correct `history.url`")
_RESTARTS = ("it is just starting or stopping", "inferwatch tries again by itself while it runs")
_BY_SQLSTATE = {
    "08": ("the connection was lost", _RESTARTS[1]),
    "25006": ("it is read-only: a standby, or set so", "name the primary in `history.url`"),
    "42501": (
        "this user lacks a right",
        "make it the owner of the database, or GRANT it CREATE and USAGE on the schema and TEMPORARY on the database",
    ),
    "53100": ("its disk is full", "make room there"),
    "53300": ("it has no connection left", "raise max_connections, or close others"),
    "55P03": ("another program holds a lock for long", "end what holds it"),
    "57P": _RESTARTS,
}
"""Cause and remedy of PostgreSQL's errors; codes begin with these."""

_PASSING = frozenset({
    "40001",  # could not be serialised
    "40P01",  # a deadlock
    "23503", "SQLITE_CONSTRAINT_FOREIGNKEY",  # the series was deleted meanwhile
    "23514",  # so was the partition
})  # fmt: skip

_BY_TEXT = (
    ("password", ("the password is missing or wrong", "give `history.password_file`, PGPASSFILE or PGPASSWORD")),
    ("pg_hba.conf", ("it does not let this user in from this host", "add a line to its pg_hba.conf")),
    (r'database ".*" does not exist', ("that database is not there", "make it: CREATE DATABASE … ENCODING 'UTF8'")),
    (r'role ".*" does not exist', ("that user is not there", "CREATE ROLE … LOGIN, or correct `history.url`")),
    ("is (starting up|shutting down)|not yet accepting", _RESTARTS),
    ("refused|No such file|resolve|translate|time(d )?out|unreachable|No route", _NO_ANSWER),
    ("closed the connection|connection (is|was) (closed|lost)|consuming input|SSL SYSCALL", _BY_SQLSTATE["08"]),
)
"""Where no connection came about there is no code, and text is all that tells."""


def place(url: URL) -> str:
    """The file, or the URL without driver, password and options."""
    if url.get_backend_name() == "sqlite":
        return url.database or "memory"
    return url.set(drivername=url.get_backend_name(), query={}).render_as_string()


def elsewhere(url: URL) -> str:
    """What to do where this database must not be used."""
    return CHOOSE_ANOTHER if url.get_backend_name() == "sqlite" else "name another database in `history.url`"


def explained(url: URL, error: SQLAlchemyError) -> str:
    """Place, cause and remedy, for what comes after "could not …"."""
    found = _of_place(Path(place(url))) if url.get_backend_name() == "sqlite" and _is_access(error) else None
    cause, remedy = found or _of_error(error)
    return f"{place(url)}: {cause}" + (f"; {remedy}" if remedy else "")


@contextmanager
def explaining(url: URL, kind: type[Exception], failed: str) -> Iterator[None]:
    """An error of the database becomes one of this kind that says what `failed`, and as much as `explained`."""
    try:
        yield
    except SQLAlchemyError as cause:
        raise kind(f"{failed} at {explained(url, cause)}") from cause


def is_worth_repeating(error: SQLAlchemyError) -> bool:
    """Another's transaction stood in the way, and is over: the same will do now, in a new one."""
    original = _original(error)
    return (original.sqlstate if isinstance(original, psycopg.Error) else _code(error)) in _PASSING


def repeatedly(
    do: Callable[[], None], attempts: int = 3, passes: Callable[[SQLAlchemyError], bool] = is_worth_repeating
) -> None:
    """Until it is done, as long as what stands in the way `passes`. Raises what ended the last attempt."""
    for _ in range(attempts - 1):
        try:
            do()
        except SQLAlchemyError as error:
            if not passes(error):
                raise
        else:
            return
    do()


def is_about_values(error: SQLAlchemyError) -> bool:
    """What was to be written is refused, and will be again."""
    return isinstance(_original(error), psycopg.DataError | psycopg.errors.ProgramLimitExceeded)


def _original(error: SQLAlchemyError) -> BaseException | None:
    return error.orig if isinstance(error, DBAPIError) else None


def _code(error: SQLAlchemyError) -> str:
    original = _original(error)
    return getattr(original, "sqlite_errorname", "") if isinstance(original, sqlite3.Error) else ""


def _is_access(error: SQLAlchemyError) -> bool:
    return _code(error).startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY"))


def _of_place(path: Path) -> tuple[str, str] | None:
    """What stands in the way of using a file there."""
    if path.is_dir():
        return "it is a folder, not a file", CHOOSE_ANOTHER
    if not path.parent.is_dir():
        return "its folder is not there", f"make it, or {CHOOSE_ANOTHER}"
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return f"this user may not write into {path.parent}", f"allow it, or {CHOOSE_ANOTHER}"
    return None


def _of_error(error: SQLAlchemyError) -> tuple[str, str]:
    original = _original(error)
    told = str(original or error).partition("\n")[0]
    known = _of_postgres(original, told) if isinstance(original, psycopg.Error) else _starting(_BY_CODE, _code(error))
    if known is None:
        return told, ""
    cause, remedy = known
    return f"{cause} ({told})", remedy


def _of_postgres(error: psycopg.Error, told: str) -> tuple[str, str] | None:
    if error.sqlstate:
        return _starting(_BY_SQLSTATE, error.sqlstate)
    return next((known for pattern, known in _BY_TEXT if re.search(pattern, told)), None)


def _starting(known: Mapping[str, tuple[str, str]], code: str) -> tuple[str, str] | None:
    return next((told for prefix, told in known.items() if code.startswith(prefix)), None)
