"""LMDeploy's recorded pages against the true values beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exporters import detect, documents, schema
from exporters.documents import keep
from exporters.histogram import quantile
from exporters.normalise import Normaliser, Reading
from exporters.schema import METRICS, PHASES
from exporters.tables.lmdeploy import LMDEPLOY as TABLE
from exporters.window import Recent
from tests.exporters.recorded import CAPTURES, IDENTITY, count, total, truth

_FOLDER = CAPTURES / "lmdeploy"


def capture(name: str) -> Path:
    return _FOLDER / name


def release_of(name: str) -> str:
    return name.partition("/")[0]


def recorded(suffix: str) -> list[str]:
    return sorted(f"{p.parent.name}/{p.name}" for p in _FOLDER.glob(f"*/*{suffix}"))


PAGES, REWRITTEN = recorded(".prom"), recorded(".openmetrics")
WITH_TRUTH = [name for name in (*PAGES, *REWRITTEN) if capture(name).with_suffix(".json").exists()]
DRIVEN = [name for name in WITH_TRUTH if "/fresh" not in name]

# FastAPI encodes the text that pydantic has encoded before it, as the endpoint's source shows.
ENGINE_INFO = json.dumps(
    json.dumps(
        {
            "tp_size": 2, "ep_size": 1, "dp_size": 4, "pp_size": None, "dp_rank": 0, "block_size": 64,
            "num_cpu_blocks": 0, "num_gpu_blocks": 400,
        }
    )
)  # fmt: skip
MODELS = json.dumps(
    {
        "object": "list",
        "data": [
            {"id": id_, "object": "model", "created": 1790000000, "owned_by": "lmdeploy", "root": id_, "parent": None}
            for id_ in ("Qwen2.5-7B-Instruct", "adapter-a")
        ],
    }
)

HISTOGRAMS = {
    "llm_time_to_first_token_seconds": ("time_to_first_token_seconds",),
    "llm_inter_token_latency_seconds": ("iter_token_latency", "time_per_output_token_seconds"),
    "llm_request_duration_seconds": ("e2e_request_latency_seconds",),
    "llm_queue_time_seconds": ("request_queue_time_seconds",),
    "llm_prefill_time_seconds": ("request_prefill_time_seconds",),
    "llm_decode_time_seconds": ("request_decode_time_seconds",),
    "llm_prompt_length_tokens": ("request_prompt_tokens",),
    "llm_generation_length_tokens": ("request_generation_tokens",),
}
COUNTERS = {
    "llm_prompt_tokens_total": "prompt_tokens_total",
    "llm_generation_tokens_total": "generation_tokens_total",
    "llm_prefix_cache_hit_tokens_total": "cached_tokens_total",
    "llm_spec_decode_draft_tokens_total": "spec_decode_num_draft_tokens_total",
    "llm_spec_decode_accepted_tokens_total": "spec_decode_num_accepted_tokens_total",
}
LATE = (
    "llm_requests_running", "llm_requests_waiting", "llm_requests_waiting_api", "llm_kv_cache_utilization_ratio",
)  # fmt: skip
FINISHED = 'request_success_total{finished_reason="ResponseType.FINISH"}'


def side(**bodies: str) -> dict[str, object]:
    """Bodies by document name, pruned as the sidecar prunes them."""
    return {name: keep(TABLE, name, documents.parse(body)) for name, body in bodies.items()}


def read(text: str, **bodies: str) -> Reading:
    return Normaliser(TABLE, IDENTITY).normalise(text, side(**bodies))


def normalise(name: str, **bodies: str) -> Reading:
    return read(capture(name).read_text(), **bodies)


def true_values(name: str) -> dict[str, Any]:
    found: dict[str, Any] = truth(capture(name).with_suffix(".json"))
    return found


def status(reading: Reading, metric: str) -> tuple[str, str]:
    return next((f.quality, f.reason) for f in reading.fields if f.field == metric)


def line(name: str, value: float, labels: str = "") -> str:
    return f'lmdeploy:{name}{{engine="0",model_name="m"{labels}}} {value}\n'


def test_the_table_says_where_every_server_metric_comes_from_or_why_not() -> None:
    own = ("llm_latency_", "llm_length_", "llm_server_")
    expected = {
        m.name for m in schema.of_prefix("llm_") if m.scope is schema.Scope.ENGINE and not m.name.startswith(own)
    }
    told = [f.metric for f in TABLE.fields]
    assert sorted(told) == sorted(expected)
    assert [f.metric for f in TABLE.fields if not f.sources and not f.missing] == []


@pytest.mark.parametrize("name", [*PAGES, *REWRITTEN])
def test_every_page_is_read_whole(name: str) -> None:
    reading = normalise(name)
    assert reading.available
    assert reading.unmapped == ()
    assert reading.dropped == {}
    assert [f.reason for f in reading.findings] == (["prefix_rewritten"] if name in REWRITTEN else [])
    assert {s.metric for s in reading.values} | {s.metric for s in reading.histograms} <= METRICS.keys()
    identities = {(s.label("framework"), s.label("model"), s.label("engine")) for s in reading.values}
    assert identities == {("lmdeploy", "Qwen2.5-7B-Instruct", "0")}


@pytest.mark.parametrize("name", [*PAGES, *REWRITTEN])
def test_every_page_is_recognised(name: str) -> None:
    detected = detect.detect(capture(name).read_text())
    assert detected.frontend is TABLE
    assert detected.finding is None


@pytest.mark.parametrize("name", WITH_TRUTH)
def test_counters_are_the_true_ones(name: str) -> None:
    reading = normalise(name)
    expected = true_values(name)["expected_counters"]
    for metric, wire in COUNTERS.items():
        assert total(reading, metric) == expected.get(f"lmdeploy:{wire}"), metric
    assert total(reading, "llm_requests_finished_total", reason="stop") == expected[f"lmdeploy:{FINISHED}"]


@pytest.mark.parametrize("name", WITH_TRUTH)
def test_histograms_are_the_true_ones(name: str) -> None:
    reading = normalise(name)
    expected = true_values(name)["expected_histograms"]
    for metric, wires in HISTOGRAMS.items():
        true = next(expected[f"lmdeploy:{w}"] for w in wires if f"lmdeploy:{w}" in expected)
        (found,) = (h for s, h in reading.histograms.items() if s.metric == metric)
        assert dict(zip([*found.bounds, float("inf")], found.counts, strict=True)) == {
            float(le): value for le, value in true["buckets"].items()
        }, metric
        assert found.count == true["count"]
        assert found.sum == pytest.approx(true["sum"], abs=1e-3)


@pytest.mark.parametrize("name", WITH_TRUTH)
def test_gauges_are_those_of_the_last_refresh(name: str) -> None:
    reading = normalise(name)
    true = true_values(name)["gauges_as_of_last_refresh"]
    tells_more = release_of(name) in ("0.12.3", "0.18.0")
    assert total(reading, "llm_requests_running") == true["running"]
    assert total(reading, "llm_kv_cache_utilization_ratio") == pytest.approx(true["kv"])
    # Before 0.12.1 the page has no API queue of its own, only what is unfinished.
    api = true["api_waiting"] if tells_more else _rest(true)
    assert total(reading, "llm_requests_waiting_api") == api
    assert total(reading, "llm_requests_waiting") == true["waiting"] + api
    failed = true["failed"] if tells_more else None
    assert total(reading, "llm_requests_finished_total", reason="unknown") == failed


def _rest(true: dict[str, Any]) -> float:
    return float(max(true["unfinished"] - true["running"] - true["waiting"], 0))


@pytest.mark.parametrize("name", DRIVEN)
@pytest.mark.parametrize("phase", ["ttft", "itl", "e2e", "queue"])
@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_true_percentiles_lie_inside_the_bounds(name: str, phase: str, q: float) -> None:
    reading = normalise(name)
    found = [h for s, h in reading.histograms.items() if s.metric == PHASES[phase].metric]
    result = quantile(found, q, PHASES[phase].grid)
    true = true_values(name)["percentiles"][phase][f"p{round(q * 100)}"]
    assert result is not None
    assert result.lower <= true <= result.upper


@pytest.mark.parametrize("name", REWRITTEN)
def test_both_spellings_of_one_moment_say_the_same(name: str) -> None:
    rewritten, plain = normalise(name), normalise(name.replace(".openmetrics", ".prom"))
    assert rewritten.values == plain.values
    assert rewritten.histograms == plain.histograms


def test_a_success_is_counted_once_and_never_by_the_gauge_that_lags() -> None:
    # At that moment the gauge says 100 succeeded, 7 s old; the counter says 124.
    reading = normalise("0.18.0/mid-2.prom")
    by_reason = {s.label("reason"): v for s, v in reading.values.items() if s.metric == "llm_requests_finished_total"}
    assert by_reason == {"stop": 124, "unknown": 15}
    assert "lmdeploy:num_requests_succeeded" not in reading.mapped
    assert status(reading, "llm_requests_finished_total")[0] == "approximate"


def test_no_failures_are_claimed_where_the_release_counts_none() -> None:
    reading = normalise("0.9.2/idle.prom")
    reasons = {s.label("reason") for s in reading.values if s.metric == "llm_requests_finished_total"}
    assert reasons == {"stop"}
    assert "in no counter before 0.12.3" in status(reading, "llm_requests_finished_total")[1]


def test_what_waits_before_the_engine_is_part_of_what_waits() -> None:
    reading = normalise("0.18.0/mid-2.prom")
    assert total(reading, "llm_requests_waiting_api") == 20
    assert total(reading, "llm_requests_waiting") == 20
    # 50 unfinished, 10 running, 5 waiting in the engine.
    before = normalise("0.9.2/mid-2.prom")
    assert total(before, "llm_requests_waiting_api") == 35
    assert total(before, "llm_requests_waiting") == 40


def test_an_api_queue_below_zero_is_empty() -> None:
    reading = read(line("num_api_requests_waiting", -3) + line("num_requests_waiting", 2))
    assert total(reading, "llm_requests_waiting_api") == 0
    assert total(reading, "llm_requests_waiting") == 2
    assert reading.dropped == {}
    lagging = read(
        line("num_requests_unfinished", 4) + line("num_requests_running", 5) + line("num_requests_waiting", 2)
    )
    assert total(lagging, "llm_requests_waiting_api") == 0
    assert total(lagging, "llm_requests_waiting") == 2


@pytest.mark.parametrize(
    ("name", "bodies", "said"),
    [
        ("0.9.2/mid-2.prom", {}, "with prefix caching on, blocks kept for reuse count as used"),
        ("0.14.0/fresh.prom", {}, "with prefix caching on, blocks kept for reuse count as used"),
        ("0.18.0/mid-2.prom", {}, "turbomind: bytes of live cache objects"),
        ("0.18.0/mid-2.prom", {"engine_info": ENGINE_INFO}, "pytorch 0.15 to 0.17: with prefix caching on"),
    ],
)
def test_the_meaning_of_kv_use_is_told_by_release(name: str, bodies: dict[str, str], said: str) -> None:
    quality, note = status(normalise(name, **bodies), "llm_kv_cache_utilization_ratio")
    assert quality == "approximate"
    assert note.startswith(said)


def test_capacity_and_parallelism_come_out_of_json_inside_a_json_string() -> None:
    reading = normalise("0.18.0/mid-2.prom", engine_info=ENGINE_INFO, models=MODELS)
    assert total(reading, "llm_kv_cache_capacity_tokens", engine="0") == 25600
    assert true_values("0.18.0/mid-2.prom")["engine"]["kv_capacity_tokens"] == 25600
    info = next(s for s in reading.values if s.metric == "llm_server_info")
    told = {k: info.label(k) for k in ("tp", "dp", "pp", "block_size", "wire_model", "version", "max_model_len")}
    assert told == {
        "tp": "2", "dp": "4", "pp": "", "block_size": "64", "wire_model": "Qwen2.5-7B-Instruct", "version": "",
        "max_model_len": "",
    }  # fmt: skip


def test_without_that_document_capacity_is_missing_with_its_reason() -> None:
    reading = normalise("0.18.0/mid-2.prom")
    assert total(reading, "llm_kv_cache_capacity_tokens") is None
    quality, reason = status(reading, "llm_kv_cache_capacity_tokens")
    assert quality == "unavailable"
    assert "/distserve/engine_info" in reason


def test_each_rank_of_a_data_parallel_server_is_an_engine() -> None:
    text = capture("0.18.0/mid-2.prom").read_text().replace('engine="0"', 'engine="3"')
    reading = read(text, engine_info=ENGINE_INFO, sleeping='{"is_sleeping": false}')
    assert {s.label("engine") for s in reading.values} == {"3"}
    assert total(reading, "llm_kv_cache_capacity_tokens", engine="3") == 25600


@pytest.mark.parametrize(
    ("bodies", "state"),
    [
        ({"sleeping": '{"is_sleeping": true}'}, "sleeping"),
        ({"sleeping": '{"is_sleeping": false}'}, "awake"),
        ({}, "unknown"),
    ],
)
def test_sleep_is_told_by_its_own_document(bodies: dict[str, str], state: str) -> None:
    reading = normalise("0.18.0/idle.prom", **bodies)
    assert [s.label("state") for s in reading.values if s.metric == "llm_server_state"] == [state]


def test_the_hit_ratio_compares_requests_that_finished_in_the_window() -> None:
    recent, shown, finished = Recent(), {}, []
    # The process is older than the window, so the first page is a base line.
    for name, at in (("0.18.0/mid-1.prom", 1790001025), ("0.18.0/mid-3.prom", 1790001088)):
        reading = normalise(name)
        shown = recent.advance(at, reading.values, reading.histograms, start_time=reading.start_time)
        finished.append(true_values(name)["expected_histograms"]["lmdeploy:request_prompt_tokens"]["sum"])
    (ratio,) = (v for s, v in shown.items() if s.metric == "llm_prefix_cache_hit_ratio")
    assert ratio == pytest.approx((53888 - 5920) / (finished[1] - finished[0]))


def test_accepted_and_drafted_tokens_are_those_of_the_counters() -> None:
    reading = read(
        line("spec_decode_num_drafts_total", 10)
        + line("spec_decode_num_draft_tokens_total", 30)
        + line("spec_decode_num_accepted_tokens_total", 21)
        + line("spec_decode_num_accepted_tokens_per_pos_total", 9, ',position="0"')
        + line("spec_decode_per_position_accept_rate", 0.9, ',position="0"')
    )
    assert total(reading, "llm_spec_decode_draft_tokens_total") == 30
    assert total(reading, "llm_spec_decode_accepted_tokens_total") == 21
    assert reading.unmapped == ()


def test_the_servers_own_hit_rate_stands_in_where_counters_are_missing() -> None:
    reading = read(line("prefix_cache_hit_rate", 0.25))
    assert total(reading, "llm_prefix_cache_hit_ratio") == 0.25
    assert "since start" in status(reading, "llm_prefix_cache_hit_ratio")[1]


def test_releases_without_prefix_counters_say_since_when_they_exist() -> None:
    reading = normalise("0.12.0/fresh.prom")
    for metric in (
        "llm_prefix_cache_query_tokens_total", "llm_prefix_cache_hit_tokens_total", "llm_prefix_cache_hit_ratio",
    ):  # fmt: skip
        quality, reason = status(reading, metric)
        assert (quality, "since 0.14.0" in reason) == ("unavailable", True), metric
        assert total(reading, metric) is None


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("0.9.2/mid-2.prom", "lmdeploy:time_per_output_token_seconds"),
        ("0.18.0/mid-2.prom", "lmdeploy:iter_token_latency"),
    ],
)
def test_gaps_between_outputs_are_inter_token_latency_and_never_a_mean_per_request(name: str, source: str) -> None:
    reading = normalise(name)
    sources = {f.field: f.source for f in reading.fields}
    assert sources["llm_inter_token_latency_seconds"] == source
    assert count(reading, "llm_time_per_output_token_seconds") is None
    assert "not one per request" in status(reading, "llm_time_per_output_token_seconds")[1]


@pytest.mark.parametrize("metric", ["llm_time_to_first_token_seconds", "llm_request_duration_seconds"])
def test_latencies_that_leave_out_the_api_queue_say_so(metric: str) -> None:
    quality, note = status(normalise("0.18.0/mid-2.prom"), metric)
    assert quality == "approximate"
    assert "API process's queue" in note


def test_gauges_of_the_oldest_release_that_stick_when_idle_are_marked() -> None:
    reading = normalise("0.9.2/idle.prom")
    assert total(reading, "llm_kv_cache_utilization_ratio") == pytest.approx(0.0225)
    sticks = "refreshed with each output of the engine; keeps its value when the server falls idle (0.9.2)"
    assert status(reading, "llm_requests_running") == ("approximate", sticks)
    for metric in LATE:
        assert status(reading, metric)[0] == "approximate"
        assert status(reading, metric)[1].endswith(sticks)


@pytest.mark.parametrize("name", [n for n in (*PAGES, *REWRITTEN) if release_of(n) != "0.9.2"])
def test_gauges_of_all_later_releases_are_told_and_say_that_they_are_up_to_10_seconds_old(name: str) -> None:
    reading = normalise(name)
    assert status(reading, "llm_requests_running") == ("approximate", "refreshed every 10 s (0.10.0 and later)")
    for metric in LATE:
        assert total(reading, metric) is not None
        assert status(reading, metric)[0] == "approximate"
        assert status(reading, metric)[1].endswith("refreshed every 10 s (0.10.0 and later)")


def test_a_gauge_10_seconds_old_is_not_the_moments_truth_and_counters_are() -> None:
    # At that moment 7 run and 28 wait in the API process; the gauges still say 16 and 20.
    reading = normalise("0.18.0/mid-2.prom")
    assert total(reading, "llm_requests_running") == 16
    assert status(reading, "llm_requests_running")[0] == "approximate"
    assert status(reading, "llm_generation_tokens_total") == ("exact", "")
    assert status(reading, "llm_prompt_tokens_total") == ("exact", "")


def test_a_server_without_a_metrics_page_is_recognised_by_its_model_list() -> None:
    owned = detect.by_owner(side(models=MODELS))
    assert (owned.frontend, owned.detail) == (TABLE, "it is lmdeploy")
    for told in ("since 0.9.2", "--enable-metrics", "--disable-metrics", "serve proxy"):
        assert told in TABLE.no_metrics


@pytest.mark.parametrize("body", ['{"data": []}', '{"data": [{"id": "m", "owned_by": "somebody"}]}', "[]"])
def test_any_other_server_without_a_metrics_page_stays_unknown(body: str) -> None:
    owned = detect.by_owner(side(models=body))
    told = "an OpenAI API of m that tells no framework" if "somebody" in body else ""
    assert (owned.frontend, owned.detail) == (None, told)


def test_such_a_server_shows_its_framework_and_model_and_no_load() -> None:
    reading = read("", models=MODELS)
    assert not reading.available
    assert {s.metric for s in reading.values} == {"llm_server_info", "llm_server_state"}
    assert {s.label("model") for s in reading.values} == {"Qwen2.5-7B-Instruct"}
    assert reading.histograms == {}
    assert {f.quality for f in reading.fields} == {"unavailable"}
