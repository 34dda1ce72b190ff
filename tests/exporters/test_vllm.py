"""vLLM's recorded pages against the true values beside them."""

from __future__ import annotations

from math import ceil, inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exporters import exposition
from exporters.histogram import Histogram, quantile
from exporters.normalise import Identity, Normaliser
from exporters.schema import METRICS, PHASES
from exporters.tables.vllm import VLLM as TABLE
from exporters.window import Recent
from tests.exporters.recorded import (
    SWITCHED_OFF,
    VLLM,
    VLLM_PAGES,
    count,
    independent,
    normalise,
    page_id,
    total,
    truth,
)

READABLE = [p for p in VLLM_PAGES if SWITCHED_OFF not in p.name]
A = VLLM / "0.32.0"


def entries(release: Path) -> list[tuple[Path, dict[str, Any]]]:
    return [(release / e["file"].split("-replay-")[1], e) for e in truth(release / "truth.json")]


REPLAYED = [pair for release in sorted(VLLM.glob("*/truth.json")) for pair in entries(release.parent)]


@pytest.mark.parametrize("page", READABLE, ids=page_id)
def test_every_page_is_read_whole(page: Path) -> None:
    reading = normalise(page)
    assert reading.available
    assert reading.unmapped == ()
    assert reading.dropped == {}
    assert {s.metric for s in reading.values} | {s.metric for s in reading.histograms} <= METRICS.keys()


@pytest.mark.parametrize(("page", "true"), REPLAYED, ids=[page_id(p) for p, _ in REPLAYED])
def test_replayed_releases_show_the_totals_that_were_fed(page: Path, true: dict[str, Any]) -> None:
    reading = normalise(page)
    v0_before_first_use = "fresh" in page.name and count(reading, "llm_time_to_first_token_seconds") is None
    if v0_before_first_use:
        assert total(reading, "llm_requests_running") is None
        assert [f.reason for f in reading.findings] == ["no_requests_yet"]
        return
    assert total(reading, "llm_prompt_tokens_total") == true["prompt_tokens_of_started_first"]
    assert total(reading, "llm_generation_tokens_total") == true["generated"]
    assert count(reading, "llm_time_to_first_token_seconds") == true["ttft_observations"]
    assert count(reading, "llm_inter_token_latency_seconds") == true["itl_observations"]
    assert total(reading, "llm_requests_running") == true["running"]
    assert total(reading, "llm_requests_waiting") == true["waiting"]
    finished = total(reading, "llm_requests_finished_total")
    assert finished == (None if page.parent.name == "0.4.0" else true["finished"])
    assert count(reading, "llm_request_duration_seconds") in (None, true["finished"])


@pytest.mark.parametrize("page", READABLE, ids=page_id)
def test_native_bounds_on_the_grid_keep_their_exact_counts(page: Path) -> None:
    reading = normalise(page)
    raw = independent(page)
    written = independent_text(exposition.page([reading.chunks()]))
    wire = {
        "llm_time_to_first_token_seconds": ("time_to_first_token_seconds",),
        "llm_inter_token_latency_seconds": ("inter_token_latency_seconds", "time_per_output_token_seconds"),
        "llm_request_duration_seconds": ("e2e_request_latency_seconds",),
        "llm_queue_time_seconds": ("request_queue_time_seconds",),
        "llm_prefill_time_seconds": ("request_prefill_time_seconds",),
        "llm_decode_time_seconds": ("request_decode_time_seconds",),
        "llm_time_per_output_token_seconds": ("request_time_per_output_token_seconds",),
        "llm_prompt_length_tokens": ("request_prompt_tokens",),
        "llm_generation_length_tokens": ("request_generation_tokens",),
    }
    for metric, names in wire.items():
        base = next((f"vllm:{n}" for n in names if raw[f"vllm:{n}_bucket"]), None)
        if base is None:
            assert f"{metric}_bucket" not in written
            continue
        for labels, value in raw[f"{base}_bucket"].items():
            engine, le = dict(labels).get("engine", "0"), dict(labels)["le"]
            assert written[f"{metric}_bucket"][engine, float(le)] == value, (metric, le)
        for labels, value in raw[f"{base}_sum"].items():
            assert written[f"{metric}_sum"][dict(labels).get("engine", "0"), None] == value


def independent_text(text: str) -> dict[str, dict[tuple[str, float | None], float]]:
    """By sample name: value by engine and `le`, read with this product's own reader, proved elsewhere."""
    found: dict[str, dict[tuple[str, float | None], float]] = {}
    for s in exposition.read_samples(text):
        le = float(s.labels["le"]) if "le" in s.labels else None
        found.setdefault(s.name, {})[s.labels.get("engine", ""), le] = s.value
    return found


