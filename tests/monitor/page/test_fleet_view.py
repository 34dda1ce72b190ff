from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from monitor.fleet import ServerRow
from monitor.page.alert_view import Firing
from monitor.page.condition import Condition
from monitor.page.fleet_view import ServerLine, fleet_view, server_path
from monitor.page.trends import Trends
from monitor.remarks import FindingOut
from tests.monitor.page.fleet_data import NOW, Past
from tests.monitor.page.rows import row


def found(severity: str) -> FindingOut:
    return FindingOut(reason=severity, severity=severity, message="", remedy="", detail="")


def line(**facts: Any) -> ServerLine:
    [only] = fleet_view([row(**facts)], Trends(Past()), NOW).lines
    return only


def order(rows: Sequence[ServerRow], firing: Mapping[tuple[str, str], tuple[Firing, ...]] | None = None) -> list[str]:
    return [line.row.server for line in fleet_view(rows, Trends(Past()), NOW, firing or {}).lines]


def fires(name: str, look: str) -> Firing:
    return Firing(name, Condition("page", "cross", look), "", "", None, ())


def test_trouble_comes_first_and_equals_are_sorted_by_name() -> None:
    rows = [
        row("z-fine", findings=[found("info")]),
        row("a-fine"),
        row("warned", findings=[found("warning")]),
        row("failing", findings=[found("warning"), found("error")]),
        row("no-metrics", available=False),
        row("down", up=False, available=False),
    ]
    assert order(rows) == [
        "down",
        "no-metrics",
        "failing",
        "warned",
        "a-fine",
        "z-fine",
    ]


def test_a_server_at_which_an_alert_fires_is_in_trouble_whatever_it_says_of_itself() -> None:
    rows = [row(name) for name in ("calm", "stuck", "slow")]
    rows += [row("down", up=False, available=False), row("warned", findings=[found("warning")])]
    place = {r.server: (r.node, r.server) for r in rows}
    page, ticket = fires("ServerStuck", "bad"), fires("QueueGrowing", "warning")
    firing = {place["stuck"]: (page, ticket), place["slow"]: (ticket,), place["down"]: (page,)}
    assert order(rows, firing) == ["down", "stuck", "slow", "warned", "calm"]
    stuck = next(line for line in fleet_view(rows, Trends(Past()), NOW, firing).lines if line.row.server == "stuck")
    assert (stuck.condition.word, stuck.look) == ("up", "bad")


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
