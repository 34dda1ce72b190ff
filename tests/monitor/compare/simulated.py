"""Minutes of simulated engines under a load that stands still, and their exact truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from demo.engine import Engine
from demo.fidelity import LIMITS
from demo.model import Request, Steps
from demo.observers import Silent
from demo.pace import PACES, Curve, Pace
from demo.workload import ClosedLoop, benchmark
from monitor.compare.observed import Named, Observed, Server
from monitor.compare.rows import MINUTE, Counts, Number, Rows
from monitor.history.packed import Floats

SLOWER = 10
"""So many times slower than the reference: as many minutes are simulated in a tenth of the time, and requests last for
as large a part of a minute as those of larger models do."""
WARM_UP = 5
"""Minutes."""
START = 1_796_083_200
GPU = "simulated H100"

_TTFT_VLLM = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
_TTFT_SGLANG = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
_E2E_VLLM = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480)
_E2E_SGLANG = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
BOUNDS = dict.fromkeys(LIMITS, (_TTFT_VLLM, _E2E_VLLM)) | {"sglang": (_TTFT_SGLANG, _E2E_SGLANG)}
"""Of the time to first token and of whole requests."""
AT_FINISH = {"tensorrt_llm"}
"""Frameworks that count tokens when a request finishes."""


def slowed(pace: Pace, slower: float) -> Pace:
    """Everything takes so many times as long."""
    return replace(
        pace,
        decode=_times(pace.decode, slower),
        kv_token=pace.kv_token * slower,
        prefill=pace.prefill * slower,
        prefill_step=pace.prefill_step * slower,
        delay=_times(pace.delay, slower),
    )


def _times(curve: Curve, slower: float) -> Curve:
    return Curve([(x, y * slower) for x, y in curve.points])


@dataclass
class Clerk(Silent):
    """What a server would have counted since it was asked last, and every latency."""

    at_finish: bool
    prompt: float = 0.0
    generated: float = 0.0
    ttft: list[float] = field(default_factory=list)
    e2e: list[float] = field(default_factory=list)

    def first_token(self, request: Request, now: float, /) -> None:
        self.ttft.append(now - request.arrived)
        if not self.at_finish:
            self.prompt += request.prompt_tokens

    def stepped(self, steps: Steps, now: float, /) -> None:
        if not self.at_finish:
            self.generated += steps.generated_tokens

    def finished(self, request: Request, now: float, /) -> None:
        self.e2e.append(now - request.arrived)
        if self.at_finish:
            self.prompt += request.prompt_tokens
            self.generated += request.generated_tokens

    def told(self, at_once: int) -> tuple[list[float], list[float], list[float]]:
        """Numbers of a row, and latencies; from here on it counts anew."""
        unknown = float("nan")
        finished = float(len(self.e2e))
        numbers = [
            1.0, float(at_once), MINUTE, self.prompt, self.generated, finished, 0.0, *[unknown] * 3, MINUTE,
        ]  # fmt: skip
        told = numbers, self.ttft, self.e2e
        self.prompt = self.generated = 0.0
        self.ttft, self.e2e = [], []
        return told


@dataclass(frozen=True)
class Life:
    """Of one engine at one concurrency."""

    framework: str
    at_once: int
    numbers: Floats
    ttft: Sequence[Sequence[float]]
    """Of each minute."""
    e2e: Sequence[Sequence[float]]


def live(framework: str, at_once: int, seed: int, minutes: int, slower: float = SLOWER) -> Life:
    clerk = Clerk(framework in AT_FINISH)
    engine = Engine(LIMITS[framework], slowed(PACES[framework], slower), [clerk], seed=seed)
    loop = ClosedLoop(benchmark(), at_once, engine.submit, seed)
    engine.observe(loop)
    loop.start(0.0, over=3.75 * slower)
    engine.advance(WARM_UP * MINUTE)
    clerk.told(at_once)
    told = []
    for minute in range(minutes):
        engine.advance((WARM_UP + minute + 1) * MINUTE)
        told.append(clerk.told(at_once))
    return Life(framework, at_once, np.array([n for n, *_ in told]), [t for _, t, _ in told], [e for *_, e in told])


def observed(lives: Sequence[Life]) -> Observed:
    """Each at a server of its own."""
    minutes = [len(life.ttft) for life in lives]
    server = np.repeat(np.arange(len(lives)), minutes)
    start = np.concatenate([START + MINUTE * np.arange(many) for many in minutes])
    rows = Rows(
        server,
        start,
        np.concatenate([life.numbers for life in lives]).reshape(-1, len(Number)),
        {"ttft": _phase(lives, 0), "itl": (), "e2e": _phase(lives, 1)},
    )
    nothing, all_the_same = np.zeros(len(server), bool), np.zeros(len(server), np.int64)
    frontends = {"tensorrt_llm": "trtllm_serve"}
    return Observed(
        tuple(
            Server("n1", f"s{n}", life.framework, "qwen", "unified", frontends.get(life.framework, life.framework))
            for n, life in enumerate(lives)
        ),
        rows, nothing, nothing, Named(("1.0",), all_the_same), Named((GPU,), all_the_same),
    )  # fmt: skip


def _phase(lives: Sequence[Life], which: int) -> tuple[Counts, ...]:
    found = []
    for bounds in dict.fromkeys(BOUNDS[life.framework][which] for life in lives):
        edges = [-np.inf, *bounds, np.inf]
        counts = [
            np.histogram((life.ttft, life.e2e)[which][minute], _up_to(edges))[0]
            if BOUNDS[life.framework][which] == bounds
            else np.zeros(len(bounds) + 1)
            for life in lives
            for minute in range(len(life.ttft))
        ]
        found.append(Counts(bounds, np.array(counts, np.float64)))
    return tuple(found)


def _up_to(edges: Sequence[float]) -> Floats:
    """A value on a bound belongs below it, as `le` says."""
    found: Floats = np.nextafter(np.array(edges), np.inf)
    return found
