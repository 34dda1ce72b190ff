"""What a sidecar finds wrong is told by an alert."""

from __future__ import annotations

from pathlib import Path

import yaml

from alerts.conditions.condition import STEP, Condition
from alerts.conditions.findings import TOLD
from alerts.conditions.gpus import ECC, LOST, ROW_REMAP, UNHEALTHY, XID_HARDWARE
from alerts.conditions.servers import DOWN, METRICS_MISSING
from alerts.conditions.stuck import STUCK
from alerts.rules.model import RuleGroup
from alerts.rules.text import rule_file
from exporters.findings import GPU_KINDS, KINDS, Severity
from tests.alerts.conditions.world import World, gone, held, minute_rows, promtool_values
from tests.servers.server import ran
from tests.services import require

HEALTHY, MINUTES = 10.5, 20.0
OF_SERVERS, OF_GPUS = (DOWN, METRICS_MISSING, STUCK), (UNHEALTHY, ROW_REMAP)
COUNTED = {ECC, XID_HARDWARE, LOST}
"""Of GPUs: told by counters and by `gpu_up`, beside the finding."""
ALL = [(reason, condition) for reason, by in TOLD.items() for condition in by if condition not in COUNTED]


def test_every_error_is_told_by_some_alert() -> None:
    errors = {r for kinds in (KINDS, GPU_KINDS) for r, kind in kinds.items() if kind.severity is Severity.ERROR}
    assert errors <= TOLD.keys()


def at(reason: str, condition: Condition) -> str:
    return f'node="{reason}",server="{condition.name}"'


def world_of(reason: str, condition: Condition) -> World:
    """Well for ten minutes. What answers HTTP is up, and what is up and not read has no metrics."""
    of, severity = at(reason, condition), {**KINDS, **GPU_KINDS}[reason].severity.value
    found = [*gone(HEALTHY), *held(1, MINUTES)]
    if condition in OF_GPUS:
        return {f'inferwatch_gpu_finding{{node="{reason}",uuid="u",reason="{reason}",severity="{severity}"}}': found}
    up, available = (
        [*held(1, HEALTHY), *held(float(well), MINUTES)] for well in (condition is not DOWN, condition is STUCK)
    )
    world = {f"llm_up{{{of}}}": up, f"llm_metrics_available{{{of}}}": available}
    if reason == "probe_failed":
        world[f"llm_probe_success{{{of}}}"] = [*held(1, HEALTHY), *held(0, MINUTES)]
    return {**world, f'inferwatch_finding{{{of},reason="{reason}",severity="{severity}"}}': found}


WORLD: World = {name: samples for each in ALL for name, samples in world_of(*each).items()}


def test_minute_rows_tell_of_each_and_of_nothing_else() -> None:
    rows = minute_rows(WORLD)
    last = int(HEALTHY + MINUTES - 1) * 60
    for condition in (*OF_SERVERS, *OF_GPUS):
        fires = {dict(f.labels)["node"] for f in condition.judge(rows, 0, last) if f.end is None}
        assert fires == {reason for reason, by in ALL if by is condition}


def test_none_is_told_later_than_is_said() -> None:
    rows = minute_rows(WORLD)
    for condition in (*OF_SERVERS, *OF_GPUS):
        begun = {f.start - int(HEALTHY) * 60 for f in condition.judge(rows, 0, 30 * 60)}
        assert max(begun) <= condition.after


def test_prometheus_tells_of_each_and_of_nothing_else(tmp_path: Path) -> None:
    rules, tests = tmp_path / "rules.yml", tmp_path / "tests.yml"
    conditions = (*OF_SERVERS, *OF_GPUS)
    rules.write_text(rule_file([RuleGroup("all", STEP, tuple(c.alert() for c in conditions))]))
    asked = [
        {
            "expr": f'count by (node) (ALERTS{{alertname="{condition.name}",alertstate="firing"}})',
            "eval_time": f"{int(HEALTHY + condition.after / 60)}m",
            "exp_samples": [{"labels": f'{{node="{r}"}}', "value": 1} for r, by in ALL if by is condition],
        }
        for condition in conditions
    ]
    series = [{"series": s, "values": promtool_values(values)} for s, values in WORLD.items()]
    test = {"interval": "30s", "input_series": series, "promql_expr_test": asked}
    tests.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}))
    ran([require("promtool"), "test", "rules", str(tests)])
