"""The faces of Triton against recorded pages and documents, and against the truth of planned requests."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest

from demo.faces.triton import Triton
from demo.model import Identity, Limits
from exporters.tables.triton import TRITON
from tests.demo.faces import held
from tests.demo.faces.planned import BEFORE, FAILED, MINUTE, Plan, Script, Truth
from tests.demo.faces.watcher import Watcher
from tests.exporters.recorded import CAPTURES

START = 1_796_000_000.0
OLD, NEW = "24.10", "24.11"
LIMITS = Limits(running=8, kv_tokens=96 * 64, block_tokens=64)


class Server:
    """A face, and the engine behind it."""

    def __init__(self, release: str = NEW) -> None:
        self.engine = Script(LIMITS, START)
        self.face = Triton(Identity("Llama-3.1-8B-Instruct", release, START), [self.engine])
        self.engine.observe(self.face.observer(0))
        self.watcher = Watcher(self.face, TRITON)

    def page(self, seconds: float) -> str:
        answer = self.face.answer("/metrics", self.engine.advance(seconds))
        assert (answer.status, answer.content_type) == (200, "text/plain; charset=utf-8")
        return answer.body.decode()

    def statistics(self, seconds: float) -> dict[str, Any]:
        """By model."""
        answer = self.face.answer("/v2/models/stats", self.engine.advance(seconds))
        return {model["name"]: model for model in json.loads(answer.body)["model_stats"]}

    def watch(self, seconds: float) -> Watcher:
        self.watcher.read(self.engine.advance(seconds))
        return self.watcher


def recorded(name: str) -> str:
    return (CAPTURES / "triton" / name).read_text()


LOAD = tuple(Plan(at=1 + number / 10, prompt=320, cached=64, tokens=40) for number in range(10))
MOMENTS = {"fresh": 0.0, "load2": 2.0, "idle": 60.0}


@pytest.mark.parametrize("state", MOMENTS)
def test_the_page_is_the_recorded_one(state: str) -> None:
    server = Server(OLD)
    server.engine.plan(*LOAD, Plan(at=20, reason="error", tokens=0))
    body, theirs = server.page(MOMENTS[state]), recorded(f"24.10/cppnames018-{state}.prom")
    held.held(body, theirs)
    held.consistent(body)
    assert [f.name for f in held.families(body)] == [f.name for f in held.families(theirs)]


def test_lines_are_laid_out_as_triton_does() -> None:
    """Label by label, and bounds last."""
    lines = {re.sub(r" \S+$", "", line) for line in Server(OLD).page(0).splitlines()}
    theirs = {re.sub(r" \S+$", "", line) for line in recorded("24.10/cppnames018-fresh.prom").splitlines()}
    assert lines == theirs


@pytest.mark.parametrize("state", ["fresh", "idle"])
def test_first_responses_are_as_recorded_since_the_release_that_has_them(state: str) -> None:
    server = Server(NEW)
    server.engine.plan(*LOAD)
    body = server.page(MOMENTS[state])
    beside = set(held.shapes(Server(OLD).page(0)))
    known = {f"{name} is not in the recording": "the recording is a part of a page" for name in beside}
    known |= {
        f"nv_model_load_duration_secs{{model={model},version=1}} is not in the recording": "it shows one model alone"
        for model in ("ensemble", "preprocessing", "postprocessing")
    }
    held.held(body, recorded(f"24.11/firstresponse-{state}.prom"), known)
    held.consistent(body)


def shape(value: object) -> object:
    """Keys in their order, and the kinds of values."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return "number" if isinstance(value, int | float) else value


@pytest.mark.parametrize("state", ["fresh", "idle"])
def test_the_statistics_document_is_the_recorded_one(state: str) -> None:
    server = Server(OLD)
    server.engine.plan(*LOAD)
    server.page(MOMENTS[state])
    document = json.loads(server.face.answer("/v2/models/stats", server.engine.start).body)
    theirs = json.loads(recorded(f"24.10/cppnames018-{state}.v2_models_stats.json"))
    assert json.dumps(shape(document)) == json.dumps(shape(theirs))


def test_counters_and_buckets_only_grow() -> None:
    server = Server()
    server.engine.plan(*(Plan(at=number, tokens=30) for number in range(60)))
    bodies = [server.page(seconds) for seconds in (0, 7, 15, 30, 100)]
    for before, after in pairwise(bodies):
        held.grown(before, after)


