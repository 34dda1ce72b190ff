"""Every condition fires at the right minute, not just below, and resolves: in Prometheus and on minute rows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle
from math import isinf
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts.conditions import CONDITIONS
from alerts.conditions.condition import STEP, Condition
from alerts.conditions.expression import Now
from alerts.conditions.gpus import GPUS, LOST
from alerts.conditions.ourselves import LAGGING
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
    """Of a rule with the same texts over a series with a known value, whatever the label says that is explained."""
    summary = CONDITIONS[name].summary
    found = {label: f"of {label}" for label in summary.labels}
    words = {} if summary.explained is None else {summary.explained.label: [*dict(summary.explained.words), "other"]}
    all_labels = [found | {label: value} for label, values in words.items() for value in values] or [found]
    alerts = list(zip(all_labels, cycle((0.9537, 0.0213, 12_345.6))))
    _told_alike(CONDITIONS[name], tmp_path, Told(alerts))


def test_prometheus_tells_a_duration_as_we_do(tmp_path: Path) -> None:
    values = (0.0213, 0.5, 2.345, 59.99, 60.0, 3_600.0, 12_345.6, 200_000.0)
    _told_alike(LAGGING, tmp_path, Told([({"node": f"n{i}"}, value) for i, value in enumerate(values)]))


def test_a_time_that_is_no_number_is_told_as_prometheus_writes_it() -> None:
    told = [LAGGING.told({"node": "n1"}, value)["summary"] for value in (math.nan, math.inf)]
    assert told == ["The history of n1 lies NaN behind", "The history of n1 lies +Inf behind"]


@dataclass(frozen=True)
class Told:
    """Alerts with labels and value; `beside` are the values of other series, and tell these servers."""

    alerts: list[tuple[dict[str, str], float]]
    servers: tuple[str, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)


def _told_alike(of: Condition, folder: Path, *cases: Told) -> None:
    """By a rule with the same texts over a series with known values."""
    condition = replace(of, expression=Now("known"), hold=None, keep=None)
    rules, tests = folder / "rules.yml", folder / "tests.yml"
    rules.write_text(rule_file([RuleGroup("one", STEP, (condition.alert(),))]))
    content = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "tests": [_telling(condition, case) for case in cases],
    }
    tests.write_text(yaml.safe_dump(content))
    ran([require("promtool"), "test", "rules", str(tests)])


def _telling(condition: Condition, case: Told) -> dict[str, Any]:
    values = {_series("known", labels): f"{value}x10" for labels, value in case.alerts} | dict(case.beside)
    expected = [
        {
            "exp_labels": labels | {"severity": condition.severity},
            "exp_annotations": condition.told(labels, value, case.servers),
        }
        for labels, value in case.alerts
    ]
    assert not any("{" in text for each in expected for text in each["exp_annotations"].values())
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": of} for name, of in values.items()],
        "alert_rule_test": [{"eval_time": "10m", "alertname": condition.name, "exp_alerts": expected}],
    }


def _series(name: str, labels: dict[str, str]) -> str:
    return name + "{" + ",".join(f'{k}="{v}"' for k, v in labels.items()) + "}"


def _on(gpu: str, uuid: str, server: str, node: str = "n1", source: str = "process") -> str:
    of = {"node": node, "uuid": uuid, "gpu": gpu, "server": server, "source": source}
    return _series("gpu_server_info", of)


ON_GPU = {
    "two": (("chat", "code"), {_on("0", "U", "code"): "1x10", _on("0", "U", "chat"): "1x10"}),
    "told twice": (("chat",), {_on("0", "U", "chat"): "1x10", _on("0", "U", "chat", source="config"): "1x10"}),
    "its processes vanished when it was lost": (
        ("chat", "code"), {_on("0", "U", "code"): "1x5 stale", _on("0", "U", "chat"): "1x5 stale"}
    ),
    "one moved away before": (("chat",), {_on("0", "U", "code"): "1x3 stale", _on("0", "U", "chat"): "1x8 stale"}),
    "another GPU has its number now": (("chat",), {_on("0", "U", "chat"): "1x5 stale", _on("0", "V", "code"): "1x10"}),
    "one of another node": (("chat",), {_on("0", "U", "chat"): "1x5 stale", _on("0", "U", "code", "n2"): "1x10"}),
    "on its instances": (("chat", "code"), {_on("0:1", "MIG-1", "chat"): "1x10", _on("0:2", "MIG-2", "code"): "1x10"}),
    "none": ((), {_on("1", "V", "code"): "1x10"}),
}  # fmt: skip


def test_an_alert_of_a_gpu_names_the_servers_that_were_on_it_last(tmp_path: Path) -> None:
    of = {"node": "n1", "uuid": "U", "gpu": "0"}
    _told_alike(LOST, tmp_path, *(Told([(of, 0.0)], servers, there) for servers, there in ON_GPU.values()))
    texts = [LOST.told(of, 0.0, servers)["servers"] for servers, _ in ON_GPU.values()]
    assert texts == ["chat, code", "chat", "chat, code", "chat", "chat", "chat", "chat, code", "not known"]


def test_every_alert_of_a_gpu_names_servers_and_no_other_does() -> None:
    assert {name for name, c in CONDITIONS.items() if c.hits_servers} == {c.name for c in GPUS}


@pytest.mark.parametrize("name", CONDITIONS)
def test_an_alert_says_where_it_is_and_what_to_do_first(name: str) -> None:
    condition = CONDITIONS[name]
    labels = {label for case in CASES if case.condition == name for fires in case.fires for label in fires.labels}
    assert {"node", "server"} & labels <= condition.summary.labels
    assert condition.summary.labels or name == "Watchdog"
    assert "uuid" not in labels or {"gpu", "uuid"} & condition.summary.labels
    description = condition.told({}, 1.0)["description"]
    assert description == f"{condition.meaning} First: {condition.first}"
    assert condition.first.endswith(".")
    assert len(description) < 300


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_names_only_metrics_of_the_schema(name: str) -> None:
    text = re.sub(r'"[^"]*"', "", CONDITIONS[name].promql())
    metrics = set(re.findall(r"\b(?:llm|gpu|inferwatch)_\w+", text))
    assert {m.removesuffix("_sum").removesuffix("_count") for m in metrics} <= set(METRICS)


@pytest.mark.parametrize("case", [case for case in CASES if case.fires], ids=str)
def test_a_summary_names_only_labels_that_the_alert_has(case: Case) -> None:
    may_lack = {"uuid"} if case.condition == "GpuUnhealthy" else set()
    named = CONDITIONS[case.condition].summary.labels - may_lack
    assert all(named <= set(fires.labels) for fires in case.fires)
