"""What a benchmark would say of the simulated frameworks: 512 tokens in, 256 out, so many requests at once."""

from __future__ import annotations

from dataclasses import dataclass

from demo.engine import Engine
from demo.model import Limits
from demo.pace import PACES
from demo.truth import Truth, Window
from demo.workload import ClosedLoop, benchmark

_RAMP, _WARM_UP = 4.0, 20.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Prompt and output tokens together; seconds to the first token, not exceeded by 99 % of the requests."""

    tokens_per_second: float
    p99: float


LIMITS = {
    "vllm": Limits(running=256, prefix_caching=False),
    "sglang": Limits(running=256),
    "lmdeploy": Limits(running=128, prefix_caching=False),
    "tensorrt_llm": Limits(running=128, prefix_caching=False),
}
"""As the reference describes them: only one of them shares prefixes."""


def measured(framework: str, at_once: int, seed: int, *, seconds: float, shared_tokens: int = 0) -> Figures:
    """In so many seconds of a steady state, of a closed loop with so many requests at once."""
    truth = Truth()
    engine = Engine(LIMITS[framework], PACES[framework], [truth.observer(framework)], seed=seed)
    loop = ClosedLoop(benchmark(shared_tokens), at_once, engine.submit, seed)
    engine.observe(loop)
    loop.start(0.0, over=_RAMP)
    window = Window(_WARM_UP, _WARM_UP + seconds)
    engine.advance(window.end)
    return Figures(truth.tokens_per_second(window), truth.percentile("time_to_first_token", 0.99, window) or 0.0)
