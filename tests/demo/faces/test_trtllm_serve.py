"""The faces of trtllm-serve against recorded pages and records, and against the truth of planned requests."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from demo.faces.trtllm_serve import TrtllmServe
from demo.model import Identity, Limits, Steps
from exporters.tables.trtllm_serve import TRTLLM_SERVE
from tests.demo.faces import held
from tests.demo.faces.planned import BEFORE, MINUTE, Plan, Script, Truth
from tests.demo.faces.watcher import Watcher
from tests.exporters.recorded import CAPTURES

START = 1_796_000_000.0
OLD, NEW = "1.2.1", "1.3.0"
RECORDED = {OLD: "1.1-1.2", NEW: "main2026"}
LIMITS = Limits(running=16, kv_tokens=512 * 32, block_tokens=32, context_tokens=8192)
MODEL = "Llama-3.1-8B-Instruct"


class Server:
    """A face, and the engine behind it."""

    def __init__(self, release: str = NEW, limits: Limits = LIMITS) -> None:
        self.engine = Script(limits, START)
        self.face = TrtllmServe(Identity(MODEL, release, START, tensor_parallel=2, pid=4242), [self.engine])
        self.engine.observe(self.face.observer(0))
        self.watcher = Watcher(self.face, TRTLLM_SERVE)

    def page(self, seconds: float) -> str:
        answer = self.face.answer("/prometheus/metrics", self.engine.advance(seconds))
        assert (answer.status, answer.content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
        return answer.body.decode()

    def records(self, seconds: float) -> list[dict[str, Any]]:
        answer = self.face.answer("/metrics", self.engine.advance(seconds))
        assert answer.content_type == "application/json"
        found: list[dict[str, Any]] = json.loads(answer.body)
        return found

    def watch(self, seconds: float) -> Watcher:
        self.watcher.read(self.engine.advance(seconds))
        return self.watcher


def recorded(release: str, name: str) -> str:
    return (CAPTURES / "trtllm_serve" / RECORDED[release] / name).read_text()


NO_SPECULATION = "the simulated engines do not speculate"
WITHOUT = {
    f"trtllm_{name} is missing": NO_SPECULATION
    for name in (
        "spec_decode_acceptance_length", "spec_decode_draft_overhead", "spec_decode_num_draft_tokens",
        "spec_decode_num_accepted_tokens", "spec_decode_drafted_tokens", "spec_decode_accepted_tokens",
        "speculative_config_info",
    )
}  # fmt: skip
WITHOUT_AT_START = {"trtllm_speculative_config_info is missing": NO_SPECULATION}
MIXED = (
    Plan(at=1, prompt=400, cached=256, tokens=30),
    Plan(at=1.2, prompt=100, tokens=1, reason="stop"),
    Plan(at=1.3, prompt=500, tokens=20, queue=0.4, reason="stop"),
    Plan(at=1.4, prompt=90, tokens=5, reason="abort"),
)


def test_a_fresh_page_of_the_old_release_is_empty() -> None:
    assert Server(OLD).page(0) == recorded(OLD, "page-fresh.prom") == ""


@pytest.mark.parametrize("state", ["load2", "idle"])
def test_the_page_of_the_old_release_is_the_recorded_one(state: str) -> None:
    server = Server(OLD)
    server.engine.plan(*MIXED)
    body = server.page(2.5 if state == "load2" else 100)
    held.held(body, recorded(OLD, f"page-{state}.prom"))
    held.consistent(body)
    assert [f.name for f in held.families(body)] == [f.name for f in held.families(recorded(OLD, f"page-{state}.prom"))]


def test_a_fresh_page_of_the_new_release_tells_of_the_configuration() -> None:
    held.held(Server(NEW).page(0), recorded(NEW, "page-fresh.prom"), WITHOUT_AT_START, free=CONFIGURED)


CONFIGURED = held.FREE | {"model", "served_model_name", "dtype", "max_model_len"}


@pytest.mark.parametrize("state", ["load2", "idle"])
def test_the_page_of_the_new_release_is_the_recorded_one(state: str) -> None:
    server = Server(NEW)
    server.engine.plan(*MIXED, Plan(at=2, tokens=0, reason="error"))
    body = server.page(1.99 if state == "load2" else 100)
    known = dict(WITHOUT)
    if state == "idle":
        code = "trtllm_request_error_total{engine_type=pytorch,http_code=%s,model_name}"
        known |= {
            code % "500" + " is not in the recording": "what fails here is the engine",
            code % "400" + " is missing": "nobody asks for what cannot be understood",
        }
    held.held(body, recorded(NEW, f"page-{state}.prom"), known, free=CONFIGURED)
    held.consistent(body)
    order = [f.name for f in held.families(recorded(NEW, f"page-{state}.prom")) if "spec" not in f.name]
    assert [f.name for f in held.families(body)] == order


@pytest.mark.parametrize("release", [OLD, NEW])
def test_counters_and_buckets_only_grow(release: str) -> None:
    server = Server(release)
    server.engine.plan(*(Plan(at=number, tokens=30) for number in range(60)))
    bodies = [server.page(seconds) for seconds in (0, 7, 15, 30, 100)]
    for before, after in pairwise(bodies):
        held.grown(before, after)


def shape(record: object) -> object:
    """Keys in their order, and the kinds of values."""
    if isinstance(record, dict):
        return {key: shape(value) for key, value in record.items()}
    return "number" if isinstance(record, int | float) else type(record).__name__


@pytest.mark.parametrize("release", [OLD, NEW])
def test_records_of_iterations_have_the_keys_and_kinds_of_recorded_ones(release: str) -> None:
    server = Server(release)
    server.engine.plan(*MIXED)
    records = server.records(100)
    theirs = json.loads(recorded(release, "statistics-load2.json"))[0]
    theirs["specDecodingStats"] = None  # the simulated engines do not speculate
    assert list(records[0]) == list(theirs)
    assert {json.dumps(shape(record)) for record in records} == {json.dumps(shape(theirs))}


@pytest.mark.parametrize("release", [OLD, NEW])
def test_records_are_gone_once_they_are_read(release: str) -> None:
    server = Server(release)
    assert server.records(0) == []
    server.engine.plan(Plan(at=1, tokens=50))
    assert len(server.records(10)) == 50
    assert server.records(10) == server.records(100) == []


def test_iterations_are_told_at_once_by_the_old_release_and_with_the_next_finish_by_the_new_one() -> None:
    plans = (Plan(at=1, tokens=50), Plan(at=1, tokens=200))
    found = {}
    for release in (OLD, NEW):
        server = Server(release)
        server.engine.plan(*plans)
        found[release] = [len(server.records(second)) for second in (1.5, 3, 10)]
    # Until 1.5 each has had its first token and 20 more, until 3 the second had 96. The first ends with its 50th, just
    # before the second has its own.
    assert found == {OLD: [42, 104, 104], NEW: [0, 99, 151]}


def test_only_the_last_thousand_iterations_are_kept() -> None:
    server = Server(OLD)
    server.engine.plan(Plan(at=1, tokens=1500))
    records = server.records(100)
    assert [record["iter"] for record in records] == list(range(501, 1501))


def test_a_long_stride_of_an_engine_is_as_many_records() -> None:
    server = Server(OLD)
    observer = server.face.observer(0)
    observer.stepped(Steps(600, 0.02, 3, 0, 1800), START + 12)
    observer.stepped(Steps(600, 0.02, 4, 0, 2400), START + 24)
    records = server.records(24)
    assert [record["iter"] for record in records] == list(range(201, 1201))
    generated = [record["inflightBatchingStats"]["numGenRequests"] for record in records]
    assert generated == [3] * 400 + [4] * 600
    assert records[0]["timestamp"] < records[-1]["timestamp"]
    assert [record["iterLatencyMS"] for record in records] == pytest.approx([20.0] * 1000)


@pytest.mark.parametrize("release", [OLD, NEW])
def test_a_minute_of_requests_comes_out_of_the_product_as_it_was(release: str) -> None:
    server, truth = Server(release), Truth(MINUTE)
    server.engine.plan(*BEFORE, *MINUTE)
    server.watch(0)
    server.watch(11)
    watcher = server.watch(71)
    assert watcher.reading.findings == ()
    assert watcher.reading.unmapped == ()
    assert watcher.reading.dropped == {}
    assert watcher.added("llm_generation_tokens_total") == 100 + 40 + 1 + 7
    assert watcher.added("llm_prompt_tokens_total") == 640 + 100 + 2000 + 300
    finished = {reason: watcher.added("llm_requests_finished_total", reason=reason) for reason in ("length", "stop")}
    assert finished == {"length": 2, "stop": 1}
    assert watcher.total("llm_requests_finished_total", reason="abort") == 1
    assert watcher.observed("llm_time_to_first_token_seconds") == pytest.approx((4, truth.ttft(MINUTE)))
    assert watcher.observed("llm_request_duration_seconds") == pytest.approx((4, truth.whole(MINUTE)))
    assert watcher.observed("llm_time_per_output_token_seconds") == pytest.approx((3, 3 * 0.02))
    assert watcher.added("llm_prefix_cache_hit_tokens_total") == 320
    # What did not wait is left out before March 2026.
    assert watcher.observed("llm_queue_time_seconds") == pytest.approx((1 if release == OLD else 4, 0.5))


def test_the_new_release_counts_errors_and_refusals_and_tells_its_configuration() -> None:
    server = Server()
    server.engine.plan(*BEFORE, Plan(at=5, tokens=0, reason="error"))
    server.engine.reject(6)
    watcher = server.watch(10)
    assert watcher.total("llm_requests_finished_total", reason="error") == 1
    assert watcher.total("llm_requests_rejected_total", reason="http_429") == 1
    info = watcher.info()
    told = {name: info[name] for name in ("model", "version", "tp", "max_model_len", "prefix_caching")}
    assert told == {"model": MODEL, "version": NEW, "tp": "2", "max_model_len": "8192", "prefix_caching": "true"}


def test_the_old_release_tells_its_model_and_version_in_documents() -> None:
    watcher = Server(OLD).watch(0)
    info = watcher.info()
    assert (info["model"], info["version"]) == (MODEL, OLD)


def test_gauges_of_the_old_release_come_from_its_records_and_fall_to_nothing() -> None:
    server = Server(OLD)
    server.engine.plan(Plan(at=1, prompt=320, tokens=200), Plan(at=1, prompt=100, queue=50))
    watcher = server.watch(2)
    assert (watcher.total("llm_requests_running"), watcher.total("llm_requests_waiting")) == (1, 1)
    # 320 of the prompt and 46 since then, in blocks of 32 out of 512.
    assert watcher.total("llm_kv_cache_utilization_ratio") == 12 / 512
    assert watcher.total("llm_kv_cache_capacity_tokens") == 512 * 32
    assert watcher.total("llm_requests_running_limit") == 16
    server.watch(100)
    assert watcher.total("llm_requests_running") == 1
    server.watch(160)
    assert (watcher.total("llm_requests_running"), watcher.total("llm_requests_waiting")) == (0, 0)


def test_gauges_of_the_new_release_stand_still_until_a_request_finishes_and_never_fall_to_nothing() -> None:
    server = Server()
    server.engine.plan(Plan(at=1, tokens=10), *(Plan(at=5, tokens=200) for _ in range(8)))
    seen = [held.value(server.page(second), "trtllm_num_requests_running") for second in (2, 6, 8, 600)]
    # Eight run from 5 to 9.08 and nobody is told; they finish in the same moment, one after the other.
    assert seen == [1, 1, 1, 1]
    assert held.value(server.page(600), "trtllm_kv_cache_used_blocks") > 0


def test_prefix_hits_are_counted_in_blocks_too() -> None:
    server = Server()
    server.engine.plan(Plan(at=1, prompt=320, cached=128), Plan(at=2, prompt=320, cached=160))
    body = server.page(10)
    assert held.value(body, "trtllm_kv_cache_reused_blocks_total") == 4 + 5
    assert held.value(body, "trtllm_kv_cache_missed_blocks_total") == 6 + 5
    assert held.value(body, "trtllm_kv_cache_hit_rate") == 9 / 20
    assert held.value(body, "trtllm_prompt_cached_tokens_total") == 288


def test_other_documents_are_those_of_the_release() -> None:
    face = Server().face
    assert (face.answer("/health", START).status, face.answer("/health", START).body) == (200, b"")
    assert json.loads(face.answer("/version", START).body) == {"version": NEW}
    assert json.loads(face.answer("/perf_metrics", START).body) == []
    assert face.answer("/prometheus", START).status == face.answer("/health_generate", START).status == 404


def test_a_release_that_nobody_has_read_is_refused() -> None:
    with pytest.raises(ValueError, match=r"trtllm-serve 0\.20\.0 is not known: it is one of 1\.2\.1, 1\.3\.0"):
        Server("0.20.0")
