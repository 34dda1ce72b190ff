"""The families of Triton's page with TensorRT-LLM's C++ backend: of their sources and of recorded pages.

Labels stand in the order in which Triton writes them: alphabetical, but for a bucket's bound, which is last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from demo.faces.board import Row
from demo.faces.exposition import Kind

MODELS = ("ensemble", "preprocessing", "tensorrt_llm", "postprocessing")
ENTRY, ENGINE = "ensemble", "tensorrt_llm"
FAILURES = ("REJECTED", "CANCELED", "BACKEND", "OTHER")
PHASES = ("queue", "compute_input", "compute_infer", "compute_output")
_LENGTHS = (10, 50, 100, 500, 1000)
_FIRST_RESPONSE_MS = (100, 500, 2000, 5000)

_OF_ENGINE = {
    "request_metrics": ("request_type", ("waiting", "context", "scheduled", "max", "active")),
    "runtime_memory_metrics": ("memory_type", ("pinned", "gpu", "cpu")),
    "kv_cache_block_metrics": (
        "kv_cache_block_type", ("fraction", "reused", "tokens_per", "used", "free", "max"),
    ),
    "inflight_batcher_metrics": (
        "inflight_batcher_specific_metric",
        ("paused_requests", "micro_batch_id", "generation_requests", "total_context_tokens"),
    ),
    "general_metrics": ("general_type", ("iteration_counter", "timestamp")),
}  # fmt: skip
"""Gauges of the last iteration, by family: each is moved by the signal `FAMILY KIND`."""
_OF_HOST = {
    "pinned_memory_pool_total_bytes": 2**28,
    "pinned_memory_pool_used_bytes": 0,
    "cpu_utilization": 0.25,
    "cpu_memory_total_bytes": 2**36,
    "cpu_memory_used_bytes": 2**33,
    "cache_util": 0.0001220703125,
    **dict.fromkeys(
        (f"cache_{name}" for name in ("num_entries", "num_hits", "num_misses", "num_lookups", "num_evictions")), 0
    ),
    "cache_lookup_duration": 0,
    "cache_insertion_duration": 0,
}
"""The last of them are of the cache of responses, which is off."""


def rows(*, has_first_response: bool) -> Iterator[Row]:
    """`has_first_response` is so since 24.11 with histogram_latencies=true."""
    yield from _counted("inference_request_success", "success")
    for model in MODELS:
        for reason in FAILURES:
            labels = {"model": model, "reason": reason, "version": "1"}
            yield _row("inference_request_failure", "counter", f"{reason} {model}", labels)
    yield from _counted("inference_count", "success")
    yield from _counted("inference_exec_count", "success")
    for phase in ("request", *PHASES):
        yield from _counted(f"inference_{phase}_duration_us", phase)
    for kind in ("request_count", "kv_cache_transfer_ms"):
        labels = {"disaggregated_serving_type": kind, **_version(ENGINE)}
        yield _row("trt_llm_disaggregated_serving_metrics", "counter", "", labels)
    for model in MODELS:
        yield _row("inference_pending_request_count", "gauge", "", _version(model))
    if has_first_response:
        yield from _first_responses()
    for name, value in _OF_HOST.items():
        yield Row(f"nv_{name}", "gauge", "", "server", value=value, at_start=True)
    for family, (label, kinds) in _OF_ENGINE.items():
        for kind in kinds:
            labels = dict(sorted({label: kind, **_version(ENGINE)}.items()))
            yield _row(f"trt_llm_{family}", "gauge", f"{family} {kind}", labels)
    for direction in ("output", "input"):
        labels = {"model": ENGINE, "response_metric_type": f"total_{direction}_tokens", "version": "1"}
        yield _row(f"llm_{direction}_token_len", "histogram", f"{direction}_length", labels, _LENGTHS)


def _first_responses() -> Iterator[Row]:
    for model in (ENTRY, ENGINE):
        name = "inference_first_response_histogram_ms"
        yield _row(name, "histogram", "first_response", _version(model), _FIRST_RESPONSE_MS)
    for model in MODELS:
        yield _row("model_load_duration_secs", "gauge", f"load {model}", _version(model))


def _counted(name: str, signal: str) -> Iterator[Row]:
    for model in MODELS:
        yield _row(name, "counter", f"{signal} {model}", _version(model))


def _row(name: str, kind: Kind, signal: str, labels: dict[str, str], bounds: Sequence[float] = ()) -> Row:
    return Row(f"nv_{name}", kind, signal, "server", labels, bounds, at_start=True)


def _version(model: str) -> dict[str, str]:
    return {"model": model, "version": "1"}
