from __future__ import annotations

import copy
import json
import math
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
        ({**VLLM, "completed": 5e-324}, "result.json: completed: 5e-324: allowed: 1 or more"),
        ({**VLLM, "max_concurrency": 1e300, "mean_tpot_ms": None}, "max_concurrency: 1e+300: allowed: a number, 0 or"),
        ({**VLLM, "request_throughput": 1e308}, "request_throughput: 1e+308: allowed: a number, 0 or more, at most"),
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


TTFT_OF_GUIDELLM = "metrics.time_to_first_token_ms.successful.percentiles."
E2E_OF_GUIDELLM = "metrics.request_latency.successful.percentiles."


def but(document: Any, path: str, value: float) -> Any:
    """With another value at that place; of several benchmarks the last."""
    changed = copy.deepcopy(document)
    at = changed["benchmarks"][-1] if "benchmarks" in changed else changed
    *way, last = path.split(".")
    for key in way:
        at = at[key]
    at[last] = value
    return changed


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (
            but(VLLM, "p99_ttft_ms", 200.0),
            "p99_ttft_ms: 200.0, which is 0.2 s: allowed: no less than median_ttft_ms, which is 0.35 s",
        ),
        (
            but(VLLM, "p90_itl_ms", 26.0),
            "p99_itl_ms: 25.0, which is 0.025 s: allowed: no less than p90_itl_ms, which is 0.026 s",
        ),
        (
            but(VLLM, "p99_e2el_ms", 900.0),
            "p99_ttft_ms: 1100.0, which is 1.1 s: allowed: no more than p99_e2el_ms, which is 0.9 s",
        ),
        (but(VLLM, "median_itl_ms", -1.0), "median_itl_ms: -1.0: allowed: a number, 0 or more"),
        (but(VLLM, "median_ttft_ms", float("nan")), "median_ttft_ms: nan: allowed: a number, 0 or more"),
        (
            but(GUIDELLM, f"{TTFT_OF_GUIDELLM}p99", 200),
            f"benchmarks[1]: {TTFT_OF_GUIDELLM}p99: 200, which is 0.2 s: "
            f"allowed: no less than {TTFT_OF_GUIDELLM}p50, which is 0.35 s",
        ),
        (
            but(GUIDELLM, f"{E2E_OF_GUIDELLM}p90", 3.6),
            f"benchmarks[1]: {E2E_OF_GUIDELLM}p99: 3.5, which is 3.5 s: "
            f"allowed: no less than {E2E_OF_GUIDELLM}p90, which is 3.6 s",
        ),
        (
            but(GUIDELLM, f"{TTFT_OF_GUIDELLM}p50", 2600),
            f"benchmarks[1]: {TTFT_OF_GUIDELLM}p99: 1100, which is 1.1 s: "
            f"allowed: no less than {TTFT_OF_GUIDELLM}p50, which is 2.6 s",
        ),
        (
            but(GUIDELLM, f"{TTFT_OF_GUIDELLM}p99", 3600),
            f"benchmarks[1]: {TTFT_OF_GUIDELLM}p99: 3600, which is 3.6 s: "
            f"allowed: no more than {E2E_OF_GUIDELLM}p99, which is 3.5 s",
        ),
        (but(GUIDELLM, f"{E2E_OF_GUIDELLM}p50", -2.5), f"benchmarks[1]: {E2E_OF_GUIDELLM}p50: -2.5: allowed: a number"),
        (
            but(AIPERF, "time_to_first_token.p99", 200.0),
            "time_to_first_token.p99: 200.0, which is 0.2 s: "
            "allowed: no less than time_to_first_token.p50, which is 0.35 s",
        ),
        (
            but(AIPERF, "request_latency.p95", 4000.0),
            "request_latency.p99: 3500.0, which is 3.5 s: allowed: no less than request_latency.p95, which is 4 s",
        ),
        (
            but(AIPERF, "time_to_first_token.p99", 3600.0),
            "time_to_first_token.p99: 3600.0, which is 3.6 s: "
            "allowed: no more than request_latency.p99, which is 3.5 s",
        ),
        (but(AIPERF, "request_latency.p50", float("inf")), "request_latency.p50: inf: allowed: a number, 0 or more"),
    ],
)
def test_what_no_load_test_can_measure_is_refused_with_its_place(document: Any, told: str) -> None:
    assert refused(document).startswith(f"result.json: {told}")


@pytest.mark.parametrize("document", [VLLM, GUIDELLM, AIPERF], ids=["vllm", "guidellm", "aiperf"])
def test_whatever_a_file_says_its_runs_have_a_band(document: Any) -> None:
    """A run without one would be in the way of every comparison from then on."""
    as_large_as_can_be = json.loads(json.dumps(document), parse_float=lambda _: 1e15, parse_int=lambda _: int(1e15))
    assert all(math.isfinite(run.band.high) for run in read(as_large_as_can_be))


def test_rounding_is_no_contradiction() -> None:
    """A single token each: the first is the last, and one of the two is rounded to milliseconds."""
    [*_, run] = read(but(but(GUIDELLM, f"{TTFT_OF_GUIDELLM}p99", 3500.4), f"{TTFT_OF_GUIDELLM}p50", 2500.0))
    assert run.measures[Measure.TTFT_P99] == pytest.approx(3.5004)


@pytest.mark.parametrize(
    "document",
    [
        {**AIPERF, "start_time": "0001-01-01T00:00:00+14:00"},
        {**AIPERF, "start_time": "9999-12-31T23:59:59-14:00"},
        {**AIPERF, "start_time": "yesterday"},
        {**VLLM, "date": "yesterday"},
    ],
)
def test_a_moment_that_no_calendar_has_is_not_known(document: Any) -> None:
    assert read(document)[0].at is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1, column 1"),
        ("{\n  'a': 1}", "line 2, column 3"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "too many digits"),
        ('{"a": 1, "a": 1}', "result.json: 'a': stands twice"),
        (f'{json.dumps(VLLM)} {{"a": [{{"b": 1, "b": 1}}]}}', r"result.json: result 2: 'a\[0\].b': stands twice"),
        ('{"a": {"c": 1, "c": 2}, "b": 0, "a": 1}', "result.json: 'a': stands twice"),
        ('{"a": {"b": [{}, {"c": 1, "c": 1}]}}', r"result.json: 'a.b\[1\].c': stands twice"),
    ],
)
def test_what_is_no_json_is_refused_and_where_is_told(text: str, told: str) -> None:
    with pytest.raises(ForeignFile, match=told):
        parse(text, "result.json")


def test_of_a_very_long_value_the_beginning_is_repeated() -> None:
    told = refused({**VLLM, "completed": "x" * 10_000})
    assert f"completed: '{'x' * 79}… (10002 characters): allowed: a number" in told
    assert len(told) < 250


def test_the_second_of_appended_results_is_named_where_it_is_wrong() -> None:
    assert "result.json: result 2: completed: missing" in refused(VLLM, {**VLLM, "completed": None})
