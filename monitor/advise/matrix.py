"""Which framework an article of 2026 recommends for what: its opinion, in stars of 5, and no measurement.

It is the prior of advice: what was measured here goes before it. It describes vLLM 0.6, SGLang 0.4, LMDeploy 0.6 and
Triton with TensorRT-LLM engines; later releases may do better. `alerts.reference` has the figures of the same article.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

MOST = 5


class Criterion(StrEnum):
    """Of all but the effort more is better."""

    EFFORT = "effort to deploy"
    THROUGHPUT = "throughput"
    LOW_LATENCY = "latency at low concurrency"
    LORA = "LoRA"
    ECOSYSTEM = "ecosystem"
    QUANTISATION = "quantisation"
    OTHER_GPUS = "GPUs other than NVIDIA's"
    STRUCTURED = "structured generation"


STARS: Mapping[Criterion, Mapping[str, int]] = {
    Criterion.EFFORT: {"vllm": 2, "sglang": 2, "lmdeploy": 2, "tensorrt_llm": 5},
    Criterion.THROUGHPUT: {"vllm": 3, "sglang": 4, "lmdeploy": 4, "tensorrt_llm": 5},
    Criterion.LOW_LATENCY: {"vllm": 3, "sglang": 4, "lmdeploy": 5, "tensorrt_llm": 5},
    Criterion.LORA: {"vllm": 5, "sglang": 4, "lmdeploy": 2, "tensorrt_llm": 1},
    Criterion.ECOSYSTEM: {"vllm": 5, "sglang": 4, "lmdeploy": 3, "tensorrt_llm": 3},
    Criterion.QUANTISATION: {"vllm": 4, "sglang": 3, "lmdeploy": 5, "tensorrt_llm": 4},
    Criterion.OTHER_GPUS: {"vllm": 2, "sglang": 2, "lmdeploy": 5, "tensorrt_llm": 1},
    Criterion.STRUCTURED: {"vllm": 3, "sglang": 5, "lmdeploy": 2, "tensorrt_llm": 1},
}

SHARED_PREFIXES = "sglang"
"""Whom it recommends where many requests share a system prompt."""
TO_START_WITH = "vllm"
"""Whom to begin with, until a bottleneck of the workload says otherwise."""
NOT_SEEN = (Criterion.EFFORT, Criterion.ECOSYSTEM, Criterion.OTHER_GPUS, Criterion.STRUCTURED)
"""What no history of servers tells."""
