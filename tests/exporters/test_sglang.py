"""SGLang's recorded pages against the true values beside them; what no page was recorded of is derived from one.

The pages come from SGLang's own metrics code fed by a simulator: `ttft_fed` and the like are what that code was made to
observe, `now` is the moment's truth, behind which the page's gauges lag by design.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exporters import exposition
from exporters.delta import Deltas
from exporters.documents import keep
from exporters.fetch import Body, Failure
from exporters.histogram import Histogram, quantile
from exporters.normalise import Normaliser, Reading
from exporters.observation import Series
from exporters.schema import METRICS, PHASE_OF_METRIC, PHASES
from exporters.side import SideDocuments
from exporters.table import Document
from exporters.tables.sglang import SGLANG
from exporters.terms import marks
from exporters.window import Recent
from tests.exporters.recorded import CAPTURES, IDENTITY, count, independent, total, truth

FOLDER = CAPTURES / "sglang"
NAMES = sorted(f"{page.parent.name}/{page.stem}" for page in FOLDER.glob("*/*.prom"))


def capture(name: str) -> Path:
    """`name` is release/run-state."""
    return FOLDER / f"{name}.prom"


@cache
def true(name: str) -> Any:
    return truth(capture(name).with_suffix(".json"))


def read(text: str, documents: Mapping[str, object] | None = None) -> Reading:
    return Normaliser(SGLANG, IDENTITY).normalise(text, documents or {})


@cache
def normalise(name: str) -> Reading:
    return read(capture(name).read_text())


def beside(name: str, **documents: object) -> Reading:
    return read(capture(name).read_text(), documents)


def by_engine(reading: Reading, metric: str) -> dict[str, float]:
    return {s.label("engine"): v for s, v in reading.values.items() if s.metric == metric}


def quality(reading: Reading, metric: str) -> str:
    return next(f.quality for f in reading.fields if f.field == metric)


def reason(reading: Reading, metric: str) -> str:
    return next(f.reason for f in reading.fields if f.field == metric)


def without(text: str, *families: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not any(f":{f}" in line for f in families))


WITH_TRUTH = [name for name in NAMES if capture(name).with_suffix(".json").exists()]
FRESH = [name for name in NAMES if name.endswith("0_fresh")]
EMPTY = [name for name in FRESH if not capture(name).read_text()]
USED = [name for name in WITH_TRUTH if name not in FRESH]
REPORTED = ("llm_requests_running", "llm_requests_waiting", "llm_kv_cache_utilization_ratio")
REPORTS = "refreshed at a prefill batch or every 40 decode steps (--decode-log-interval)"
LOADED = [name for name in USED if name.endswith("_load")]
NEWEST = [name for name in USED if name.startswith("0.5.23/")]
LIVE = [name for name in USED if name.startswith(("0.5.12/", "0.5.23/"))]
"""Releases with realtime_tokens_total (since 0.5.7)."""


@pytest.mark.parametrize("name", NAMES)
def test_every_page_is_read_whole(name: str) -> None:
    reading = normalise(name)
    assert reading.available == (name not in EMPTY)
    assert reading.unmapped == ()
    assert reading.dropped == {}
    assert {s.metric for s in reading.values} | {s.metric for s in reading.histograms} <= METRICS.keys()


def test_every_schema_field_is_read_or_has_a_reason() -> None:
    for name in NAMES:
        for status in normalise(name).fields:
            assert status.quality != "unavailable" or status.reason, (name, status.field)
    listed = [f.metric for f in SGLANG.fields]
    vllms = {m.name for m in METRICS.values() if m.name.startswith("llm_")}
    assert len(listed) == len(set(listed))
    assert set(listed) <= vllms
    assert {f.metric for f in SGLANG.fields if not f.sources and not f.missing} == set()


@pytest.mark.parametrize("name", EMPTY)
def test_a_fresh_page_of_an_older_release_is_empty(name: str) -> None:
    reading = normalise(name)
    assert [f.reason for f in reading.findings] == ["empty_body"]
    assert {s.metric for s in reading.values} == {"llm_server_info", "llm_server_state"}
    assert reading.histograms == {}


@pytest.mark.parametrize("name", [n for n in FRESH if n not in EMPTY])
def test_a_fresh_page_with_constants_says_nothing_of_requests(name: str) -> None:
    reading = normalise(name)
    assert set(by_engine(reading, "llm_kv_cache_capacity_tokens").values()) == {32768}
    silent = ("llm_requests_running", "llm_requests_waiting", "llm_prompt_tokens_total", "llm_generation_tokens_total",
              "llm_kv_cache_utilization_ratio", "llm_requests_finished_total")  # fmt: skip
    for metric in silent:
        assert total(reading, metric) is None
        assert "appears with the first request" in reason(reading, metric)
    assert {h.count for h in reading.histograms.values()} <= {0}


@pytest.mark.parametrize("name", USED)
def test_counters_are_the_true_totals(name: str) -> None:
    reading, fed = normalise(name), true(name)["aggregates"]
    live = name in LIVE
    assert total(reading, "llm_prompt_tokens_total") == fed["prompt_tokens_finished"]
    assert total(reading, "llm_generation_tokens_total") == fed["gen_tokens_all" if live else "gen_tokens_finished"]
    assert total(reading, "llm_requests_finished_total", reason="unknown") == sum(fed["finished"].values())
    assert total(reading, "llm_preemptions_total") == (fed["retracted_reqs"] if live else None)
    for metric in ("llm_spec_decode_draft_tokens_total", "llm_spec_decode_accepted_tokens_total"):
        assert total(reading, metric) is None
        assert "no release counts" in reason(reading, metric)


@pytest.mark.parametrize("name", USED)
def test_prefix_counters_are_the_tokens_looked_up_and_found(name: str) -> None:
    reading, fed = normalise(name), true(name)["aggregates"]
    queries = total(reading, "llm_prefix_cache_query_tokens_total")
    hits = total(reading, "llm_prefix_cache_hit_tokens_total")
    looked_up = fed["prefill_computed_tokens"] + fed["prefill_hit_tokens"]
    if name not in LIVE:
        assert (queries, hits) == (fed["prompt_tokens_finished"], fed["cached_tokens_finished"])
        return
    assert hits == fed["prefill_hit_tokens"]
    if name in NEWEST and fed["retracted_reqs"]:
        # What is computed again after a retraction is left out. (The simulator fed the hits of those, too.)
        assert fed["prefill_hit_tokens"] < (queries or 0) < looked_up
    else:
        assert queries == looked_up


HISTOGRAMS = {
    "ttft_fed": "llm_time_to_first_token_seconds",
    "e2e": "llm_request_duration_seconds",
    "queue": "llm_queue_time_seconds",
    "prefill_dur": "llm_prefill_time_seconds",
    "prompt_len": "llm_prompt_length_tokens",
    "gen_len": "llm_generation_length_tokens",
}


def parts(reading: Reading, metric: str) -> list[Histogram]:
    return [h for s, h in reading.histograms.items() if s.metric == metric]


def recorded_lists() -> list[tuple[str, str]]:
    return [(n, key) for n in USED for key in HISTOGRAMS if parts(normalise(n), HISTOGRAMS[key])]


def test_all_histograms_of_the_newest_release_are_compared() -> None:
    assert {key for name, key in recorded_lists() if name == "0.5.23/tp1-2_load"} == set(HISTOGRAMS)


@pytest.mark.parametrize(("name", "key"), recorded_lists())
def test_histograms_hold_what_was_observed_once(name: str, key: str) -> None:
    found, fed = parts(normalise(name), HISTOGRAMS[key]), true(name)["fed_histograms"][key]
    assert sum(h.count for h in found) == fed["count"]
    assert sum(h.sum or 0 for h in found) == pytest.approx(fed["sum"], rel=1e-5)


@pytest.mark.parametrize("name", USED)
def test_inter_token_latency_has_one_observation_a_token(name: str) -> None:
    reading, fed = normalise(name), true(name)["fed_histograms"]
    assert count(reading, "llm_inter_token_latency_seconds") == fed["itl_fed_tokens"]
    assert parts(reading, "llm_inter_token_latency_seconds")[0].sum == pytest.approx(fed["itl_fed_seconds"], rel=1e-5)


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
@pytest.mark.parametrize(("name", "key"), recorded_lists())
def test_true_percentiles_lie_inside_the_bounds(name: str, key: str, q: float) -> None:
    metric = HISTOGRAMS[key]
    result = quantile(parts(normalise(name), metric), q, PHASE_OF_METRIC[metric].grid)
    seen = sorted(true(name)["fed_histograms"][key]["values"])
    assert result is not None
    assert result.lower <= seen[ceil(q * len(seen)) - 1] <= result.upper
    assert result.lower <= np.quantile(seen, q) <= result.upper


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("name", NEWEST)
def test_from_0_5_22_on_time_to_first_token_is_the_true_one(name: str, q: float) -> None:
    reading = normalise(name)
    result = quantile(parts(reading, PHASES["ttft"].metric), q, PHASES["ttft"].grid)
    seen = sorted(true(name)["fed_histograms"]["ttft_true"]["values"])
    assert result is not None
    assert result.lower <= seen[ceil(q * len(seen)) - 1] <= result.upper
    assert quality(reading, PHASES["ttft"].metric) == "exact"


def test_before_0_5_22_time_to_first_token_is_approximate_and_says_why() -> None:
    # Requests that are not streamed are observed at their first message: the true P90 was 0.079 s.
    reading = normalise("0.4.9/tp1-1_load")
    result = quantile(parts(reading, PHASES["ttft"].metric), 0.9, PHASES["ttft"].grid)
    seen = sorted(true("0.4.9/tp1-1_load")["fed_histograms"]["ttft_true"]["values"])
    assert result is not None
    assert seen[ceil(0.9 * len(seen)) - 1] < result.lower
    assert quality(reading, PHASES["ttft"].metric) == "approximate"
    assert "not streamed" in reason(reading, PHASES["ttft"].metric)


WIRE = {
    "llm_time_to_first_token_seconds": ("time_to_first_token_seconds", {}),
    "llm_inter_token_latency_seconds": ("inter_token_latency_seconds", {}),
    "llm_time_per_output_token_seconds": ("request_time_per_output_token_seconds", {}),
    "llm_request_duration_seconds": ("e2e_request_latency_seconds", {}),
    "llm_queue_time_seconds": ("queue_time_seconds", {"tp_rank": "0"}),
    "llm_prefill_time_seconds": ("per_stage_req_latency_seconds", {"tp_rank": "0", "stage": "prefill_forward"}),
    "llm_prompt_length_tokens": ("prompt_tokens_histogram", {}),
    "llm_generation_length_tokens": ("generation_tokens_histogram", {}),
}


@pytest.mark.parametrize("name", USED)
def test_native_bounds_on_the_grid_keep_their_exact_counts(name: str) -> None:
    raw, reading = independent(capture(name)), normalise(name)
    written: dict[tuple[str, float], float] = {}
    for s in exposition.read_samples(exposition.page([reading.chunks()])):
        if s.name.endswith("_bucket"):
            at = (s.name.removesuffix("_bucket"), float(s.labels["le"]))
            written[at] = written.get(at, 0) + s.value
    for metric, (wire, where) in WIRE.items():
        summed: dict[float, float] = {}
        for labels, value in raw[f"sglang:{wire}_bucket"].items():
            known = dict(labels)
            if all(known[k] == v for k, v in where.items()):
                summed[float(known["le"])] = summed.get(float(known["le"]), 0) + value
        assert bool(summed) == any(m == metric for m, _ in written)
        on_grid = {le: v for le, v in summed.items() if (metric, le) in written}
        assert {le: written[metric, le] for le in on_grid} == on_grid


@pytest.mark.parametrize("name", LOADED)
def test_gauges_are_those_of_the_last_report(name: str) -> None:
    """The page lags: a prefill report leaves out what it starts, a decode report comes every 40 steps."""
    reading, now = normalise(name), true(name)["now"]
    running, waiting = by_engine(reading, "llm_requests_running"), by_engine(reading, "llm_requests_waiting")
    used = by_engine(reading, "llm_kv_cache_utilization_ratio")
    for rank in now["per_rank"]:
        engine = str(rank["rank"])
        if name == "0.4.9/dp2-1_load" and engine == "1":
            assert engine not in running
            continue
        assert 0 <= rank["running"] - running[engine] <= 3
        assert 0 <= rank["waiting"] - waiting[engine] <= 1
        assert used[engine] == pytest.approx(rank["kv_used_tokens"] / now["kv_capacity_tokens_per_rank"], abs=0.06)


@pytest.mark.parametrize("name", ["0.5.23/dp2-1_load", "0.5.23/openmetrics-1_load", "0.5.23/priority-1_load"])
def test_gauges_that_were_just_reported_are_the_true_ones(name: str) -> None:
    reading, now = normalise(name), true(name)["now"]
    waiting = by_engine(reading, "llm_requests_waiting")
    assert waiting == {str(r["rank"]): r["waiting"] for r in now["per_rank"]}
    if name == "0.5.23/dp2-1_load":
        assert by_engine(reading, "llm_requests_running") == {"0": 9, "1": 7}
    if name == "0.5.23/openmetrics-1_load":
        assert total(reading, "llm_kv_cache_utilization_ratio") == now["per_rank"][0]["kv_used_tokens"] / 32768


@pytest.mark.parametrize("name", [n for n in USED if n.endswith(("9_idle45s", "10_scheduler_dead"))])
def test_idle_for_longer_than_thirty_seconds_reads_zero(name: str) -> None:
    reading = normalise(name)
    for metric in ("llm_requests_running", "llm_requests_waiting", "llm_kv_cache_utilization_ratio"):
        assert total(reading, metric) == 0


@pytest.mark.parametrize("name", [n for n in USED if n.endswith("8_just_drained")])
def test_just_drained_gauges_stick_and_each_says_so(name: str) -> None:
    reading = normalise(name)
    assert (total(reading, "llm_requests_running") or 0) > sum(r["running"] for r in true(name)["now"]["per_rank"]) == 0
    for metric in REPORTED:
        assert total(reading, metric) is not None
        assert quality(reading, metric) == "approximate"
        assert REPORTS in reason(reading, metric)
        assert reason(reading, metric).endswith("; once idle, within 30 s (0.4.4 and later)")


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ({}, f"{REPORTS}; once idle, within 30 s (0.4.4 and later)"),
        ({"server_info": {"version": "0.5.15"}}, f"{REPORTS}; once idle, within 30 s (0.4.4 and later)"),
        (
            {"server_info": {"version": "0.5.16"}},
            "refreshed at a prefill batch, when the running batch empties or every 40 decode steps "
            "(--decode-log-interval); once idle, within 30 s (0.5.16 and later)",
        ),
    ],
)
def test_the_release_tells_when_gauges_are_reported(documents: dict[str, object], said: str) -> None:
    text = 'sglang:num_running_reqs{engine_type="unified",model_name="m"} 2\n'
    reading = read(text, kept(**documents))
    assert (quality(reading, "llm_requests_running"), reason(reading, "llm_requests_running")) == ("approximate", said)


def test_adapters_of_the_running_batch_are_as_old_as_the_batch_and_limits_are_exact() -> None:
    reading = normalise("0.5.23/spec_lora_hicache-1_load")
    assert quality(reading, "llm_lora_adapters_running") == "approximate"
    assert REPORTS in reason(reading, "llm_lora_adapters_running")
    for constant in ("llm_lora_adapters_limit", "llm_kv_cache_capacity_tokens"):
        assert (quality(reading, constant), reason(reading, constant)) == ("exact", "")


@pytest.mark.parametrize("release", ["0.4.9", "0.5.23"])
def test_a_dead_scheduler_shows_its_last_numbers_and_only_health_tells(release: str) -> None:
    idle = normalise(f"{release}/tp1-9_idle45s")
    dead = beside(f"{release}/tp1-10_scheduler_dead", health=503)
    assert dead.values == idle.values
    assert dead.histograms == idle.histograms
    assert [(f.reason, f.detail) for f in dead.findings] == [("unhealthy", "HTTP 503")]


@pytest.mark.parametrize("variant", ["tp2", "tp2_allsched"])
@pytest.mark.parametrize("state", ["0_fresh", "1_load", "8_just_drained"])
def test_two_tensor_parallel_ranks_count_once(variant: str, state: str) -> None:
    one = normalise(f"0.5.23/tp1-{'2_load' if state == '1_load' else state}")
    two = normalise(f"0.5.23/{variant}-{state}")
    assert two.values == one.values
    assert two.histograms == one.histograms


@pytest.mark.parametrize("state", ["1_load", "8_just_drained"])
def test_with_priorities_gauges_have_a_total_and_request_counters_add_up(state: str) -> None:
    plain = normalise(f"0.5.23/tp1-{'2_load' if state == '1_load' else state}")
    priority = normalise(f"0.5.23/priority-{state}")
    assert priority.values == plain.values
    for series, h in plain.histograms.items():
        found = priority.histograms[series]
        assert (found.bounds, found.counts) == (h.bounds, h.counts)
        assert found.sum == pytest.approx(h.sum)


@pytest.mark.parametrize("state", ["1_load", "8_just_drained"])
def test_data_parallel_engines_stay_apart_and_add_up(state: str) -> None:
    reading, raw = normalise(f"0.5.23/dp2-{state}"), independent(capture(f"0.5.23/dp2-{state}"))
    fed = true(f"0.5.23/dp2-{state}")
    assert set(by_engine(reading, "llm_requests_running")) == {"0", "1"}
    generated = by_engine(reading, "llm_generation_tokens_total")
    assert sum(generated.values()) == fed["aggregates"]["gen_tokens_all"]
    for engine, tokens in generated.items():
        decoded = next(
            v
            for k, v in raw["sglang:realtime_tokens_total"].items()
            if {("dp_rank", engine), ("mode", "decode")} < {*k}
        )
        begun = next(v for k, v in raw["sglang:queue_time_seconds_count"].items() if ("dp_rank", engine) in k)
        assert tokens == decoded + begun
    assert by_engine(reading, "llm_kv_cache_capacity_tokens") == {"0": 32768, "1": 32768}
    # What the tokenizer process counts is of the whole server: no engine.
    assert by_engine(reading, "llm_prompt_tokens_total") == {"": fed["aggregates"]["prompt_tokens_finished"]}


def dp_attention(text: str) -> str:
    """With dp-attention every engine has tensor-parallel ranks of its own: engine 1 has tp_rank 1, not 0."""
    lines = [
        line.replace('tp_rank="0"', 'tp_rank="1"').replace('moe_ep_rank="0"', 'moe_ep_rank="1"')
        if 'dp_rank="1"' in line
        else line
        for line in text.split("\n")
    ]
    return "\n".join(lines)


@pytest.mark.parametrize("state", ["0_fresh", "1_load", "8_just_drained"])
def test_dp_attention_ranks_are_no_reason_to_lose_an_engine(state: str) -> None:
    # Derived from the page of two whole engines.
    text = capture(f"0.5.23/dp2-{state}").read_text()
    spread = dp_attention(text)
    assert spread != text
    assert read(spread).values == read(text).values
    assert read(spread).histograms == read(text).histograms


def test_of_several_ranks_within_each_engine_the_lowest_counts() -> None:
    ranks = ((0, 0, 5), (1, 2, 7), (1, 3, 7), (0, 1, 5))
    lines = [
        f'sglang:num_running_reqs{{dp_rank="{dp}",model_name="m",tp_rank="{tp}",pp_rank="0"}} {running}\n'
        f'sglang:num_retracted_requests_total{{dp_rank="{dp}",model_name="m",tp_rank="{tp}"}} 9'
        for dp, tp, running in ranks
    ]
    reading = read("\n".join(lines) + "\n")
    assert by_engine(reading, "llm_requests_running") == {"0": 5, "1": 7}
    assert by_engine(reading, "llm_preemptions_total") == {"0": 9, "1": 9}


def test_engines_without_labels_are_approximate_where_the_server_says_it_has_several() -> None:
    alone = normalise("0.4.9/dp2-1_load")
    told = beside("0.4.9/dp2-1_load", server_info={"dp_size": 2, "max_total_num_tokens": 32768})
    for reading in (alone, told):
        # The last writer: 9 of 9 + 7.
        assert by_engine(reading, "llm_requests_running") == {"0": 9}
        assert total(reading, "llm_prompt_tokens_total") == 284389
    metrics = ("llm_requests_running", "llm_requests_waiting", "llm_kv_cache_utilization_ratio")
    assert ["reported last" in reason(alone, m) for m in metrics] == [False, False, False]
    assert ["reported last" in reason(told, m) for m in metrics] == [True, True, True]
    assert [quality(told, m) for m in metrics] == ["approximate", "approximate", "approximate"]
    assert quality(told, "llm_kv_cache_capacity_tokens") == "approximate"


def test_gauges_that_add_up_over_processes_are_right_with_several_engines() -> None:
    # 0.4.0 to 0.4.3: no engine_type, and mode `sum`.
    reading = read(
        'sglang:num_running_reqs{model_name="m"} 16\nsglang:token_usage{model_name="m"} 0.4\n',
        {"server_info": {"dp_size": 2, "version": "0.4.2"}},
    )
    assert total(reading, "llm_requests_running") == 16
    assert "reported last" not in reason(reading, "llm_requests_running")
    assert "reported last" in reason(reading, "llm_kv_cache_utilization_ratio")


def with_role(name: str, role: str) -> str:
    return capture(name).read_text().replace('engine_type="unified"', f'engine_type="{role}"')


def test_a_decode_server_is_one_and_leaves_first_tokens_to_its_prefill_server() -> None:
    # Derived from a unified server's page.
    reading = read(with_role("0.5.23/tp1-2_load", "decode"))
    assert {s.label("role") for s in (*reading.values, *reading.histograms)} == {"decode"}
    assert total(reading, "llm_generation_tokens_total") == 12899
    assert "prefill server" in reason(reading, "llm_generation_tokens_total")


def test_a_prefill_server_has_no_token_latencies_and_says_so() -> None:
    text = without(
        with_role("0.5.23/tp1-2_load", "prefill"),
        "time_to_first_token",
        "inter_token_latency",
        "request_time_per_output",
        'realtime_tokens_total{engine_type="prefill",mode="decode"',
    )
    reading = read(text)
    assert {s.label("role") for s in (*reading.values, *reading.histograms)} == {"prefill"}
    for phase in ("ttft", "itl", "tpot"):
        assert count(reading, PHASES[phase].metric) is None
        assert "decode servers" in reason(reading, PHASES[phase].metric)
    assert total(reading, "llm_generation_tokens_total") == 11596
    assert count(reading, "llm_queue_time_seconds") == 121


@pytest.mark.parametrize(("mode", "role"), [("null", "unified"), ("prefill", "prefill"), ("decode", "decode")])
def test_roles_that_the_page_does_not_tell_come_from_the_servers_settings(mode: str, role: str) -> None:
    # engine_type is always "unified" before 0.5.7.
    reading = beside("0.5.3/tp1-2_load", server_info={"disaggregation_mode": mode})
    assert {s.label("role") for s in reading.values} == {role}
    switched = with_role("0.5.23/tp1-2_load", "dynamic")
    state = {"server_info": {"disaggregation_mode": "null", "internal_states": [{"disaggregation_mode": mode}]}}
    assert {s.label("role") for s in read(switched, state).values} == {role}


@pytest.mark.parametrize(
    ("queues", "waiting"),
    [
        # 0.5.12 and later; what is received by the host is part of the transfer queue.
        ("num_prefill_bootstrap_queue_reqs=3 num_prefill_inflight_queue_reqs=4 num_decode_prealloc_queue_reqs=5 "
         "num_decode_transfer_queue_reqs=6 num_decode_host_receive_queue_reqs=2", 1 + 2 + 3 + 4 + 5 + 6),
        # 0.5.2 to 0.5.11
        ("num_prefill_prealloc_queue_reqs=3 num_prefill_inflight_queue_reqs=4 num_decode_prealloc_queue_reqs=5", 15),
        # 0.4.6.post5 to 0.5.1, spelled so
        ("num_prefill_prealloc_queue_reqs=3 num_prefill_infight_queue_reqs=4 num_decode_transfer_queue_reqs=6", 16),
        # A renamed queue beside its old name counts once.
        ("num_prefill_bootstrap_queue_reqs=3 num_prefill_prealloc_queue_reqs=3", 6),
        ("", 3),
    ],
)  # fmt: skip
def test_waiting_adds_up_the_queues_of_each_release(queues: str, waiting: int) -> None:
    named = dict(pair.split("=") for pair in queues.split()) | {"num_queue_reqs": "1", "num_grammar_queue_reqs": "2"}
    reading = read("".join(f'sglang:{name}{{model_name="m"}} {value}\n' for name, value in named.items()))
    assert total(reading, "llm_requests_waiting") == waiting
    assert reading.unmapped == ()


def test_adapters_speculation_and_the_host_cache() -> None:
    reading, fed = normalise("0.5.23/spec_lora_hicache-1_load"), true("0.5.23/spec_lora_hicache-1_load")["aggregates"]
    assert total(reading, "llm_lora_adapters_running") == 3
    assert total(reading, "llm_lora_adapters_limit") == 8
    assert total(reading, "llm_generation_tokens_total") == fed["gen_tokens_all"]
    assert total(reading, "llm_preemptions_total") == fed["retracted_reqs"] == 4
    assert "LoRA is off" in reason(normalise("0.5.23/tp1-2_load"), "llm_lora_adapters_running")


def test_hits_in_host_memory_and_storage_are_hits() -> None:
    text = capture("0.5.23/tp1-2_load").read_text()
    reading = read(text.replace('mode="host_hit",model_name="Qwen/Qwen2.5-7B-Instruct",moe_ep_rank="0",pp_rank="0",'
                                'tp_rank="0"} 0.0', 'mode="host_hit",model_name="Qwen/Qwen2.5-7B-Instruct",moe_ep_rank='
                                '"0",pp_rank="0",tp_rank="0"} 100.0'))  # fmt: skip
    assert total(reading, "llm_prefix_cache_hit_tokens_total") == 331088 + 100
    assert total(reading, "llm_prefix_cache_query_tokens_total") == 74347 + 331088 + 100


def counters(reading: Reading) -> dict[Series, float]:
    return {s: v for s, v in reading.values.items() if s.metric.endswith("_total")}


def test_a_restart_in_a_reused_directory_adds_nothing_by_itself() -> None:
    # With PROMETHEUS_MULTIPROC_DIR set, a new process shows the old totals and gauges, and gauges by pid pile up.
    before = capture("0.5.23/openmetrics-8_just_drained").read_text()
    gauge = next(line for line in before.split("\n") if line.startswith("sglang:num_retracted_reqs{"))
    after = before.replace(gauge, gauge + "\n" + re.sub(r'pid="\d+"', 'pid="99999"', gauge))
    first, second = read(before), read(after)
    assert second.values == first.values
    deltas = Deltas()
    deltas.advance(0.0, counters(first), first.histograms)
    increase = deltas.advance(60.0, counters(second), second.histograms)
    assert not increase.restarted
    assert set(increase.values.values()) == {0}
    assert "falling counter" in reason(second, "llm_process_start_time_seconds")


def test_openmetrics_names_are_the_same_server() -> None:
    plain, rewritten = (
        normalise("0.5.23/openmetrics-8_just_drained"),
        normalise("0.5.23/openmetrics-openmetrics_negotiated"),
    )
    assert rewritten.values == plain.values
    assert rewritten.histograms == plain.histograms
    assert [f.reason for f in rewritten.findings] == ["prefix_rewritten"]


# What people complain of.


@pytest.mark.parametrize("separator", [":", "_"])
def test_an_underscore_for_the_colon_is_the_same_server(separator: str) -> None:
    reading = read(
        f"# TYPE sglang{separator}num_running_reqs gauge\n"
        f'sglang{separator}num_running_reqs{{model_name="m-b"}} 3\n'
        f'sglang{separator}num_queue_reqs{{model_name="m-b"}} 7\n'
    )
    assert total(reading, "llm_requests_running", framework="sglang", model="m-b") == 3
    assert total(reading, "llm_requests_waiting", framework="sglang", model="m-b") == 7
    assert [f.reason for f in reading.findings] == (["prefix_rewritten"] if separator == "_" else [])


def advance(*readings: tuple[float, Reading]) -> dict[Series, float]:
    recent = Recent()
    found: dict[Series, float] = {}
    for at, reading in readings:
        found = recent.advance(at, reading.values, reading.histograms)
    return found


def hit_rate(prompt: int, cached: int, gauge: float) -> Reading:
    return read(
        f'sglang:prompt_tokens_total{{model_name="m-b"}} {prompt}\n'
        f'sglang:cached_tokens_total{{model_name="m-b"}} {cached}\n'
        f'sglang:cache_hit_rate{{model_name="m-b"}} {gauge}\n'
    )


def test_the_hit_ratio_comes_from_counters_and_not_from_the_last_batch() -> None:
    found = advance((0.0, hit_rate(100_000, 40_000, 0.71)), (60.0, hit_rate(110_000, 46_200, 0.0)))
    ratio = [v for s, v in found.items() if s.metric == "llm_prefix_cache_hit_ratio"]
    assert ratio == [0.62]
    assert total(hit_rate(110_000, 46_200, 0.0), "llm_prefix_cache_hit_ratio") is None


def test_without_counters_the_gauge_is_flagged_as_the_last_batch() -> None:
    reading = read('sglang:cache_hit_rate{model_name="m"} 0.71\nsglang:num_running_reqs{model_name="m"} 1\n')
    assert total(reading, "llm_prefix_cache_hit_ratio") == 0.71
    assert quality(reading, "llm_prefix_cache_hit_ratio") == "last_batch"


def test_a_throughput_gauge_that_sticks_is_not_throughput_and_running_is_marked_stale() -> None:
    text = (
        'sglang:gen_throughput{model_name="m-b"} 812.4\n'
        'sglang:generation_tokens_total{model_name="m-b"} 900000\n'
        'sglang:num_running_reqs{model_name="m-b"} 4\n'
    )
    deltas = Deltas()
    deltas.advance(0.0, counters(read(text)), {})
    reading = read(text)
    increase = deltas.advance(60.0, counters(reading), {})
    assert {s.metric: v for s, v in increase.values.items()} == {"llm_generation_tokens_total": 0}
    assert 812.4 not in reading.values.values()
    # No engine_type: a page of 0.4.0 to 0.4.3. The gauge is still told, as what it is.
    assert total(reading, "llm_requests_running") == 4
    assert quality(reading, "llm_requests_running") == "approximate"
    assert reason(reading, "llm_requests_running") == (
        "refreshed at a prefill batch or every 40 decode steps; keeps its value when the server falls idle "
        "(before 0.4.4)"
    )


def test_every_engine_of_a_data_parallel_server_counts() -> None:
    rows = ((0, 8, 40, 0.95), (1, 1, 0, 0.12))
    reading = read(
        "".join(
            f'sglang:num_running_reqs{{dp_rank="{r}",model_name="m",tp_rank="0",pp_rank="0"}} {running}\n'
            f'sglang:num_queue_reqs{{dp_rank="{r}",model_name="m",tp_rank="0",pp_rank="0"}} {waiting}\n'
            f'sglang:token_usage{{dp_rank="{r}",model_name="m",tp_rank="0",pp_rank="0"}} {used}\n'
            for r, running, waiting, used in rows
        )
    )
    assert total(reading, "llm_requests_running") == 9
    assert total(reading, "llm_requests_waiting") == 40
    assert by_engine(reading, "llm_kv_cache_utilization_ratio") == {"0": 0.95, "1": 0.12}


# Releases without a recorded page: lines as their metrics code writes them.


def test_0_4_0_has_neither_request_counter_nor_inter_token_latency() -> None:
    reading = read(
        'sglang:num_running_reqs{model_name="m"} 2\n'
        'sglang:generation_tokens_total{model_name="m"} 40\n'
        'sglang:e2e_request_latency_seconds_bucket{model_name="m",le="0.3"} 5\n'
        'sglang:e2e_request_latency_seconds_bucket{model_name="m",le="+Inf"} 7\n'
        'sglang:e2e_request_latency_seconds_count{model_name="m"} 7\n'
        'sglang:time_per_output_token_seconds_bucket{model_name="m",le="0.005"} 30\n'
        'sglang:time_per_output_token_seconds_bucket{model_name="m",le="+Inf"} 33\n'
        'sglang:cache_hit_rate{model_name="m"} 0.5\n'
    )
    assert total(reading, "llm_requests_finished_total", reason="unknown") == 7
    assert count(reading, "llm_inter_token_latency_seconds") == 33
    assert quality(reading, "llm_inter_token_latency_seconds") == "approximate"
    assert count(reading, "llm_time_per_output_token_seconds") is None
    assert quality(reading, "llm_prefix_cache_hit_ratio") == "last_batch"


def test_0_4_4_has_both_latencies_per_token_and_each_counts_once() -> None:
    reading = read(
        'sglang:inter_token_latency_seconds_bucket{model_name="m",le="0.002"} 3\n'
        'sglang:inter_token_latency_seconds_bucket{model_name="m",le="+Inf"} 4\n'
        'sglang:time_per_output_token_seconds_bucket{model_name="m",le="0.005"} 1\n'
        'sglang:time_per_output_token_seconds_bucket{model_name="m",le="+Inf"} 2\n'
    )
    assert count(reading, "llm_inter_token_latency_seconds") == 4
    assert count(reading, "llm_time_per_output_token_seconds") == 2
    assert quality(reading, "llm_time_per_output_token_seconds") == "approximate"


@pytest.mark.parametrize(
    ("lines", "preempted", "worth"),
    [
        # 0.4.9.post6 to 0.5.2: a gauge that only counts up.
        ('total_retracted_reqs{model_name="m",tp_rank="0",pp_rank="0"} 12', 12, "derived"),
        # 0.5.5 and 0.5.6: by finished request; the gauge by pid tells the last report only.
        (
            'num_retractions_sum{model_name="m"} 5\nsglang:num_retracted_reqs{model_name="m",pid="7"} 3',
            5,
            "approximate",
        ),
        # 0.5.3 and 0.5.4.
        ('num_retracted_reqs{model_name="m",pid="7"} 3', None, "unavailable"),
        # 0.5.7 and later, before the first retraction.
        (
            'realtime_tokens_total{model_name="m",mode="decode"} 9\nsglang:num_retractions_sum{model_name="m"} 0',
            0,
            "exact",
        ),
    ],
)
def test_retractions_come_from_whatever_counts_them(lines: str, preempted: float | None, worth: str) -> None:
    reading = read(f"sglang:{lines}\n" + 'sglang:num_running_reqs{model_name="m"} 1\n')
    assert total(reading, "llm_preemptions_total") == preempted
    assert quality(reading, "llm_preemptions_total") == worth


def test_a_counter_known_to_be_zero_is_zero_for_each_engine() -> None:
    lines = [f'sglang:realtime_tokens_total{{dp_rank="{r}",mode="prefill_compute",model_name="m"}} 50' for r in (0, 1)]
    lines.append('sglang:num_retracted_requests_total{dp_rank="1",model_name="m"} 2')
    reading = read("\n".join(lines) + "\n")
    assert by_engine(reading, "llm_preemptions_total") == {"0": 0, "1": 2}
    assert by_engine(reading, "llm_prefix_cache_hit_tokens_total") == {"0": 0, "1": 0}
    assert by_engine(reading, "llm_prefix_cache_query_tokens_total") == {"0": 50, "1": 50}


def test_0_5_2_names_its_queue_time_differently() -> None:
    reading = read(
        'sglang:queue_time_s_bucket{model_name="m",tp_rank="0",le="0.1"} 3\n'
        'sglang:queue_time_s_bucket{model_name="m",tp_rank="0",le="+Inf"} 4\n'
    )
    assert count(reading, "llm_queue_time_seconds") == 4


def test_a_fresh_0_5_9_shows_its_page_size_and_is_recognised() -> None:
    reading = read('sglang:cache_config_info{model_name="m",num_pages="2048",page_size="16",tp_rank="0"} 1.0\n')
    assert reading.available
    info = next(s for s in reading.values if s.metric == "llm_server_info")
    assert info.label("block_size") == "16"


def test_streamed_and_other_requests_and_cache_tiers_add_up() -> None:
    reading = read(
        'sglang:prompt_tokens_total{model_name="m",is_streaming="true"} 10\n'
        'sglang:prompt_tokens_total{model_name="m",is_streaming="false"} 20\n'
        'sglang:cached_tokens_total{model_name="m",cache_source="device",priority="1",team="a"} 1\n'
        'sglang:cached_tokens_total{model_name="m",cache_source="host",priority="",team="b"} 2\n'
        'sglang:cached_tokens_total{model_name="m",cache_source="storage_file",priority="",team="b"} 4\n'
    )
    assert total(reading, "llm_prompt_tokens_total") == 30
    assert total(reading, "llm_prefix_cache_hit_tokens_total") == 7


def test_models_with_a_sliding_window_pool_show_the_full_attention_pool() -> None:
    gauges = {"token_usage": 0.9, "full_token_usage": 0.3, "num_used_tokens": 500, "max_total_num_tokens": 1000}
    text = "".join(f'sglang:{name}{{model_name="m"}} {value}\n' for name, value in gauges.items())
    assert total(read(text), "llm_kv_cache_utilization_ratio") == 0.5
    hybrid = text + 'sglang:max_total_num_tokens_swa{model_name="m"} 200\n'
    assert total(read(hybrid), "llm_kv_cache_utilization_ratio") == 0.3


# Documents beside the page.

SERVER_INFO = {
    "version": "0.5.23", "tp_size": 2, "pp_size": 1, "dp_size": 2, "max_total_num_tokens": 32768,
    "max_running_requests": 48, "dtype": "bfloat16", "kv_cache_dtype": "auto", "quantization": None, "page_size": 1,
    "disable_radix_cache": False, "disaggregation_mode": "null", "api_key": "sk-secret", "admin_api_key": "sk-other",
    "model_path": "/home/someone/model", "hicache_storage_backend_extra_config": '{"token": "sk-third"}',
    "internal_states": [{"effective_max_running_requests_per_dp": 24, "api_key": "sk-secret"}] * 2,
}  # fmt: skip
LOADS = {
    "version": "0.5.23",
    "loads": [
        {"dp_rank": 0, "max_running_requests": 20, "max_total_num_tokens": 1000, "num_running_reqs": 3},
        {"dp_rank": 1, "max_running_requests": 22, "max_total_num_tokens": 2000, "num_running_reqs": 4},
    ],
}
MODELS = {
    "data": [
        {"id": "served", "owned_by": "sglang", "max_model_len": 32768, "parent": None},
        {"id": "adapter", "owned_by": "sglang", "max_model_len": None, "parent": "served"},
    ]
}


def kept(**documents: object) -> dict[str, object]:
    """As the sidecar hands them over."""
    return {name: keep(SGLANG, name, parsed) for name, parsed in documents.items()}


def test_secrets_of_the_servers_settings_are_not_kept() -> None:
    found = kept(server_info=SERVER_INFO)["server_info"]
    assert "sk-" not in repr(found)
    assert "someone" not in repr(found)
    assert isinstance(found, dict)
    assert set(found) == {
        "version", "tp_size", "pp_size", "dp_size", "max_total_num_tokens", "max_running_requests", "dtype",
        "kv_cache_dtype", "quantization", "page_size", "disable_radix_cache", "disaggregation_mode", "internal_states",
    }  # fmt: skip
    assert found["internal_states"] == [{"effective_max_running_requests_per_dp": 24}] * 2


def test_side_documents_tell_version_model_and_parallelism() -> None:
    reading = beside("0.5.23/dp2-1_load", **kept(server_info=SERVER_INFO, loads=LOADS, models=MODELS))
    info = next(s for s in reading.values if s.metric == "llm_server_info")
    told = {k: info.label(k) for k in ("version", "tp", "pp", "dp", "dtype", "kv_cache_dtype", "max_model_len",
                                       "prefix_caching", "quantization", "block_size")}  # fmt: skip
    assert told == {
        "version": "0.5.23", "tp": "2", "pp": "1", "dp": "2", "dtype": "bfloat16", "kv_cache_dtype": "",
        "max_model_len": "32768", "prefix_caching": "true", "quantization": "", "block_size": "1",
    }  # fmt: skip


def test_an_adapter_is_not_the_served_model() -> None:
    adapters_first = {"data": [*reversed(MODELS["data"])]}
    reading = read("", kept(models=adapters_first))
    assert {s.label("wire_model") for s in reading.values if s.metric == "llm_server_info"} == {"served"}


@pytest.mark.parametrize(
    ("documents", "limits", "worth"),
    [
        ({"loads": LOADS, "server_info": SERVER_INFO}, {"0": 20, "1": 22}, "exact"),
        ({"server_info": SERVER_INFO}, {"0": 24, "1": 24}, "exact"),
        ({"server_info": {"max_running_requests": 48}}, {"0": 48, "1": 48}, "approximate"),
        ({"server_info": {"max_running_requests": None}}, {}, "unavailable"),
        ({}, {}, "unavailable"),
    ],
)
def test_the_batch_limit_is_what_the_engines_say_else_the_flag(
    documents: dict[str, object], limits: dict[str, float], worth: str
) -> None:
    reading = beside("0.5.23/dp2-1_load", **kept(**documents))
    assert by_engine(reading, "llm_requests_running_limit") == limits
    assert quality(reading, "llm_requests_running_limit") == worth


def test_capacity_before_0_5_6_comes_from_the_servers_settings() -> None:
    assert total(normalise("0.4.9/tp1-2_load"), "llm_kv_cache_capacity_tokens") is None
    reading = beside("0.4.9/tp1-2_load", **kept(server_info={"max_total_num_tokens": 32768, "dp_size": 1}))
    assert (total(reading, "llm_kv_cache_capacity_tokens"), quality(reading, "llm_kv_cache_capacity_tokens")) == (
        32768,
        "exact",
    )


@pytest.mark.parametrize(
    ("version", "worth"), [("0.5.21", "approximate"), ("0.5.22", "exact"), ("0.5.22.post1", "exact")]
)
def test_the_version_tells_where_first_tokens_are_measured(version: str, worth: str) -> None:
    reading = beside("0.5.12/tp1-2_load", **kept(server_info={"version": version}))
    assert quality(reading, "llm_time_to_first_token_seconds") == worth


@pytest.mark.parametrize(
    ("served", "asked"),
    [("/server_info", ["/server_info"]), ("/get_server_info", ["/server_info", "/get_server_info"])],
)
async def test_older_releases_are_asked_at_their_own_path(served: str, asked: list[str]) -> None:
    seen: list[str] = []

    async def answer(document: Document) -> Body | Failure:
        seen.append(document.path)
        if document.path == served:
            return Body('{"version": "0.4.9", "api_key": "sk-secret"}', "application/json", 200, 0.0)
        return Failure("not_found", "404", 404)

    side = SideDocuments(answer, lambda: 0.0, destructive=False)
    side.follow(replace(SGLANG, documents=(SGLANG.document("server_info"),)))
    side.refresh()
    await side.settle(5.0)
    assert side.values == {"server_info": {"version": "0.4.9"}}
    await side.aclose()
    assert seen == asked


def test_the_page_is_recognised_by_any_name_of_its_own() -> None:
    assert {"num_running_reqs", "prompt_tokens_total", "cache_config_info"} <= marks(SGLANG)
    assert not any(mark.startswith("@") for mark in marks(SGLANG))


def test_every_trap_says_what_is_done() -> None:
    assert len({t.title for t in SGLANG.traps}) == len(SGLANG.traps) >= 24
    assert all(t.handling.endswith((".", "]")) for t in SGLANG.traps)
