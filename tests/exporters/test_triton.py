"""Triton's recorded pages against the true values beside them."""

from __future__ import annotations

from math import ceil, inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exporters import detect, schema
from exporters.documents import keep
from exporters.histogram import quantile
from exporters.normalise import Identity, Normaliser, Reading
from exporters.rhythm import TokenTiming
from exporters.schema import METRICS, PHASES
from exporters.table import Prefer
from exporters.tables import FRONTENDS
from exporters.tables.triton import TRITON as TABLE
from tests.exporters.recorded import CAPTURES, IDENTITY, count, independent, total, truth


def capture(name: str) -> Path:
    return CAPTURES / "triton" / name


CPP, PYTHON, SUMMARIES = "24.10/cppnames018", "24.10/pybackend018", "24.10/pybackend018_summaries"
KINDS = (CPP, PYTHON, SUMMARIES)
STATES = ("load1", "load2", "load3", "idle")
LOADED = [f"{kind}-{state}" for kind in KINDS for state in STATES]
FRESH = [f"{kind}-fresh" for kind in KINDS]
FIRST_RESPONSE = [f"24.11/firstresponse-{state}" for state in ("fresh", "load3", "idle")]
SERVER = {"name": "triton", "version": "2.51.0", "extensions": ["statistics"]}

# The C++ backend of 0.9, its names as the backend's source has them: no waiting, no fraction, no token lengths.
CPP_0_9 = "".join(
    f'nv_trt_llm_{family}{{model="tensorrt_llm",version="1",{label}="{kind}"}} {value}\n'
    for family, label, values in (
        ("request_metrics", "request_type", {"active": 11, "max": 64, "scheduled": 8, "context": 2}),
        ("runtime_memory_metrics", "memory_type", {"cpu": 0, "gpu": 1610236, "pinned": 0}),
        ("kv_cache_block_metrics", "kv_cache_block_type", {"max": 96, "free": 24, "used": 72, "tokens_per": 64}),
        ("inflight_batcher_metrics", "inflight_batcher_specific_metric", {"paused_requests": 1, "micro_batch_id": 0}),
        ("general_metrics", "general_type", {"iteration_counter": 71, "timestamp": 1796027072}),
    )
    for kind, value in values.items()
)


def side(**parsed: object) -> dict[str, object]:
    """Documents by name, pruned as the sidecar prunes them."""
    return {name: keep(TABLE, name, value) for name, value in parsed.items()}


def read(text: str, **parsed: object) -> Reading:
    return Normaliser(TABLE, IDENTITY).normalise(text, side(**({"server": SERVER} | parsed)))


def page(name: str, *, with_stats: bool = True) -> Reading:
    beside = capture(f"{name}.v2_models_stats.json")
    stats = {"stats": truth(beside)} if with_stats and beside.exists() else {}
    return read(capture(f"{name}.prom").read_text(), **stats)


def true_values(name: str) -> Any:
    return truth(capture(f"{name}.truth.json"))


def status(reading: Reading, metric: str) -> tuple[str, str]:
    return next((f.quality, f.reason) for f in reading.fields if f.field == metric)


def finished(reading: Reading) -> dict[str, float]:
    found = {s.label("reason"): v for s, v in reading.values.items() if s.metric == "llm_requests_finished_total"}
    return {reason: value for reason, value in found.items() if value}


def successes(**by_model: float) -> str:
    lines = (f'nv_inference_request_success{{model="{m}",version="1"}} {v}\n' for m, v in by_model.items())
    times = (f'nv_inference_request_duration_us{{model="{m}",version="1"}} {v}e6\n' for m, v in by_model.items())
    return "".join((*lines, *times))


def counts(**by_model: tuple[int, int]) -> dict[str, object]:
    """/v2/models/stats with successes and failures by model."""
    stats = [
        {"name": name, "version": "1", "inference_stats": {"success": {"count": ok, "ns": 1}, "fail": {"count": bad}}}
        for name, (ok, bad) in by_model.items()
    ]
    return {"model_stats": stats}


def test_the_table_says_where_every_server_metric_comes_from_or_why_not() -> None:
    own = ("llm_latency_", "llm_length_", "llm_server_")
    engine = [m.name for m in schema.of_prefix("llm_") if m.scope is schema.Scope.ENGINE]
    assert [f.metric for f in TABLE.fields] == [name for name in engine if not name.startswith(own)]


