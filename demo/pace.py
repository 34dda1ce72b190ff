"""How fast each framework is: a small model, calibrated to the reference estimates. It is no physics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Curve:
    """Straight lines between points; beyond the last point the last line goes on, before the first its value holds."""

    points: Sequence[tuple[float, float]]

    def at(self, x: float) -> float:
        points = self.points
        if x <= points[0][0] or len(points) == 1:
            return points[0][1]
        right = min(bisect_left(points, (x,)), len(points) - 1)
        (x0, y0), (x1, y1) = points[right - 1], points[right]
        return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


@dataclass(frozen=True, slots=True)
class Pace:
    """All in seconds.

    `decode` is of one decode step by the number of sequences in it. To a step that computes prompts `prefill` is added
    for each token; a step of prompts alone takes `prefill_step` beside. With `is_mixed` one step does both, else
    prompts go first and the others wait. `delay` is the longest that a prompt waits before the scheduler considers it,
    by the number of requests that are there; a prompt of which fewer than `_DELAY_TOKENS` are to be computed waits as
    much shorter.
    """

    decode: Curve
    kv_token: float
    prefill: float
    prefill_step: float
    is_mixed: bool
    delay: Curve

    def step(self, sequences: int, kv_tokens: float, prompt_tokens: int) -> float:
        base = self.decode.at(sequences) + self.kv_token * kv_tokens if sequences else self.prefill_step
        return base + self.prefill * prompt_tokens

    def wait(self, present: int, prompt_tokens: int) -> float:
        return self.delay.at(present) * min(1.0, prompt_tokens / _DELAY_TOKENS)


_DELAY_TOKENS = 512
_KV_TOKEN = 17e-9
"""57,344 bytes for each token of Qwen2.5-7B (28 layers, 4 KV heads of 128, BF16), read at 3.35 TB/s."""


def _decode(one: float, sixteen: float, sixty_four: float, hundred_and_twenty_eight: float) -> Curve:
    """Of milliseconds."""
    steps = one, sixteen, sixty_four, hundred_and_twenty_eight
    return Curve([(n, step / 1000) for n, step in zip((1, 16, 64, 128), steps, strict=True)])


def _delay(sixteen: float, sixty_four: float, hundred_and_twenty_eight: float) -> Curve:
    """With more at once than in the reference it is as with most there."""
    points = (1, 0.03), (16, sixteen), (64, sixty_four), (128, hundred_and_twenty_eight)
    return Curve([*points, (256, hundred_and_twenty_eight)])


VLLM = Pace(
    decode=_decode(2.36, 2.62, 6.26, 8.13),
    delay=_delay(0.718, 1.306, 3.034),
    kv_token=_KV_TOKEN,
    prefill=25e-6,
    prefill_step=0.002,
    is_mixed=True,
)
SGLANG = Pace(
    decode=_decode(1.98, 2.20, 4.71, 5.12),
    delay=_delay(0.661, 1.052, 2.082),
    kv_token=_KV_TOKEN,
    prefill=22e-6,
    prefill_step=0.002,
    is_mixed=False,
)
LMDEPLOY = Pace(
    decode=_decode(1.83, 2.04, 5.65, 8.89),
    delay=_delay(0.619, 1.262, 2.847),
    kv_token=_KV_TOKEN,
    prefill=24e-6,
    prefill_step=0.002,
    is_mixed=False,
)
TENSORRT_LLM = Pace(
    decode=_decode(1.77, 1.97, 4.63, 7.76),
    delay=_delay(0.568, 0.904, 2.279),
    kv_token=_KV_TOKEN,
    prefill=20e-6,
    prefill_step=0.0015,
    is_mixed=True,
)
PACES = {"vllm": VLLM, "sglang": SGLANG, "lmdeploy": LMDEPLOY, "tensorrt_llm": TENSORRT_LLM}
