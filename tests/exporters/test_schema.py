from __future__ import annotations

import re

import pytest

from exporters import schema
from exporters.schema import METRICS, PHASES, Metric, Type, Unit
from exporters.tables import FRONTENDS
from tests.exporters.recorded import CAPTURES, normalise


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda m: m.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    assert metric.name.startswith(("llm_", "gpu_", "inferwatch_"))
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


NEWEST = (
    "vllm/0.33.0/2-after",
    "sglang/0.5.23/tp1-2_load",
    "lmdeploy/0.18.0/mid-2",
    "trtllm_serve/main2026/page-load2",
    "triton/24.10/cppnames018-load2",
    "triton/24.11/firstresponse-load3",
    "nim/1.x/made_by_hand",
)


def test_the_newest_release_of_every_frontend_is_looked_at() -> None:
    assert {name.partition("/")[0] for name in NEWEST} == FRONTENDS.keys()


@pytest.mark.parametrize("name", NEWEST)
def test_default_bounds_lie_on_the_grid_or_are_said_to_be_off_it(name: str) -> None:
    frontend = name.partition("/")[0]
    for series, histogram in normalise(CAPTURES / f"{name}.prom").histograms.items():
        phase = schema.PHASE_OF_METRIC[series.metric]
        missing = {b for b in histogram.bounds if b not in phase.grid}
        assert missing == set(schema.OFF_GRID.get(phase.name, {}).get(frontend, ())), phase.name


@pytest.mark.parametrize("name", NEWEST)
def test_default_bounds_of_phases_with_objectives_are_those_that_the_newest_releases_show(name: str) -> None:
    frontend = name.partition("/")[0]
    for series, histogram in normalise(CAPTURES / f"{name}.prom").histograms.items():
        phase = schema.PHASE_OF_METRIC[series.metric].name
        if phase in schema.DEFAULT_BOUNDS:
            assert schema.DEFAULT_BOUNDS[phase][frontend] == histogram.bounds, phase


def test_grids_of_phases_with_objectives_hold_every_default_bound() -> None:
    assert not {"ttft", "itl", "tpot", "e2e"} & schema.OFF_GRID.keys()
    assert all(len(phase.grid) <= 40 for phase in PHASES.values())


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
