"""Texts as both databases can hold them: servers, and whoever sends alerts, may say anything."""

from __future__ import annotations

import json
from hashlib import sha256

from exporters.observation import Labels

_LONGEST_KEY = 2000
"""PostgreSQL refuses to index more than 2704 bytes."""


def storable(text: str) -> str:
    """What PostgreSQL cannot hold, replaced."""
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def key_of(identity: Labels) -> str:
    """Canonical JSON, or where that is too long its digest."""
    text = json.dumps(dict(identity), sort_keys=True)
    return text if len(text) <= _LONGEST_KEY else sha256(text.encode()).hexdigest()