@pytest.mark.parametrize("name", [*LOADED, *FRESH, *FIRST_RESPONSE])
def test_every_page_is_read_whole(name: str) -> None:
    reading = page(name)
    assert reading.available
    assert reading.unmapped == ()
    assert {s.metric for s in reading.values} | {s.metric for s in reading.histograms} <= METRICS.keys()
    # Where no iteration has run, the limits of 0 are no limits, and that is nothing to be warned of.
    assert reading.findings == ()
    assert reading.dropped == ({"not_known": 2} if name in FRESH else {})


@pytest.mark.parametrize("name", FRESH)
def test_before_the_first_iteration_capacity_and_limits_are_not_known(name: str) -> None:
    reading = page(name)
    for metric in ("llm_kv_cache_utilization_ratio", "llm_kv_cache_capacity_tokens", "llm_requests_running_limit"):
        assert total(reading, metric) is None
    assert total(reading, "llm_requests_running") == total(reading, "llm_generation_tokens_total") == 0
    assert finished(reading) == {}
    assert ("Nan" in capture(f"{name}.prom").read_text()) == (SUMMARIES in name)


@pytest.mark.parametrize("name", LOADED)
def test_values_are_the_true_ones(name: str) -> None:
    reading, true = page(name), true_values(name)
    engine, client = true["engine_truth_before_scrape"], true["client_view"]
    assert engine["totals"] == true["engine_truth_after_scrape"]["totals"]
    assert total(reading, "llm_prompt_tokens_total") == client["prompt_tokens"] == engine["totals"]["prompt_tokens"]
    assert total(reading, "llm_generation_tokens_total") == client["out_tokens"] == engine["totals"]["gen_tokens"]
    assert total(reading, "llm_kv_cache_capacity_tokens") == engine["max_blocks"] * engine["tokens_per_block"]
    assert total(reading, "llm_requests_running_limit") == 8
    # The ensemble counts its one failing request twice.
    assert finished(reading) == {"stop": client["ok"]} | ({"error": 2} if client["err"] else {})
    assert count(reading, "llm_prompt_length_tokens") == count(reading, "llm_generation_length_tokens") == client["ok"]
    hits = total(reading, "llm_prefix_cache_hit_tokens_total")
    assert hits == (engine["totals"]["cached_tokens"] if CPP in name else None)
    if "idle" not in name:
        assert total(reading, "llm_requests_running") == engine["running"]


@pytest.mark.parametrize("name", LOADED)
def test_blocks_in_use_are_those_of_the_last_iteration(name: str) -> None:
    raw = independent(capture(f"{name}.prom"))["nv_trt_llm_kv_cache_block_metrics"]
    blocks = {dict(labels)["kv_cache_block_type"]: value for labels, value in raw.items()}
    used = total(page(name), "llm_kv_cache_utilization_ratio")
    assert used == blocks["used"] / blocks["max"]
    assert used == pytest.approx(blocks["fraction"], abs=1e-6)


def test_what_sticks_when_the_load_ends_says_so() -> None:
    for kind in KINDS:
        reading = page(f"{kind}-idle")
        assert total(reading, "llm_requests_running") == 1
        for metric in ("llm_kv_cache_utilization_ratio", "llm_requests_running", "llm_requests_waiting"):
            quality, reason = status(reading, metric)
            assert quality == "approximate"
            assert "keeps its value when the server falls idle" in reason
    assert TABLE.rhythm.token_timing is TokenTiming.FINISH


def test_a_queue_that_is_not_exposed_is_no_empty_queue() -> None:
    name = f"{PYTHON}-load2"
    assert true_values(name)["engine_truth_before_scrape"]["queued"] == 9
    reading = page(name)
    assert total(reading, "llm_requests_waiting") == 0
    quality, reason = status(reading, "llm_requests_waiting")
    assert (quality, "often 0 while requests wait" in reason) == ("approximate", True)


@pytest.mark.parametrize("name", [n for n in FIRST_RESPONSE if "fresh" not in n])
def test_first_responses_in_milliseconds_become_seconds_with_the_true_percentiles_inside(name: str) -> None:
    seen = sorted(ms / 1000 for ms in true_values(name)["ttft_ms"])
    (histogram,) = page(name).histograms.values()
    assert histogram.bounds == (0.1, 0.5, 2.0, 5.0)
    assert set(histogram.bounds) <= {*PHASES["ttft"].grid, 0.5, 2.0, 5.0}
    assert histogram.sum == pytest.approx(sum(seen), abs=len(seen) / 1000)
    for q in (0.5, 0.9, 0.99):
        result = quantile([histogram], q, PHASES["ttft"].grid)
        assert result is not None
        assert result.lower <= seen[ceil(q * len(seen)) - 1] <= result.upper < inf
        assert result.lower <= np.quantile(seen, q) <= result.upper


