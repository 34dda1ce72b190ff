"""LMDeploy's faces against recorded pages, and against the truth of planned requests by way of the product."""

from __future__ import annotations

import json
from itertools import pairwise
from math import inf

import pytest

from demo.faces.lmdeploy import Lmdeploy
from demo.model import Identity, Limits
from exporters.tables.lmdeploy import LMDEPLOY
from tests.demo.faces import held
from tests.demo.faces.planned import BEFORE, FAILED, MINUTE, Plan, Script, Truth
from tests.demo.faces.watcher import Watcher
from tests.exporters.recorded import CAPTURES

START = 1_796_000_000.0
OLD, NEW = "0.9.2", "0.18.0"
LIMITS = Limits(running=4, kv_tokens=25_600, block_tokens=64, context_tokens=32_768)
FREE = held.FREE | {"implementation", "major", "minor", "patchlevel", "version"}


class Server:
    """A face, and the engine behind it."""

    def __init__(self, release: str = NEW, limits: Limits = LIMITS, adapters: tuple[str, ...] = ()) -> None:
        self.engine = Script(limits, START)
        identity = Identity("Qwen2.5-7B-Instruct", release, START, tensor_parallel=2, adapters=adapters)
        self.face = Lmdeploy(identity, [self.engine])
        self.engine.observe(self.face.observer(0))
        self.watcher = Watcher(self.face, LMDEPLOY)

    def page(self, seconds: float) -> str:
        answer = self.face.answer("/metrics", self.engine.advance(seconds))
        assert (answer.status, answer.content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
        return answer.body.decode()

    def watch(self, seconds: float) -> Watcher:
        self.watcher.read(self.engine.advance(seconds))
        return self.watcher

    def gauge(self, seconds: float, name: str) -> float:
        return held.value(self.page(seconds), f"lmdeploy:{name}")


def recorded(name: str) -> str:
    return (CAPTURES / "lmdeploy" / name).read_text()


@pytest.mark.parametrize("release", [OLD, NEW])
def test_the_page_is_that_of_the_release_before_during_and_after_load(release: str) -> None:
    server = Server(release)
    server.engine.plan(*(Plan(at=1 + number / 10, cached=64) for number in range(20)))
    for state, seconds in (("fresh", 0.5), ("mid-2", 2.0), ("idle", 120.0)):
        body = server.page(seconds)
        held.held(body, recorded(f"{release}/{state}.prom"), free=FREE)
        held.consistent(body)
        # The order of families, too.
        assert [f.name for f in held.families(body)] == [
            f.name for f in held.families(recorded(f"{release}/fresh.prom"))
        ]


def test_bounds_of_lengths_end_with_the_session() -> None:
    body = Server(NEW, Limits(context_tokens=8192, block_tokens=64)).page(0)
    (family,) = (f for f in held.families(body) if f.name == "lmdeploy:request_prompt_tokens")
    bounds = [float(s.labels["le"]) for s in family.samples if "le" in s.labels]
    assert bounds == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, inf]


@pytest.mark.parametrize("release", [OLD, NEW])
def test_counters_and_buckets_only_grow(release: str) -> None:
    server = Server(release)
    server.engine.plan(*(Plan(at=number, tokens=30) for number in range(60)))
    bodies = [server.page(seconds) for seconds in (0, 7, 15, 30, 100)]
    for before, after in pairwise(bodies):
        held.grown(before, after)


REQUESTS = (*MINUTE, FAILED)


