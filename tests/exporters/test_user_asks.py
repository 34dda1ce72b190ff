"""What people who run such fleets complain of: each case stands for a kind of mistake."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from exporters import exposition
from exporters.detect import detect, is_confirmed
from exporters.normalise import Identity, Normaliser, Reading
from exporters.table import Field, Fold, Frontend
from exporters.tables.vllm import VLLM
from exporters.window import Recent
from tests.exporters.recorded import total


def read(text: str, frontend: Frontend = VLLM) -> Reading:
    return Normaliser(frontend, Identity("host", "file")).normalise(text)


OLD = 'vllm:gpu_cache_usage_perc{model_name="m-a",engine="0"} 0.42\n'
NEW = 'vllm:kv_cache_usage_perc{model_name="m-a",engine="0"} 0.42\n'


@pytest.mark.parametrize(
    ("text", "source"),
    [(OLD, "vllm:gpu_cache_usage_perc"), (NEW, "vllm:kv_cache_usage_perc"), (OLD + NEW, "vllm:kv_cache_usage_perc")],
)
def test_a_renamed_gauge_is_one_series_and_the_newest_name_counts(text: str, source: str) -> None:
    reading = read(text + 'vllm:num_requests_running{model_name="m-a",engine="0"} 1\n')
    found = [v for s, v in reading.values.items() if s.metric == "llm_kv_cache_utilization_ratio"]
    assert found == [0.42]
    status = next(f for f in reading.fields if f.field == "llm_kv_cache_utilization_ratio")
    assert status.source == source


def renamed_pairs() -> list[tuple[Field, list[str]]]:
    """Every field with several plain sources: whenever two stand side by side, only the first may count."""
    pairs = []
    for field in VLLM.fields:
        names = [s.parts[0].name for s in field.sources if not s.needs and hasattr(s.parts[0], "name")]
        if len(set(names)) > 1:
            pairs.append((field, names))
    return pairs


def test_there_are_renamed_fields_to_test() -> None:
    assert {f.metric for f, _ in renamed_pairs()} >= {
        "llm_kv_cache_utilization_ratio",
        "llm_inter_token_latency_seconds",
        "llm_queue_time_seconds",
    }


@pytest.mark.parametrize(("field", "names"), renamed_pairs(), ids=lambda p: getattr(p, "metric", None))
def test_old_and_new_names_side_by_side_count_once(field: Field, names: list[str]) -> None:
    # Any of them may be a gauge, a counter or a histogram: give each all its samples, with the same values.
    lines = ['vllm:num_requests_running{model_name="m"} 1']
    for name in dict.fromkeys(names):
        lines += [
            f'vllm:{name}{{model_name="m",block_size="1"}} 0.5',
            f'vllm:{name}_bucket{{model_name="m",le="1.0"}} 4',
            f'vllm:{name}_bucket{{model_name="m",le="+Inf"}} 7',
            f'vllm:{name}_sum{{model_name="m"}} 9',
            f'vllm:{name}_count{{model_name="m"}} 7',
        ]
    reading = read("\n".join(lines) + "\n")
    histograms = [h.count for s, h in reading.histograms.items() if s.metric == field.metric]
    values = [v for s, v in reading.values.items() if s.metric == field.metric]
    assert histograms == [7] or values == [0.5]


def test_an_underscore_for_the_colon_is_the_same_server() -> None:
    colon = 'vllm:num_requests_running{model_name="m-b"} 3\nvllm:num_requests_waiting{model_name="m-b"} 7\n'
    a, b = read(colon), read(colon.replace("vllm:", "vllm_"))
    assert a.values == b.values
    assert (total(b, "llm_requests_running"), total(b, "llm_requests_waiting")) == (3, 7)
    assert [f.reason for f in b.findings] == ["prefix_rewritten"]
    assert detect(colon.replace("vllm:", "vllm_")).frontend is VLLM


def test_a_gauge_shown_once_per_process_is_the_live_one() -> None:
    text = "".join(
        f'vllm:kv_cache_usage_perc{{engine="0",model_name="m-a",pid="{pid}"}} {value}\n'
        for pid, value in ((101, 0.0), (102, 0.653), (103, 0.0), (104, 0.0))
    )
    reading = read(text + 'vllm:num_requests_running{engine="0",model_name="m-a"} 1\n')
    assert [v for s, v in reading.values.items() if s.metric == "llm_kv_cache_utilization_ratio"] == [0.653]


E2E = """\
vllm:num_requests_running{model_name="m"} 1
vllm:e2e_request_latency_seconds_bucket{model_name="m",le="40.0"} 10
vllm:e2e_request_latency_seconds_bucket{model_name="m",le="50.0"} 12
vllm:e2e_request_latency_seconds_bucket{model_name="m",le="60.0"} 20
vllm:e2e_request_latency_seconds_bucket{model_name="m",le="+Inf"} 100
vllm:e2e_request_latency_seconds_sum{model_name="m"} 9400
vllm:e2e_request_latency_seconds_count{model_name="m"} 100
"""


def test_a_percentile_in_the_overflow_reads_at_least() -> None:
    recent = Recent()
    reading = read(E2E)
    recent.advance(0.0, {}, {})
    found = recent.advance(60.0, reading.values, reading.histograms)
    p99 = {s.label("bound"): v for s, v in found.items() if s.label("q") == "0.99" and s.label("phase") == "e2e"}
    assert p99 == {"estimate": 60.0, "lower": 60.0, "upper": math.inf}
    written = {
        (s.name, s.labels.get("le")): s.value for s in exposition.read_samples(exposition.page([reading.chunks()]))
    }
    assert written["llm_latency_overflow_total", None] == 80
    assert written["llm_latency_native_max_seconds", None] == 60
    # What is beyond the largest native bound stands in the next bucket of the grid.
    assert written["llm_request_duration_seconds_bucket", "60.0"] == 20
    assert written["llm_request_duration_seconds_bucket", "80.0"] == 100


@pytest.mark.parametrize("bound", ["1", "1.0", "1e0", "1.00"])
def test_bounds_are_numbers_and_written_one_way(bound: str) -> None:
    text = (
        'vllm:num_requests_running{model_name="m"} 1\n'
        f'vllm:time_to_first_token_seconds_bucket{{model_name="m",le="{bound}"}} 90\n'
        'vllm:time_to_first_token_seconds_bucket{model_name="m",le="2.5"} 97\n'
        'vllm:time_to_first_token_seconds_bucket{model_name="m",le="+Inf"} 100\n'
    )
    page = exposition.page([read(text).chunks()])
    good = next(
        s.value
        for s in exposition.read_samples(page)
        if s.name == "llm_time_to_first_token_seconds_bucket" and s.labels["le"] == "1.0"
    )
    assert good / 100 == 0.9


def test_requests_that_vanish_are_a_gap_and_not_full_availability() -> None:
    reading = read(
        'vllm:request_success_total{model_name="m",finished_reason="stop"} 3900\n'
        'vllm:request_success_total{model_name="m",finished_reason="length"} 18\n'
        'vllm:request_success_total{model_name="m",finished_reason="abort"} 0\n'
        'vllm:time_to_first_token_seconds_count{model_name="m"} 8060\n'
        'vllm:num_requests_running{model_name="m"} 2\n'
        'vllm:num_requests_waiting{model_name="m"} 0\n'
    )
    # 8060 first tokens - 3918 finished - 2 still running.
    assert total(reading, "llm_requests_unfinished") == 4140
    assert reading.findings == ()
    status = next(f for f in reading.fields if f.field == "llm_requests_finished_total")
    assert (status.quality, "cancelled" in status.reason) == ("approximate", True)


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        ("", "text/plain", "empty_body"),
        (" \n\n", "text/plain", "empty_body"),
        ("[]", "application/json", "json_body"),
        ('{"detail": "Not Found"}', "application/json", "json_body"),
        ("<!DOCTYPE html><html></html>", "text/html", "html_body"),
        ("<html><body>login</body></html>", "", "html_body"),
        ('{"a": 1}', "text/plain", "json_body"),
        ("[" * 100_000, "application/json", "json_body"),
        ("hello world, this is no metric", "text/plain", "invalid_exposition"),
        ("node_load1 0.5\nnode_load5 0.4\n", "text/plain", "no_engine_metrics"),
    ],
)
def test_what_is_no_metrics_page_is_named_with_a_remedy(body: str, content_type: str, reason: str) -> None:
    found = detect(body, content_type)
    assert found.frontend is None
    assert found.finding is not None
    assert found.finding.reason == reason
    assert found.finding.remedy


def test_a_page_without_engine_metrics_is_only_vllm_if_its_model_list_says_so() -> None:
    page = 'http_request_duration_highr_seconds_bucket{le="+Inf"} 3\nhttp_requests_total{handler="/",method="GET"} 3\n'
    found = detect(page)
    assert (found.frontend, found.finding and found.finding.reason) == (VLLM, "stats_disabled")
    assert is_confirmed(VLLM, {"models": {"data": [{"id": "m", "owned_by": "vllm"}]}})
    assert not is_confirmed(VLLM, {"models": {"data": [{"id": "m", "owned_by": "someone"}]}})
    assert not is_confirmed(VLLM, {})


def test_a_server_that_answers_metrics_and_is_not_healthy_says_so() -> None:
    reading = Normaliser(VLLM, Identity("n", "s")).normalise(NEW, {"health": 503})
    assert [(f.reason, f.detail) for f in reading.findings] == [("unhealthy", "HTTP 503")]


DATA_PARALLEL = """\
vllm:num_requests_running{engine="0",model_name="m-a"} 8
vllm:num_requests_running{engine="1",model_name="m-a"} 1
vllm:num_requests_waiting{engine="0",model_name="m-a"} 40
vllm:num_requests_waiting{engine="1",model_name="m-a"} 0
vllm:kv_cache_usage_perc{engine="0",model_name="m-a"} 0.95
vllm:kv_cache_usage_perc{engine="1",model_name="m-a"} 0.12
"""


def test_every_engine_of_a_data_parallel_server_counts() -> None:
    reading = read(DATA_PARALLEL)
    assert total(reading, "llm_requests_running") == 9
    assert total(reading, "llm_requests_waiting") == 40
    by_engine = {
        s.label("engine"): v for s, v in reading.values.items() if s.metric == "llm_kv_cache_utilization_ratio"
    }
    assert by_engine == {"0": 0.95, "1": 0.12}


def test_ratios_of_engines_are_never_added_even_where_a_table_says_sum() -> None:
    table = replace(VLLM, folds={"engine": Fold.SUM})
    reading = read(DATA_PARALLEL, table)
    assert total(reading, "llm_requests_running") == 9
    assert reading.dropped["ratio_out_of_range"] == 1
    assert total(reading, "llm_kv_cache_utilization_ratio") is None
