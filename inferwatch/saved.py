"""Metrics pages that somebody saved: read and normalised."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from exporters.detect import Detected, detect
from exporters.findings import Finding
from exporters.normalise import Identity, Normaliser, Reading
from exporters.table import Frontend
from inferwatch.console import MISUSED, CommandError

IDENTITY = Identity(node="file", server="file")
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Saved:
    name: str
    text: str

    def detected(self) -> Detected:
        return detect(self.text)


def read(name: str) -> Saved:
    """`-` is the standard input. Raises CommandError."""
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


def told(finding: Finding) -> str:
    """One line: what is wrong and what to do."""
    detail = f" ({finding.detail})" if finding.detail else ""
    remedy = f" {finding.remedy}" if finding.remedy else ""
    return f"{finding.severity.value} {finding.reason}: {finding.message}{detail}{remedy}"