@pytest.mark.parametrize("release", [OLD, NEW])
def test_a_minute_of_requests_comes_out_of_the_product_as_it_was(release: str) -> None:
    server, truth = Server(release), Truth(REQUESTS)
    server.engine.plan(*BEFORE, *REQUESTS)
    server.watch(11)
    watcher = server.watch(71)
    assert watcher.reading.findings == ()
    assert watcher.reading.unmapped == ()
    assert watcher.reading.dropped == {}
    assert watcher.added("llm_prompt_tokens_total") == 640 + 100 + 2000 + 300
    assert watcher.added("llm_generation_tokens_total") == 100 + 40 + 1 + 7
    assert watcher.added("llm_requests_finished_total", reason="stop") == 3
    assert watcher.observed("llm_time_to_first_token_seconds") == pytest.approx((4, truth.ttft(truth.started)))
    assert watcher.observed("llm_request_duration_seconds") == pytest.approx((3, truth.whole(truth.successes)))
    assert watcher.observed("llm_queue_time_seconds") == pytest.approx((3, 0.5))
    assert watcher.observed("llm_prefill_time_seconds") == pytest.approx((3, 0.25 + 0.1 + 0.8))
    assert watcher.observed("llm_decode_time_seconds") == pytest.approx((3, 99 * 0.02 + 39 * 0.02))
    assert watcher.observed("llm_inter_token_latency_seconds") == pytest.approx((99 + 39 + 6, (99 + 39 + 6) * 0.02))
    assert watcher.observed("llm_prompt_length_tokens") == (3, 640 + 100 + 2000)
    assert watcher.observed("llm_generation_length_tokens") == (3, 100 + 40 + 1)


def test_failures_and_prefix_hits_are_told_since_the_releases_that_have_them() -> None:
    told: dict[str, tuple[float | None, float | None]] = {}
    for release in (OLD, NEW):
        server = Server(release)
        server.engine.plan(*BEFORE, *REQUESTS)
        server.engine.reject(43)
        server.watch(11)
        watcher = server.watch(71)
        told[release] = (
            watcher.total("llm_requests_finished_total", reason="unknown"),
            watcher.total("llm_prefix_cache_hit_tokens_total"),
        )
    # An abort, an error and a refusal; hits of those that succeeded.
    assert told == {OLD: (None, None), NEW: (3, 64 + 320)}


def test_time_to_first_token_starts_when_the_api_process_lets_a_request_in() -> None:
    """There are four handles: the fifth request gets that of the first one, 2.1 s after it came."""
    server = Server()
    server.engine.plan(*(Plan(at=10, prefill=0.1, gap=0.2, tokens=11) for _ in range(4)))
    server.engine.plan(Plan(at=10, queue=2.1, prefill=0.1, tokens=1))
    server.watch(5)
    watcher = server.watch(25)
    assert watcher.observed("llm_time_to_first_token_seconds") == pytest.approx((5, 5 * 0.1))
    assert watcher.observed("llm_queue_time_seconds") == pytest.approx((5, 0.0))
    # What the clients saw is not on the page: the fifth waited 2.2 s.


def test_who_overtakes_in_the_queue_gets_the_handle_of_the_overtaken() -> None:
    server = Server(NEW, Limits(running=1, kv_tokens=25_600, block_tokens=64))
    server.engine.plan(Plan(at=1, queue=3, prefill=0.5, tokens=1), Plan(at=2, queue=0, prefill=1, tokens=1))
    server.watch(0.5)
    watcher = server.watch(10)
    # The second waited for nothing and took 1 s from the first one's handle at 1 to its own end at 3; the first then
    # got the handle at 3 and waited one second more.
    assert watcher.observed("llm_queue_time_seconds") == pytest.approx((2, (2 - 1) + (4 - 3)))
    assert watcher.observed("llm_request_duration_seconds") == pytest.approx((2, (3 - 1) + (4.5 - 3)))


def test_requests_beyond_the_handles_wait_in_the_api_process() -> None:
    server = Server()
    server.engine.plan(*(Plan(at=1, tokens=1000) for _ in range(3)), *(Plan(at=2, queue=100) for _ in range(6)))
    body = server.page(10)
    assert held.value(body, "lmdeploy:num_requests_running") == 3
    assert held.value(body, "lmdeploy:num_requests_waiting") == 1
    assert held.value(body, "lmdeploy:num_api_requests_routed") == 4
    assert held.value(body, "lmdeploy:num_api_requests_waiting") == 5
    watcher = server.watch(10)
    assert (watcher.total("llm_requests_waiting"), watcher.total("llm_requests_waiting_api")) == (6, 5)


