from __future__ import annotations

from alerts.reference import AT_ONCE, FIRST_TOKEN_P99_SECONDS, TOKENS_PER_SECOND
from exporters.schema import FRAMEWORKS

PROMPT, OUTPUT = 512, 256
STREAMS_ITS_WEIGHTS_IN = 4.5e-3
"""Seconds that one H100 needs to read 7B weights in BF16 once, which every step of decoding does."""


def fastest(place: int) -> str:
    return max(FRAMEWORKS, key=lambda framework: TOKENS_PER_SECOND[framework][place])


def test_the_figures_are_of_all_frameworks_and_all_numbers_at_once() -> None:
    for figures in (TOKENS_PER_SECOND, FIRST_TOKEN_P99_SECONDS):
        assert tuple(figures) == FRAMEWORKS
        assert all(len(values) == len(AT_ONCE) for values in figures.values())


def test_tensorrt_llm_leads_until_sglang_does_at_128() -> None:
    assert [fastest(place) for place in range(len(AT_ONCE))] == ["tensorrt_llm", "tensorrt_llm", "sglang"]


def test_the_figures_can_hold_only_as_prompt_and_output_tokens_and_time_to_first_token() -> None:
    tokens, p99 = TOKENS_PER_SECOND["vllm"][0], FIRST_TOKEN_P99_SECONDS["vllm"][0]
    assert AT_ONCE[0] / tokens < STREAMS_ITS_WEIGHTS_IN, "a step, if these were output tokens alone"
    assert AT_ONCE[0] * (PROMPT + OUTPUT) / tokens > p99, "the mean duration of a request"
