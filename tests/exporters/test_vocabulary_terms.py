"""Labels and calculations of the tables, on the recorded page that needs them: against true values or by hand."""

from __future__ import annotations

import re

import pytest

from exporters.normalise import Reading
from exporters.table import Calc, Engines, Field, Json, Keep, Label, Need, Number, Pick, Read, Series, Source
from tests.exporters.recorded import CAPTURES, independent
from tests.exporters.small_tables import (
    COUNTER,
    FINISHED,
    GAUGE,
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

# Labels


INFO = """p:lora{max="2",running="",waiting="a"} 1700000001.5
p:lora{max="3",running="b,a, a",waiting=""} 1700000009.5
p:lora{max="4",running="a,b,c",waiting=""} 1700000003.5
p:state{state="awake"} 0
p:state{state="asleep"} 1
p:config{size="16",dtype="auto",rank="0"} 1
p:config{size="16",dtype="auto",rank="1"} 1
p:bad{size="None"} 1
"""


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (Label("lora", "running", Read.NAMES, Pick.NEWEST), 2),
        (Label("lora", "waiting", Read.NAMES, Pick.NEWEST), 0),
        (Label("lora", "max", Read.NUMBER, Pick.NEWEST), 3),
        (Label("config", "size"), 16),
        (Label("bad", "size"), None),
        (Label("config", "missing"), None),
        (Label("missing", "size"), None),
        (Label("lora", "max"), None),
    ],
)
def test_a_number_is_read_out_of_a_label(term: Label, expected: float | None) -> None:
    assert value(read(one(term), INFO)) == expected


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (Label("config", "dtype", Read.TEXT), "auto"),
        (Label("config", "dtype", Read.TEXT, values={"auto": "as the model"}), "as the model"),
        (Label("config", "dtype", Read.TEXT, values={"float8": "fp8"}), ""),
        (Label("bad", "size", Read.TEXT), ""),
        (Label("config", "rank", Read.TEXT), ""),
        (Label("config", "size"), "16"),
    ],
)
def test_a_text_is_read_out_of_a_label(term: Label, expected: str) -> None:
    reading = read(one(Series("config"), facts={"dtype": term}), INFO)
    (info,) = [s for s in reading.values if s.metric == "llm_server_info"]
    assert info.label("dtype") == expected


def state(reading: Reading) -> list[tuple[str, str]]:
    return [(s.label("engine"), s.label("state")) for s in reading.values if s.metric == "llm_server_state"]


def test_the_hot_one_of_several_states_is_the_state_each_time() -> None:
    term = Label("state", "state", Read.TEXT, Pick.HOT, {"awake": "awake", "asleep": "sleeping"})
    frontend = one(Series("x"), facts={"state": term})
    assert state(read(frontend, INFO + "p:x 1\n")) == [("0", "sleeping")]
    none_is_hot = INFO.replace('"asleep"} 1', '"asleep"} 0')
    assert state(read(frontend, none_is_hot + "p:x 1\n")) == [("0", "unknown")]


def test_each_engine_has_its_own_state() -> None:
    term = Label(
        "engine_sleep_state", "sleep_state", Read.TEXT, Pick.HOT, {"awake": "awake", "discard_all": "sleeping"}
    )
    text = capture("vllm/0.32.0/C-dp2-smallkv-1-mid01.prom")
    text = re.sub(r'(engine="1".*sleep_state="awake"}) 1.0', r"\1 0.0", text)
    text = re.sub(r'(engine="1".*sleep_state="discard_all"}) 0.0', r"\1 1.0", text)
    reading = read(one(Series("num_requests_running"), prefix="vllm", facts={"state": term}), text)
    assert state(reading) == [("0", "awake"), ("1", "sleeping")]


def test_a_state_that_one_document_tells_holds_for_every_engine() -> None:
    term = Json("health", "status", values={"healthy": "awake", "sleeping": "sleeping"})
    frontend = one(Series("num_running_reqs"), prefix="sglang", folds=SGLANG_FOLDS, facts={"state": term})
    text = capture("sglang/0.5.23/dp2-1_load.prom")
    assert state(read(frontend, text, {"health": {"status": "sleeping"}})) == [("0", "sleeping"), ("1", "sleeping")]
    assert state(read(frontend, text, {"health": {"status": "unheard of"}})) == [("0", "unknown"), ("1", "unknown")]


