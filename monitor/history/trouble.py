"""What is wrong with a database, in one line: where it is, the cause, and what to do about it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

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


def place(url: URL) -> str:
    """The file, or the URL without password."""
    return url.database or "memory" if url.get_backend_name() == "sqlite" else url.render_as_string()


def explained(url: URL, error: SQLAlchemyError) -> str:
    """Place, cause and remedy, for what comes after "could not …"."""
    found = _of_place(Path(place(url))) if url.get_backend_name() == "sqlite" and _is_access(error) else None
    cause, remedy = found or _of_code(error)
    return f"{place(url)}: {cause}" + (f"; {remedy}" if remedy else "")


def _code(error: SQLAlchemyError) -> str:
    original = error.orig if isinstance(error, DBAPIError) else None
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


def _of_code(error: SQLAlchemyError) -> tuple[str, str]:
    code = _code(error)
    told = str(error.orig if isinstance(error, DBAPIError) else error).partition("\n")[0]
    for prefix, (cause, remedy) in _BY_CODE.items():
        if code.startswith(prefix):
            return f"{cause} ({told})", remedy
    return told, ""
