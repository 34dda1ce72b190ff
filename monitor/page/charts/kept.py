"""Drawings that were asked for lately, by what was drawn: of a page that is loaded again most are the same."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import sha256
from threading import Lock

MOST_BYTES = 8_000_000
"""About twenty of the largest drawings."""


class Kept:
    """The latest are kept, as many as fit. May be shared by threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._drawings: OrderedDict[bytes, str] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, question: bytes) -> str | None:
        with self._lock:
            found = self._drawings.pop(key := _key(question), None)
            if found is not None:
                self._drawings[key] = found
            return found

    def put(self, question: bytes, drawing: str) -> None:
        with self._lock:
            self._bytes -= len(self._drawings.pop(key := _key(question), ""))
            self._drawings[key] = drawing
            self._bytes += len(drawing)
            while self._bytes > self._most_bytes:
                self._bytes -= len(self._drawings.popitem(last=False)[1])


def _key(question: bytes) -> bytes:
    return sha256(question).digest()
