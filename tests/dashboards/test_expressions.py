"""Every expression of every dashboard, asked of a real Prometheus that knows servers of every frontend."""

from __future__ import annotations

import promql_parser
import pytest

from alerts.rules.known import Expression
from exporters import schema
from tests.dashboards.asked import Grafana, interpolated
from tests.dashboards.panels import JSON, expressions, panels
from tests.dashboards.recorded import PAGES

OF_PROMETHEUS = [
    name
    for name, dashboard in JSON.items()
    if next(v for v in dashboard["templating"]["list"] if v["type"] == "datasource")["query"] == "prometheus"
]
every = pytest.mark.parametrize("name", OF_PROMETHEUS)
ONE_SERVER = "dashboards/server.json"
SERVERS = [*PAGES, "down"]
DRAWN_IN = {
    "llm_requests_running": "Running requests",
    "llm_requests_waiting": "Waiting requests",
    "llm_generation_tokens_total": "Tokens per second",
    "llm_kv_cache_utilization_ratio": "KV cache in use",
    "llm_kv_cache_capacity_tokens": "KV cache capacity",
    "llm_prefix_cache_query_tokens_total": "Prefix-cache hits",
    "llm_requests_finished_total": "Requests that end",
    "llm_requests_unfinished": "Vanished requests",
    "llm_preemptions_total": "Preemptions",
    "llm_lora_adapters_running": "LoRA adapters",
    "llm_process_start_time_seconds": "Running for",
    "llm_server_info": "What it says of itself",
    "llm_prompt_length_tokens_count": "Prompt length in tokens",
    "llm_generation_length_tokens_count": "Output length in tokens",
    "llm_time_to_first_token_seconds_count": "Time to first token, P99 and P50",
    "llm_inter_token_latency_seconds_count": "Time between tokens, P99 and P50",
    "llm_time_per_output_token_seconds_count": "Time per output token, P99 and P50",
    "llm_request_duration_seconds_count": "Request duration, P99 and P50",
    "llm_queue_time_seconds_count": "Time in the queue, P99 and P50",
    "llm_prefill_time_seconds_count": "Prefill time, P99 and P50",
    "llm_decode_time_seconds_count": "Decode time, P99 and P50",
}
NOT_DRAWN = {
    "llm_latency_quantile_seconds": "percentiles of single engines; panels ask the histograms for those of any group",
    "llm_latency_native_bounds_info": "for rules and the history",
    "llm_length_native_bounds_info": "for rules and the history",
    "llm_length_overflow_total": "the heatmap shows them above the largest bound",
}


def chosen(name: str, server: str = "vllm") -> dict[str, list[str]]:
    return {"one_server": [server], "one_node": ["node-a"]} if name == ONE_SERVER else {}


def empty(grafana: Grafana, name: str, server: str = "vllm") -> set[str]:
    """Titles of panels without any answer."""
    choices = grafana.choices(JSON[name], **chosen(name, server))
    return {
        panel["title"]
        for panel in panels(JSON[name])
        if panel.get("targets") and not sum(len(grafana.answers(target, choices)) for target in panel["targets"])
    }


@every
def test_every_expression_is_promql(name: str) -> None:
    values = {v["name"]: "x" for v in JSON[name]["templating"]["list"]} | {"reference": "1"}
    for place, expr in expressions(JSON[name]):
        assert isinstance(promql_parser.parse(interpolated(expr, values)), promql_parser.Expr), place


@every
def test_every_expression_is_answered_and_no_panel_stays_empty(name: str, grafana: Grafana) -> None:
    """Of the dashboard about one server: none that no server of any frontend fills."""
    servers = SERVERS if name == ONE_SERVER else ["vllm"]
    assert set.intersection(*(empty(grafana, name, server) for server in servers)) == set()


@pytest.mark.parametrize("server", PAGES)
def test_whatever_the_sidecar_tells_of_a_server_is_drawn(server: str, grafana: Grafana) -> None:
    told = grafana.prometheus.ask(f'count by (__name__) ({{server="{server}"}})', time=str(grafana.at))
    names = {series["metric"]["__name__"] for series in told}
    left_out = empty(grafana, ONE_SERVER, server)
    drawn = {title for name, title in DRAWN_IN.items() if name in names}
    assert drawn & left_out == set()


@pytest.mark.parametrize("metric", schema.METRICS)
def test_every_metric_of_the_schema_is_on_some_dashboard(metric: str) -> None:
    asked = {name for found in JSON.values() for _, expr in expressions(found) for name in Expression("", expr).metrics}
    assert {metric, f"{metric}_bucket"} & asked or metric in NOT_DRAWN


@every
def test_every_mark_is_answered(name: str, grafana: Grafana) -> None:
    choices = grafana.choices(JSON[name], **chosen(name))
    for annotation in JSON[name]["annotations"]["list"]:
        grafana.answers(annotation["target"], choices)
