"""Texts as both databases can hold them: servers, and whoever sends alerts, may say anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256

from exporters.observation import Labels

_LONGEST_KEY = 2000
"""PostgreSQL refuses to index more than 2704 bytes."""

_ALL_WHOLE = 2**53
"""Floats from here on are whole numbers, and long ones."""

_dense = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def storable(text: str) -> str:
    """What PostgreSQL cannot hold, replaced."""
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def key_of(identity: Labels) -> str:
    """Canonical JSON, or where that is too long its digest."""
    text = json.dumps(dict(identity), sort_keys=True)
    return text if len(text) <= _LONGEST_KEY else sha256(text.encode()).hexdigest()


def as_json(increases: Mapping[str, float]) -> str:
    """By label, in as few characters as may be."""
    return _as_json(tuple(increases.items()))


@lru_cache(maxsize=1000)
def _as_json(increases: tuple[tuple[str, float], ...]) -> str:
    """Remembered, since most minutes add nothing to them."""
    return _dense({label: int(n) if n % 1 == 0 and abs(n) < _ALL_WHOLE else n for label, n in increases})
