"""The example of Alertmanager's configuration, tried by amtool and by a real Alertmanager."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from alerts.alertmanager import inhibitions
from alerts.conditions import CONDITIONS
from tests.alerts.conditions.cases import CASES
from tests.end_to_end.processes import until
from tests.end_to_end.web import get
from tests.servers.alertmanager import Alertmanager
from tests.servers.server import ran
from tests.services import require

EXAMPLE = Path(__file__).parent.parent.parent / "alerts" / "generated" / "alertmanager.yml"
Found = set[tuple[str, str]]


def test_amtool_has_nothing_against_it() -> None:
    ran([require("amtool"), "check-config", str(EXAMPLE)])


@pytest.mark.parametrize(
    ("labels", "receivers"),
    [
        ("alertname=ServerDown severity=page", "inferwatch,oncall"),
        ("alertname=ServerDown severity=page team=search", "inferwatch,oncall-search"),
        ("alertname=SloBurnPage severity=page team=another", "inferwatch,oncall"),
        ("alertname=QueueGrowing severity=ticket", "inferwatch,tickets"),
        ("alertname=QueueGrowing severity=ticket team=search", "inferwatch,tickets-search"),
        ("alertname=Watchdog severity=none", "inferwatch,dead-man-switch"),
        ("alertname=SomebodyElses", "inferwatch,tickets"),
    ],
)
def test_alerts_go_by_severity_and_team(labels: str, receivers: str) -> None:
    command = [require("amtool"), "config", "routes", "test", f"--config.file={EXAMPLE}", *labels.split()]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert told.stdout.strip() == receivers


def names_in(matchers: list[str]) -> list[str]:
    (only,) = matchers
    return only.removeprefix("alertname=").removeprefix("~").split("|")


def test_alerts_that_hold_back_and_are_held_back_carry_the_labels() -> None:
    """As they fire in the cases; objectives are grouped as people like, and carry what their groups have."""
    carried = {c.condition: [set(fires.labels) for fires in c.fires] for c in CASES if c.fires}
    looked_at = 0
    for rule in inhibitions():
        for name in (*names_in(rule["source_matchers"]), *names_in(rule["target_matchers"])):
            if not name.startswith("SloBurn"):
                assert name in CONDITIONS
                assert all(labels >= set(rule["equal"]) for labels in carried[name]), name
                looked_at += 1
    assert looked_at > 10


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    """With the example's rules of inhibition; nobody is told."""
    example = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    config = {**example, "route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]}
    with Alertmanager(yaml.safe_dump(config), tmp_path_factory.mktemp("alertmanager")) as running:
        yield running


def held_back(alertmanager: Alertmanager, of: str, *alerts: Mapping[str, str]) -> Found:
    """Names and servers of those that are; `of` keeps the tests of one Alertmanager apart.

    It takes up what holds others back in its own time, but in order: once the last of them does, all do. An answer
    under way may have looked at the others before that, so the next one counts.
    """
    witness = down(f"of {of}", "witness")
    last = [witness, {**LOST, "node": witness["node"]}]
    sent = [{"labels": {**alert, "test": of}} for alert in (*alerts, *last)]
    httpx.post(f"{alertmanager.url}/api/v2/alerts", json=sent, trust_env=False, timeout=60).raise_for_status()

    def found() -> Found:
        told: list[dict[str, Any]] = get(f"{alertmanager.url}/api/v2/alerts", filter=f'test="{of}"').json()
        assert len(told) == len(sent)
        inhibited = (alert["labels"] for alert in told if alert["status"]["inhibitedBy"])
        return {(of["alertname"], of.get("server", "")) for of in inhibited}

    until(lambda: ("ServerDown", "witness") in found(), alertmanager.process)
    return found() - {("ServerDown", "witness")}


LOST = {"alertname": "GpuLost", "severity": "page", "node": "n1", "uuid": "GPU-1", "gpu": "0"}


def down(node: str, server: str) -> dict[str, str]:
    return {"alertname": "ServerDown", "severity": "page", "node": node, "server": server}


def test_a_lost_gpu_holds_back_servers_of_its_node_and_of_no_other(alertmanager: Alertmanager) -> None:
    lost = {**LOST, "node": "a1"}
    found = held_back(alertmanager, "lost", lost, down("a1", "a"), down("a1", "b"), down("a2", "c"))
    assert found == {("ServerDown", "a"), ("ServerDown", "b")}


def test_a_server_that_is_down_holds_back_what_is_said_of_it_alone(alertmanager: Alertmanager) -> None:
    of = {"node": "b1", "framework": "vllm", "model": "m", "role": "unified", "engine": "0"}
    found = held_back(
        alertmanager, "down", down("b1", "a"),
        {"alertname": "QueueGrowing", "severity": "ticket", "server": "a", **of},
        {"alertname": "TimeToFirstTokenRegressed", "severity": "ticket", "server": "a", **of},
        {"alertname": "QueueGrowing", "severity": "ticket", "server": "b", **of},
        {"alertname": "SloBurnPage", "severity": "page", "slo": "ttft", "model": "m"},
        {"alertname": "GpuSlowedDown", "severity": "ticket", "node": "b1", "uuid": "GPU-1", "gpu": "0"},
    )  # fmt: skip
    assert found == {("QueueGrowing", "a"), ("TimeToFirstTokenRegressed", "a")}


def of_load(name: str, server: str, node: str, model: str = "m") -> dict[str, str]:
    of = {"node": node, "server": server, "framework": "vllm", "model": model, "role": "unified"}
    return {"alertname": name, "severity": "ticket", **of}


def test_a_server_that_is_stuck_holds_back_what_follows_at_it_and_not_what_users_notice(
    alertmanager: Alertmanager,
) -> None:
    stuck = {**of_load("ServerStuck", "a", "d1"), "severity": "page", "engine": "0"}
    found = held_back(
        alertmanager, "stuck", stuck,
        of_load("QueueGrowing", "a", "d1"), of_load("KvCacheSaturated", "a", "d1"), of_load("QueueGrowing", "b", "d1"),
        {"alertname": "MetricsMissing", "severity": "ticket", "node": "d1", "server": "a"},
        {"alertname": "SloBurnPage", "severity": "page", "slo": "ttft", "model": "m", "role": "unified"},
    )  # fmt: skip
    assert found == {("QueueGrowing", "a"), ("KvCacheSaturated", "a")}


def test_a_full_kv_cache_holds_back_what_it_brings_for_the_same_model(alertmanager: Alertmanager) -> None:
    brought = ("PreemptionsFrequent", "QueueGrowing", "TimeToFirstTokenRegressed", "InterTokenLatencyRegressed")
    found = held_back(
        alertmanager, "kv", of_load("KvCacheSaturated", "a", "e1"), *(of_load(name, "a", "e1") for name in brought),
        of_load("TimeToFirstTokenRegressed", "a", "e1", model="n"), of_load("PrefixHitsCollapsed", "a", "e1"),
        {"alertname": "SloBurnTicket", "severity": "ticket", "slo": "kv-headroom", "model": "m", "role": "unified"},
    )  # fmt: skip
    assert found == {(name, "a") for name in brought}


def test_the_cause_is_told_and_what_only_follows_from_what_is_held_back_is_not(alertmanager: Alertmanager) -> None:
    lost = {**LOST, "node": "f1"}
    chain = [down("f1", "a"), of_load("QueueGrowing", "a", "f1"), of_load("TimeToFirstTokenRegressed", "a", "f1")]
    found = held_back(alertmanager, "chain", lost, *chain)
    assert found == {(alert["alertname"], "a") for alert in chain}


def test_the_same_name_on_another_node_is_another_server(alertmanager: Alertmanager) -> None:
    stuck = {"alertname": "ServerStuck", "severity": "page", "node": "c2", "server": "a"}
    assert held_back(alertmanager, "names", down("c1", "a"), stuck) == set()


def test_a_page_holds_back_the_ticket_of_the_same_objective_and_group(alertmanager: Alertmanager) -> None:
    page = {"alertname": "SloBurnPage", "severity": "page", "slo": "ttft", "model": "m", "role": "unified"}
    ticket = {**page, "alertname": "SloBurnTicket", "severity": "ticket"}
    others = [{**ticket, "slo": "e2e"}, {**ticket, "model": "n"}, {**ticket, "team": "search"}]
    assert held_back(alertmanager, "objective", page, *others) == set()
    assert held_back(alertmanager, "same", page, ticket) == {("SloBurnTicket", "")}
