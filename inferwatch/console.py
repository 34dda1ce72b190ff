"""How commands speak: printable lines, aligned columns, and problems that end a command with one line each."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import zip_longest

FOUND, MISUSED = 1, 2
"""Exit statuses: something was found or failed; the command was asked for what it cannot do."""


class CommandError(Exception):
    """Ends the command. Each of `lines` is a sentence for people."""

    def __init__(self, *lines: str, status: int = FOUND) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.status = status


def printable(text: str) -> str:
    """What others wrote, on one line, and nothing in it that a terminal obeys or hides: `\\x1b`, `\\n`, `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class LogFormat(logging.Formatter):
    """A record's first line starts with the time, further ones are indented: no text of a server passes as a record."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return "\n    ".join(map(printable, super().format(record).split("\n")))


def log(level: int = logging.INFO, *, shown: bool = True) -> None:
    """To standard error, or nowhere."""
    handler = logging.StreamHandler() if shown else logging.NullHandler()
    handler.setFormatter(LogFormat())
    logging.basicConfig(level=level, handlers=[handler])


def columns(rows: Iterable[Sequence[str]], indent: str = "  ") -> list[str]:
    """Printable lines, left-aligned, two blanks apart; the last column is not padded."""
    found = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip_longest(*(row[:-1] for row in found), fillvalue="")]
    return [indent + _padded(row, widths).rstrip() for row in found]


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join([*(text.ljust(width) for text, width in zip(row[:-1], widths, strict=False)), row[-1]])


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