def test_new_gauges_are_set_every_ten_seconds_and_are_right_after_idle() -> None:
    server = Server()
    server.engine.plan(Plan(at=8, tokens=400), Plan(at=13, tokens=400))
    assert [server.gauge(second, "num_requests_running") for second in (9.9, 10, 12, 14, 19.9)] == [0, 1, 1, 1, 1]
    assert [server.gauge(second, "num_requests_running") for second in (20.1, 25, 30)] == [1, 1, 0]
    assert server.gauge(30, "num_requests_succeeded") == 2
    server.engine.plan(Plan(at=55, tokens=400))
    assert [server.gauge(second, "num_requests_running") for second in (56, 60)] == [0, 1]
    assert server.gauge(60, "gpu_cache_usage_perc") == pytest.approx((-(-(100 + 246) // 64) * 64) / 25_600)
    assert server.gauge(90, "gpu_cache_usage_perc") == 0


def test_old_gauges_are_live_and_stay_behind_when_the_server_falls_idle() -> None:
    server = Server(OLD)
    server.engine.plan(Plan(at=1, tokens=100), Plan(at=1.5, tokens=400))
    assert server.gauge(2, "num_requests_running") == 2
    assert server.gauge(5, "num_requests_running") == 1
    body = server.page(600)
    assert held.value(body, "lmdeploy:num_requests_running") == 0
    assert held.value(body, "lmdeploy:num_requests_finished") == 1
    assert held.value(body, "lmdeploy:num_requests_unfinished") == 1
    assert held.value(body, "lmdeploy:gpu_cache_usage_perc") == 8 * 64 / 25_600  # 500 tokens
    server.engine.cached_kv_tokens = 12_800
    assert server.gauge(601, "gpu_cache_usage_perc") == 8 * 64 / 25_600 + 0.5


def test_the_old_release_counts_requests_that_were_given_up_as_unfinished_for_ever() -> None:
    server = Server(OLD)
    server.engine.plan(Plan(at=1, reason="abort"), Plan(at=2), Plan(at=3))
    assert held.value(server.page(60), "lmdeploy:num_requests_unfinished") == 2
    server.engine.plan(Plan(at=61, tokens=1000))
    assert held.value(server.page(62), "lmdeploy:num_requests_unfinished") == 2  # the new one, and that of long ago


@pytest.mark.parametrize("release", [OLD, NEW])
def test_the_product_knows_size_capacity_and_model_from_the_documents(release: str) -> None:
    server = Server(release, adapters=("adapter-a",))
    watcher = server.watch(1)
    assert watcher.total("llm_kv_cache_capacity_tokens") == 25_600
    info = watcher.info()
    assert (info["framework"], info["model"], info["tp"]) == ("lmdeploy", "Qwen2.5-7B-Instruct", "2")


def test_documents_are_those_of_the_release() -> None:
    old, new = Server(OLD, adapters=("a", "b")).face, Server(NEW).face
    cards = json.loads(old.answer("/v1/models", START).body)["data"]
    assert [(card["id"], card["owned_by"]) for card in cards] == [
        ("Qwen2.5-7B-Instruct", "lmdeploy"), ("a", "lmdeploy"), ("b", "lmdeploy"),
    ]  # fmt: skip
    assert (old.answer("/health", START).status, old.answer("/health", START).body) == (200, b"")
    assert json.loads(new.answer("/health", START).body)["status"] == "healthy"
    assert old.answer("/is_sleeping", START).status == 404
    assert json.loads(new.answer("/is_sleeping", START).body) == {"is_sleeping": False}
    assert json.loads(json.loads(new.answer("/distserve/engine_info", START).body))["num_gpu_blocks"] == 400
    for path in ("/version", "/nodes/status", "/"):
        assert new.answer(path, START).status == 404
    assert new.answer("/metrics/", START).body.startswith(b"# HELP")


def test_a_release_that_nobody_has_read_is_refused() -> None:
    with pytest.raises(ValueError, match=r"LMDeploy 0\.12\.0 is not known: it is one of 0\.9\.2, 0\.18\.0"):
        Server("0.12.0")
