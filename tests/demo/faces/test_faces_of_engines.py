"""Faces over the queueing model: what a page says at the end is what came of the requests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from demo.engine import Engine
from demo.faces.sglang import Sglang
from demo.faces.vllm import Vllm
from demo.model import Identity, Limits, Request
from demo.pace import VLLM
from tests.demo.faces import held
from tests.demo.faces.scripted import START, body

SHORT = Limits(running=32, waiting=40, kv_tokens=12_800, context_tokens=2048, adapters=2)
"""Of KV cache and places: requests are preempted, and refused."""
SECONDS = 15.0
SGLANG_PACE = replace(VLLM, is_mixed=False)


def requests(seed: int = 3, count: int = 300) -> Iterator[Request]:
    chance, now = random.Random(seed), START
    for number in range(count):
        now += chance.expovariate(count / SECONDS)
        prompt = chance.randrange(20, 1200)
        yield Request(
            number, now, prompt, chance.randrange(1, 800),
            prefix=chance.choice(["", "a", "b"]), prefix_tokens=min(prompt, 300),
            adapter=chance.choice(["", "", "x", "y"]), ends_by=chance.choice(["stop", "length"]),
            leaves_after=chance.choice([None, None, None, None, 5]),
        )  # fmt: skip


def served(face_of: type[Vllm] | type[Sglang], release: str) -> tuple[list[Request], str]:
    """All requests, and the last of the pages, of which none ever told less than the one before."""
    asked = list(requests())
    pace = VLLM if face_of is Vllm else SGLANG_PACE
    engine = Engine(SHORT, pace, seed=1, start=START)
    face = face_of(Identity("m", release, START, adapters=("x", "y")), [engine])
    engine.observe(face.observer(0))
    for request in asked:
        engine.submit(request)
    pages = []
    for after in (1, 5, 10, 60, 150):
        engine.advance(START + after)
        pages.append(body(face, START + after))
    for page, later in pairwise(pages):
        held.consistent(later)
        held.grown(page, later)
    return asked, pages[-1]


def seconds(asked: list[Request], start: str, end: str) -> object:
    """The sum of times between two of a request's moments."""
    return pytest.approx(sum(getattr(r, end) - getattr(r, start) for r in asked))


@pytest.mark.parametrize("release", ["0.6.6.post1", "0.10.2", "0.32.0"])
def test_vllm_counts_what_came_of_the_requests(release: str) -> None:
    asked, page = served(Vllm, release)
    begun = [r for r in asked if r.first_token is not None]
    done = [r for r in begun if r.reason in {"stop", "length"}]
    assert [r for r in asked if r.is_rejected], "some are refused"
    assert sum(r.preemptions for r in asked), "some are preempted"
    assert len(begun) > len(done), "some go away"

    def told(name: str) -> float:
        return held.value(page, f"vllm:{name}")

    reasons = held.values(page, "vllm:request_success_total", "finished_reason")
    assert {r: n for r, n in reasons.items() if n} == {
        "stop": sum(r.reason == "stop" for r in done), "length": sum(r.reason == "length" for r in done),
    }  # fmt: skip
    assert told("generation_tokens_total") == sum(r.generated_tokens for r in asked)
    assert told("num_preemptions_total") == sum(r.preemptions for r in asked)
    assert told("time_to_first_token_seconds_count") == len(begun)
    assert told("time_to_first_token_seconds_sum") == seconds(begun, "arrived", "first_token")
    assert told("e2e_request_latency_seconds_sum") == seconds(done, "arrived", "finished")
    assert told("request_generation_tokens_sum") == sum(r.generated_tokens for r in done)
    assert told("num_requests_running") == told("num_requests_waiting") == 0
    if release != "0.6.6.post1":  # the V0 engine counts what it computes again
        assert told("prompt_tokens_total") == sum(r.prompt_tokens for r in begun)
        assert told("prefix_cache_hits_total") == sum(r.cached_tokens for r in asked)


@pytest.mark.parametrize("release", ["0.4.9", "0.5.23"])
def test_sglang_counts_what_came_of_the_requests(release: str) -> None:
    asked, page = served(Sglang, release)
    begun = [r for r in asked if r.first_token is not None]
    assert sum(r.preemptions for r in asked), "some are preempted"

    def told(name: str) -> float:
        return held.value(page, f"sglang:{name}")

    assert told("num_requests_total") == len(begun)
    assert told("prompt_tokens_total") == sum(r.prompt_tokens for r in begun)
    assert told("generation_tokens_total") == sum(r.generated_tokens for r in begun)
    assert told("cached_tokens_total") == sum(r.cached_tokens for r in begun)
    assert told("num_aborted_requests_total") == sum(r.reason == "abort" for r in asked)
    assert told("time_to_first_token_seconds_sum") == seconds(begun, "arrived", "first_token")
    assert told("num_running_reqs") == told("num_queue_reqs") == told("token_usage") == 0
    if release == "0.5.23":
        decoded = held.values(page, "sglang:realtime_tokens_total", "mode")["decode"]
        assert decoded + told("queue_time_seconds_count") == sum(r.generated_tokens for r in begun)
        assert told("num_retracted_requests_total") == sum(r.preemptions for r in asked)
        assert told("queue_time_seconds_sum") == seconds(begun, "arrived", "scheduled")
