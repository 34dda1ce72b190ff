"""An alert is held back by one that fires as Alertmanager's rules of inhibition hold it back."""

from __future__ import annotations

import pytest

from alerts.holding_back import Holding

LOST = {"alertname": "GpuLost", "node": "n1", "uuid": "U", "gpu": "0", "severity": "page"}
DOWN = {"alertname": "ServerDown", "node": "n1", "server": "a", "severity": "page"}
FULL = {"alertname": "KvCacheSaturated", "node": "n1", "server": "a", "model": "m", "engine": "0"}
BURNS = {"alertname": "SloBurnPage", "slo": "s", "model": "m"}


@pytest.mark.parametrize(
    ("alert", "firing", "by"),
    [
        (DOWN, [LOST], "GpuLost"),
        (DOWN, [LOST | {"node": "n2"}], ""),
        (DOWN, [], ""),
        (LOST, [DOWN], ""),
        (FULL, [LOST], ""),
        (FULL, [LOST, DOWN], "ServerDown"),
        (FULL, [DOWN | {"server": "b"}], ""),
        ({**FULL, "alertname": "QueueGrowing"}, [FULL], "KvCacheSaturated"),
        ({**FULL, "alertname": "QueueGrowing"}, [FULL | {"model": "other"}], ""),
        (BURNS | {"alertname": "SloBurnTicket"}, [BURNS], "SloBurnPage"),
        (BURNS | {"alertname": "SloBurnTicket"}, [BURNS | {"model": "other"}], ""),
        ({"alertname": "Others", "node": "n1"}, [LOST], ""),
        ({}, [LOST], ""),
    ],
)
def test_it_is_held_back_where_the_cause_fires_and_shares_its_labels(
    alert: dict[str, str], firing: list[dict[str, str]], by: str
) -> None:
    assert Holding([*firing, alert]).back(alert) == by
