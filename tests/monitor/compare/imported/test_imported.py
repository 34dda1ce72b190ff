from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.compare.imported import TOOLS, parse
from monitor.compare.imported.document import ForeignFile
from monitor.compare.imported.run import Run
from monitor.compare.model import Band, Measure
from tests.monitor.compare.imported.results import AIPERF, GUIDELLM, VLLM, benchmark

MODEL = "Qwen/Qwen2.5-7B-Instruct"
ALIKE = {
    Measure.TOKENS: 25 * 768,
    Measure.OUTPUT_TOKENS: 25 * 256,
    Measure.REQUESTS: 25,
    Measure.TTFT_P50: 0.35,
    Measure.TTFT_P99: 1.1,
}
"""What all three tools say of the same test: 64 at once, 25 requests/s of 512 and 256 tokens."""


def read(*documents: Any, between: str = "") -> list[Run]:
    return parse(between.join(map(json.dumps, documents)), "result.json")


def refused(*documents: Any) -> str:
    with pytest.raises(ForeignFile) as error:
        read(*documents)
    return str(error.value)


@pytest.mark.parametrize("document", [VLLM, GUIDELLM, AIPERF], ids=["vllm", "guidellm", "aiperf"])
def test_the_same_load_test_reads_the_same_by_each_tool(document: Any) -> None:
    run = read(document)[-1]
    assert run.tool in TOOLS
    assert {measure: run.measures[measure] for measure in ALIKE} == pytest.approx(ALIKE)
    assert (run.workload.prompt_tokens, run.workload.generation_tokens) == (512, 256)
    assert (run.model, run.band) == (MODEL, Band(64))


def test_concurrency_is_requests_per_second_times_their_mean_duration() -> None:
    assert read(VLLM)[0].concurrency == pytest.approx(25 * (0.4 + 255 * 0.008))
    assert read({**VLLM, "mean_e2el_ms": 2560.0})[0].concurrency == pytest.approx(64)
    assert read(GUIDELLM)[0].concurrency == pytest.approx(16)
    assert read(AIPERF)[0].concurrency == pytest.approx(64)


def test_without_durations_concurrency_is_as_the_test_was_told() -> None:
    untimed = {name: value for name, value in VLLM.items() if "tpot" not in name}
    assert read(untimed)[0].concurrency == 64
    assert "at once" in refused({**untimed, "max_concurrency": None})


def test_percentiles_of_whole_requests_are_known_where_they_were_asked_for() -> None:
    assert Measure.E2E_P99 not in read(VLLM)[0].measures
    told = read({**VLLM, "p99_e2el_ms": 3500.0})[0].measures
    assert told[Measure.E2E_P99] == pytest.approx(3.5)
    assert read(GUIDELLM)[0].measures[Measure.E2E_P99] == pytest.approx(3.5)
    assert read(AIPERF)[0].measures[Measure.E2E_P99] == pytest.approx(3.5)


def test_means_of_a_request_are_not_taken_for_times_between_tokens() -> None:
    assert read(VLLM)[0].measures[Measure.ITL_P99] == pytest.approx(0.025)
    for document in (GUIDELLM, AIPERF):
        assert Measure.ITL_P99 not in read(document)[0].measures


def test_each_benchmark_of_guidellm_is_a_run() -> None:
    assert [run.band for run in read(GUIDELLM)] == [Band(16), Band(64)]


def test_a_benchmark_that_completed_nothing_is_no_run() -> None:
    empty = benchmark(16, 10)
    empty["metrics"]["request_totals"]["successful"] = 0
    assert len(read({"benchmarks": [empty, benchmark(64, 25)]})) == 1
    assert "no run in it that completed a request" in refused({"benchmarks": [empty]})
    assert "completed: 0" in refused({**VLLM, "completed": 0})


@pytest.mark.parametrize("between", ["", "\n", "\n\n  "])
def test_appended_results_of_vllm_are_runs_after_each_other(between: str) -> None:
    assert [run.concurrency for run in read(VLLM, {**VLLM, "mean_e2el_ms": 2560.0}, between=between)] == [
        pytest.approx(61), pytest.approx(64),
    ]  # fmt: skip


def test_when_a_run_began_is_known() -> None:
    assert read(AIPERF)[0].at == 1_796_030_100
    assert read(GUIDELLM)[0].at == 1_796_083_200.5
    assert read(VLLM)[0].at is not None
    assert read({**VLLM, "date": "yesterday"})[0].at is None


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ([], "result.json: allowed: the result of a load test as JSON"),
        ({"name": "x"}, "`benchmarks` (guidellm)"),
        ("text", "result.json: allowed: the result of a load test as JSON"),
        ({**VLLM, "output_throughput": "fast"}, "result.json: output_throughput: 'fast': allowed: a number, 0 or more"),
        ({**VLLM, "p99_ttft_ms": -1}, "result.json: p99_ttft_ms: -1: allowed: a number, 0 or more"),
        ({**VLLM, "p99_ttft_ms": float("nan")}, "result.json: p99_ttft_ms: nan: allowed: a number, 0 or more"),
        ({**VLLM, "completed": 10**400}, "result.json: completed: 1000"),
        ({**VLLM, "completed": True}, "result.json: completed: True: allowed: a number, 0 or more"),
        ({**VLLM, "total_output_tokens": None}, "result.json: total_output_tokens: missing"),
        ({"benchmarks": 7}, "result.json: benchmarks: 7: allowed: a list"),
        ({"benchmarks": [7]}, "result.json: benchmarks[0]: metrics.request_totals.successful: missing"),
        (
            {**AIPERF, "request_latency": {"unit": "weeks", "avg": 1}},
            "result.json: request_latency.unit: 'weeks': allowed: ns, us, ms, s, sec, seconds",
        ),
    ],
)
def test_what_is_no_result_is_refused_with_its_place(document: Any, told: str) -> None:
    assert told in refused(document)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1, column 1"),
        ("{\n  'a': 1}", "line 2, column 3"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "too many digits"),
    ],
)
def test_what_is_no_json_is_refused_and_where_is_told(text: str, told: str) -> None:
    with pytest.raises(ForeignFile, match=told):
        parse(text, "result.json")


def test_the_second_of_appended_results_is_named_where_it_is_wrong() -> None:
    assert "result.json: result 2: completed: missing" in refused(VLLM, {**VLLM, "completed": None})
