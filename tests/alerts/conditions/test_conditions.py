"""Every condition fires at the right minute, not just below, and resolves: in Prometheus and on minute rows."""

from __future__ import annotations

import re
from dataclasses import replace
from math import isinf
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts.conditions import CONDITIONS
from alerts.conditions.condition import STEP, Condition
from alerts.conditions.expression import Now
from alerts.conditions.stuck import LIVE, STUCK
from alerts.rules.model import RuleGroup
from alerts.rules.text import rule_file
from exporters.schema import METRICS
from exporters.tables import FRONTENDS
from tests.alerts.conditions.cases import CASES
from tests.alerts.conditions.cases_of_ourselves import LONG_DOWN
from tests.alerts.conditions.cases_of_servers import EMPTY_FOR_A_DAY, EMPTY_FOR_LONG
from tests.alerts.conditions.world import Case, Fires, minute_rows, promtool_values
from tests.servers.server import ran
from tests.services import require

_LONG = 200
"""Minutes; of longer cases those round the changes are looked at, and some between."""


@pytest.mark.parametrize("case", (*CASES, EMPTY_FOR_A_DAY), ids=str)
def test_minute_rows_are_judged_so(case: Case) -> None:
    condition = CONDITIONS[case.condition]
    found = condition.judge(minute_rows(case.world), 0, case.minutes * 60)
    assert {(f.start, f.end, f.labels) for f in found} == {
        (f.start * 60, None if f.end is None else f.end * 60, tuple(sorted(f.labels.items()))) for f in case.fires
    }


@pytest.mark.parametrize("name", CONDITIONS)
def test_prometheus_says_so_of_its_rule(name: str, tmp_path: Path) -> None:
    condition = CONDITIONS[name]
    rules, tests = tmp_path / "rules.yml", tmp_path / "tests.yml"
    rules.write_text(rule_file([RuleGroup("one", STEP, (condition.alert(),))]))
    content = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "tests": [_test(case, condition) for case in (*CASES, LONG_DOWN, EMPTY_FOR_LONG) if case.condition == name],
    }
    tests.write_text(yaml.safe_dump(content))
    ran([require("promtool"), "test", "rules", str(tests)])


def test_every_condition_fires_in_some_case_and_does_not_in_another() -> None:
    assert {case.condition for case in CASES if case.fires} == set(CONDITIONS)
    assert {case.condition for case in CASES if not case.fires} == set(CONDITIONS) - {"Watchdog"}


@pytest.mark.parametrize("name", CONDITIONS)
def test_how_long_it_takes_until_it_is_told_is_known(name: str) -> None:
    (case,) = (case for case in CASES if case.condition == name and case.since is not None)
    assert CONDITIONS[name].after == (case.fires[0].start - (case.since or 0)) * 60


def _test(case: Case, condition: Condition) -> dict[str, Any]:
    alert = f'ALERTS{{alertname="{case.condition}",alertstate="firing"}}'
    return {
        "name": case.says,
        "interval": "30s",
        "input_series": [{"series": s, "values": promtool_values(values)} for s, values in case.world.items()],
        "promql_expr_test": [
            {"expr": alert, "eval_time": f"{minute}m", "exp_samples": _expected(case, condition, minute)}
            for minute in _looked_at(case)
        ],
    }


def _expected(case: Case, condition: Condition, minute: int) -> list[dict[str, Any]]:
    return [
        {"labels": _labels(fires, condition), "value": 1}
        for fires in case.fires
        if fires.start <= minute and (fires.end is None or minute < fires.end)
    ]


def _labels(fires: Fires, condition: Condition) -> str:
    own = {"alertname": condition.name, "alertstate": "firing", "severity": condition.severity}
    return "ALERTS{" + ",".join(f'{k}="{v}"' for k, v in {**fires.labels, **own}.items()) + "}"


def _looked_at(case: Case) -> list[int]:
    if case.minutes <= _LONG:
        return list(range(case.minutes + 1))
    changes = {minute for f in case.fires for minute in (f.start, f.end) if minute is not None}
    near = {change + off for change in changes for off in (-2, -1, 0, 1, 2)}
    return sorted(m for m in {*near, *range(0, case.minutes, 30), case.minutes} if 0 <= m <= case.minutes)


def test_stillness_is_longer_than_any_gauge_of_a_live_server_is_old() -> None:
    ages = [r.idle_seconds for name in LIVE for r in FRONTENDS[name].rhythm.gauges if not isinf(r.idle_seconds)]
    assert STUCK.limits[0].seconds > max(ages)


@pytest.mark.parametrize("name", CONDITIONS)
def test_prometheus_tells_a_summary_as_we_do(name: str, tmp_path: Path) -> None:
    """Of a rule with the same texts over a series with a known value."""
    value = 0.9537
    found = {label: f"of {label}" for label in re.findall(r"\{(\w+)\}", CONDITIONS[name].summary) if label != "value"}
    condition = replace(CONDITIONS[name], expression=Now("known"), hold=None, keep=None)
    series = "known{" + ",".join(f'{k}="{v}"' for k, v in found.items()) + "}"
    rules, tests = tmp_path / "rules.yml", tmp_path / "tests.yml"
    rules.write_text(rule_file([RuleGroup("one", STEP, (condition.alert(),))]))
    expected = {
        "exp_labels": {**found, "severity": condition.severity},
        "exp_annotations": {"summary": condition.told(found, value), "runbook": condition.runbook},
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": series, "values": str(value)}],
        "alert_rule_test": [{"eval_time": "0m", "alertname": name, "exp_alerts": [expected]}],
    }
    tests.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}))
    ran([require("promtool"), "test", "rules", str(tests)])
    assert "{" not in condition.told(found, value)


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_names_only_metrics_of_the_schema(name: str) -> None:
    text = re.sub(r'"[^"]*"', "", CONDITIONS[name].promql())
    metrics = set(re.findall(r"\b(?:llm|gpu|inferwatch)_\w+", text))
    assert {m.removesuffix("_sum").removesuffix("_count") for m in metrics} <= set(METRICS)


@pytest.mark.parametrize("case", [case for case in CASES if case.fires], ids=str)
def test_a_summary_names_only_labels_that_the_alert_has(case: Case) -> None:
    named = set(re.findall(r"\{(\w+)\}", CONDITIONS[case.condition].summary)) - {"value"}
    assert all(named <= set(fires.labels) for fires in case.fires)
