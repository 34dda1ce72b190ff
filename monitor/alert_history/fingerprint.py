"""How Alertmanager names an alert: FNV-1a over its sorted labels, a byte that no text has after each name and value."""

from __future__ import annotations

from collections.abc import Mapping

_OFFSET = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK = 2**64 - 1
_SEPARATOR = b"\xff"


def fingerprint(labels: Mapping[str, str]) -> str:
    names = sorted(labels, key=str.encode)
    text = b"".join(part.encode() + _SEPARATOR for name in names for part in (name, labels[name]))
    found = _OFFSET
    for byte in text:
        found = (found ^ byte) * _PRIME & _MASK
    return f"{found:016x}"
