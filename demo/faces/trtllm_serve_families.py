"""The families of trtllm-serve's page by release: of its collector's code and of recorded pages.

All are without speculative decoding. A family is there from the first time on that anything moves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from demo.faces.board import Row
from demo.faces.exposition import Labels
from demo.model import Identity, Limits

OLD, NEW = "1.2.1", "1.3.0"

_WHOLE = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_TTFT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
)  # fmt: skip
_TPOT = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_PREFILL = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640, 2560)
_CACHED = (0, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
_BATCH = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)

REASONS = {"stop": "stop", "length": "length", "abort": "cancelled"}

_OF_ITERATIONS = (
    "num_requests_running", "num_requests_waiting", "max_num_active_requests", "iteration_latency_seconds",
    "gpu_memory_usage_bytes", "cpu_memory_usage_bytes", "pinned_memory_usage_bytes", "max_batch_size_static",
    "max_batch_size_runtime", "max_num_tokens_runtime", "kv_cache_hit_rate", "kv_cache_utilization",
    "kv_cache_max_blocks", "kv_cache_free_blocks", "kv_cache_used_blocks", "kv_cache_tokens_per_block",
    "num_context_requests", "num_generation_requests", "num_paused_requests", "num_scheduled_requests",
    "total_context_tokens", "avg_decoded_tokens_per_iter", "prefill_batch_occupancy", "kv_cache_iter_reuse_rate",
)  # fmt: skip
"""Gauges, each moved by the signal of its own name."""
_ZERO = (
    "cpu_memory_usage_bytes", "pinned_memory_usage_bytes", "max_batch_size_static", "max_batch_size_runtime",
    "max_num_tokens_runtime", "avg_decoded_tokens_per_iter",
)  # fmt: skip
"""What the PyTorch engine never sets."""


def rows(identity: Identity, limits: Limits) -> Sequence[Row]:
    return _old() if identity.release == OLD else _new(identity, limits)


def labels(identity: Identity) -> Labels:
    if identity.release == OLD:
        return {"model_name": "undefined", "engine_type": "undefined"}
    return {"model_name": identity.model, "engine_type": "pytorch"}


def _successes(prefix: str) -> Iterable[Row]:
    """In the order in which they come first is not known beforehand; they are born with their first request."""
    for reason in REASONS.values():
        yield Row(f"{prefix}request_success_total", "counter", reason, "server", {"finished_reason": reason})


def _histogram(name: str, signal: str, bounds: Sequence[float]) -> Row:
    return Row(name, "histogram", signal, "server", bounds=bounds)


def _counter(name: str, signal: str) -> Row:
    return Row(f"trtllm_{name}_total", "counter", signal, "server")


def _old() -> Sequence[Row]:
    return (
        *_successes(""),
        _histogram("e2e_request_latency_seconds", "whole", _WHOLE),
        _histogram("time_to_first_token_seconds", "first_token", _TTFT),
        _histogram("request_queue_time_seconds", "queue", _WHOLE),
        _histogram("time_per_output_token_seconds", "per_token", _TPOT),
    )


def _new(identity: Identity, limits: Limits) -> Sequence[Row]:
    return (
        *_configuration(identity, limits),
        *(_gauge(name) for name in _OF_ITERATIONS),
        _histogram("trtllm_e2e_request_latency_seconds", "whole", _WHOLE),
        _histogram("trtllm_time_to_first_token_seconds", "first_token", _TTFT),
        _histogram("trtllm_request_queue_time_seconds", "queue", _WHOLE),
        _histogram("trtllm_request_prefill_time_seconds", "prefill", _PREFILL),
        _histogram("trtllm_prompt_cached_tokens_per_request", "cached_length", _CACHED),
        _histogram("trtllm_prefill_batch_tokens", "batch_tokens", _BATCH),
        _histogram("trtllm_time_per_output_token_seconds", "per_token", _TPOT),
        _histogram("trtllm_request_decode_time_seconds", "decode", _WHOLE),
        _histogram("trtllm_request_inference_time_seconds", "decode", _WHOLE),
        Row("trtllm_prompt_cached_tokens_total", "counter", "cached_tokens", "server", at_start=True),
        *_successes("trtllm_"),
        _counter("prompt_tokens", "prompt_tokens"),
        _counter("generation_tokens", "generation_tokens"),
        _counter("kv_cache_missed_blocks", "missed"),
        _counter("kv_cache_iter_missed_blocks", "missed"),
        _counter("kv_cache_reused_blocks", "reused"),
        _counter("kv_cache_iter_reused_blocks", "reused"),
        _counter("kv_cache_iter_full_reused_blocks", "reused"),
        _counter("num_requests_completed", "completed"),
        _counter("kv_cache_gen_alloc_blocks", "grown"),
        *_errors(),
    )


def _gauge(name: str) -> Row:
    return Row(f"trtllm_{name}", "gauge", "idle" if name in _ZERO else name, "process")


def _errors() -> Iterable[Row]:
    for code in ("429", "500"):
        yield Row("trtllm_request_error_total", "counter", f"http_{code}", "server", {"http_code": code})


def _configuration(identity: Identity, limits: Limits) -> Iterable[Row]:
    ranks = str(identity.tensor_parallel)
    told = {
        "model": {
            "model": f"/models/{identity.model}", "served_model_name": identity.model, "dtype": "auto",
            "quantization": "none", "max_model_len": str(limits.context_tokens), "gpu_type": "NVIDIA H100 80GB HBM3",
        },
        "parallel": {
            "tensor_parallel_size": ranks, "pipeline_parallel_size": "1", "context_parallel_size": "1",
            "gpu_count": ranks,
        },
        "kv_cache": {
            "enable_block_reuse": str(limits.prefix_caching), "enable_partial_reuse": "True",
            "free_gpu_memory_fraction": "0.9", "cache_dtype": "auto",
        },
    }  # fmt: skip
    for name, info in told.items():
        yield Row(f"trtllm_{name}_config_info", "gauge", "", "process", info, value=1.0, at_start=True)
