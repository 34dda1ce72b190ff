"""Every alert of the default objectives, as it is checked in: fires in a bad world, and not in a good one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from alerts.rules.slo import slo_groups
from alerts.rules.text import rule_file
from alerts.slo.published import DEFAULT
from alerts.slo.spec import Slo, read
from tests.alerts.rules.worlds import Engine, alerts, counter, gauge, rules_of
from tests.services import require

SPECS = read(DEFAULT)
GENERATED = Path(__file__).parents[3] / "alerts" / "generated" / "slo-rules.yml"


def world(slo: Slo, good: bool) -> dict[str, str]:
    """Two hours of 100 requests a minute, all of them good or all bad; minutes likewise."""
    engine, indicator = Engine(), slo.indicator
    if indicator.latency:
        slow = indicator.latency.below * (1.0 if good else 3.0)
        return engine.latencies(indicator.latency.phase, [(120, {slow: 100.0})])
    if indicator.slices:
        return engine.series(indicator.slices.metric, gauge((120, 0.5 if good else 0.99)))
    return engine.finished(stop=counter((120, 100 if good else 0)), error=counter((120, 0 if good else 100)))


@pytest.mark.parametrize("slo", SPECS.slos, ids=lambda slo: slo.name)
def test_a_default_alert_fires_where_all_is_bad_and_not_where_all_is_good(slo: Slo, tmp_path: Path) -> None:
    fires = [{"page": "SloBurnPage", "ticket": "SloBurnTicket"}[severity] for severity in slo.alerts]
    alerts(tmp_path, rules_of(slo), world(slo, good=False), {119: fires})
    alerts(tmp_path, rules_of(slo), world(slo, good=True), {60: [], 119: []})


def test_what_is_checked_in_are_the_rules_of_these_objectives() -> None:
    assert GENERATED.read_text() == rule_file(slo_groups(SPECS))


def test_promtool_takes_them() -> None:
    subprocess.run([require("promtool"), "check", "rules", str(GENERATED)], check=True, capture_output=True)
