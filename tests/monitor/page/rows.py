"""Rows of the fleet made by hand."""

from __future__ import annotations

from typing import Any

from monitor.fleet import ServerRow
from monitor.remarks import FieldOut


def row(server: str = "s", **more: Any) -> ServerRow:
    return ServerRow.model_validate({"node": "n", "server": server, "up": True, "available": True, "engines": 1} | more)


def status(field: str, quality: str, reason: str = "", source: str = "") -> FieldOut:
    return FieldOut(field=field, source=source, quality=quality, reason=reason)
