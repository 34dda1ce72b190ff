"""Figures of an article of 2026 that compared four frameworks: its own engineering estimates, no measurements.

Qwen2.5-7B-Instruct in BF16 on one H100 SXM5 80 GB, 512 tokens in and 256 out, for 5 minutes. They are possible only if
its tokens per second count prompt and output tokens and its P99 is that of the time to first token: so they are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Figures = Mapping[str, Sequence[float]]
"""By framework, in the order of `AT_ONCE`."""

AT_ONCE = (16, 64, 128)
TOKENS_PER_SECOND: Figures = {
    "vllm": (11_200, 18_400, 22_100),
    "sglang": (12_800, 21_600, 27_300),
    "lmdeploy": (13_100, 19_200, 21_800),
    "tensorrt_llm": (14_500, 23_800, 26_500),
}
FIRST_TOKEN_P99_SECONDS: Figures = {
    "vllm": (0.680, 1.240, 2.800),
    "sglang": (0.620, 0.980, 1.900),
    "lmdeploy": (0.590, 1.180, 2.600),
    "tensorrt_llm": (0.540, 0.860, 2.100),
}
WORD = "reference estimate"
SETTING = (
    "Reference estimates are an article's own figures (2026), no measurements: Qwen2.5-7B-Instruct, BF16, one H100 "
    "SXM5 80 GB, 512 tokens in and 256 out, 16, 64 or 128 requests at once. Its tokens per second are read as prompt "
    "and output tokens, its P99 as that of the time to first token: otherwise they contradict each other."
)


def name_of(framework: str) -> str:
    return f"{framework}, {WORD}"
