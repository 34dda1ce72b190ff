"""What others wrote, as a message repeats it: of what is very long the beginning, and how long it is."""

from __future__ import annotations

MOST_CHARACTERS = 80


def cut(text: str) -> str:
    return f"{text[:MOST_CHARACTERS]}{_rest(text)}"


def quoted(text: str) -> str:
    return f"{text[:MOST_CHARACTERS]!r}{_rest(text)}"


def _rest(text: str) -> str:
    return "" if len(text) <= MOST_CHARACTERS else f"… ({len(text)} characters)"
