from __future__ import annotations

import re

import pytest

from exporters import schema
from exporters.schema import METRICS, PHASES, Metric, Type, Unit
from exporters.tables import FRONTENDS


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda m: m.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    assert metric.name.startswith(schema.PREFIXES)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
    assert metric.name.endswith("_total") == (metric.type is Type.COUNTER)
    if metric.unit in (Unit.SECONDS, Unit.BYTES, Unit.TOKENS, Unit.RATIO, Unit.JOULES):
        assert metric.name.removesuffix("_total").endswith(f"_{metric.unit.value}")
    if metric.type is Type.HISTOGRAM:
        assert metric.name in schema.PHASE_OF_METRIC
    assert set(metric.values) <= set(metric.labels)
    assert not set(metric.labels) & set(schema.IDENTITY[metric.scope])
    assert metric.help.endswith(".")


def test_no_unit_is_lied_about() -> None:
    for phase in PHASES.values():
        assert METRICS[phase.metric].unit is phase.unit


@pytest.mark.parametrize(
    ("phase", "bounds"),
    [
        ("ttft", (0.001, 0.1, 1, 10, 80, 400, 2560)),
        ("itl", (0.002, 0.005, 0.01, 0.1, 8, 80)),
        ("e2e", (0.1, 0.3, 10, 20, 40, 2400, 7680)),
    ],
)
def test_default_bounds_of_every_framework_lie_on_the_grid(phase: str, bounds: tuple[float, ...]) -> None:
    assert set(bounds) <= set(PHASES[phase].grid)


def test_tables_say_where_every_server_metric_comes_from_or_why_not() -> None:
    # Written by the sidecar itself, or read off the histograms.
    made = {
        "llm_up", "llm_metrics_available", "llm_server_info", "llm_server_state", "llm_field_info",
        "llm_latency_overflow_total", "llm_latency_native_max_seconds", "llm_latency_native_bounds_info",
        "llm_latency_quantile_seconds", "llm_length_overflow_total", "llm_length_native_bounds_info",
        "llm_probe_success", "llm_probe_time_to_first_token_seconds", "llm_probe_duration_seconds",
    }  # fmt: skip
    expected = {m.name for m in schema.of_prefix("llm_")} - made
    for frontend in FRONTENDS.values():
        assert [f.metric for f in frontend.fields if f.metric not in expected] == []
        assert expected - {f.metric for f in frontend.fields} == set(), frontend.name
