"""Faults of load reach what they are for at any hour, whatever the usual requests are."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from demo.capacity import at_full_batch, with_so_many
from demo.fleet import Fleet, Service
from demo.model import Limits
from demo.server import Spec
from demo.truth import Window
from demo.workload import CHAT, RAG, Rate

DAY = 1_795_996_800.0
LIMITS = Limits(running=64, waiting=64, kv_tokens=60_000)
RELEASES = {
    "vllm": "0.32.0", "sglang": "0.5.23", "lmdeploy": "0.18.0", "trtllm_serve": "1.3.0", "triton": "24.11",
}  # fmt: skip
at_night_and_at_noon = pytest.mark.parametrize("hour", [3, 15])
of_each_framework = pytest.mark.parametrize("frontend", RELEASES)


def spec(name: str, frontend: str = "vllm") -> Spec:
    return Spec(name, "rack-1", frontend, RELEASES[frontend], "m", (), LIMITS, slowness=4.0)


def lived(frontend: str, hour: int, kind: str, target: str, minutes: float) -> Fleet:
    """With the fault in force from the start."""
    chat = Service("chat", ("a", "b"), CHAT, Rate(0.2, 0.6))
    start = DAY + hour * 3600
    made = Fleet([spec("a", frontend), spec("b", frontend)], [chat], {}, seed=1, start=start)
    made.order({"kind": kind, "target": target}, start)
    made.advance(start + minutes * 60)
    return made


def in_it(made: Fleet, server: str) -> int:
    process = made.servers[server].process
    assert process is not None
    return sum(len(engine.running) + len(engine.waiting) for engine in process.engines)


@at_night_and_at_noon
@of_each_framework
def test_an_overload_fills_the_queue_until_requests_are_rejected(frontend: str, hour: int) -> None:
    made = lived(frontend, hour, "overload", "b", 4)
    last = Window(made.now - 120, made.now)
    over, spared = (made.truth.summary(last, {f"{name}/0"}) for name in "ba")
    assert over.rejected > 0.15 * over.arrived
    assert spared.rejected == 0
    assert in_it(made, "b") > 100


@at_night_and_at_noon
@of_each_framework
def test_an_imbalance_has_one_replica_with_many_times_the_requests_of_the_other(frontend: str, hour: int) -> None:
    made, first, second = lived(frontend, hour, "imbalance", "chat", 2), [], []
    for _ in range(20):
        made.advance(made.now + 6)
        first.append(in_it(made, "a"))
        second.append(in_it(made, "b"))
    assert fmean(first) > 20
    assert fmean(first) > 5 * fmean(second)
    assert made.truth.summary().rejected == 0


def test_a_server_works_off_more_the_more_it_may_run_at_once_and_the_more_engines_it_has() -> None:
    one = spec("a")
    assert with_so_many(one, CHAT, 1) < with_so_many(one, CHAT, 16) < at_full_batch(one, CHAT)
    assert at_full_batch(replace(one, engines=2), CHAT) == 2 * at_full_batch(one, CHAT)
    assert at_full_batch(replace(one, slowness=8.0), CHAT) == pytest.approx(at_full_batch(one, CHAT) / 2)


def test_a_prefill_server_is_done_with_the_first_token() -> None:
    assert at_full_batch(replace(spec("a"), role="prefill"), RAG) > 3 * at_full_batch(spec("a"), RAG)
