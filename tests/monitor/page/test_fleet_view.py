from typing import Any

import pytest

from monitor.page.fleet_view import ServerLine, fleet_view, server_path
from monitor.page.trends import Trends
from monitor.remarks import FindingOut
from tests.monitor.page.fleet_data import NOW, Past
from tests.monitor.page.rows import row


def line(**facts: Any) -> ServerLine:
    [only] = fleet_view([row(**facts)], Trends(Past()), NOW).lines
    return only


def found(severity: str) -> FindingOut:
    return FindingOut(reason=severity, severity=severity, message="", remedy="", detail="")


def test_the_bar_is_the_fullest_engines_since_that_one_preempts() -> None:
    assert line(kv_utilization=0.42, kv_utilization_max=0.64).kv_share == 0.64
    assert line(kv_utilization=0.42).kv_share == 0.42
    assert line().kv_share is None


@pytest.mark.parametrize(("share", "full"), [(0.899, False), (0.9, True), (1.0, True), (None, False)])
def test_a_cache_that_is_nearly_full_stands_out(share: float | None, full: bool) -> None:
    assert line(kv_utilization=share).kv_nearly_full is full


@pytest.mark.parametrize(
    ("facts", "look"),
    [
        ({"up": False, "available": False, "findings": [found("warning")]}, "bad"),
        ({"available": False, "findings": [found("error")]}, "warning"),
        ({"findings": [found("info"), found("warning"), found("error")]}, "bad"),
        ({"findings": [found("warning")]}, "warning"),
        ({"findings": [found("info")]}, "good"),
        ({"state": "sleeping"}, "quiet"),
    ],
)
def test_the_edge_of_a_row_tells_how_bad_it_is(facts: dict[str, Any], look: str) -> None:
    assert line(**facts).look == look


def test_what_needs_nothing_done_is_kept_apart() -> None:
    told = line(findings=[found("info"), found("warning"), found("error")])
    assert [f.reason for f in told.problems] == ["error", "warning"]
    assert [f.reason for f in told.notes] == ["info"]


@pytest.mark.parametrize(("framework", "name"), [("tensorrt_llm", "TensorRT-LLM"), ("vllm", "vLLM"), (None, None)])
def test_frameworks_are_spelled_as_their_makers_do(framework: str | None, name: str | None) -> None:
    assert line(framework=framework).framework == name


def test_sources_that_are_not_live_are_named_once() -> None:
    rows = [row("a", simulated="replay"), row("b", simulated="replay"), row("c", simulated="simulated"), row("d")]
    assert fleet_view(rows, Trends(Past()), NOW).unreal == ("replay", "simulated")


def test_addresses_hold_any_name() -> None:
    assert server_path("a/b", "10.0.0.1:8000 ü?") == "/servers/a%2Fb/10.0.0.1%3A8000%20%C3%BC%3F"