def test_bounds_that_the_user_set_in_milliseconds_stay_round() -> None:
    base, labels = "nv_inference_first_response_histogram_ms", 'model="tensorrt_llm",version="1"'
    bounds = (7, 70, 700, 1100)
    text = (
        "".join(f'{base}_bucket{{{labels},le="{b}"}} 1\n' for b in (*bounds, "+Inf")) + f"{base}_count{{{labels}}} 1\n"
    )
    (histogram,) = read(text).histograms.values()
    assert histogram.bounds == (0.007, 0.07, 0.7, 1.1)


@pytest.mark.parametrize(
    ("models", "entered", "named"),
    [
        ({"ensemble": 24, "preprocessing": 25, "tensorrt_llm": 25, "postprocessing": 1720}, 24, "ensemble"),
        ({"ensemble": 4, "tensorrt_llm_bls": 20, "tensorrt_llm": 24, "postprocessing": 24}, 24, "ensemble"),
        ({"tensorrt_llm_bls": 20, "tensorrt_llm": 21, "preprocessing": 20}, 20, "tensorrt_llm_bls"),
        ({"tensorrt_llm": 21, "draft": 90}, 21, "tensorrt_llm"),
        ({"my_llama": 7}, 7, "my_llama"),
    ],
)
def test_requests_are_counted_where_they_enter(models: dict[str, float], entered: int, named: str) -> None:
    reading = read(successes(**models))
    assert finished(reading) == {"stop": entered}
    assert {s.label("model") for s in reading.values} == {named}
    from_stats = counts(**{name: (int(n), 0) for name, n in models.items()})
    with_counters_off = "".join(f'nv_inference_request_success{{model="{m}",version="1"}} 0\n' for m in models)
    assert finished(read(with_counters_off, stats=from_stats)) == {"stop": entered}


def test_several_models_none_of_which_is_known_to_be_the_entry_count_for_nothing() -> None:
    reading = read(successes(resnet=9, bert=4))
    assert finished(reading) == {}
    quality, reason = status(reading, "llm_requests_finished_total")
    assert (quality, "no entry model is known" in reason) == ("unavailable", True)


def test_counters_that_stand_still_are_not_believed() -> None:
    name = f"{SUMMARIES}-idle"
    assert sum(independent(capture(f"{name}.prom"))["nv_inference_request_success"].values()) == 0
    assert finished(page(name)) == {"stop": 24, "error": 2}
    alone = page(name, with_stats=False)
    assert finished(alone) == {"stop": 24}
    assert "failures are not counted" in status(alone, "llm_requests_finished_total")[1]
    assert total(alone, "llm_requests_rejected_total") is None


def test_failures_are_told_in_the_words_of_the_schema() -> None:
    failure = 'nv_inference_request_failure{{model="ensemble",version="1"{}}} {}\n'
    reasons = {"CANCELED": 3, "BACKEND": 2, "OTHER": 1, "REJECTED": 8}
    text = successes(ensemble=5)
    reading = read(text + "".join(failure.format(f',reason="{r}"', n) for r, n in reasons.items()))
    assert finished(reading) == {"stop": 5, "abort": 3, "error": 3}
    assert total(reading, "llm_requests_rejected_total", reason="rejected") == 8
    before_24_07 = read(text + failure.format("", 4))
    assert finished(before_24_07) == {"stop": 5, "error": 4}
    assert total(before_24_07, "llm_requests_rejected_total") is None


def test_the_names_of_release_0_9_are_enough() -> None:
    reading = read(CPP_0_9 + 'nv_inference_pending_request_count{model="tensorrt_llm",version="1"} 2\n')
    assert reading.unmapped == ()
    assert total(reading, "llm_kv_cache_utilization_ratio") == 72 / 96
    assert total(reading, "llm_kv_cache_capacity_tokens") == 96 * 64
    assert total(reading, "llm_requests_running") == 8
    assert total(reading, "llm_requests_waiting") == 11 - 8 + 2
    assert total(reading, "llm_requests_waiting_api") == 2
    assert total(reading, "llm_requests_running_limit") == 64
    assert status(reading, "llm_prompt_tokens_total")[1].endswith("exposed since 0.16")
    assert total(reading, "llm_prefix_cache_hit_tokens_total") is None


def test_fewer_waiting_than_none_are_none() -> None:
    waiting = 'nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} -1\n'
    assert total(read(waiting), "llm_requests_waiting") == 0
    assert total(read(CPP_0_9.replace('"active"} 11', '"active"} 7')), "llm_requests_waiting") == 0


