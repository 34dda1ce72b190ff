"""What servers wrote, made harmless for a terminal and a log."""

from __future__ import annotations

import logging


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
