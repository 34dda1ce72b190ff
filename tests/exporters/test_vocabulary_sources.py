"""Sources, conditions, reasons, documents and names of the tables: against true values or by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from exporters.normalise import Identity, Limits, Normaliser, Reading
from exporters.table import Calc, Field, Fold, Json, Keep, Label, Over, Quality, Ratio, Read, Reason, Series, Source
from tests.exporters.recorded import IDENTITY
from tests.exporters.small_tables import (
    COUNTER,
    FINISHED,
    GAUGE,
    HISTOGRAM,
    SGLANG_FOLDS,
    capture,
    one,
    read,
    status,
    table,
    truth,
    value,
    values,
)

RATIO = "llm_prefix_cache_hit_ratio"
HITS, QUERIES = "llm_prefix_cache_hit_tokens_total", "llm_prefix_cache_query_tokens_total"


def reasons(reading: Reading) -> list[str]:
    return [f.reason for f in reading.findings]


# JSON documents beside the page


ENGINE_INFO = {"tp_size": 2, "dp_size": 1, "block_size": 64, "num_gpu_blocks": 400}  # by hand, from its description


def test_a_capacity_that_only_a_document_tells() -> None:
    term = Calc("*", Json("info", "num_gpu_blocks", each_engine=True), Json("info", "block_size", each_engine=True))
    fields = (Field(GAUGE, Source(term)), Field("llm_requests_waiting", Source(Series("num_requests_waiting"))))
    frontend = table(*fields, prefix="lmdeploy", documents=("info",), facts={"tp": Json("info", "tp_size")})
    text = capture("lmdeploy/0.18.0/mid-2.prom")
    reading = read(frontend, text, {"info": ENGINE_INFO})
    capacity = truth("lmdeploy/0.18.0/mid-2.json")["engine"]["kv_capacity_tokens"]
    assert values(reading) == {"0": capacity} == {"0": 25600}
    assert status(reading).source == "info: num_gpu_blocks, info: block_size"
    assert {s.label("tp") for s in reading.values if s.metric == "llm_server_info"} == {"2"}
    without = read(frontend, text)
    assert value(without) is None
    assert status(without).quality == "unavailable"


@pytest.mark.parametrize(("each", "expected"), [(True, {"0": 24, "1": 24}), (False, {"": 24})])
def test_one_value_holds_for_each_engine_or_for_all_together(each: bool, expected: dict[str, float]) -> None:
    frontend = table(
        Field(GAUGE, Source(Json("info", "limit", each_engine=each))),
        Field("llm_requests_waiting", Source(Series("num_queue_reqs"))),
        prefix="sglang",
        folds=SGLANG_FOLDS,
    )
    assert values(read(frontend, capture("sglang/0.5.23/dp2-1_load.prom"), {"info": {"limit": 24}})) == expected


def statistic(path: str, over: Over = Over.LAST, **more: Any) -> Json:
    return Json("stats", path, over=over, engine="attentionDpRank", **more)


STATISTICS = table(
    Field(FINISHED, Source(statistic("numCompletedRequests", Over.SUM, add={"reason": "unknown"}))),
    Field(GAUGE, Source(statistic("inflightBatchingStats.numScheduledRequests"))),
    Field(HITS, Source(Calc("*", statistic("kvCacheStats.reusedBlocks", Over.HELD), Label("info", "size")))),
    Field(COUNTER, Source(statistic("kvCacheStats.reusedBlocks", Over.HELD))),
    prefix="trtllm_",
    documents=("stats", "models"),
    facts={"model": Json("models", "id", records="data")},
    marks=("num_requests_running", "json:stats"),
)
MODELS = {"data": [{"id": "llama"}]}


@pytest.mark.parametrize("version", ["1.1-1.2", "main2026"])
def test_statistics_that_are_read_once_are_engine_metrics_of_their_own(version: str) -> None:
    normaliser = Normaliser(STATISTICS, IDENTITY)
    for state in ("fresh", "load1", "load2", "load2_second_reader", "load3", "idle", "idle_second_poll"):
        records = json.loads(capture(f"trtllm_serve/{version}/statistics-{state}.json"))
        reading = normaliser.normalise("", {"stats": records, "models": MODELS})
        true = truth(f"trtllm_serve/{version}/statistics-{state.removesuffix('_second_reader')}.truth.json")
        engine = true["engine_truth"]
        if state == "fresh":
            assert not reading.available
            assert reasons(reading) == ["empty_body"]
            continue
        assert reading.available
        assert reasons(reading) == []
        assert value(reading, FINISHED) == engine["totals"]["finished"]
        assert value(reading, COUNTER) == engine["reused_blocks_total"]
        last = records[-1]["inflightBatchingStats"]["numScheduledRequests"] if records else None
        assert value(reading) == last
        assert {s.label("model") for s in reading.values} == {"llama"}


def test_ranks_of_attention_data_parallelism_are_engines() -> None:
    """Every second record moved to rank 1, by hand."""
    records = json.loads(capture("trtllm_serve/main2026/statistics-load2.json"))
    for i, record in enumerate(records):
        record["attentionDpRank"] = i % 2
    reading = read(STATISTICS, "", {"stats": records, "models": MODELS})
    completed = {str(r): sum(x["numCompletedRequests"] for x in records[r::2]) for r in (0, 1)}
    assert values(reading, FINISHED) == completed
    assert values(reading) == {
        str(r): records[r::2][-1]["inflightBatchingStats"]["numScheduledRequests"] for r in (0, 1)
    }
    assert {s.label("engine") for s in reading.values if s.metric == "llm_server_info"} == {"0", "1"}


# Sources in order


def test_the_first_source_that_is_there_counts_alone() -> None:
    frontend = table(Field(COUNTER, Source(Series("new")), Source(Series("old"), quality=Quality.DERIVED, note="old")))
    both, old = read(frontend, "p:old 1\np:new 2\n"), read(frontend, "p:old 1\n")
    assert (value(both, COUNTER), status(both, COUNTER).quality) == (2, "exact")
    assert (value(old, COUNTER), status(old, COUNTER).quality, status(old, COUNTER).reason) == (1, "derived", "old")
    assert status(old, COUNTER).source == "p:old"


@pytest.mark.parametrize(
    ("source", "fits"),
    [
        (Source(Series("x"), needs=("config",)), True),
        (Source(Series("x"), needs=("config", "missing")), False),
        (Source(Series("x"), lacks=("missing",)), True),
        (Source(Series("x"), lacks=("missing", "config")), False),
        (Source(Series("x"), needs=("config{engine}",)), True),
        (Source(Series("x"), needs=("config{rank}",)), False),
        (Source(Series("x"), needs=("config{caching=True}",)), True),
        (Source(Series("x"), needs=("config{caching=False}",)), False),
        (Source(Series("x"), needs=("version>=0.9",)), True),
        (Source(Series("x"), needs=("version>=0.10.1",)), False),
        (Source(Series("x"), needs=("version<0.10.1",)), True),
        (Source(Series("x"), needs=("json:about",)), True),
        (Source(Series("x"), lacks=("json:other",)), True),
        (Source(Ratio(HITS, QUERIES), needs=("missing",)), False),
    ],
)
def test_a_source_fits_where_its_conditions_hold(source: Source, fits: bool) -> None:
    fields = (Field(HITS, Source(Series("x"))), Field(QUERIES, Source(Series("x"))), Field(GAUGE, source))
    frontend = table(*fields, documents=("about",), facts={"version": Json("about", "version")})
    reading = read(frontend, 'p:x 1\np:config_info{engine="0",caching="True"} 1\n', {"about": {"version": "0.10.0"}})
    assert (status(reading).quality == "exact") is fits


def test_blocks_and_tokens_under_one_name_are_told_apart_by_another_label() -> None:
    hits = Series("gpu_prefix_cache_hits_total")
    by_label = table(
        Field(
            HITS,
            Source(hits, needs=("cache_config_info{engine}",)),
            Source(Calc("*", hits, Label("cache_config_info", "block_size")), quality=Quality.APPROXIMATE),
        )
    )
    page = 'p:gpu_prefix_cache_hits_total{{engine="0"}} 10\np:cache_config_info{{block_size="16"{}}} 1\n'
    assert value(read(by_label, page.format("")), HITS) == 160
    assert value(read(by_label, page.format(',engine="0"')), HITS) == 10


REASONS = (
    Reason("the meter is off: start with --meter", needs=("meter_off",)),
    Reason("too old: since 0.9", needs=("version<0.9",)),
    Reason("needs a cache: --cache", lacks=("cache",)),
    Reason("not here"),
)


@pytest.mark.parametrize(
    ("text", "version", "told"),
    [
        ("p:meter_off 1\n", "0.8", "the meter is off: start with --meter"),
        ("", "0.8", "too old: since 0.9"),
        ("", "0.9", "needs a cache: --cache"),
        ("", "", "needs a cache: --cache"),
        ("p:cache 1\n", "0.9", "not here"),
    ],
)
def test_the_first_reason_whose_conditions_hold_is_told(text: str, version: str, told: str) -> None:
    frontend = table(
        Field(GAUGE, Source(Series("x")), missing=REASONS),
        Field(COUNTER, Source(Series("y"))),
        facts={"version": Json("about", "version")},
    )
    reading = read(frontend, f"p:y 1\n{text}", {"about": {"version": version}})
    assert (status(reading).quality, status(reading).source, status(reading).reason) == ("unavailable", "", told)


def test_every_field_says_why_it_is_missing() -> None:
    fields = (Field(GAUGE, missing="never exposed"), Field(COUNTER, Source(Series("y"))), Field(HISTOGRAM))
    readable = read(table(*fields), "p:y 1\n")
    assert [f.reason for f in readable.fields] == ["never exposed", "", "not exposed by this server"]
    unreadable = read(table(*fields), "other 1\n")
    assert {f.reason for f in unreadable.fields} == {"no engine metrics could be read"}
    assert {f.quality for f in unreadable.fields} == {"unavailable"}


@pytest.mark.parametrize(
    ("text", "quality", "source"),
    [
        ("p:hits 1\np:queries 2\np:rate 0.3\n", "exact", f"{HITS} / {QUERIES} over 5 minutes"),
        ("p:hits 1\np:rate 0.3\n", "last_batch", "p:rate"),
        ("p:queries 1\np:rate 0.3\n", "last_batch", "p:rate"),
        ("p:hits 1\n", "unavailable", ""),
    ],
)
def test_a_ratio_of_counters_is_preferred_where_both_are_there(text: str, quality: str, source: str) -> None:
    frontend = table(
        Field(HITS, Source(Series("hits"))),
        Field(QUERIES, Source(Series("queries"))),
        Field(RATIO, Source(Ratio(HITS, QUERIES)), Source(Series("rate"), quality=Quality.LAST_BATCH)),
    )
    reading = read(frontend, text)
    assert (status(reading, RATIO).quality, status(reading, RATIO).source) == (quality, source)
    assert value(reading, RATIO) == (0.3 if quality == "last_batch" else None)


def test_a_counter_may_stand_at_0_where_other_names_promise_it() -> None:
    term = Series("x_total", keep={"r": Keep("reason", {"stop": "stop"})}, zero=("promise",))
    frontend = table(Field(FINISHED, Source(term)), Field(GAUGE, Source(Series("y"))))
    assert values(read(frontend, 'p:y{model_name="m"} 1\n'), FINISHED, "reason") == {}
    assert values(read(frontend, 'p:y{model_name="m"} 1\np:promise 1\n'), FINISHED, "reason") == {"stop": 0}


# Names


def test_process_metrics_stand_outside_the_prefix() -> None:
    term = Series("@process_start_time_seconds")
    frontend = table(Field("llm_process_start_time_seconds", Source(term)), Field(GAUGE, Source(Series("x"))))
    for prefixes in (("p",), ("p_",), ("p_", ""), ("",)):
        reading = read(replace(frontend, prefixes=prefixes), "process_start_time_seconds 1700000000\np_x 1\nx 1\n")
        assert reading.start_time == 1700000000
        assert reading.unmapped == (("x",) if prefixes in (("p",), ("p_",)) else ("p_x",) if prefixes == ("",) else ())


@pytest.mark.parametrize("name", ["1.1-1.2", "main2026"])
def test_one_table_reads_names_with_and_without_prefix(name: str) -> None:
    frontend = one(Series("time_to_first_token_seconds"), HISTOGRAM, prefix=("trtllm_", ""), folds={"pid": Fold.MAX})
    reading = read(frontend, capture(f"trtllm_serve/{name}/page-load2.prom"))
    true = truth(f"trtllm_serve/{name}/page-load2.truth.json")["per_request_latencies_so_far"]["ttft"]
    (histogram,) = reading.histograms.values()
    assert histogram.count == len(true)
    assert histogram.sum == pytest.approx(sum(true))
    assert "prefix_rewritten" not in reasons(reading)


def test_mapped_names_are_those_of_the_page() -> None:
    fields = (
        Field(GAUGE, Source(Series("running"))),
        Field(COUNTER, Source(Series("made_total"))),
        Field(HISTOGRAM, Source(Series("first"))),
        Field("llm_requests_running_limit", Source(Json("info", "limit"))),
    )
    text = 'p:running 1\np_made_total 2\np:first_bucket{le="1"} 1\np:first_bucket{le="+Inf"} 1\np:stranger 1\n'
    reading = read(table(*fields, documents=("info",)), text, {"info": {"limit": 8}})
    assert reading.mapped == {
        "p:running": GAUGE,
        "p_made_total": COUNTER,
        "p:first": HISTOGRAM,
        "info: limit": "llm_requests_running_limit",
    }
    assert reading.unmapped == ("p:stranger",)


# Models


def test_a_model_label_that_stands_for_none_gives_way_to_what_the_server_says() -> None:
    term = Series("request_success_total", keep={"finished_reason": Keep("reason", {"cancelled": "abort"})})
    frontend = one(
        term,
        FINISHED,
        prefix="",
        unknown_models=("undefined",),
        facts={"model": Json("models", "id", records="data")},
    )
    text = capture("trtllm_serve/1.1-1.2/page-load2.prom")
    expected = {"length": 10, "stop": 3, "abort": 1}
    for documents, model in (({"models": MODELS}, "llama"), ({}, "")):
        reading = read(frontend, text, documents)
        assert values(reading, FINISHED, "reason") == expected
        assert {s.label("model") for s in reading.values} == {model}
        assert "no_requests_yet" not in reasons(reading)


def test_a_page_without_a_model_label_is_not_taken_for_fresh() -> None:
    reading = read(
        one(Series("nv_inference_request_success", {"model": "ensemble"}), COUNTER, prefix="", model_label=""),
        capture("triton/24.10/cppnames018-load2.prom"),
    )
    assert value(reading, COUNTER) == 3
    assert "no_requests_yet" not in reasons(reading)


def test_a_page_that_names_no_model_yet_is_fresh() -> None:
    frontend = one(Series("x"))
    assert reasons(read(frontend, "# TYPE p:x gauge\n")) == ["no_requests_yet"]
    assert reasons(read(frontend, 'p:x{model_name="m"} 1\n')) == []


MODELS_PAGE = "".join(
    f'p:x{{model_name="m{i}"}} {2**i}\np:h_bucket{{model_name="m{i}",le="1"}} {i}\n'
    f'p:h_bucket{{model_name="m{i}",le="+Inf"}} {2 * i}\np:h_sum{{model_name="m{i}"}} {i / 2}\n'
    for i in range(6)
)
BY_MODEL = table(
    Field(COUNTER, Source(Series("x"))),
    Field(GAUGE, Source(Series("x"))),
    Field(HISTOGRAM, Source(Series("h"))),
)


def test_models_beyond_the_limit_are_counted_together_as_other() -> None:
    reading = read(BY_MODEL, MODELS_PAGE, max_models=2)
    assert values(reading, COUNTER, "model") == {"m0": 1, "m1": 2, "other": 4 + 8 + 16 + 32}
    assert values(reading, GAUGE, "model") == {"m0": 1, "m1": 2, "other": 60}
    found = {s.label("model"): (h.counts, h.sum) for s, h in reading.histograms.items()}
    assert found == {"m0": ((0, 0), 0), "m1": ((1, 2), 0.5), "other": ((14, 28), 7)}
    assert reasons(reading) == ["several_models"]
    for metric in ("llm_server_info", "llm_server_state"):
        lines = reading.chunks()[metric].splitlines()
        assert len(lines) == len(set(lines)) == 3


def test_two_names_of_one_model_are_one_model() -> None:
    identity = Identity("host", "file", model_aliases={"m0": "one", "m1": "one"})
    reading = Normaliser(BY_MODEL, identity, Limits()).normalise(MODELS_PAGE)
    assert values(reading, COUNTER, "model")["one"] == 1 + 2
    states = reading.chunks()["llm_server_state"].splitlines()
    assert len(states) == len(set(states)) == 5
    infos = [s for s in reading.values if s.metric == "llm_server_info" and s.label("model") == "one"]
    assert sorted(s.label("wire_model") for s in infos) == ["m0", "m1"]


def test_facts_belong_to_their_engine_and_model() -> None:
    rows = (("0", "a", 8), ("1", "a", 16), ("0", "b", 32))
    text = "".join(f'p:c{{engine="{engine}",model_name="{model}",t="{t}"}} 1\n' for engine, model, t in rows)
    reading = read(one(Label("c", "t"), facts={"dtype": Label("c", "t", Read.TEXT)}), text)
    infos = [s for s in reading.values if s.metric == "llm_server_info"]
    found = {(s.label("engine"), s.label("model")): s.label("dtype") for s in infos}
    assert found == {("0", "a"): "8", ("1", "a"): "16", ("0", "b"): "32"}


def test_a_page_that_shows_only_what_is_switched_off_says_so() -> None:
    frontend = one(Series("x"), switched_off=("@http_seen",), accepts=("accepted",))
    assert reasons(read(frontend, "http_seen 1\n")) == ["stats_disabled"]
    assert reasons(read(frontend, "other 1\n")) == ["no_engine_metrics"]
    assert reasons(read(frontend, "")) == ["empty_body"]
    assert read(frontend, "p:accepted 1\n").available


def test_wire_names_of_a_rewritten_page_keep_their_values() -> None:
    text = capture("sglang/0.5.23/tp1-2_load.prom")
    frontend = table(
        Field(GAUGE, Source(Series("num_running_reqs"))),
        Field(HISTOGRAM, Source(Series("time_to_first_token_seconds"))),
        prefix="sglang",
        folds=SGLANG_FOLDS,
    )
    plain, rewritten = read(frontend, text), read(frontend, re.sub("sglang:", "sglang_", text))
    assert plain.values == rewritten.values
    assert plain.histograms == rewritten.histograms
    assert reasons(rewritten)[-1] == "prefix_rewritten"
