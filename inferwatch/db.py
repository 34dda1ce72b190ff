"""Commands about the history's database."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Self

from inferwatch.console import columns
from inferwatch.place import Place, opened
from inferwatch.process import say
from monitor.history import database
from monitor.history.backup import back_up
from monitor.history.restore import restore as restore_history
from monitor.history.retention import Kept, forget, survey
from monitor.history.size import size_bytes
from monitor.history.transfer import revisions
from monitor.history.trouble import place
from monitor.history.upkeep import BREATH_SECONDS
from monitor.progress import moment

_DAY = 86_400


def upgrade(at: Place) -> None:
    with opened(at.settings, anew=True) as engine:
        database.upgrade(engine)
        made_by, _ = revisions(engine)
        say(f"{place(engine.url)}: up to date (revision {made_by})")


def retention(at: Place, *, apply: bool) -> None:
    settings = at.settings
    with opened(settings, current=True) as engine:
        kept, now = settings.retention.seconds, time.time()
        if apply:
            forget(engine, kept, now, _breathe)
        with engine.connect() as connection:
            say(f"{place(engine.url)}: {_megabytes(size_bytes(connection))}")
        say(*columns([("tier", "kept", "rows", "oldest", "too old"), *map(_row, survey(engine, kept, now))]))


def _breathe() -> bool:
    time.sleep(BREATH_SECONDS)
    return False


def _row(of: Kept) -> tuple[str, ...]:
    kept = "for ever" if math.isinf(of.seconds) else f"{of.seconds / _DAY:g} days"
    oldest = "" if of.oldest is None else moment(of.oldest)
    old = "" if of.cut is None else f"{of.old_rows:,} before {moment(of.cut)}"
    return of.name, kept, f"{of.rows:,}", oldest, old


def backup(at: Place, file: Path, *, overwrite: bool) -> None:
    with opened(at.settings) as engine:
        with _Line() as line:
            back_up(engine, file, line.tell, overwrite=overwrite)
        say(f"{file}: {_megabytes(file.stat().st_size)}, all of {place(engine.url)}")


def restore(at: Place, file: Path, *, force: bool) -> None:
    with opened(at.settings, anew=True) as engine:
        with _Line() as line:
            lost = restore_history(file, engine, line.tell, replace=force)
        say(f"{place(engine.url)}: restored from {file}" + (f"; lost: {lost}" if lost.rows else ""))


def _megabytes(number: int) -> str:
    return f"{number / 1e6:,.1f} MB"


def _is_terminal() -> bool:
    return sys.stderr.isatty()


class _Line:
    """How far the work is: on a terminal alone, and gone at the end."""

    def __init__(self) -> None:
        self._is_shown = _is_terminal()

    def __enter__(self) -> Self:
        return self

    def tell(self, text: str) -> None:
        self._write(text)

    def __exit__(self, *_: object) -> None:
        self._write("")

    def _write(self, text: str) -> None:
        if self._is_shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
