"""NIM's names. No page was recorded: this one is made by hand, with the names, labels and bounds of published ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporters import detect, schema
from exporters.documents import keep
from exporters.histogram import Histogram, quantile
from exporters.normalise import Normaliser, Reading
from exporters.schema import METRICS, PHASES
from exporters.tables import FRONTENDS
from exporters.tables.nim import NIM as TABLE
from exporters.tables.trtllm_serve import TRTLLM_SERVE
from tests.exporters.recorded import CAPTURES, IDENTITY, count, total


def capture(name: str) -> Path:
    return CAPTURES / "nim" / "1.x" / name


MODEL = "meta/llama-3.1-8b-instruct"
LABEL = f'model_name="{MODEL}"'
TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
PER_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
E2E = (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)
LENGTH = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)

# Four requests, as their clients would have seen them.
FIRST_TOKEN_SECONDS = (0.03, 0.07, 0.3, 12.0)
DURATION_SECONDS = (0.4, 3.0, 8.0, 70.0)
PROMPT_TOKENS = (12, 40, 150, 1800)
GENERATED_TOKENS = (16, 120, 300, 4)
GAP_SECONDS = (0.02,) * (sum(GENERATED_TOKENS) - 4)


def histogram(name: str, bounds: tuple[float, ...], seen: tuple[float, ...]) -> str:
    below = [(str(b), sum(v <= b for v in seen)) for b in bounds]
    buckets = "".join(f'{name}_bucket{{le="{b}",{LABEL}}} {n}.0\n' for b, n in (*below, ("+Inf", len(seen))))
    return (
        f"# TYPE {name} histogram\n{buckets}{name}_count{{{LABEL}}} {len(seen)}.0\n{name}_sum{{{LABEL}}} {sum(seen)}\n"
    )


def number(name: str, value: float, labels: str = LABEL, kind: str = "gauge") -> str:
    return f"# TYPE {name} {kind}\n{name}{{{labels}}} {value}\n"


GAUGES = "".join(
    number(name, value)
    for name, value in (
        ("num_requests_running", 3.0), ("num_requests_waiting", 2.0), ("num_request_max", 64.0),
        ("gpu_cache_usage_perc", 0.25),
    )
)  # fmt: skip
PROCESS = """\
# TYPE python_info gauge
python_info{implementation="CPython",major="3",minor="10",patchlevel="12",version="3.10.12"} 1.0
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7303128549e+09
"""
TOKENS = number("prompt_tokens_total", sum(PROMPT_TOKENS), kind="counter") + number(
    "generation_tokens_total", sum(GENERATED_TOKENS), kind="counter"
)
LATENCIES = (
    histogram("time_to_first_token_seconds", TTFT, FIRST_TOKEN_SECONDS)
    + histogram("time_per_output_token_seconds", PER_TOKEN, GAP_SECONDS)
    + histogram("e2e_request_latency_seconds", E2E, DURATION_SECONDS)
    + histogram("request_prompt_tokens", LENGTH, PROMPT_TOKENS)
    + histogram("request_generation_tokens", LENGTH, GENERATED_TOKENS)
)
FINISHED = number("request_finish_total", 3.0, f'finished_reason="length",{LABEL}', "counter") + (
    f'request_finish_total{{finished_reason="stop",{LABEL}}} 1.0\n'
)
OUTCOMES = number("request_success_total", 4.0, kind="counter") + number("request_failure_total", 0.0, kind="counter")
PAGE = PROCESS + GAUGES + TOKENS + LATENCIES + FINISHED + OUTCOMES
MODELS = {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "system"}]}


def read(text: str) -> Reading:
    parsed = {"models": MODELS, "version": {"release": "1.3.0", "api": "1.0"}}
    beside = {name: keep(TABLE, name, value) for name, value in parsed.items()}
    return Normaliser(TABLE, IDENTITY).normalise(text, beside)


def finished(reading: Reading) -> dict[str, float]:
    found = {s.label("reason"): v for s, v in reading.values.items() if s.metric == "llm_requests_finished_total"}
    return {reason: value for reason, value in found.items() if value}


def test_the_table_says_where_every_server_metric_comes_from_or_why_not() -> None:
    own = ("llm_latency_", "llm_length_", "llm_server_")
    engine = [m.name for m in schema.of_prefix("llm_") if m.scope is schema.Scope.ENGINE]
    assert [f.metric for f in TABLE.fields] == [name for name in engine if not name.startswith(own)]


def test_the_page_is_read_whole() -> None:
    reading = read(PAGE)
    assert reading.available
    assert reading.unmapped == ()
    assert reading.dropped == {}
    assert reading.findings == ()
    assert {s.metric for s in reading.values} | {s.metric for s in reading.histograms} <= METRICS.keys()
    assert {s.label("model") for s in reading.values} == {MODEL}


def test_values_are_those_that_the_page_was_made_of() -> None:
    reading = read(PAGE)
    assert total(reading, "llm_kv_cache_utilization_ratio") == 0.25
    assert total(reading, "llm_requests_running") == 3
    assert total(reading, "llm_requests_waiting") == 2
    assert total(reading, "llm_requests_running_limit") == 64
    assert total(reading, "llm_prompt_tokens_total") == sum(PROMPT_TOKENS)
    assert total(reading, "llm_generation_tokens_total") == sum(GENERATED_TOKENS)
    assert finished(reading) == {"length": 3, "stop": 1}
    assert reading.start_time == 1.7303128549e9
    info = next(s for s in reading.values if s.metric == "llm_server_info")
    assert (info.label("version"), info.label("frontend"), info.label("framework")) == ("1.3.0", "nim", "tensorrt_llm")


def test_what_it_calls_time_per_output_token_is_the_gap_between_tokens() -> None:
    reading = read(PAGE)
    assert count(reading, "llm_inter_token_latency_seconds") == sum(GENERATED_TOKENS) - 4
    assert count(reading, "llm_time_per_output_token_seconds") is None


@pytest.mark.parametrize(
    ("phase", "seen"), [("ttft", FIRST_TOKEN_SECONDS), ("itl", GAP_SECONDS), ("e2e", DURATION_SECONDS)]
)
def test_percentiles_lie_inside_the_bounds_and_beyond_the_last_read_at_least(
    phase: str, seen: tuple[float, ...]
) -> None:
    found = [h for s, h in read(PAGE).histograms.items() if s.metric == PHASES[phase].metric]
    middle, last = (quantile(found, q, PHASES[phase].grid) for q in (0.5, 1.0))
    assert middle is not None
    assert last is not None
    assert middle.lower <= sorted(seen)[len(seen) // 2 - 1] <= middle.upper
    assert last.lower <= max(seen) <= last.upper
    assert last.at_least == (max(seen) > found[0].bounds[-1])
    assert set(found[0].bounds) <= set(PHASES[phase].grid)


def test_the_first_release_told_reasons_under_another_name() -> None:
    success = "".join(
        f'request_success_total{{finished_reason="{reason}",{LABEL}}} {value}\n'
        for reason, value in (("stop", 5), ("length", 2), ("cancelled", 1), ("content_filter", 1))
    )
    assert finished(read(GAUGES + success)) == {"stop": 5, "length": 2, "abort": 1, "unknown": 1}


def test_without_reasons_successes_are_stops_and_failures_are_errors() -> None:
    outcomes = number("request_success_total", 7, kind="counter") + number("request_failure_total", 2, kind="counter")
    reading = read(GAUGES + outcomes)
    assert finished(reading) == {"stop": 7, "error": 2}
    status = next(f for f in reading.fields if f.field == "llm_requests_finished_total")
    assert status.quality == "approximate"


def test_a_fresh_page_declares_its_families_and_has_no_load() -> None:
    declared = "".join(line + "\n" for line in (GAUGES + TOKENS + FINISHED).splitlines() if line.startswith("#"))
    reading = read(PROCESS + declared)
    assert reading.available
    assert [f.reason for f in reading.findings] == ["no_requests_yet"]
    assert total(reading, "llm_requests_running") is None
    assert total(reading, "llm_generation_tokens_total") == 0


def test_it_is_told_apart_from_the_bare_names_of_trtllm_serve() -> None:
    assert detect.detect(PAGE).frontend is TABLE
    bare = (CAPTURES / "trtllm_serve" / "1.1-1.2" / "page-load2.prom").read_text()
    assert detect.detect(bare).frontend is TRTLLM_SERVE
    # Even where only the shared names are there, nothing of NIM's is taken for trtllm-serve.
    assert detect.detect(LATENCIES.partition("# TYPE request_prompt_tokens")[0]).frontend is None
    # NIM 2.x passes vLLM's names on, its own limit beside them.
    names = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "prompt_tokens_total")
    vllm = "".join(f'vllm:{n}{{engine="0",{LABEL}}} 1.0\n' for n in names)
    page = number("num_request_max", 1024.0) + FINISHED + vllm
    assert detect.detect(page).frontend is FRONTENDS["vllm"]
    assert Normaliser(FRONTENDS["vllm"], IDENTITY).normalise(page).unmapped == ()


def test_bounds_that_end_at_ten_seconds_count_what_lies_beyond() -> None:
    (first,) = [h for s, h in read(PAGE).histograms.items() if s.metric == "llm_time_to_first_token_seconds"]
    below = [float(sum(v <= b for v in FIRST_TOKEN_SECONDS)) for b in TTFT]
    assert first == Histogram(TTFT, (*below, 4.0), 12.4)
    assert first.overflow == 1


def test_the_page_beside_the_recorded_ones_is_this_one(update_goldens: bool) -> None:
    if update_goldens:
        capture("made_by_hand.prom").write_text(PAGE)
    assert capture("made_by_hand.prom").read_text() == PAGE
