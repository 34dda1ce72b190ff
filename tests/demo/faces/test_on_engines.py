"""Faces before an engine that preempts, finds prefixes, fails and is left by clients: nothing is lost on the way."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from demo.engine import Engine
from demo.faces.lmdeploy import Lmdeploy
from demo.faces.triton import Triton
from demo.faces.trtllm_serve import TrtllmServe
from demo.model import EngineState, Face, Identity, Limits, Request
from demo.pace import Curve, Pace
from exporters.table import Frontend
from exporters.tables.lmdeploy import LMDEPLOY
from exporters.tables.triton import TRITON
from exporters.tables.trtllm_serve import TRTLLM_SERVE
from tests.demo.faces.watcher import Watcher

START = 1_796_000_000.0
LIMITS = Limits(running=16, waiting=40, kv_tokens=8192, block_tokens=32, context_tokens=4096)
PACE = Pace(
    decode=Curve(((1, 0.006), (16, 0.009))), kv_token=0.0, prefill=5e-5, prefill_step=0.004, is_mixed=True,
    delay=Curve(((1, 0.05),)),
)  # fmt: skip
Make = Callable[[Identity, Sequence[EngineState]], Face]
FACES: dict[str, tuple[Make, str, Frontend]] = {
    "lmdeploy-0.9.2": (Lmdeploy, "0.9.2", LMDEPLOY),
    "lmdeploy-0.18.0": (Lmdeploy, "0.18.0", LMDEPLOY),
    "trtllm-serve-1.2.1": (TrtllmServe, "1.2.1", TRTLLM_SERVE),
    "trtllm-serve-1.3.0": (TrtllmServe, "1.3.0", TRTLLM_SERVE),
    "triton-24.11": (Triton, "24.11", TRITON),
}


def requests(count: int) -> list[Request]:
    """More than the engine has room for, with prefixes in common; some clients go away."""
    chance, now, made = random.Random(11), START + 5, []
    for number in range(count):
        now += chance.expovariate(10)
        prompt, tokens = chance.randint(100, 1500), chance.randint(1, 400)
        made.append(
            Request(
                number, now, prompt, tokens, prefix=chance.choice(["", "a", "b"]), prefix_tokens=96,
                ends_by=chance.choice(["stop", "length"]),
                leaves_after=chance.randint(1, tokens) if chance.random() < 0.08 else None,
            )
        )  # fmt: skip
    return made


@dataclass
class Run:
    """Everything that the product saw of a face, added up over readings 5 seconds apart."""

    face: str
    served: list[Request] = field(default_factory=lambda: requests(400))
    counted: dict[str, float] = field(default_factory=dict)
    observed: dict[str, tuple[float, float]] = field(default_factory=dict)
    findings: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        make, release, frontend = FACES[self.face]
        engine = Engine(LIMITS, PACE, start=START)
        engine.error_share = 0.06
        face = make(Identity("Qwen2.5-7B-Instruct", release, START), [engine])
        engine.observe(face.observer(0))
        for request in self.served:
            engine.submit(request)
        self.watcher = Watcher(face, frontend)
        for seconds in range(0, 200, 5):
            engine.advance(START + seconds)
            self.watcher.read(START + seconds)
            self.findings |= {finding.reason for finding in self.watcher.reading.findings}
            self._add()
        assert not engine.running
        assert not engine.waiting

    def _add(self) -> None:
        for series, value in self.watcher.increase.values.items():
            key = f"{series.metric} {series.label('reason')}".strip()
            self.counted[key] = self.counted.get(key, 0) + value
        for metric in {s.metric for s in self.watcher.increase.histograms}:
            (count, total), (more, added) = self.observed.get(metric, (0, 0)), self.watcher.observed(metric)
            self.observed[metric] = (count + more, total + added)

    def ended(self, *reasons: str) -> list[Request]:
        return [r for r in self.served if r.reason in reasons]

    @property
    def started(self) -> list[Request]:
        return [r for r in self.served if r.first_token is not None]


@pytest.fixture(scope="module", params=FACES)
def run(request: pytest.FixtureRequest) -> Run:
    return Run(request.param)


def generated(served: Sequence[Request]) -> int:
    return sum(r.generated_tokens for r in served)


def test_the_load_has_everything_in_it(run: Run) -> None:
    assert all(len(run.ended(reason)) > 10 for reason in ("stop", "length", "abort", "error"))
    assert sum(r.preemptions for r in run.served) > 10
    assert sum(r.is_rejected for r in run.served) > 10
    assert sum(r.cached_tokens for r in run.served) > 1000


def test_nothing_is_found_but_that_a_fresh_page_is_empty(run: Run) -> None:
    assert run.findings == ({"empty_body"} if run.face == "trtllm-serve-1.2.1" else set())


def test_tokens_are_those_that_were_generated(run: Run) -> None:
    told = run.counted["llm_generation_tokens_total"]
    if run.face.startswith("triton"):
        assert told == generated(run.ended("stop", "length"))
    elif run.face == "trtllm-serve-1.2.1":
        # Each request that ends counts for its first token, also one that failed before it.
        assert told == generated(run.served) + len(run.ended("error"))
    else:
        assert told == generated(run.served)


def test_requests_end_as_they_ended(run: Run) -> None:
    told = {k.partition(" ")[2]: v for k, v in run.counted.items() if k.startswith("llm_requests_finished_total")}
    stop, length, abort, error = (len(run.ended(reason)) for reason in ("stop", "length", "abort", "error"))
    rejected = sum(r.is_rejected for r in run.served)
    assert {reason: count for reason, count in told.items() if count} == {
        "lmdeploy-0.9.2": {"stop": stop + length},
        "lmdeploy-0.18.0": {"stop": stop + length, "unknown": abort + error + rejected},
        "trtllm-serve-1.2.1": {"stop": stop, "length": length, "abort": abort},
        "trtllm-serve-1.3.0": {"stop": stop, "length": length, "abort": abort, "error": error},
        "triton-24.11": {"stop": stop + length, "abort": abort, "error": 2 * error},
    }[run.face]  # fmt: skip


def test_times_to_first_token_are_those_that_were(run: Run) -> None:
    count, seconds = run.observed["llm_time_to_first_token_seconds"]
    assert count == len(run.started)
    true = sum(r.first_token - r.arrived for r in run.started if r.first_token is not None)
    if run.face.startswith("lmdeploy"):
        assert 0 < seconds < 0.8 * true  # what a request waited in the API process is left out
    else:
        assert seconds == pytest.approx(true)


def test_prefixes_are_found_as_often_as_they_were(run: Run) -> None:
    hits = {
        "lmdeploy-0.9.2": None,
        "lmdeploy-0.18.0": sum(r.cached_tokens for r in run.ended("stop", "length")),
        "trtllm-serve-1.3.0": sum(r.cached_tokens for r in run.started),
    }
    every = sum(r.cached_tokens for r in run.served)
    assert run.counted.get("llm_prefix_cache_hit_tokens_total") == hits.get(run.face, every)
