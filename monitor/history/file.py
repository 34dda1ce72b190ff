"""The SQLite file behind an engine: whether it is still the one that was opened, and who else writes it."""

from __future__ import annotations

import fcntl
import logging
import os
from io import TextIOWrapper
from pathlib import Path

from sqlalchemy import URL

log = logging.getLogger(__name__)


def path_of(url: URL) -> Path | None:
    """None where the database is no file of this host."""
    named = url.database if url.get_backend_name() == "sqlite" else None
    return Path(named) if named and named != ":memory:" and not named.startswith("file:") else None


class DatabaseFile:
    """Notices that another file, or none, stands where the one that was opened did.

    SQLite goes on with an opened file that has no name any more: whatever is written there is lost.
    """

    def __init__(self, url: URL) -> None:
        self._path = path_of(url)
        self._known = self._identity()

    def change(self) -> str | None:
        """What has become of the file; None while it is the same."""
        now = self._identity()
        if self._known is None or now == self._known:
            self._known = now
            return None
        if now is None or self._path is None or not self._path.stat().st_size:
            return f"{self._path} was deleted"
        return f"{self._path} was replaced by another file"

    def accept(self) -> None:
        """The file that stands there now is the right one."""
        self._known = self._identity()

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = None if self._path is None else self._path.stat()
        except OSError:
            return None
        return None if found is None else (found.st_dev, found.st_ino)


class WriterLock:
    """Tells others that this process writes the database, for as long as it is not released.

    Advisory, and on a file of its own: to open and close the database itself would drop SQLite's locks.
    """

    def __init__(self, url: URL) -> None:
        self.holder: str | None = None
        """The process that holds the lock already."""
        path = path_of(url)
        self._file = None if path is None else self._taken(path.with_name(f"{path.name}.lock"))
        if self.holder is not None:
            log.warning(
                "another inferwatch (process %s) writes the history at %s too: each counts for itself, and of every "
                "minute only the row with more readings stays; stop one of them, or give it a --state-dir of its own",
                self.holder, path,
            )  # fmt: skip

    def _taken(self, path: Path) -> TextIOWrapper | None:
        """A lock that cannot be had at all costs no more than the warning."""
        try:
            file = path.open("a+", encoding="utf-8")
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            self.holder = file.read(20).strip() or "unknown"
            file.close()
            return None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        return file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
