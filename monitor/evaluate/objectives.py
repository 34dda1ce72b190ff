"""The objectives in force: those of the files that the configuration names, read again when they change."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from alerts.slo.spec import Slo, read
from exporters.loader import ConfigError

_log = logging.getLogger(__name__)

_Marks = tuple[tuple[int, int] | None, ...]


def slos_of(files: Iterable[Path]) -> list[Slo]:
    """In order of the files. Raises ConfigError, with every problem of all of them."""
    problems: list[str] = []
    found: dict[str, tuple[Path, Slo]] = {}
    for file in files:
        try:
            slos = read(file).slos
        except ConfigError as error:
            problems += error.problems
            continue
        for slo in slos:
            first, _ = found.setdefault(slo.name, (file, slo))
            if first != file:
                problems.append(f"{file}: name: '{slo.name}': allowed: a name of its own, {first} has this one")
    if problems:
        raise ConfigError(problems)
    return [slo for _, slo in found.values()]


class Objectives:
    """A change comes into force only if all files are good."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Raises ConfigError."""
        self.files = tuple(files)
        self.problem: str | None = None
        """Why what the files say now is not in force."""
        self._seen = _marks(self.files)
        self.slos = slos_of(self.files)

    def refresh(self) -> None:
        if (seen := _marks(self.files)) == self._seen:
            return
        self._seen = seen
        try:
            self.slos, self.problem = slos_of(self.files), None
        except ConfigError as error:
            self.problem = f"objectives: what they were before stays in force: {'; '.join(error.problems)}"
            _log.error("%s", self.problem)
        else:
            _log.info("objectives: read again, %d in force", len(self.slos))


def _marks(files: Iterable[Path]) -> _Marks:
    return tuple(_mark(file) for file in files)


def _mark(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
