"""Every alert of the default objectives, as it is checked in: fires in a bad world, and not in a good one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from alerts.rules.names import named
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


def promtool_takes(path: Path) -> None:
    subprocess.run([require("promtool"), "check", "rules", str(path)], check=True, capture_output=True)


def test_promtool_takes_them() -> None:
    promtool_takes(GENERATED)


def test_names_that_end_alike_make_no_group_twice(tmp_path: Path) -> None:
    file, told = tmp_path / "rules.yml", "objective: 99%, indicator: {availability: {}}"
    (tmp_path / "slo.yml").write_text(f"version: 1\nslos: [{{name: chat, {told}}}, {{name: chat-windows, {told}}}]\n")
    file.write_text(rule_file(slo_groups(read(tmp_path / "slo.yml"))))
    promtool_takes(file)


def test_what_people_select_and_write_is_text_and_never_promql(tmp_path: Path) -> None:
    hostile = """x"} or vector(1) or llm_up{a=" .*|' \\ \n {{ $labels.x }}"""
    keys = {"name": "chat", "objective": "99%", "indicator": {"availability": {}}, "description": hostile}
    keys |= {"select": {"model": [hostile, "b"]}, "group_by": ["part"], "labels": {"team": 'it\'s "so"'}}
    (tmp_path / "slo.yml").write_text(yaml.safe_dump({"version": 1, "user_labels": ["part"], "slos": [keys]}))
    file = tmp_path / "rules.yml"
    file.write_text(rule_file(slo_groups(read(tmp_path / "slo.yml"))))
    promtool_takes(file)
    rules = {rule.get("record"): rule for rule in yaml.safe_load(file.read_text())["groups"][0]["rules"]}
    found = named(rules["inferwatch:slo_total:5m"]["expr"])
    assert "part" in found.grouped
    counters = {"llm_requests_finished_total", "llm_requests_rejected_total"}
    assert {metric for metric, _ in found.selected} == {*counters, "llm_server_info"}
