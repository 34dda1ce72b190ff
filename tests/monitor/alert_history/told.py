"""Notifications as Alertmanager sends them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from monitor.alert_history.notification import Notification, parse

OF = {"alertname": "Slow", "server": "a", "severity": "page"}
AM = {**OF, "cluster": "c1"}
START = 1_796_043_800.123


def rfc3339(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")


def sent(*alerts: dict[str, Any], receiver: str = "oncall", **more: Any) -> dict[str, Any]:
    return {"version": "4", "receiver": receiver, "status": "firing", "alerts": list(alerts), **more}


def alert(
    starts_at: float = START, ends_at: float | None = None, *, labels: dict[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "status": "firing" if ends_at is None else "resolved",
        "labels": AM if labels is None else labels,
        "annotations": {"summary": "slow"},
        "startsAt": rfc3339(starts_at),
        "endsAt": "0001-01-01T00:00:00Z" if ends_at is None else rfc3339(ends_at),
        "generatorURL": "http://prometheus/graph",
        **more,
    }


def notification(*alerts: dict[str, Any], receiver: str = "oncall") -> Notification:
    return parse(json.dumps(sent(*alerts, receiver=receiver)).encode())
