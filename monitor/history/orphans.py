"""What a monitor that stands by reads, and nobody writes: the one that writes has other servers."""

from __future__ import annotations

import math
from collections.abc import Iterable

from monitor.history.storable import storable
from monitor.history.store import Key, Store

PATIENCE_SECONDS = 300.0
"""A minute is written within two intervals of its end, also after a server was new or the other restarted."""
_LOOK_EVERY_SECONDS = 60.0
_MOST_NAMED = 5


class Orphans:
    def __init__(self, store: Store) -> None:
        self.keys: frozenset[Key] = frozenset()
        self._store = store
        self._since: dict[Key, float] = {}
        self._last: dict[Key, float] = {}
        self._looked = -math.inf

    def look(self, observed: Iterable[Key], now: float) -> None:
        """`observed` now. Raises ReadError."""
        self._last |= dict.fromkeys(observed, now)
        self._last = {key: at for key, at in self._last.items() if now - at < PATIENCE_SECONDS}
        self._since = {key: self._since.get(key, now) for key in self._last}
        if now - self._looked < _LOOK_EVERY_SECONDS:
            return
        self._looked = now
        known = {key for key, since in self._since.items() if now - since >= PATIENCE_SECONDS}
        written = self._store.written_since(now - PATIENCE_SECONDS) if known else set()
        self.keys = frozenset(key for key in known if tuple(map(storable, key)) not in written)

    def told(self, other: str) -> str | None:
        """In words; `other` is who writes."""
        if not self.keys:
            return None
        names = [f"{server or uuid} on {node}" for node, server, uuid in sorted(self.keys)]
        more = len(names) - _MOST_NAMED
        shown = ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        return (
            f"nobody writes the history of {shown}: the inferwatch that writes here ({other}) seems not to read them; "
            "give this one a database of its own, or both the same servers"
        )
