"""A release gives metrics other names: no panel goes blank that another name can feed, and what changed is told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.asked import Grafana
from tests.dashboards.panels import JSON, panels
from tests.dashboards.recorded import CAPTURES, PAGES, RENAMED
from tests.dashboards.test_expressions import ONE_SERVER, empty
from tests.inferwatch.command import Command

GPUS_AND_PROBES = {
    panel["title"]
    for panel in panels(JSON[ONE_SERVER])
    if any("gpu_" in t["expr"] or "llm_probe" in t["expr"] for t in panel.get("targets", ()))
}
PAGE = CAPTURES / PAGES["vllm"][0] / f"{PAGES['vllm'][2]}.prom"
MAPPED = (
    "kv_cache_usage_perc", "num_requests_running", "num_requests_waiting", "prompt_tokens_total",
    "generation_tokens_total", "request_success_total", "num_preemptions_total", "time_to_first_token_seconds",
    "inter_token_latency_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
)  # fmt: skip


@pytest.mark.parametrize("server", ["vllm-older", "sglang-respelled"])
def test_a_metric_under_another_name_that_is_known_leaves_no_panel_empty(server: str, grafana: Grafana) -> None:
    before = empty(grafana, ONE_SERVER, RENAMED[server][0])
    assert empty(grafana, ONE_SERVER, server) - GPUS_AND_PROBES - before == set()


@pytest.mark.parametrize("server", ["vllm-older", "sglang-respelled"])
def test_it_is_drawn_with_the_same_numbers(server: str, grafana: Grafana) -> None:
    dashboard = JSON[ONE_SERVER]
    for title in ("Running requests", "KV cache in use", "Time between tokens, P99 and P50", "Tokens per second"):
        panel = next(p for p in panels(dashboard) if p["title"] == title)
        one, other = (
            grafana.asked(panel, dashboard, one_node=["node-a"], one_server=[name])
            for name in (RENAMED[server][0], server)
        )
        assert numbers(one) == numbers(other), title


def numbers(answers: dict[str, list[dict[str, Any]]]) -> dict[str, list[Any]]:
    return {letter: [s.get("values") or s["value"] for s in series] for letter, series in answers.items()}


def test_under_a_name_that_nobody_knows_only_what_it_fed_is_empty(grafana: Grafana) -> None:
    before, after = (empty(grafana, ONE_SERVER, name) for name in ("vllm", "vllm-unheard-of"))
    assert after - GPUS_AND_PROBES - before == {"KV cache in use"}


@pytest.mark.parametrize("name", ["dashboards/fleet.json", "dashboards/frameworks.json"])
def test_what_other_servers_tell_is_drawn_all_the_same(name: str, grafana: Grafana) -> None:
    assert empty(grafana, name) == set()


@pytest.mark.parametrize("family", MAPPED)
def test_the_check_names_what_changed(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"vllm:{family}" in text
    page = tmp_path / "page.prom"
    page.write_text(
        text.replace(f"vllm:{family}", "vllm:of_tomorrow_total" if "total" in family else "vllm:of_tomorrow")
    )
    said = Command(capsys, monkeypatch)("check", str(page)).out
    (unknown,) = re.findall(r"info unmapped_families: .* \((.*)\)", said)
    assert "vllm:of_tomorrow" in unknown


def test_nothing_is_named_where_nothing_changed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "unmapped_families" not in Command(capsys, monkeypatch)("check", str(PAGE)).out
