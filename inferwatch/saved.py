"""Metrics pages that somebody saved: read and normalised."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from exporters.detect import Detected, detect
from exporters.findings import Finding, finding
from exporters.normalise import Identity, Normaliser, Reading
from exporters.table import Frontend
from inferwatch.console import MISUSED, CommandError
from inferwatch.remedies import for_commands

IDENTITY = Identity(node="file", server="file")
STDIN = "-"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Saved:
    name: str
    text: str

    def detected(self) -> Detected:
        """What it is; never fails."""
        try:
            return detect(self.text)
        except Exception as error:
            _log.exception("%s: could not be recognised", self.name)
            return Detected(None, finding("internal_error", type(error).__name__))


def refuse_repeated_stdin(names: Sequence[str]) -> None:
    if names.count(STDIN) > 1:
        raise CommandError("-: allowed: once, standard input ends with the first", status=MISUSED)


def read(name: str) -> Saved:
    """`-` is the standard input. Raises CommandError."""
    if not name.strip() or "://" in name:
        shown = name if name.strip() else repr(name)
        raise CommandError(f"{shown}: allowed: a saved page, or - for `curl -s URL |`", status=MISUSED)
    shown = "standard input" if name == STDIN else name
    try:
        raw = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        return Saved(shown, raw.decode("utf-8-sig"))
    except OSError as error:
        raise CommandError(f"{shown}: could not be read: {error.strerror}", status=MISUSED) from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{shown}: could not be read: byte {error.start} is not UTF-8") from error


def read_all(names: Iterable[str]) -> list[Saved]:
    """Raises one CommandError for all that cannot be read."""
    pages: list[Saved] = []
    errors: list[CommandError] = []
    for name in names:
        try:
            pages.append(read(name))
        except CommandError as error:
            errors.append(error)
    if errors:
        raise CommandError(*(line for e in errors for line in e.lines), status=max(e.status for e in errors))
    return pages


def normaliser(frontend: Frontend) -> Normaliser:
    return Normaliser(frontend, IDENTITY)


def normalised(by: Normaliser, page: Saved) -> Reading:
    """Raises CommandError."""
    try:
        return by.normalise(page.text)
    except ValueError as error:
        raise CommandError(f"{page.name}: could not be normalised: {error}") from error
    except Exception as error:
        _log.exception("%s: could not be normalised", page.name)
        raise CommandError(f"{page.name}: {told(finding('internal_error', type(error).__name__))}") from error


def told(found: Finding) -> str:
    """One line: what is wrong and what to do."""
    found = for_commands(found)
    detail = f" ({found.detail})" if found.detail else ""
    remedy = f" {found.remedy}" if found.remedy else ""
    return f"{found.severity.value} {found.reason}: {found.message}{detail}{remedy}"
