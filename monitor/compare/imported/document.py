"""A JSON document whose values are asked for by their path, so that an error says where it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from exporters.quote import cut


class ForeignFile(Exception):
    """Says which file, where in it, what stands there and what is allowed."""


_MOST = 1e15
"""More is no measurement, and what is worked out from it would be beyond all numbers."""
_NUMBER = f"a number, 0 or more, at most {_MOST:g}"


@dataclass(frozen=True, slots=True)
class Document:
    """A value, and where it stands. Paths are keys with dots between them."""

    value: object
    place: str

    def has(self, path: str) -> bool:
        return self._at(path) is not None

    def number(self, path: str) -> float | None:
        """None where it is not there or null. Raises ForeignFile."""
        found = self._at(path)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= _MOST:
            raise self._wrong(path, found, _NUMBER)
        return float(found)

    def needed(self, path: str) -> float:
        """Raises ForeignFile."""
        found = self.number(path)
        if found is None:
            raise ForeignFile(f"{self.place}: {path}: missing; allowed: {_NUMBER}")
        return found

    def text(self, *paths: str) -> str:
        """Of the first of them that is there; "" without any."""
        found = (self._at(path) for path in paths)
        return next((each for each in found if isinstance(each, str) and each), "")

    def items(self, path: str) -> Iterator[Document]:
        """Raises ForeignFile."""
        found = self._at(path)
        if not isinstance(found, list):
            raise self._wrong(path, found, "a list")
        for number, each in enumerate(found):
            yield Document(each, f"{self.place}: {path}[{number}]")

    def wrong(self, path: str, allowed: str, meaning: str = "") -> ForeignFile:
        """`meaning` is what the value that stands there was read as."""
        return self._wrong(path, self._at(path), allowed, meaning)

    def _wrong(self, path: str, found: object, allowed: str, meaning: str = "") -> ForeignFile:
        read_as = f", which is {meaning}" if meaning else ""
        return ForeignFile(f"{self.place}: {path}: {cut(repr(found))}{read_as}: allowed: {allowed}")

    def _at(self, path: str) -> object:
        found = self.value
        for key in path.split("."):
            if isinstance(found, list) and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, dict):
                found = found.get(key)
            else:
                return None
        return found
