"""trtllm-serve's recorded pages and JSON statistics against the true values beside them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exporters import detect, exposition, schema
from exporters.documents import keep
from exporters.histogram import quantile
from exporters.normalise import Normaliser, Reading
from exporters.rhythm import TokenTiming
from exporters.schema import METRICS, PHASES
from exporters.table import Form
from exporters.tables.trtllm_serve import TRTLLM_SERVE as TABLE
from tests.exporters.recorded import CAPTURES, IDENTITY, count, independent, total, truth


def capture(name: str) -> Path:
    return CAPTURES / "trtllm_serve" / name


STATES = ("fresh", "load1", "load2", "load3", "idle")
BARE, NEW = "1.1-1.2", "main2026"
MODEL = "Llama-3.1-8B-Instruct"
MODELS = {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1, "owned_by": "tensorrt_llm"}]}
PAGES = [f"{r}/page-{s}.prom" for r in (BARE, NEW) for s in STATES if (r, s) != (BARE, "fresh")]
FED = [name for name in PAGES if "fresh" not in name]
POLLED = {"llm_requests_running", "llm_requests_waiting"}

# The five families of 1.1 and 1.2, as a user's page showed them (values made up in the same shape).
BARE_PAGE = """\
# TYPE time_to_first_token_seconds histogram
time_to_first_token_seconds_bucket{engine_type="undefined",model_name="undefined",le="0.1"} 4
time_to_first_token_seconds_bucket{engine_type="undefined",model_name="undefined",le="+Inf"} 5
time_to_first_token_seconds_sum{engine_type="undefined",model_name="undefined"} 0.7
time_to_first_token_seconds_count{engine_type="undefined",model_name="undefined"} 5
# TYPE request_success_total counter
request_success_total{engine_type="undefined",finished_reason="stop",model_name="undefined"} 5
"""


def side(**parsed: object) -> dict[str, object]:
    """Documents by name, pruned as the sidecar prunes them."""
    return {name: keep(TABLE, name, value) for name, value in parsed.items()}


def read(text: str, **parsed: object) -> Reading:
    return Normaliser(TABLE, IDENTITY).normalise(text, side(**({"models": MODELS} | parsed)))


def page(name: str) -> Reading:
    return read(capture(name).read_text())


def records(release: str, state: str) -> Any:
    return json.loads(capture(f"{release}/statistics-{state}.json").read_text())


def true_values(name: str) -> Any:
    return truth(capture(name).with_suffix(".truth.json"))


class Poller:
    """Feeds what one poller of the JSON statistics gets, one reading after the other."""

    def __init__(self, text: str = "") -> None:
        self._text = text
        self._normaliser = Normaliser(TABLE, IDENTITY)

    def get(self, *answers: Any) -> Reading:
        return [self._normaliser.normalise(self._text, side(models=MODELS, iterations=a)) for a in answers][-1]

    def run(self, release: str, states: Iterable[str]) -> Reading:
        return self.get(*(records(release, state) for state in states))


def status(reading: Reading, metric: str) -> tuple[str, str]:
    return next((f.quality, f.reason) for f in reading.fields if f.field == metric)


def test_the_table_says_where_every_server_metric_comes_from_or_why_not() -> None:
    own = ("llm_latency_", "llm_length_", "llm_server_")
    engine = [m.name for m in schema.of_prefix("llm_") if m.scope is schema.Scope.ENGINE]
    assert [f.metric for f in TABLE.fields] == [name for name in engine if not name.startswith(own)]


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_read_whole(name: str) -> None:
    reading = page(name)
    assert reading.available
    assert reading.unmapped == ()
    assert reading.dropped == {}
    assert reading.findings == ()
    assert {s.metric for s in reading.values} | {s.metric for s in reading.histograms} <= METRICS.keys()
    assert {s.label("model") for s in reading.values} == {MODEL}


def test_a_fresh_page_of_no_byte_is_a_finding_and_no_zero_load() -> None:
    reading = page(f"{BARE}/page-fresh.prom")
    assert not reading.available
    assert [f.reason for f in reading.findings] == ["empty_body"]
    assert {s.metric for s in reading.values} == {"llm_server_info", "llm_server_state"}
    assert reading.histograms == {}


def test_a_fresh_page_of_2026_tells_the_configuration_and_no_load() -> None:
    reading = page(f"{NEW}/page-fresh.prom")
    assert reading.available
    assert total(reading, "llm_requests_running") is None
    assert status(reading, "llm_requests_running") == ("unavailable", "appears with the first finished request")
    assert total(reading, "llm_prefix_cache_hit_tokens_total") == 0
    info = next(s for s in reading.values if s.metric == "llm_server_info")
    told = {k: info.label(k) for k in ("max_model_len", "dtype", "quantization", "tp", "pp", "prefix_caching")}
    assert told == {
        "max_model_len": "8192", "dtype": "auto", "quantization": "none", "tp": "2", "pp": "1",
        "prefix_caching": "true",
    }  # fmt: skip


@pytest.mark.parametrize("name", FED)
def test_pages_show_the_totals_of_the_requests_that_finished(name: str) -> None:
    reading, true = page(name), true_values(name)
    engine, seen = true["engine_truth"], true["per_request_latencies_so_far"]
    reasons = {"abort": "cancelled", "stop": "stop", "length": "length", "error": "timeout"}
    for ours, theirs in reasons.items():
        expected = engine["totals"]["by_reason"].get(theirs, 0)
        assert total(reading, "llm_requests_finished_total", reason=ours) == expected, ours
    for phase in ("ttft", "e2e", "tpot", "queue"):
        assert count(reading, PHASES[phase].metric) == (len(seen[phase]) or None), phase
    if NEW in name:
        assert total(reading, "llm_prompt_tokens_total") == engine["totals"]["prompt_tokens"]
        assert total(reading, "llm_generation_tokens_total") == engine["totals"]["gen_tokens"]
        assert total(reading, "llm_prefix_cache_query_tokens_total") == engine["totals"]["prompt_tokens"]
        assert total(reading, "llm_kv_cache_capacity_tokens") == engine["max_blocks"] * engine["tokens_per_block"]


def test_when_all_has_finished_cached_and_drafted_tokens_are_the_true_ones() -> None:
    name = f"{NEW}/page-idle.prom"
    reading, true = page(name), true_values(name)["engine_truth"]["totals"]
    assert total(reading, "llm_prefix_cache_hit_tokens_total") == true["cached_tokens"]
    assert total(reading, "llm_spec_decode_draft_tokens_total") == true["drafted"]
    assert total(reading, "llm_spec_decode_accepted_tokens_total") == true["accepted"]


@pytest.mark.parametrize("name", [n for n in FED if NEW in n])
def test_gauges_are_those_of_the_page_and_marked_as_stale(name: str) -> None:
    reading, raw = page(name), independent(capture(name))
    running = sum(raw["trtllm_num_requests_running"].values())
    scheduled = sum(raw["trtllm_num_scheduled_requests"].values())
    queued = sum(raw["trtllm_num_requests_waiting"].values())
    assert total(reading, "llm_requests_running") == scheduled
    assert total(reading, "llm_requests_waiting") == queued + running - scheduled
    assert total(reading, "llm_kv_cache_utilization_ratio") == sum(raw["trtllm_kv_cache_utilization"].values())
    for metric in POLLED | {"llm_kv_cache_utilization_ratio"}:
        quality, reason = status(reading, metric)
        assert quality == "approximate"
        assert "refreshed when a request finishes" in reason
        assert "keeps its value when the server falls idle" in reason
    assert TABLE.rhythm.token_timing is TokenTiming.FINISH


@pytest.mark.parametrize("phase", ["ttft", "e2e", "tpot", "queue"])
@pytest.mark.parametrize("name", FED)
def test_the_true_percentiles_lie_inside_the_bounds(name: str, phase: str) -> None:
    seen = sorted(true_values(name)["per_request_latencies_so_far"][phase])
    parts = [h for s, h in page(name).histograms.items() if s.metric == PHASES[phase].metric]
    assert bool(parts) == bool(seen)
    for q in (0.5, 0.9, 0.99) if seen else ():
        result = quantile(parts, q, PHASES[phase].grid)
        assert result is not None
        assert result.lower <= seen[ceil(q * len(seen)) - 1] <= result.upper
        assert result.lower <= np.quantile(seen, q) <= result.upper


@pytest.mark.parametrize("name", FED)
def test_bounds_and_counts_are_those_of_the_page(name: str) -> None:
    raw, prefix = independent(capture(name)), "trtllm_" if NEW in name else ""
    wire = {
        "ttft": "time_to_first_token_seconds", "tpot": "time_per_output_token_seconds",
        "e2e": "e2e_request_latency_seconds", "queue": "request_queue_time_seconds",
        "prefill": "request_prefill_time_seconds", "decode": "request_decode_time_seconds",
    }  # fmt: skip
    for phase, base in wire.items():
        found = [h for s, h in page(name).histograms.items() if s.metric == PHASES[phase].metric]
        buckets = {float(dict(k)["le"]): v for k, v in raw[f"{prefix}{base}_bucket"].items()}
        counts = [dict(zip((*h.bounds, float("inf")), h.counts, strict=True)) for h in found]
        assert counts == ([buckets] if buckets else [])
        assert [h.sum for h in found] == list(raw[f"{prefix}{base}_sum"].values())
        assert {*buckets} <= {*PHASES[phase].grid, float("inf")}


@pytest.mark.parametrize("release", [BARE, NEW])
def test_json_statistics_read_one_after_the_other_add_up_to_the_truth(release: str) -> None:
    poller = Poller()
    assert not poller.get(records(release, "fresh")).available
    for state in STATES[1:]:
        reading, last = poller.get(records(release, state)), records(release, state)[-1]
        true = true_values(f"{release}/statistics-{state}.json")["engine_truth"]
        assert reading.available
        assert reading.findings == ()
        assert total(reading, "llm_requests_finished_total", reason="unknown") == true["totals"]["finished"]
        assert total(reading, "llm_prefix_cache_hit_tokens_total") == true["totals"]["cached_tokens"]
        # The first record, after the first iteration of the engine's life, had 29 missed blocks already.
        looked_up = (true["reused_blocks_total"] + true["missed_blocks_total"] - 29) * true["tokens_per_block"]
        assert total(reading, "llm_prefix_cache_query_tokens_total") == looked_up
        assert total(reading, "llm_kv_cache_capacity_tokens") == true["max_blocks"] * true["tokens_per_block"]
        assert total(reading, "llm_requests_running") == last["inflightBatchingStats"]["numScheduledRequests"]
        assert total(reading, "llm_requests_waiting") == true["queued"]
        assert total(reading, "llm_requests_running_limit") == 16
        used = last["kvCacheStats"]["usedNumBlocks"] / true["max_blocks"]
        assert total(reading, "llm_kv_cache_utilization_ratio") == used


@pytest.mark.parametrize(("release", "tolerance"), [(BARE, 0), (NEW, 0.01)])
def test_tokens_from_json_statistics_are_right_when_all_has_finished(release: str, tolerance: float) -> None:
    reading = Poller().run(release, STATES)
    true = true_values(f"{release}/statistics-idle.json")["engine_truth"]["totals"]
    assert total(reading, "llm_prompt_tokens_total") == true["prompt_tokens"]
    # Tokens that speculation produced beyond a stop are counted, and thrown away by the server.
    assert total(reading, "llm_generation_tokens_total") == pytest.approx(true["gen_tokens"], rel=tolerance)
    assert total(reading, "llm_spec_decode_draft_tokens_total") == (true["drafted"] or None)
    assert total(reading, "llm_spec_decode_accepted_tokens_total") == (true["accepted"] or None)
    for metric in ("llm_prompt_tokens_total", "llm_generation_tokens_total", "llm_requests_finished_total"):
        assert status(reading, metric)[0] == "approximate"


@pytest.mark.parametrize("release", [BARE, NEW])
def test_an_empty_answer_adds_nothing_and_reads_as_idle(release: str) -> None:
    poller = Poller()
    before = poller.run(release, STATES)
    after = poller.get(records(release, "idle_second_poll"))
    assert after.available
    assert total(after, "llm_requests_running") == total(after, "llm_requests_waiting") == 0
    assert total(after, "llm_kv_cache_utilization_ratio") is None
    assert status(after, "llm_kv_cache_utilization_ratio")[1].startswith("no iteration since the last reading")
    kept = {s: v for s, v in before.values.items() if s.metric not in POLLED | {"llm_kv_cache_utilization_ratio"}}
    assert {s: v for s, v in after.values.items() if s.metric not in POLLED} == kept


def test_records_that_another_reader_took_are_missing_and_said_to_be() -> None:
    poller = Poller()
    poller.get(records(NEW, "load1"), records(NEW, "load2_second_reader"))
    reading = poller.run(NEW, ("load3", "idle"))
    true = true_values(f"{NEW}/statistics-idle.json")["engine_truth"]["totals"]
    taken = sum(r["numCompletedRequests"] for r in records(NEW, "load2"))
    assert taken == 20
    assert total(reading, "llm_requests_finished_total") == true["finished"] - taken
    quality, reason = status(reading, "llm_requests_finished_total")
    assert (quality, "somebody else read" in reason) == ("approximate", True)
    # The engine's own totals lose nothing.
    assert total(reading, "llm_prefix_cache_hit_tokens_total") == true["cached_tokens"]


def test_two_pollers_that_share_the_records_never_count_one_twice() -> None:
    mine, theirs = Poller(), Poller()
    for state in STATES[1:]:
        mine.get(records(BARE, state)[::2])
        theirs.get(records(BARE, state)[1::2])
    finished = [total(p.get([]), "llm_requests_finished_total") or 0 for p in (mine, theirs)]
    assert sum(finished) == 40
    assert min(finished) > 0


def test_an_answer_that_is_still_there_at_the_next_collection_counts_once() -> None:
    normaliser = Normaliser(TABLE, IDENTITY)
    beside = side(models=MODELS, iterations=records(BARE, "load1"))
    readings = [normaliser.normalise("", dict(beside)) for _ in range(3)]
    assert [total(r, "llm_requests_finished_total") for r in readings] == [5, 5, 5]
    assert [total(r, "llm_prompt_tokens_total") for r in readings] == [9600, 9600, 9600]


def test_sums_go_on_over_a_restart_and_so_do_rises_of_the_engines_totals() -> None:
    poller = Poller()
    poller.run(BARE, STATES)
    reading = poller.get(records(BARE, "load1"))
    assert total(reading, "llm_requests_finished_total") == 40 + 5
    # Prefilled tokens and reused blocks of both lives: 12452 + 7168, then 6272 + 3328.
    assert total(reading, "llm_prompt_tokens_total") == 19620 + 9600
    assert total(reading, "llm_prefix_cache_hit_tokens_total") == 7168 + 3328


def test_totals_of_a_life_that_was_not_watched_are_left_out() -> None:
    """An idle engine answers [], and its first record tells of all its life: 104 reused blocks."""
    first, *others = records(BARE, "load2")
    poller = Poller()
    assert not poller.get([]).available
    assert first["kvCacheStats"]["reusedBlocks"] == 104
    reading = poller.get([first])
    prefilled = first["inflightBatchingStats"]["numCtxTokens"]
    assert total(reading, "llm_prefix_cache_hit_tokens_total") == 0
    assert total(reading, "llm_prefix_cache_query_tokens_total") == 0
    assert total(reading, "llm_prompt_tokens_total") == prefilled
    after = others[-1]["kvCacheStats"]["reusedBlocks"]
    assert total(poller.get(others), "llm_prefix_cache_hit_tokens_total") == (after - 104) * 32


def test_without_a_single_record_nothing_is_told() -> None:
    for release in (BARE, NEW):
        reading = Poller().get(records(release, "fresh"), records(release, "idle_second_poll"))
        assert not reading.available
        assert {s.metric for s in reading.values} == {"llm_server_info", "llm_server_state"}


def test_ranks_of_attention_data_parallelism_stay_apart() -> None:
    rows = [dict(r, attentionDpRank=rank) for r in records(NEW, "load1") for rank in (0, 1)]
    reading = Poller().get(rows)
    for engine in ("0", "1"):
        assert total(reading, "llm_kv_cache_capacity_tokens", engine=engine) == 512 * 32
        assert total(reading, "llm_requests_running", engine=engine) == 16
        assert total(reading, "llm_requests_finished_total", engine=engine, reason="unknown") == 17


def test_bare_families_and_json_statistics_complete_each_other() -> None:
    reading = Poller(capture(f"{BARE}/page-load2.prom").read_text()).run(BARE, ("load1", "load2"))
    by_reason = {r: total(reading, "llm_requests_finished_total", reason=r) for r in ("length", "stop", "abort")}
    assert by_reason == {"length": 10, "stop": 3, "abort": 1}
    assert total(reading, "llm_requests_running") == 16
    assert count(reading, "llm_time_to_first_token_seconds") == 14
    assert {s.label("model") for s in reading.values} == {MODEL}


def test_milliseconds_that_are_seconds_and_empty_timestamps_are_never_looked_at() -> None:
    quirks = [r | {"iterLatencyMS": r["iterLatencyMS"] / 1000, "timestamp": ""} for r in records(BARE, "load1")]
    assert Poller().get(quirks).values == Poller().get(records(BARE, "load1")).values
    assert "iterLatencyMS" not in str(side(iterations=quirks))


def test_undefined_stands_for_no_model_and_drops_no_counter() -> None:
    assert {s.label("model") for s in read(BARE_PAGE).values} == {MODEL}
    unknown = read(BARE_PAGE, models=None)
    assert total(unknown, "llm_requests_finished_total", reason="stop") == 5
    assert {s.label("model") for s in unknown.values} == {""}
    assert unknown.findings == ()


def test_one_gauge_of_several_processes_is_the_largest() -> None:
    series = 'trtllm_kv_cache_utilization{{engine_type="pytorch",model_name="m",pid="{}"}} {}\n'
    reading = read("".join(series.format(pid, value) for pid, value in ((101, 0.0), (102, 0.653), (103, 0.0))))
    assert total(reading, "llm_kv_cache_utilization_ratio") == 0.653


def test_the_names_of_a_dynamo_worker_are_the_same_names() -> None:
    text = capture(f"{NEW}/page-load2.prom").read_text()
    for prefix in ("trtllm_", "trtllm:"):
        reading = read(text.replace("trtllm_", prefix))
        assert reading.values == page(f"{NEW}/page-load2.prom").values
        assert reading.findings == ()


def test_how_requests_ended_is_told_in_the_words_of_the_schema() -> None:
    labels = 'engine_type="pytorch",model_name="m"'
    success = {"stop": 7, "length": 5, "cancelled": 3, "timeout": 2, "not_finished": 1}
    errors = {"400": 40, "429": 9, "500": 4, "503": 1}
    text = "".join(f'trtllm_request_success_total{{{labels},finished_reason="{k}"}} {v}\n' for k, v in success.items())
    only_errors = "".join(f'trtllm_request_error_total{{{labels},http_code="{k}"}} {v}\n' for k, v in errors.items())
    reading = read(text + only_errors)
    reasons = ("stop", "length", "abort", "error", "unknown")
    found = {r: total(reading, "llm_requests_finished_total", reason=r) for r in reasons}
    assert found == {"stop": 7, "length": 5, "abort": 3, "error": 2 + 4 + 1, "unknown": 1}
    assert total(reading, "llm_requests_rejected_total", reason="http_429") == 9
    # A server on which everything fails has errors, and does not look fresh.
    assert total(read(only_errors), "llm_requests_finished_total", reason="error") == 5


def test_block_counters_stand_in_where_prompts_are_not_counted_in_tokens() -> None:
    labels = 'engine_type="pytorch",model_name="m"'
    names = {
        "kv_cache_utilization": 0.5, "kv_cache_tokens_per_block": 32, "kv_cache_reused_blocks_total": 30,
        "kv_cache_missed_blocks_total": 70,
    }  # fmt: skip
    reading = read("".join(f"trtllm_{name}{{{labels}}} {value}\n" for name, value in names.items()))
    assert total(reading, "llm_prefix_cache_hit_tokens_total") == 30 * 32
    assert total(reading, "llm_prefix_cache_query_tokens_total") == 100 * 32
    first = 'trtllm_kv_cache_hit_rate{engine_type="undefined",model_name="undefined",pid="1"} 0.3\n'
    assert total(read(first), "llm_prefix_cache_hit_ratio") == 0.3


def test_pages_are_recognised_without_a_word_of_configuration() -> None:
    for name in PAGES:
        found = detect.detect(capture(name).read_text())
        assert (found.frontend, found.finding) == (TABLE, None), name


def test_json_where_a_page_is_expected_and_no_page_at_all_have_their_remedies() -> None:
    for body in ("[]", capture(f"{BARE}/statistics-load1.json").read_text()):
        finding = detect.detect(body, "application/json").finding
        assert finding is not None
        assert (finding.reason, "/prometheus/metrics" in finding.remedy) == ("json_body", True)
    assert detect.by_owner(side(models=MODELS)).frontend is TABLE
    assert "return_perf_metrics" in TABLE.no_metrics


def test_what_makes_records_is_told_for_releases_that_have_no_page() -> None:
    statistics, page = TABLE.no_records.split("1.1 and later")
    assert "`enable_iter_perf_stats: true`" in statistics
    assert "return_perf_metrics" not in statistics
    assert "return_perf_metrics" in page


def test_the_statistics_are_read_by_one_poller_and_health_costs_no_request() -> None:
    by_name = {d.name: d for d in TABLE.documents}
    assert [d.name for d in TABLE.documents if d.destructive] == ["iterations"]
    # 1000 records are kept; an iteration takes 10 ms and more.
    assert 0 < by_name["iterations"].every < 10
    assert [d.path for d in TABLE.documents if d.form is Form.STATUS] == ["/health"]


@pytest.mark.parametrize("release", [BARE, NEW])
def test_the_normalised_text_of_json_statistics_is_the_expected_one(release: str, update_goldens: bool) -> None:
    text = exposition.page([Poller().run(release, ("fresh", "load1", "load2")).chunks()])
    expected = capture(f"{release}/statistics-load2.expected")
    if update_goldens:
        expected.write_text(text)
    assert text == expected.read_text()
