from __future__ import annotations

import pytest

from monitor.alert_history.fingerprint import fingerprint

# As Alertmanager 0.25 told them of alerts that were sent to it.
NOW = {"alertname": "Now", "cluster": "c1", "prometheus_replica": "r1", "server": "a", "severity": "page"}


@pytest.mark.parametrize(("labels", "told"), [(NOW, "aa1949bc6b1eb814"), ({}, "cbf29ce484222325")])
def test_it_is_alertmanagers_own(labels: dict[str, str], told: str) -> None:
    assert fingerprint(labels) == told


def test_the_order_of_the_labels_does_not_matter() -> None:
    assert fingerprint(dict(reversed(NOW.items()))) == fingerprint(NOW)