def test_a_finished_run_shows_what_its_clients_counted() -> None:
    reading = normalise(A / "A-2-after.prom")
    requests = [r for r in truth(A / "A-truth.json")["requests"] if r["i"] < 10000]
    assert total(reading, "llm_prompt_tokens_total") == sum(r["prompt_tokens"] for r in requests) == 68808
    assert total(reading, "llm_generation_tokens_total") == sum(r["completion_tokens"] for r in requests) == 27022
    assert total(reading, "llm_prefix_cache_query_tokens_total") == 68808
    assert total(reading, "llm_prefix_cache_hit_tokens_total") == sum(r["cached_tokens"] for r in requests) == 29056
    by_reason = {r: total(reading, "llm_requests_finished_total", reason=r) for r in ("stop", "length", "abort")}
    assert by_reason == {
        "stop": sum(r["finish_reason"] == "stop" for r in requests),
        "length": sum(r["finish_reason"] == "length" for r in requests),
        "abort": 0,
    }
    assert count(reading, "llm_time_to_first_token_seconds") == len(requests) == 320
    assert count(reading, "llm_request_duration_seconds") == 320
    assert total(reading, "llm_kv_cache_capacity_tokens") == 160 * 32
    assert total(reading, "llm_lora_adapters_limit") == 2
    assert total(reading, "llm_requests_unfinished") == 0


@pytest.mark.parametrize(
    ("before", "after", "prompt", "generated", "first_tokens", "finished", "unfinished"),
    [
        ("A-2-after", "A-3-aborted", 900, 25, 5, 0, 5),
        ("A-3-aborted", "A-4-errors", 1000, 24, 1, 1, 5),
        ("A-4-errors", "A-5-n3-and-1tok", 516, 61, 4, 4, 5),
        ("A-5-n3-and-1tok", "A-6-idle20s", 0, 0, 0, 0, 5),
    ],
)
def test_aborts_errors_and_several_choices_move_the_counters_as_recorded(
    before: str, after: str, prompt: int, generated: int, first_tokens: int, finished: int, unfinished: int
) -> None:
    a, b = normalise(A / f"{before}.prom"), normalise(A / f"{after}.prom")

    def moved(metric: str) -> float:
        return (total(b, metric) or 0) - (total(a, metric) or 0)

    assert moved("llm_prompt_tokens_total") == prompt
    assert moved("llm_generation_tokens_total") == generated
    assert moved("llm_requests_finished_total") == finished
    name = "llm_time_to_first_token_seconds"
    assert (count(b, name) or 0) - (count(a, name) or 0) == first_tokens
    assert total(b, "llm_requests_unfinished") == unfinished


def test_speculation_behind_two_api_processes_is_counted_as_recorded() -> None:
    reading = normalise(A / "B-2api-ngram-2-after.prom")
    assert total(reading, "llm_prompt_tokens_total") == 21456
    assert total(reading, "llm_generation_tokens_total") == 8174
    assert total(reading, "llm_spec_decode_draft_tokens_total") == 13055
    assert total(reading, "llm_spec_decode_accepted_tokens_total") == 1
    missing = {f.field: f.reason for f in reading.fields if f.quality == "unavailable"}
    assert "several API processes" in missing["llm_process_start_time_seconds"]
    assert count(reading, "llm_inter_token_latency_seconds") == 8073


@pytest.mark.parametrize("page", sorted(A.glob("C-*.prom")), ids=page_id)
def test_data_parallel_engines_stay_apart_and_their_counters_add_up(page: Path) -> None:
    reading, raw = normalise(page), independent(page)
    # The wire counts refusals for both engines together.
    assert {s.label("engine") for s in reading.values if s.metric != "llm_requests_rejected_total"} == {"0", "1"}
    for name, metric in (
        ("vllm:prompt_tokens_total", "llm_prompt_tokens_total"),
        ("vllm:generation_tokens_total", "llm_generation_tokens_total"),
        ("vllm:num_preemptions_total", "llm_preemptions_total"),
        ("vllm:num_requests_running", "llm_requests_running"),
        ("vllm:num_requests_waiting", "llm_requests_waiting"),
        ("vllm:request_success_total", "llm_requests_finished_total"),
    ):
        assert total(reading, metric) == (sum(raw[name].values()) if raw[name] else None), name
    for engine in ("0", "1"):
        assert total(reading, "llm_kv_cache_capacity_tokens", engine=engine) == 1280
        used = total(reading, "llm_kv_cache_utilization_ratio", engine=engine)
        assert used is None or 0 <= used <= 1
    used = sum(raw["vllm:kv_cache_usage_perc"].values()) if raw["vllm:kv_cache_usage_perc"] else None
    assert total(reading, "llm_kv_cache_utilization_ratio") == used


