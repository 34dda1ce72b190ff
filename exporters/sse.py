"""Server-sent events out of bytes, as they come. Pure; the format is that of the HTML standard."""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class Events:
    """Takes a stream in parts cut anywhere. Only the events' data counts here; their names and ids do not.

    Holds no more than it was fed: who feeds it sets the limit.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[str] = []
        self._first = True
        self._after_cr = False
        """A line feed that comes next belongs to the line before."""

    def feed(self, part: bytes) -> list[str]:
        """The data of the events that this part completes. Bytes that are no UTF-8 become U+FFFD."""
        if not part:
            return []
        if self._after_cr and part.startswith(b"\n"):
            part = part[1:]
        self._after_cr = part.endswith(b"\r")
        *ends, rest = _LINE_END.split(part)
        found = [data for end in ends if (data := self._ended(end)) is not None]
        self._line += rest
        return found

    def _ended(self, end: bytes) -> str | None:
        """The data of an event, where this line ends one."""
        line = bytes(self._line) + end
        self._line.clear()
        if self._first:
            self._first, line = False, line.removeprefix(_BOM)
        if not line:
            event, self._data = self._data, []
            return "\n".join(event) if event else None
        name, _, value = line.decode(errors="replace").partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
        return None
