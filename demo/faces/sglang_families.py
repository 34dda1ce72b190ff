"""The families of SGLang's pages by release: names, labels and bounds of its own metrics code and of recorded pages.

Groups: `server` is the tokenizer process, `rank` the first tensor-parallel rank of an engine, `ranks` all of them,
`others` all but the first, `pid` the first with its process id, `http` the HTTP server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import nan
from typing import Literal

from demo.faces.board import Row
from demo.faces.exposition import Kind
from demo.model import Limits

Role = Literal["unified", "prefill", "decode"]

_FIRST = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
_GAP = (
    0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2,
    4, 6, 8,
)  # fmt: skip
_WHOLE = (*_FIRST, 600, 1200, 1800, 2400)
_WHOLE_OLD = (*_FIRST, 800)
_QUEUE = (
    0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200, 300,
    400, 500, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000,
)  # fmt: skip
_STAGE = tuple(0.001 * 1.62**power for power in range(30))
_LENGTH = (
    100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 12500, 15000, 17500, 20000,
    22500, 25000, 27500, 30000, 35000, 40000, 60000, 80000, 100000, 200000, 300000, 400000, 600000, 800000, 1000000,
    1100000,
)  # fmt: skip
_PROMPT_OLD = (
    100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 12000, 15000, 20000, 22000,
    25000, 30000, 35000, 40000,
)  # fmt: skip
_GENERATION_OLD = (
    100, 300, 500, 1000, 1200, 1500, 1700, 2000, 2500, 3000, 3500, 4000, 4500, 5000, 6000, 7000, 8000, 9000, 10000,
)  # fmt: skip
_IMBALANCE = (1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15, 20, 30, 45, 60)
_SYNC = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
_LOADS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1)
_TRANSFER_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
_TRANSFER_GB_S = (0.1, 0.5, 1, 5, 10, 25, 50, 100, 200, 400)
_TRANSFER_MB = (1, 5, 10, 50, 100, 500, 1000, 5000, 10000)
_WAIT_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)
_KEYS = ("0", "1", "2", "3", "5", "7", "10", "20", "50", "100", "200", "+Inf")

STREAMED, AT_ONCE = "streamed", "at_once"

_REPORT = "report"
"""Told with each report of the scheduler, and always the same."""
_START = "start"


def _row(name: str, kind: Kind, signal: str, group: str, value: float, /, **labels: str) -> Row:
    return Row(f"sglang:{name}", kind, signal, group, labels, value=value, at_start=signal == _START)


def _gauge(name: str, signal: str = _REPORT, value: float = 0.0, group: str = "rank", **labels: str) -> Row:
    return _row(name, "gauge", signal, group, value, **labels)


def _counter(name: str, signal: str, group: str, /, **labels: str) -> Row:
    return _row(f"{name}_total", "counter", signal, group, 0.0, **labels)


def _histogram(name: str, signal: str, bounds: Sequence[float], group: str = "server", **labels: str) -> Row:
    return replace(_row(name, "histogram", signal, group, 0.0, **labels), bounds=bounds)


# 0.4.9: a page without anything until the first request, engines that write over one another.


def _of_0_4(_limits: Limits, _role: Role) -> list[Row]:
    return [
        _counter("prompt_tokens", "prompt_tokens_streamed", "server"),
        _counter("generation_tokens", "generation_tokens_streamed", "server"),
        _counter("cached_tokens", "cached_tokens", "server"),
        _counter("num_requests", "requests_streamed", "server"),
        _counter("num_aborted_requests", "aborts", "server"),
        _gauge("num_running_reqs", "running"),
        _gauge("num_used_tokens", "used_tokens"),
        _gauge("token_usage", "usage"),
        _gauge("gen_throughput", "throughput"),
        _gauge("num_queue_reqs", "queued"),
        _gauge("num_grammar_queue_reqs"),
        _gauge("cache_hit_rate", "hit_rate"),
        _gauge("spec_accept_length"),
        _gauge("num_prefill_prealloc_queue_reqs"),
        _gauge("num_prefill_infight_queue_reqs"),
        _gauge("num_decode_prealloc_queue_reqs"),
        _gauge("num_decode_transfer_queue_reqs"),
        _histogram("time_to_first_token_seconds", "first_token_seconds_streamed", _FIRST),
        _histogram("inter_token_latency_seconds", "gap_seconds", _GAP),
        _histogram("e2e_request_latency_seconds", "whole_seconds_streamed", _WHOLE_OLD),
        _histogram("prompt_tokens_histogram", "prompt_length", _PROMPT_OLD),
        _histogram("generation_tokens_histogram", "generation_length", _GENERATION_OLD),
    ]


# 0.5.23: constants and counters at 0 from the start, the rest from the first request on.


def _of_0_5(limits: Limits, role: Role) -> list[Row]:
    return [
        *_tokenizer(),
        *_scheduler_latencies(role),
        *_constants(limits),
        *_reported(role),
        *(_adapters(limits) if limits.adapters else []),
        *_scheduler_counters(),
    ]


def _tokenizer() -> list[Row]:
    phases = {"load_weight": 21.4, "kv_cache_allocation": 0.31, "scheduler_e2e": 58.7, "tokenizer_e2e": 63.2}
    return [
        *_split("time_to_first_token_seconds", "first_token_seconds", _FIRST),
        _histogram("inter_token_latency_seconds", "gap_seconds", _GAP),
        *_split("e2e_request_latency_seconds", "whole_seconds", _WHOLE),
        *_split("request_time_per_output_token_seconds", "token_seconds", _GAP),
        _histogram("prompt_tokens_histogram", "prompt_length", _LENGTH),
        _histogram("uncached_prompt_tokens_histogram", "computed_length", _LENGTH),
        _histogram("generation_tokens_histogram", "generation_length", _LENGTH),
        _histogram("get_loads_duration_seconds", "loads_seconds", _LOADS),
        *[_gauge("startup_time_seconds", _START, value, "server", phase=p) for p, value in phases.items()],
        _gauge("startup_cuda_graph_time_seconds", _START, 17.9, "server", phase="decode"),
        *_split("prompt_tokens", "prompt_tokens"),
        *_split("generation_tokens", "generation_tokens"),
        _counter("cached_tokens", "cached_tokens", "server", cache_source="device"),
        *_split("num_requests", "requests"),
        _counter("num_aborted_requests", "aborts", "server"),
        *[_counter("process_cpu_seconds", f"{c}_cpu", "http", component=c) for c in ("tokenizer", "detokenizer")],
        _gauge("routing_keys_active", _START, group="http"),
    ]


def _split(name: str, signal: str, bounds: Sequence[float] = ()) -> list[Row]:
    """A histogram, or without bounds a counter, by the way in which answers go out."""
    ways = {STREAMED: "true", AT_ONCE: "false"}
    if bounds:
        return [_histogram(name, f"{signal}_{way}", bounds, is_streaming=told) for way, told in ways.items()]
    return [_counter(name, f"{signal}_{way}", "server", is_streaming=told) for way, told in ways.items()]


_STAGES: Mapping[Role, tuple[str, ...]] = {
    "unified": ("request_process", "prefill_forward"),
    "prefill": ("request_process", "prefill_bootstrap", "prefill_forward", "prefill_transfer_kv_cache"),
    "decode": ("request_process", "decode_prepare", "decode_bootstrap", "decode_transferred", "decode_waiting"),
}


def _scheduler_latencies(role: Role) -> list[Row]:
    transfers = [
        _histogram("kv_transfer_latency_ms", "transfer_ms", _TRANSFER_MS, "rank"),
        _histogram("kv_transfer_speed_gb_s", "transfer_gb_s", _TRANSFER_GB_S, "rank"),
        _histogram("kv_transfer_total_mb", "transfer_mb", _TRANSFER_MB, "rank"),
        _histogram("kv_transfer_bootstrap_ms", "bootstrap_ms", _WAIT_MS, "rank"),
        _histogram("kv_transfer_alloc_ms", "alloc_ms", _WAIT_MS, "rank"),
    ]
    return [
        _histogram("dp_attention_token_imbalance_ratio", _START, _IMBALANCE, "ranks"),
        _histogram("dp_attention_sync_wait_seconds", _START, _SYNC, "ranks"),
        _histogram("queue_time_seconds", "queue_seconds", _QUEUE, "ranks"),
        *[_histogram("per_stage_req_latency_seconds", s, _STAGE, "ranks", stage=s) for s in _STAGES[role]],
        *(transfers if role == "prefill" else []),
    ]


def _constants(limits: Limits) -> list[Row]:
    """Weights and pools are those of a model of 7 billion parameters."""
    values: dict[str, float] = {
        "max_total_num_tokens": limits.kv_tokens,
        "weight_memory_usage_gb": 14.25,
        "kv_cache_memory_usage_gb": round(limits.kv_tokens * 57_344 / 2**30, 2),
        "page_size": limits.block_tokens,
        "num_pages": limits.kv_tokens // limits.block_tokens,
        "context_len": limits.context_tokens,
        "startup_available_gpu_memory_gb": 8.41,
    }
    graphs = _gauge("graph_memory_usage_gb", _START, 0.62, "ranks", phase="decode")
    return [graphs, *[_gauge(name, _START, value, "ranks") for name, value in values.items()]]


def _reported(role: Role) -> list[Row]:
    pools = [
        _gauge(f"{pool}_{what}_tokens") for pool in ("swa", "mamba") for what in ("available", "evictable", "used")
    ]
    return [
        _gauge("num_running_reqs", "running"),
        _gauge("num_queue_reqs", "queued"),
        _gauge("num_grammar_queue_reqs"),
        _gauge("gen_throughput", "throughput"),
        _gauge("cache_hit_rate", "hit_rate"),
        _gauge("decode_sum_seq_lens", "sequence_tokens"),
        _gauge("token_usage", "usage"),
        _gauge("full_token_usage", "exact_usage"),
        _gauge("swa_token_usage"),
        _gauge("mamba_usage"),
        _gauge("num_used_tokens", "used_tokens"),
        _gauge("kv_available_tokens", "available_tokens"),
        _gauge("kv_evictable_tokens", "evictable_tokens"),
        _gauge("kv_used_tokens", "used_tokens"),
        *pools,
        *[_gauge(f"spec_{what}") for what in _SPECULATION],
        *[_gauge(name) for name in _OTHER_SIDE],
        _gauge("utilization", value=-1.0 if role == "prefill" else 0.0),
        _gauge("fwd_occupancy", value=nan),
        _gauge("new_token_ratio", value=0.7),
        _gauge("is_cuda_graph"),
        _gauge("num_unique_running_routing_keys"),
        *[_keys(name, gt, le) for name in ("running", "all") for gt, le in pairwise(_KEYS)],
        _gauge("num_retracted_reqs", "retracted", group="pid"),
        _gauge("num_paused_reqs", group="pid"),
    ]


_SPECULATION = ("accept_length", "accept_rate", "cap_length", "block_accept_length", "num_steps", "num_draft_tokens")
_OTHER_SIDE = (
    "num_prefill_bootstrap_queue_reqs", "num_prefill_inflight_queue_reqs", "num_decode_prealloc_queue_reqs",
    "num_decode_transfer_queue_reqs", "num_decode_host_receive_queue_reqs", "num_decode_deferred_kv_release_reqs",
    "pending_prealloc_token_usage", "prealloc_full_token_usage", "prealloc_swa_token_usage",
)  # fmt: skip
"""Of servers for prefill and decode apart."""


def _keys(name: str, gt: str, le: str) -> Row:
    return _gauge(f"routing_key_{name}_req_count", gt=gt, le=le)


def _adapters(limits: Limits) -> list[Row]:
    return [
        _gauge("lora_pool_slots_used", "adapters"),
        _gauge("lora_pool_slots_total", value=limits.adapters),
        _gauge("lora_pool_utilization", "adapter_share"),
    ]


_CATEGORIES = (
    "other", "recv_requests", "process_input_requests", "get_next_batch_to_run", "process_queue", "run_batch",
    "process_batch_result", "sanity_check_cache", "idle",
)  # fmt: skip


def _scheduler_counters() -> list[Row]:
    modes = ("input", "device_hit", "host_hit", "storage_hit")
    effective = [
        replace(_counter("prefill_effective_tokens", f"effective_{m}", "rank", mode=m), at_start=True) for m in modes
    ]
    return [
        *effective,
        *[_counter("prefill_effective_tokens", _START, "others", mode=m) for m in modes],
        _from_start("scheduler_idle_seconds", "idle_seconds"),
        _from_start("scheduler_process_cpu_seconds", "cpu_seconds"),
        *[
            _from_start("scheduler_stage_seconds", f"{c}_seconds", category=c, forward_overlap="none")
            for c in _CATEGORIES
        ],
        *[_counter("dp_attention_tokens", _START, "ranks", kind=kind) for kind in ("scheduled", "imbalance")],
        *[_counter("dp_attention_steps", _START, "ranks", rank_state=state) for state in ("active", "idle")],
        *[_counter("dp_attention_pairs", _START, "ranks", kind=kind) for kind in ("scheduled", "imbalance")],
        _counter("cuda_graph_passes", "prefill_steps", "rank", mode="prefill_none"),
        _counter("cuda_graph_passes", "decode_steps", "ranks", mode="decode_cuda_graph"),
        _counter("realtime_tokens", "computed_tokens", "rank", mode="prefill_compute"),
        _counter("realtime_tokens", "decoded_tokens", "rank", mode="decode"),
        _counter("realtime_tokens", "found_tokens", "rank", mode="prefill_cache"),
        _counter("num_retracted_requests", "retractions", "ranks"),
        _counter("num_retracted_input_tokens", "retracted_prompt", "ranks"),
        _counter("num_retracted_output_tokens", "retracted_generated", "ranks"),
    ]


def _from_start(name: str, signal: str, **labels: str) -> Row:
    return replace(_counter(name, signal, "ranks", **labels), at_start=True)


@dataclass(frozen=True, slots=True)
class Release:
    """Both the table and how its gauges are refreshed.

    `rounds` whether decode reports round the usage to two decimals, as others do; `keeps_hit_rate` whether they leave
    the hit rate of the last prefill; `tells_empty` whether an empty batch is told at once, not after 30 seconds;
    `has_ranks` whether the scheduler's series have labels of ranks; `tells_ways` whether streams are told from answers
    that go out at once, and of these the true time to the first token.
    """

    rows: Callable[[Limits, Role], list[Row]]
    rounds: bool = False
    keeps_hit_rate: bool = False
    tells_empty: bool = False
    has_ranks: bool = False
    tells_ways: bool = False


RELEASES = {
    "0.4.9": Release(_of_0_4),
    "0.5.23": Release(_of_0_5, rounds=True, keeps_hit_rate=True, tells_empty=True, has_ranks=True, tells_ways=True),
}