def test_capacity_without_its_own_label_is_divided_among_the_engines() -> None:
    # 80 is the sum over two engines of 40 blocks, and each engine's series repeats it (vLLM 0.9 to 0.23).
    text = "".join(
        f'vllm:cache_config_info{{block_size="32",engine="{e}",num_gpu_blocks="80"}} 1\n'
        f'vllm:num_requests_running{{engine="{e}",model_name="m"}} 1\n'
        for e in (0, 1)
    )
    reading = Normaliser(TABLE, Identity("n", "s")).normalise(text)
    assert total(reading, "llm_kv_cache_capacity_tokens", engine="0") == 1280
    assert total(reading, "llm_kv_cache_capacity_tokens", engine="1") == 1280


@pytest.mark.parametrize("phase", ["ttft", "e2e"])
@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_the_clients_own_percentiles_lie_inside_the_bounds(phase: str, q: float) -> None:
    before, after = normalise(A / "A-0-fresh.prom"), normalise(A / "A-2-after.prom")
    recent = Recent(window=3600)
    recent.advance(0, before.values, before.histograms, start_time=before.start_time)
    recent.advance(149, after.values, after.histograms, start_time=after.start_time)
    parts = [h for s, found in recent.histograms().items() if s.metric == PHASES[phase].metric for h in found]
    result = quantile(parts, q, PHASES[phase].grid)
    seen = sorted(r[phase] for r in truth(A / "A-truth.json")["requests"] if r["i"] < 10000)
    assert result is not None
    assert result.lower <= seen[ceil(q * len(seen)) - 1] <= result.upper
    assert result.lower <= np.quantile(seen, q) <= result.upper


@pytest.mark.parametrize("release", ["0.10.2", "0.11.0", "0.12.0", "0.20.0", "0.33.0"])
def test_prefix_counters_are_the_tokens_looked_up_and_found(release: str) -> None:
    reading = normalise(VLLM / release / "1-mid62s.prom")
    assert total(reading, "llm_prefix_cache_query_tokens_total") == 7789
    assert total(reading, "llm_prefix_cache_hit_tokens_total") == 2528


@pytest.mark.parametrize(
    ("config", "queries", "hits"),
    [
        # 0.7.3 to 0.8.5 count full blocks, and cache_config_info has no engine label yet.
        ('{block_size="32",num_gpu_blocks="None"}', 229 * 32, 79 * 32),
        # 0.9.0 and 0.9.1 count tokens under the same names.
        ('{block_size="32",engine="0",num_gpu_blocks="160"}', 229, 79),
    ],
)
def test_prefix_counters_in_blocks_become_tokens(config: str, queries: int, hits: int) -> None:
    text = (
        f"vllm:cache_config_info{config} 1.0\n"
        'vllm:gpu_prefix_cache_queries_total{model_name="m"} 229.0\n'
        'vllm:gpu_prefix_cache_hits_total{model_name="m"} 79.0\n'
    )
    reading = Normaliser(TABLE, Identity("n", "s")).normalise(text)
    assert total(reading, "llm_prefix_cache_query_tokens_total") == queries
    assert total(reading, "llm_prefix_cache_hit_tokens_total") == hits


def test_sleep_states_are_told_apart() -> None:
    text = (A / "A-6-idle20s.prom").read_text()
    asleep = text.replace('sleep_state="awake"} 1.0', 'sleep_state="awake"} 0.0').replace(
        'sleep_state="weights_offloaded"} 0.0', 'sleep_state="weights_offloaded"} 1.0'
    )
    normaliser = Normaliser(TABLE, Identity("n", "s"))
    states = [
        [s.label("state") for s in normaliser.normalise(t).values if s.metric == "llm_server_state"]
        for t in (text, asleep)
    ]
    assert states == [["awake"], ["sleeping"]]


def test_side_documents_tell_version_limits_and_parallelism() -> None:
    info = next(s for s in normalise(A / "B-2api-ngram-2-after.prom").values if s.metric == "llm_server_info")
    told = {k: info.label(k) for k in ("version", "max_model_len", "dtype", "tp", "pp", "dp", "prefix_caching")}
    assert told == {
        "version": "0.32.0", "max_model_len": "1024", "dtype": "float32", "tp": "1", "pp": "1", "dp": "1",
        "prefix_caching": "true",
    }  # fmt: skip