def test_the_newest_recorded_list_of_adapters_counts() -> None:
    page = CAPTURES / "vllm" / "0.32.0" / "A-1-mid05.prom"
    lists = independent(page)["vllm:lora_requests_info"]
    newest = max(lists, key=lists.__getitem__)
    names = set(filter(None, dict(newest)["running_lora_adapters"].split(",")))
    term = Label("lora_requests_info", "running_lora_adapters", Read.NAMES, Pick.NEWEST)
    assert len(lists) > 1
    assert value(read(one(term, prefix="vllm"), page.read_text())) == len(names) == 1


def test_a_role_that_a_label_tells_stands_in_every_series() -> None:
    roles = {"unified": "unified", "prefill": "prefill", "decode": "decode"}
    term = Label("num_running_reqs", "engine_type", Read.TEXT, values=roles)
    frontend = one(Series("num_running_reqs"), prefix="sglang", folds=SGLANG_FOLDS, facts={"role": term})
    text = capture("sglang/0.5.23/tp1-1_load.prom")
    for wire, shown in [("unified", "unified"), ("decode", "decode"), ("dynamic", "unified")]:
        reading = read(frontend, text.replace('engine_type="unified"', f'engine_type="{wire}"'))
        assert {s.label("role") for s in reading.values} == {shown}


# Calculations


NUMBERS = """p:a{model_name="m"} 12
p:b{model_name="m"} 4
p:zero{model_name="m"} 0
p:nan{model_name="m"} NaN
p:e{engine="0",model_name="m"} 10
p:e{engine="1",model_name="m"} 20
p:by_engine{engine="0"} 2
p:by_engine{engine="1"} 4
"""
A, B, ZERO, MISSING, NAN = (Series(name) for name in ("a", "b", "zero", "missing", "nan"))


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (Calc("+", A, B, Number(1)), 17),
        (Calc("-", A, B, Number(1)), 7),
        (Calc("*", A, B, Number(0.5)), 24),
        (Calc("/", A, B, Number(2)), 1.5),
        (Calc("/", A, ZERO), None),
        (Calc("-", B, A), None),
        (Calc("-", B, A, floor=0), 0),
        (Calc("-", A, B, floor=0), 8),
        (Calc("+", A, MISSING), None),
        (Calc("+", A, MISSING, need=Need.ANY), 12),
        (Calc("+", MISSING, B, need=Need.ANY), 4),
        (Calc("+", MISSING, MISSING, need=Need.ANY), None),
        (Calc("+", A, NAN), None),
        (Calc("+", A, NAN, need=Need.ANY), 12),
        (Calc("-", A, MISSING, need=Need.ANY), 12),
        (Calc("-", MISSING, A, need=Need.ANY), None),
        (Calc("/", MISSING, A, need=Need.ANY), None),
        (Calc("*", Calc("+", A, B), Calc("-", A, B)), 128),
        (Calc("/", Calc("-", A, A), ZERO), None),
    ],
)
def test_a_calculation_goes_from_left_to_right_and_knows_what_it_lacks(term: Calc, expected: float | None) -> None:
    engines = read(one(term), re.sub(".*engine.*\n", "", NUMBERS))
    assert value(engines) == expected


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (Calc("/", Series("e"), Series("by_engine")), {"0": 5, "1": 5}),
        (Calc("+", Series("e"), A), {"0": 22, "1": 32}),
        (Calc("+", A, Series("e")), {"0": 22, "1": 32}),
        (Calc("*", A, Series("by_engine")), {"0": 24, "1": 48}),
        (Calc("/", A, Engines()), {"": 6}),
        (Calc("+", Series("e"), MISSING, need=Need.ANY), {"0": 10, "1": 20}),
    ],
)
def test_a_calculation_is_done_for_each_engine_that_a_term_tells_apart(term: Calc, expected: dict[str, float]) -> None:
    assert values(read(one(term), NUMBERS)) == expected


def test_engines_of_one_term_and_models_of_another_are_told_apart_together() -> None:
    text = 'p:m{model_name="a"} 1\np:m{model_name="b"} 2\np:e{engine="0"} 10\np:e{engine="1"} 20\n'
    reading = read(one(Calc("*", Series("m"), Series("e"))), text)
    found = {(s.label("engine"), s.label("model")): v for s, v in reading.values.items() if s.metric == GAUGE}
    assert found == {("0", "a"): 10, ("0", "b"): 20, ("1", "a"): 20, ("1", "b"): 40}