REQUESTS = (*MINUTE, FAILED)


@pytest.mark.parametrize("release", [OLD, NEW])
def test_a_minute_of_requests_comes_out_of_the_product_as_it_was(release: str) -> None:
    server, truth = Server(release), Truth(REQUESTS)
    server.engine.plan(*BEFORE, *REQUESTS)
    server.engine.reject(43)
    server.watch(11)
    watcher = server.watch(71)
    assert watcher.reading.findings == ()
    assert watcher.reading.unmapped == ()
    assert watcher.reading.dropped == {}
    done = truth.successes
    assert watcher.added("llm_prompt_tokens_total") == truth.prompt_tokens(done) == 640 + 100 + 2000
    assert watcher.added("llm_generation_tokens_total") == truth.tokens(done) == 100 + 40 + 1
    assert watcher.observed("llm_prompt_length_tokens") == (3, 2740)
    assert watcher.observed("llm_generation_length_tokens") == (3, 141)
    assert watcher.added("llm_prefix_cache_hit_tokens_total") == 320
    # The ensemble counts its one failing request twice.
    reasons = {
        reason: watcher.added("llm_requests_finished_total", reason=reason) for reason in ("stop", "abort", "error")
    }
    assert reasons == {"stop": 3, "abort": 1, "error": 2}
    assert watcher.added("llm_requests_rejected_total", reason="rejected") == 1
    first = (4, truth.ttft(truth.started)) if release == NEW else (0, 0)
    assert watcher.observed("llm_time_to_first_token_seconds") == pytest.approx(first)


def test_the_product_knows_version_capacity_and_limit() -> None:
    server = Server()
    server.engine.plan(Plan(at=1))
    watcher = server.watch(2)
    assert watcher.info()["version"] == "2.52.0"
    assert watcher.total("llm_kv_cache_capacity_tokens") == 96 * 64
    assert watcher.total("llm_requests_running_limit") == 8


def test_gauges_stay_as_the_last_iteration_left_them() -> None:
    server = Server()
    server.engine.plan(Plan(at=1, prompt=300, tokens=100), Plan(at=1.5, prompt=100, tokens=200))
    watcher = server.watch(2)
    assert watcher.total("llm_requests_running") == 2
    # 300 and 46, and 100 and 21: 6 and 2 blocks of 64.
    assert watcher.total("llm_kv_cache_utilization_ratio") == 8 / 96
    server.watch(600)
    assert watcher.total("llm_requests_running") == 1
    assert watcher.total("llm_kv_cache_utilization_ratio") == 5 / 96
    assert watcher.total("llm_requests_waiting") == 0


def test_nothing_tells_of_requests_that_wait_in_the_engine() -> None:
    server = Server()
    server.engine.plan(Plan(at=1, tokens=1000), *(Plan(at=2, queue=100) for _ in range(20)))
    watcher = server.watch(10)
    assert (watcher.total("llm_requests_running"), watcher.total("llm_requests_waiting")) == (1, 0)


def test_each_model_counts_in_its_own_way() -> None:
    server = Server()
    server.engine.plan(*LOAD)
    models = server.statistics(60)
    assert {name: model["inference_count"] for name, model in models.items()} == {
        "ensemble": 10, "preprocessing": 10, "tensorrt_llm": 10, "postprocessing": 400,
    }  # fmt: skip
    entry = models["ensemble"]["inference_stats"]
    assert entry["success"]["ns"] == pytest.approx(Truth(LOAD).whole(LOAD) * 1e9)
    parts = sum(entry[phase]["ns"] for phase in ("queue", "compute_input", "compute_infer", "compute_output"))
    assert parts == pytest.approx(entry["success"]["ns"], rel=1e-6)
    microseconds = entry["success"]["ns"] // 1000
    assert f'nv_inference_request_duration_us{{model="ensemble",version="1"}} {microseconds}\n' in server.page(60)


def test_other_paths_are_those_of_triton() -> None:
    face = Server().face
    for path in ("/v2/health/live", "/v2/health/ready"):
        assert (face.answer(path, START).status, face.answer(path, START).body) == (200, b"")
    assert json.loads(face.answer("/v2", START).body)["name"] == "triton"
    for path in ("/metricsx", "/v1/models", "/"):
        assert face.answer(path, START).status == 404


def test_a_release_that_nobody_has_read_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Triton 23\.10 is not known: it is one of 24\.10, 24\.11"):
        Server("23.10")
