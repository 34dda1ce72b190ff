"""The SQLite file behind an engine: whether it is still the one that was opened."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL


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
