"""Which history a command works on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from exporters.config import default_path
from exporters.loader import problems_of
from inferwatch.console import MISUSED, CommandError
from inferwatch.process import load
from monitor.config import HistorySection, MonitorConfig
from monitor.history.database import HistoryError, open_database, sqlite_url
from monitor.history.file import path_of
from monitor.history.question import QuestionError
from monitor.history.transfer import revisions
from monitor.history.trouble import place


@dataclass(frozen=True, slots=True)
class Place:
    """As options say it; what they leave open is the configuration's."""

    config: Path | None = None
    state_dir: Path | None = None
    database: str | None = None

    def __post_init__(self) -> None:
        """Raises CommandError."""
        if self.database is not None and self.state_dir is not None:
            raise CommandError("--database: allowed: without --state-dir, which names a database too", status=MISUSED)

    @property
    def settings(self) -> HistorySection:
        """Raises CommandError."""
        path = self.config or default_path()
        if path is not None and self.config is None:
            print(f"using {path} of this folder", file=sys.stderr)  # what is asked for goes to standard output
        found, url = load(path, MonitorConfig).history, self._url()
        return found if url is None else HistorySection(url=url, retention=found.retention)

    def _url(self) -> str | None:
        if self.state_dir is not None:
            return sqlite_url(self.state_dir / "history.sqlite")
        if self.database is None:
            return None
        try:
            return HistorySection(url=self.database).database
        except ValidationError as error:
            told = [problem.allowed for problem in problems_of(error, HistorySection)]
            raise CommandError(f"--database: {told[0]}", status=MISUSED) from error


@contextmanager
def opened(settings: HistorySection, *, anew: bool = False, current: bool = False) -> Iterator[Engine]:
    """Unless `anew`, there must be one; if `current`, with the tables of this release.

    Raises CommandError for whatever the history cannot do, and for whatever it is asked that it cannot answer.
    """
    file = path_of(make_url(settings.database))
    if not anew and file is not None and not file.exists():
        raise CommandError(f"there is no history at {file}")
    try:
        engine = open_database(settings.database, settings.password_file)
        try:
            if current:
                _check(engine)
            yield engine
        finally:
            engine.dispose()
    except QuestionError as error:
        raise _misused(error) from error
    except HistoryError as error:
        raise CommandError(str(error)) from error
    except BrokenPipeError:  # of whoever reads what is printed, not of the history
        raise
    except OSError as error:
        raise CommandError(f"could not use the history: {error}") from error


def _check(engine: Engine) -> None:
    made_by, newest = revisions(engine)
    if made_by != newest:
        raise CommandError(f"{place(engine.url)} has the tables of an older release: inferwatch db upgrade")


def _misused(error: QuestionError) -> CommandError:
    """Options are named like the parameters of the API."""
    option = f"--{error.parameter.replace('_', '-')}{str(error).removeprefix(error.parameter)}"
    allowed = f"; allowed: {', '.join(error.allowed)}" if error.allowed else ""
    return CommandError(f"{option}{allowed}", status=MISUSED)