def test_a_draft_models_engine_is_not_mixed_with_the_models_own() -> None:
    reading = read(CPP_0_9 + CPP_0_9.replace('"tensorrt_llm"', '"tensorrt_llm_draft"').replace("} 8\n", "} 3\n"))
    assert total(reading, "llm_requests_running") == 8
    assert reading.dropped == {}


def test_the_pytorch_model_says_that_its_engine_is_not_exposed() -> None:
    reading = read(successes(tensorrt_llm=3), stats=counts(tensorrt_llm=(3, 0)))
    assert reading.available
    assert finished(reading) == {"stop": 3}
    quality, reason = status(reading, "llm_requests_running")
    assert (quality, "LLM-API" in reason) == ("unavailable", True)


def test_the_version_that_is_shown_is_tritons() -> None:
    info = next(s for s in page(f"{CPP}-load2").values if s.metric == "llm_server_info")
    assert (info.label("version"), info.label("frontend"), info.label("framework")) == (
        "2.51.0", "triton", "tensorrt_llm",
    )  # fmt: skip


def test_a_preference_takes_a_whole_group_and_else_the_only_one_there_is() -> None:
    prefer = Prefer(("a", "b"), "c")
    assert prefer.among({"b", "c", "a"}) == ("a", "b")
    assert prefer.among({"b", "c"}) == ("b",)
    assert prefer.among({"c", "d"}) == ("c",)
    assert prefer.among({"d"}) == ("d",)
    assert prefer.among({"d", "e"}) == prefer.among(()) == ()
    named = Prefer(("a", "b"), "c", role="entry")
    assert named.among({"a", "d"}, {"entry": "d"}) == ("d",)
    assert named.among({"a", "c"}, {"entry": "d"}) == ()
    assert named.among({"a", "c"}, {"entry": "", "engine": "c"}) == ("a",)


@pytest.mark.parametrize("name", [*LOADED, *FRESH])
def test_pages_are_recognised_without_a_word_of_configuration(name: str) -> None:
    found = detect.detect(capture(f"{name}.prom").read_text())
    assert (found.frontend, found.finding) == (TABLE, None)


def test_another_models_triton_is_not_taken_for_an_llm_unless_the_configuration_says_so() -> None:
    found = detect.detect(successes(resnet=9))
    assert found.frontend is None
    assert found.finding is not None
    assert (found.finding.reason, "nv_inference_request_success" in found.finding.detail) == ("no_engine_metrics", True)
    assert read(successes(my_llama=9)).available
    # Triton's vLLM backend shows vLLM's own names beside Triton's.
    vllm = "".join(
        f'vllm:{name}{{model="llama",version="1"}} 1\n'
        for name in ("num_requests_running", "num_requests_waiting", "prompt_tokens_total", "generation_tokens_total")
    )
    assert detect.detect(successes(llama=9) + vllm).frontend is FRONTENDS["vllm"]


def test_a_triton_without_a_metrics_port_says_what_opens_it() -> None:
    assert detect.by_owner(side(server=SERVER)).frontend is TABLE
    assert "8002" in TABLE.no_metrics
    assert TABLE.document("metrics").path == ":8002/metrics"


NAMED = Identity("n", "s", model="llama-3", prefer={"entry": "my_flow", "engine": "my_engine"})


def test_models_with_names_of_their_own_are_named_by_the_configuration() -> None:
    page = CPP_0_9.replace('"tensorrt_llm"', '"my_engine"') + successes(my_flow=5, ensemble=90, preprocessing=7)
    reading = Normaliser(TABLE, NAMED).normalise(page, side(server=SERVER))
    assert finished(reading) == {"stop": 5}
    assert total(reading, "llm_requests_running") == 8
    assert {s.label("model") for s in reading.values} == {"llama-3"}
    assert {s.label("wire_model") for s in reading.values if s.metric == "llm_server_info"} == {"my_flow"}


def test_statistics_are_those_of_the_named_entry_or_of_none() -> None:
    standing_still = 'nv_inference_request_success{model="my_flow",version="1"} 0\n'
    by_model = counts(my_flow=(4, 1), ensemble=(90, 0), tensorrt_llm=(7, 0))
    found = Normaliser(TABLE, NAMED).normalise(standing_still, side(stats=by_model))
    assert finished(found) == {"stop": 4, "error": 1}
    del by_model["model_stats"][0]  # type: ignore[attr-defined]
    assert finished(Normaliser(TABLE, NAMED).normalise(standing_still, side(stats=by_model))) == {}
