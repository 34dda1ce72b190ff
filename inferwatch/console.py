"""How commands speak: printable lines, aligned columns, and problems that end a command with one line each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from exporters.terminal import printable

FOUND, MISUSED = 1, 2
"""Exit statuses: something was found or failed; the command was asked for what it cannot do."""


class CommandError(Exception):
    """Ends the command. Each of `lines` is a sentence for people."""

    def __init__(self, *lines: str, status: int = FOUND) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.status = status


def columns(rows: Iterable[Sequence[str]], indent: str = "  ") -> list[str]:
    """Printable lines, left-aligned, two blanks apart; the last column is not padded."""
    found = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip_longest(*(row[:-1] for row in found), fillvalue="")]
    return [indent + _padded(row, widths).rstrip() for row in found]


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join([*(text.ljust(width) for text, width in zip(row[:-1], widths, strict=False)), row[-1]])


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