def test_kept_labels_go_through_a_calculation() -> None:
    text = 'p:x{r="stop"} 3\np:x{r="length"} 5\np:size 16\n'
    keep = {"r": Keep("reason", {"stop": "stop", "length": "length", "abort": "abort"})}
    reading = read(one(Calc("*", Series("x", keep=keep), Series("size")), FINISHED), text)
    assert values(reading, FINISHED, "reason") == {"stop": 48, "length": 80, "abort": 0}


@pytest.mark.parametrize("run", ["0.5.23/dp2-1_load", "0.5.23/tp2-1_load", "0.5.23/tp1-2_load"])
def test_a_share_is_calculated_per_replica(run: str) -> None:
    ratio = "llm_kv_cache_utilization_ratio"
    used = Calc("/", Series("kv_used_tokens"), Series("max_total_num_tokens"))
    by_rank = independent(CAPTURES / "sglang" / f"{run}.prom")["sglang:full_token_usage"]
    expected = {dict(labels).get("dp_rank", "0"): share for labels, share in by_rank.items()}
    assert values(sglang(used, run, ratio), ratio) == pytest.approx(expected)


def test_queues_add_up_as_far_as_they_are_there() -> None:
    names = ("num_requests_waiting", "num_api_requests_waiting", "num_grammar_queue_reqs")
    waiting = Calc("+", *map(Series, names), need=Need.ANY)
    reading = read(one(waiting, prefix="lmdeploy"), capture("lmdeploy/0.18.0/mid-2.prom"))
    shown = truth("lmdeploy/0.18.0/mid-2.json")["gauges_as_of_last_refresh"]
    assert value(reading) == shown["waiting"] + shown["api_waiting"] == 20
    assert status(reading).source == "lmdeploy:num_requests_waiting, lmdeploy:num_api_requests_waiting"


def test_the_api_queue_is_what_neither_runs_nor_waits_in_the_engine() -> None:
    names = ("num_requests_unfinished", "num_requests_running", "num_requests_waiting")
    reading = read(
        one(Calc("-", *map(Series, names), floor=0), prefix="lmdeploy"), capture("lmdeploy/0.9.2/mid-2.prom")
    )
    shown = truth("lmdeploy/0.9.2/mid-2.json")["gauges_as_of_last_refresh"]
    assert value(reading) == shown["unfinished"] - shown["running"] - shown["waiting"] == 35


def test_accepted_drafts_are_tokens_without_those_of_the_verify_steps() -> None:
    run = "0.5.23/spec_lora_hicache-8_just_drained"
    true = truth(f"sglang/{run}.json")["aggregates"]
    term = Calc("-", Series("generation_tokens_total"), Series("spec_verify_calls_total"), floor=0)
    accepted = value(sglang(term, run, COUNTER), COUNTER)
    # One first token per request comes from prefill; the last step of a request is cut off (known gap of the run).
    assert accepted == true["gen_tokens_finished"] - true["spec_forward"] == 22203
    assert accepted == pytest.approx(true["spec_correct"], rel=0.01)


def test_blocks_become_tokens_by_the_size_that_the_page_tells() -> None:
    fields = (
        Field(COUNTER, Source(Calc("*", Series("kv_cache_reused_blocks_total"), Series("kv_cache_tokens_per_block")))),
        Field(GAUGE, Source(Calc("*", Series("kv_cache_max_blocks"), Series("kv_cache_tokens_per_block")))),
    )
    reading = read(
        table(*fields, prefix="trtllm_", folds=SGLANG_FOLDS), capture("trtllm_serve/main2026/page-load2.prom")
    )
    assert value(reading, COUNTER) == 312 * 32
    assert value(reading) == 512 * 32
    assert not [f for f in reading.findings if f.reason == "prefix_rewritten"]


def test_a_sum_over_engines_is_divided_among_them() -> None:
    config = "cache_config_info"
    total = Calc("*", Label(config, "num_gpu_blocks"), Label(config, "block_size"))
    text = capture("vllm/0.32.0/C-dp2-smallkv-1-mid01.prom")
    reading = read(one(Calc("/", total, Engines()), prefix="vllm"), text)
    assert values(reading) == {"0": 40 * 32, "1": 40 * 32}