def test_the_json_form_of_server_info_tells_the_batch_limit() -> None:
    server_info = truth(A / "F-server_info-json.json")
    reading = Normaliser(TABLE, Identity("n", "s")).normalise(
        (A / "C-dp2-smallkv-1-mid03.prom").read_text(), {"server_info": server_info}
    )
    limits = {s.label("engine"): v for s, v in reading.values.items() if s.metric == "llm_requests_running_limit"}
    assert limits == {"0": 12, "1": 12}


def test_switched_off_statistics_are_no_zero_load() -> None:
    for page in sorted(A.glob(f"{SWITCHED_OFF}*.prom")):
        reading = normalise(page)
        assert not reading.available
        assert [f.reason for f in reading.findings] == ["stats_disabled"]
        assert {s.metric for s in reading.values} == {"llm_server_info", "llm_server_state"}
        assert reading.histograms == {}
        assert {f.quality for f in reading.fields} == {"unavailable"}


def test_a_declared_counter_starts_at_zero_once_the_model_is_known() -> None:
    page = VLLM / "0.5.0" / "0-fresh.prom"
    models = {"data": [{"id": "tiny-qwen", "max_model_len": 1024, "parent": None}]}
    reading = Normaliser(TABLE, Identity("n", "s")).normalise(page.read_text(), {"models": models})
    assert total(reading, "llm_generation_tokens_total", model="tiny-qwen") == 0
    assert {s.label("reason") for s in reading.values if s.metric == "llm_requests_finished_total"} == {
        "stop", "length", "abort", "error",
    }  # fmt: skip
    assert total(reading, "llm_requests_running") is None


def test_a_release_that_is_known_to_be_newer_is_not_called_too_old() -> None:
    page = 'vllm:num_requests_running{model_name="m",engine="0"} 1\n'
    normaliser = Normaliser(TABLE, Identity("n", "s"))

    def reason(version: str) -> str:
        reading = normaliser.normalise(page, {"version": {"version": version}})
        return next(f.reason for f in reading.fields if f.field == "llm_time_per_output_token_seconds")

    assert "something filters the page" in reason("0.32.0")
    assert reason("0.10.2") == "this release is too old: exposed since 0.11.0"
    not_known = "; or something filters the page on its way, as its release is not known"
    assert reason("") == f"this release is too old: exposed since 0.11.0{not_known}"


def test_engines_beyond_the_limit_are_counted_as_other_and_nothing_is_lost() -> None:
    lines = [f'vllm:generation_tokens_total{{model_name="m",engine="{e}"}} 2' for e in range(1000)]
    lines += [f'vllm:kv_cache_usage_perc{{model_name="m",engine="{e}"}} 0.5' for e in range(1000)]
    reading = Normaliser(TABLE, Identity("n", "s")).normalise("\n".join(lines) + "\n")
    assert {s.label("engine") for s in reading.values} == {*map(str, range(256)), "other"}
    assert total(reading, "llm_generation_tokens_total") == 2000
    assert total(reading, "llm_generation_tokens_total", engine="other") == 2 * 744
    assert total(reading, "llm_kv_cache_utilization_ratio", engine="other") == 0.5
    assert [f.reason for f in reading.findings] == ["many_engines"]


def test_a_byte_order_mark_is_no_sample() -> None:
    page = (A / "A-2-after.prom").read_text()
    marked = Normaliser(TABLE, Identity("n", "s")).normalise("\ufeff" + page)
    assert marked.dropped == {}
    assert marked.values == Normaliser(TABLE, Identity("n", "s")).normalise(page).values


def test_a_ratio_is_no_better_than_its_counters() -> None:
    def quality(page: Path) -> str:
        return next(f.quality for f in normalise(page).fields if f.field == "llm_prefix_cache_hit_ratio")

    # 0.12 counts look-ups again under pressure, 0.20 is told from where its prompt tokens came, 0.32 counts once.
    assert quality(VLLM / "0.12.0" / "1-mid62s.prom") == "approximate"
    assert quality(VLLM / "0.20.0" / "1-mid62s.prom") == "derived"
    assert quality(A / "A-2-after.prom") == "exact"


def test_overflow_is_counted_and_percentiles_beyond_it_are_at_least() -> None:
    # 80 of 100 requests took longer than the largest bound; their mean of 94 s agrees with "at least 60".
    h = Histogram((40.0, 50.0, 60.0), (10.0, 12.0, 20.0, 100.0), 9400.0)
    result = quantile([h], 0.99, PHASES["e2e"].grid)
    assert result is not None
    assert (result.estimate, result.lower, result.upper) == (60.0, 60.0, inf)
    assert result.at_least
    assert h.overflow == 80
