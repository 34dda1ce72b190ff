"""Folds and series of the tables, on the recorded page that needs them: against true values or by hand."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import pytest

from exporters import exposition
from exporters.histogram import Histogram
from exporters.normalise import Reading
from exporters.table import Calc, Engines, Field, Fold, Json, Keep, Prefer, Quality, Series, Source
from tests.exporters.small_tables import (
    COUNTER,
    FINISHED,
    GAUGE,
    HISTOGRAM,
    SGLANG_FOLDS,
    capture,
    one,
    read,
    sglang,
    status,
    table,
    truth,
    value,
    values,
)


def only_histogram(reading: Reading) -> Histogram:
    (found,) = reading.histograms.values()
    return found


def counts(observed: list[float], bounds: tuple[float, ...]) -> tuple[float, ...]:
    """Cumulative counts at the bounds and in all, counted here."""
    ordered = sorted(observed)
    return (*(float(bisect_right(ordered, b)) for b in bounds), float(len(ordered)))


# Folds


@pytest.mark.parametrize("run", ["0.5.23/tp1-2_load", "0.5.23/tp2-1_load", "0.5.23/tp2_allsched-1_load"])
def test_first_takes_the_requests_that_every_rank_repeats_once(run: str) -> None:
    true = truth(f"sglang/{run}.json")
    retracted = sglang(Series("num_retracted_requests_total"), run, COUNTER)
    assert value(retracted, COUNTER) == true["aggregates"]["retracted_reqs"] == 54
    assert value(sglang(Series("max_total_num_tokens"), run)) == true["now"]["kv_capacity_tokens_per_rank"]
    queue = only_histogram(sglang(Series("queue_time_seconds"), run, "llm_queue_time_seconds"))
    assert queue.counts == counts(true["fed_histograms"]["queue"]["values"], queue.bounds)
    assert queue.sum == pytest.approx(true["fed_histograms"]["queue"]["sum"])


def test_without_a_fold_the_ranks_would_add_up() -> None:
    text = capture("sglang/0.5.23/tp2-1_load.prom")
    assert value(read(one(Series("num_retracted_requests_total"), COUNTER, prefix="sglang"), text), COUNTER) == 2 * 54


def attention_dp(text: str) -> str:
    """As with data-parallel attention: each replica is a tensor-parallel rank of its own. Made by hand."""
    return re.sub(r'(dp_rank="1".*tp_rank=)"0"', r'\1"1"', text)


@pytest.mark.parametrize("made", [str, attention_dp], ids=["replicas", "data-parallel attention"])
def test_engine_keeps_replicas_apart(made: Any) -> None:
    text = made(capture("sglang/0.5.23/dp2-1_load.prom"))
    ranks = truth("sglang/0.5.23/dp2-1_load.json")["now"]["per_rank"]
    fields = (
        Field(GAUGE, Source(Series("num_running_reqs"))),
        Field(COUNTER, Source(Series("prompt_tokens_total"))),
        Field("llm_requests_waiting", Source(Engines())),
    )
    reading = read(table(*fields, prefix="sglang", folds=SGLANG_FOLDS), text)
    assert values(reading) == {str(r["rank"]): r["running"] for r in ranks} == {"0": 9, "1": 7}
    of_the_whole_server = values(reading, COUNTER)
    assert of_the_whole_server == {"": 284389}
    assert values(reading, "llm_requests_waiting") == {"": 2}


@pytest.mark.parametrize(("name", "key"), [("num_queue_reqs", "waiting"), ("num_running_reqs", None)])
def test_total_takes_the_series_that_already_is_the_sum(name: str, key: str | None) -> None:
    run = "0.5.23/priority-1_load"
    (rank,) = truth(f"sglang/{run}.json")["now"]["per_rank"]
    # The running batch is as of the last prefill report, without the three requests in prefill.
    assert value(sglang(Series(name), run)) == (rank[key] if key else rank["running"] - 3) == 13


def test_total_adds_the_parts_where_the_sum_is_not_there() -> None:
    text = re.sub(r'.*priority="".*\n', "", capture("sglang/0.5.23/priority-1_load.prom"))
    reading = read(one(Series("num_queue_reqs"), prefix="sglang", folds=SGLANG_FOLDS), text)
    assert value(reading) == 2 + 5 + 6 == 13


def test_sum_adds_disjoint_parts_and_a_series_may_fold_otherwise_than_the_table() -> None:
    run = "0.5.23/priority-1_load"
    true = truth(f"sglang/{run}.json")
    prompt = sglang(Series("prompt_tokens_total", fold={"priority": Fold.SUM}), run, COUNTER)
    assert value(prompt, COUNTER) == true["aggregates"]["prompt_tokens_finished"] == 217362
    ttft = only_histogram(sglang(Series("time_to_first_token_seconds", fold={"priority": Fold.SUM}), run, HISTOGRAM))
    assert ttft.counts == counts(true["fed_histograms"]["ttft_fed"]["values"], ttft.bounds)
    assert ttft.sum == pytest.approx(true["fed_histograms"]["ttft_fed"]["sum"])


PIDS = """p:x{pid="10",tp_rank="0"} 101
p:x{pid="9",tp_rank="0"} 7
p:x{pid="9",tp_rank="1"} 8
p:h_bucket{pid="9",le="1"} 3
p:h_bucket{pid="9",le="+Inf"} 4
p:h_bucket{pid="10",le="1"} 1
p:h_bucket{pid="10",le="+Inf"} 5
"""


@pytest.mark.parametrize(
    ("folds", "expected"),
    [
        ({"pid": Fold.MAX, "tp_rank": Fold.FIRST}, 101),
        ({"pid": Fold.FIRST, "tp_rank": Fold.FIRST}, 7),
        ({"pid": Fold.SUM, "tp_rank": Fold.FIRST}, 108),
        ({"pid": Fold.SUM, "tp_rank": Fold.SUM}, 116),
        ({"pid": Fold.MAX, "tp_rank": Fold.SUM}, 109),
        ({"tp_rank": Fold.ENGINE, "pid": Fold.MAX}, {"0": 101, "1": 8}),
    ],
)
def test_folds_are_applied_label_by_label(folds: Mapping[str, Fold], expected: object) -> None:
    reading = read(one(Series("x"), folds=folds), PIDS)
    assert (values(reading) if isinstance(expected, dict) else value(reading)) == expected


RANKS = "".join(f'p:x{{mode="{m}",tp_rank="{r}"}} {n}\n' for r in (0, 1) for m, n in [("a", 1), ("b", 2), ("c", 4)])


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (Series("x", {"mode": ("a", "c")}), {"": 5}),
        (Series("x", {"mode": Prefer(("b", "c"), "a")}), {"": 6}),
        (
            Series("x", keep={"mode": Keep("reason", {"a": "stop", "b": "stop"}, other="unknown")}),
            {"stop": 3, "unknown": 4},
        ),
        (Series("x"), {"": 7}),
    ],
    ids=["selected", "preferred", "kept", "added"],
)
def test_what_a_term_tells_apart_is_no_repetition_of_ranks(term: Series, expected: dict[str, float]) -> None:
    reading = read(one(term, FINISHED, folds={"tp_rank": Fold.FIRST}), RANKS)
    assert values(reading, FINISHED, "reason") == expected


@pytest.mark.parametrize(
    ("fold", "expected"), [(Fold.MAX, (1, 5)), (Fold.SUM, (4, 9)), (Fold.FIRST, (3, 4)), (Fold.TOTAL, (4, 9))]
)
def test_histograms_fold_whole(fold: Fold, expected: tuple[float, ...]) -> None:
    reading = read(one(Series("h"), HISTOGRAM, folds={"pid": fold}), PIDS)
    assert only_histogram(reading) == Histogram((1.0,), expected)


def test_a_recorded_process_label_collapses() -> None:
    reading = sglang(Series("num_retracted_reqs"), "0.5.23/tp2-1_load")
    assert value(reading) == 1
    trt = read(
        one(Series("kv_cache_utilization"), "llm_kv_cache_utilization_ratio", prefix="trtllm_", folds=SGLANG_FOLDS),
        capture("trtllm_serve/main2026/page-load2.prom"),
    )
    assert value(trt, "llm_kv_cache_utilization_ratio") == 325 / 512


def test_a_gauge_split_by_a_label_that_the_table_does_not_know_is_ambiguous() -> None:
    text = 'p:x{new="a"} 1\np:x{new="b"} 2\np:y 1\n'
    reading = read(table(Field(GAUGE, Source(Series("x"))), Field(COUNTER, Source(Series("x")))), text)
    assert value(reading) is None
    assert value(reading, COUNTER) == 3
    assert reading.dropped == {"ambiguous": 1}
    assert reading.dropped_samples == [("p:x", "ambiguous")]


# Series


TRITON: dict[str, Any] = {"prefix": "", "folds": {}, "model_label": "", "facts": {"model": Json("models", "name")}}
BLOCKS = "nv_trt_llm_kv_cache_block_metrics"
ENTRY = {"model": Prefer("ensemble", "tensorrt_llm_bls", "tensorrt_llm")}


def triton(*fields: Field, state: str = "load2", run: str = "cppnames018") -> Reading:
    text = capture(f"triton/24.10/{run}-{state}.prom")
    return read(table(*fields, documents=("models",), **TRITON), text, {"models": {"name": "llama"}})


def blocks(kind: str, **more: Any) -> Series:
    return Series(BLOCKS, {"kv_cache_block_type": kind}, **more)


@pytest.mark.parametrize("state", ["load1", "load2", "load3", "idle"])
def test_where_prefer_takes_the_entry_model_alone(state: str) -> None:
    reading = triton(
        Field("llm_requests_finished_total", Source(Series("nv_inference_request_success", ENTRY))), state=state
    )
    client = truth(f"triton/24.10/cppnames018-{state}.truth.json")["client_view"]
    assert value(reading, "llm_requests_finished_total") == client["ok"]


@pytest.mark.parametrize(
    ("preferred", "expected"),
    [(("tensorrt_llm_bls", "tensorrt_llm"), 20), (("preprocessing", "tensorrt_llm"), 20), (("postprocessing",), 426)],
)
def test_where_prefer_goes_on_to_the_next_that_exists(preferred: tuple[str, ...], expected: float) -> None:
    term = Series("nv_inference_request_success", {"model": Prefer(*preferred)})
    assert value(triton(Field(COUNTER, Source(term))), COUNTER) == expected


def test_where_prefer_finds_nothing_among_several_strangers() -> None:
    reading = triton(Field(COUNTER, Source(Series("nv_inference_request_success", {"model": Prefer("llama")}))))
    assert value(reading, COUNTER) is None
    assert status(reading, COUNTER).quality == "unavailable"


@pytest.mark.parametrize("state", ["load1", "load2", "load3"])
def test_where_takes_one_kind_of_a_family_that_holds_several(state: str) -> None:
    used = Source(Calc("/", blocks("used"), blocks("max", invalid=(0,))))
    tokens = Source(Calc("*", blocks("max", invalid=(0,)), blocks("tokens_per")), quality=Quality.DERIVED)
    reading = triton(
        Field("llm_kv_cache_utilization_ratio", used),
        Field("llm_kv_cache_capacity_tokens", tokens),
        Field(GAUGE, Source(blocks("fraction"))),
        state=state,
    )
    true = truth(f"triton/24.10/cppnames018-{state}.truth.json")["engine_truth_after_scrape"]
    ratio = value(reading, "llm_kv_cache_utilization_ratio")
    assert ratio == pytest.approx(true["used_blocks"] / true["max_blocks"])
    assert ratio == pytest.approx(value(reading), abs=1e-6)
    assert value(reading, "llm_kv_cache_capacity_tokens") == true["max_blocks"] * true["tokens_per_block"] == 6144
    assert status(reading, "llm_kv_cache_capacity_tokens").quality == "derived"


def test_a_value_that_means_unknown_is_dropped_and_never_0() -> None:
    capacity = Source(Calc("*", blocks("max", invalid=(0,)), blocks("tokens_per")))
    reading = triton(Field("llm_kv_cache_capacity_tokens", capacity), state="fresh")
    assert value(reading, "llm_kv_cache_capacity_tokens") is None
    assert reading.dropped == {"not_known": 1}
    assert reading.dropped_samples[0][0] == f'{BLOCKS}{{kv_cache_block_type="max",model="tensorrt_llm",version="1"}} 0'


@pytest.mark.parametrize("state", ["1_load", "8_just_drained"])
def test_where_takes_several_values_together(state: str) -> None:
    run = f"0.5.23/lightload_tp1-{state}"
    true = truth(f"sglang/{run}.json")["aggregates"]
    hits = Series("prefill_effective_tokens_total", {"mode": ("device_hit", "host_hit", "storage_hit")})
    assert value(sglang(hits, run, COUNTER), COUNTER) == true["prefill_hit_tokens"]
    asked = sglang(Series("prefill_effective_tokens_total"), run, COUNTER)
    assert value(asked, COUNTER) == true["prefill_hit_tokens"] + true["prefill_computed_tokens"]


def test_where_selects_histograms_too() -> None:
    run = "0.5.23/tp2-1_load"
    stage = Series("per_stage_req_latency_seconds", {"stage": "prefill_forward"})
    found = only_histogram(sglang(stage, run, "llm_prefill_time_seconds"))
    true = truth(f"sglang/{run}.json")["fed_histograms"]["prefill_dur"]
    assert found.counts == counts(true["values"], found.bounds)


def test_scale_brings_milliseconds_to_seconds_bounds_and_sum_included() -> None:
    text = capture("triton/24.11/firstresponse-load3.prom")
    term = Series("nv_inference_first_response_histogram_ms", ENTRY, scale=1e-3)
    found = only_histogram(read(one(term, HISTOGRAM, prefix="", model_label=""), text))
    seconds = [ms / 1000 for ms in truth("triton/24.11/firstresponse-load3.truth.json")["ttft_ms"]]
    assert found.bounds == (0.1, 0.5, 2.0, 5.0)
    assert found.counts == counts(seconds, found.bounds)
    assert found.sum == pytest.approx(sum(seconds), abs=1e-3)


@pytest.mark.parametrize("milliseconds", [1, 3, 9, 29, 57, 100, 350, 1100, 65536])
def test_scaled_bounds_are_the_numbers_one_would_write(milliseconds: int) -> None:
    text = f'p:h_bucket{{le="{milliseconds}"}} 1\np:h_bucket{{le="+Inf"}} 1\n'
    assert only_histogram(read(one(Series("h", scale=1e-3), HISTOGRAM), text)).bounds == (milliseconds / 1000,)


def test_scale_brings_microseconds_to_seconds_in_a_counter_without_total() -> None:
    term = Series("nv_inference_request_duration_us", ENTRY, scale=1e-6)
    assert value(triton(Field(COUNTER, Source(term))), COUNTER) == pytest.approx(1.655514)


def test_not_a_number_in_any_spelling_is_dropped() -> None:
    text = capture("triton/24.10/pybackend018_summaries-fresh.prom")
    assert " Nan\n" in text
    term = Series("nv_inference_request_summary_us", {**ENTRY, "quantile": "0.5"}, scale=1e-6)
    reading = read(one(term, prefix="", model_label=""), text)
    assert value(reading) is None
    assert reading.dropped == {"nan": 1}


@pytest.mark.parametrize("state", ["load1", "load2", "load3", "idle"])
def test_a_sample_of_a_histogram_may_be_a_counter_of_its_own(state: str) -> None:
    reading = triton(Field(COUNTER, Source(Series("nv_llm_input_token_len_sum"))), state=state)
    true = truth(f"triton/24.10/cppnames018-{state}.truth.json")["engine_truth_before_scrape"]
    assert value(reading, COUNTER) == true["totals"]["prompt_tokens"]


REASONS = Keep(
    "reason",
    {"stop": "stop", "length": "length", "cancelled": "abort", "timeout": "error"},
    other="unknown",
)


@pytest.mark.parametrize(("run", "prefix"), [("1.1-1.2", ""), ("main2026", "trtllm_")])
def test_keep_carries_a_label_over_and_translates_it(run: str, prefix: str) -> None:
    term = Series("request_success_total", keep={"finished_reason": REASONS})
    text = capture(f"trtllm_serve/{run}/page-load2.prom")
    reading = read(one(term, FINISHED, prefix=prefix), text)
    true = truth(f"trtllm_serve/{run}/page-load2.truth.json")["engine_truth"]["totals"]["by_reason"]
    assert values(reading, FINISHED, "reason") == {
        "stop": true["stop"],
        "length": true["length"],
        "abort": true["cancelled"],
        "error": 0,
    }


def test_keep_puts_what_it_does_not_list_under_other_or_leaves_it() -> None:
    text = 'p:x{r="stop"} 1\np:x{r="new"} 2\np:x{r="newer"} 4\np:x 8\n'
    listed = read(one(Series("x", keep={"r": Keep("reason", {"stop": "stop"}, other="unknown")}), FINISHED), text)
    assert values(listed, FINISHED, "reason") == {"stop": 1, "unknown": 14}
    left = read(one(Series("x", keep={"r": Keep("reason", {"stop": "end"})}), FINISHED), text)
    assert values(left, FINISHED, "reason") == {"end": 1, "new": 2, "newer": 4, "": 8}


def test_a_kept_label_is_cut_at_the_limit() -> None:
    reading = read(
        one(Series("x", keep={"r": Keep("reason")}), FINISHED), f'p:x{{r="{"a" * 99}"}} 1\n', max_label_length=7
    )
    assert values(reading, FINISHED, "reason") == {"a" * 7: 1}


def test_add_sets_a_label_and_parts_stand_side_by_side() -> None:
    failure = Series("nv_inference_request_failure", ENTRY, fold={"reason": Fold.SUM}, add={"reason": "error"})
    success = Series("nv_inference_request_success", ENTRY, add={"reason": "unknown"})
    reading = triton(Field(FINISHED, Source(success, failure)), state="idle")
    client = truth("triton/24.10/cppnames018-idle.truth.json")["client_view"]
    # The one failing request counts twice in the ensemble: once more for its backend.
    assert values(reading, FINISHED, "reason") == {"unknown": client["ok"], "error": 2 * client["err"]}


def test_parts_that_yield_one_series_add_up() -> None:
    success = Series("request_success_total", keep={"finished_reason": REASONS})
    error = Series("request_error_total", fold={"http_code": Fold.SUM}, add={"reason": "error"})
    frontend = table(Field(FINISHED, Source(success, error)), prefix="trtllm_")
    reading = read(frontend, capture("trtllm_serve/main2026/page-idle.prom"))
    assert values(reading, FINISHED, "reason") == {"stop": 28, "length": 57, "abort": 5, "error": 0 + 2}
    before = read(frontend, capture("trtllm_serve/main2026/page-load2.prom"))
    assert values(before, FINISHED, "reason")["error"] == 0


@pytest.mark.parametrize("state", ["mid-1", "mid-2", "mid-3", "idle"])
def test_a_gauge_that_only_counts_up_becomes_the_counter_that_it_is(state: str) -> None:
    ok = Series("num_requests_succeeded", add={"reason": "unknown"})
    failed = Series("num_requests_failed", add={"reason": "error"})
    frontend = table(Field(FINISHED, Source(ok, failed)), prefix="lmdeploy")
    reading = read(frontend, capture(f"lmdeploy/0.18.0/{state}.prom"))
    shown = truth(f"lmdeploy/0.18.0/{state}.json")["gauges_as_of_last_refresh"]
    assert values(reading, FINISHED, "reason") == {"unknown": shown["succeeded"], "error": shown["failed"]}
    assert f"# TYPE {FINISHED} counter" in exposition.page([reading.chunks()])


LMDEPLOY_REASONS = Keep(
    "reason",
    {"ResponseType.FINISH": "unknown", "ResponseType.CANCEL": "abort"},
    other="error",
)


def test_python_names_of_reasons_are_values_like_others() -> None:
    term = Series("request_success_total", keep={"finished_reason": LMDEPLOY_REASONS})
    reading = read(one(term, FINISHED, prefix="lmdeploy"), capture("lmdeploy/0.18.0/mid-2.prom"))
    assert values(reading, FINISHED, "reason") == {"unknown": 124, "abort": 0, "error": 0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('p:x{r="stop",model_name="m"} 5\n', {"stop": 5, "length": 0}),
        ('# TYPE p:x counter\np:other{model_name="m"} 1\n', {"stop": 0, "length": 0}),
        ("# TYPE p:x counter\n", {}),
        ('p:other{model_name="m"} 1\n', {}),
    ],
    ids=["sampled", "declared", "declared, the model not known", "not there"],
)
def test_a_counter_whose_source_is_there_starts_at_0_for_every_listed_value(
    text: str, expected: dict[str, float]
) -> None:
    term = Series("x", keep={"r": Keep("reason", {"stop": "stop", "length": "length"}, other="unknown")})
    frontend = table(Field(FINISHED, Source(term)), Field(GAUGE, Source(Series("other"))))
    assert values(read(frontend, text), FINISHED, "reason") == expected


def test_a_gauge_is_never_0_before_it_is_there() -> None:
    reading = read(one(Series("x")), '# TYPE p:x gauge\np:x_other{model_name="m"} 1\n')
    assert value(reading) is None
    assert status(reading).reason == "appears with the first request"


def test_the_openmetrics_form_of_a_page_says_the_same() -> None:
    fields = (
        Field(GAUGE, Source(Series("num_requests_running"))),
        Field(COUNTER, Source(Series("generation_tokens_total"))),
        Field(HISTOGRAM, Source(Series("time_to_first_token_seconds"))),
        Field("llm_process_start_time_seconds", Source(Series("@process_start_time_seconds"))),
    )
    text = capture("lmdeploy/0.18.0/mid-2.prom")
    rewritten = capture("lmdeploy/0.18.0/mid-2.openmetrics")
    readings = [read(table(*fields, prefix="lmdeploy"), t) for t in (text, rewritten)]
    true = truth("lmdeploy/0.18.0/mid-2.json")
    for reading in readings:
        assert value(reading) == true["gauges_as_of_last_refresh"]["running"] == 16
        assert value(reading, COUNTER) == true["expected_counters"]["lmdeploy:generation_tokens_total"]
        expected = true["expected_histograms"]["lmdeploy:time_to_first_token_seconds"]
        assert only_histogram(reading).counts == tuple(expected["buckets"].values())
        assert value(reading, "llm_process_start_time_seconds") == 1789999958
    assert [[f.reason for f in r.findings if f.reason == "prefix_rewritten"] for r in readings] == [
        [],
        ["prefix_rewritten"],
    ]
