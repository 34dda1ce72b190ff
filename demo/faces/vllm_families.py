"""The families of vLLM's pages by release: names, labels and bounds of its own metrics code and of recorded pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from demo.faces.board import Row
from demo.model import Limits

_FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_FIRST_LONG = (*_FIRST, 20, 40, 80, 160, 640, 2560)
_GAP = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)
_GAP_LONG = (*_GAP, 5, 7.5, 10, 20, 40, 80)
_WHOLE = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60)
_WHOLE_LONG = (*_WHOLE, 120, 240, 480, 960, 1920, 7680)
_STEP_V0 = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8096)
_STEP = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_CHOICES = (1, 2, 5, 10, 20)
_PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)

LORA = "vllm:lora_requests_info"
_NEVER = "never"


def _lengths(longest: int) -> list[float]:
    """1, 2, 5, 10, 20, ... up to the longest."""
    steps = [digit * 10**power for power in range(len(str(longest))) for digit in (1, 2, 5)]
    return [step for step in steps if step <= longest]


def _gauge(name: str, signal: str, value: float = 0.0, **labels: str) -> Row:
    return Row(f"vllm:{name}", "gauge", signal, "engine", labels, value=value)


def _counter(name: str, signal: str, **labels: str) -> Row:
    return Row(f"vllm:{name}_total", "counter", signal, "engine", labels)


def _split(name: str, label: str, **signals: str) -> list[Row]:
    """A counter by the values of a label."""
    return [_counter(name, signal, **{label: value}) for value, signal in signals.items()]


def _histogram(name: str, signal: str, bounds: Sequence[float]) -> Row:
    return Row(f"vllm:{name}", "histogram", signal, "engine", bounds=bounds)


def _lora(limits: Limits) -> list[Row]:
    """Its series are made one by one."""
    return [Row(LORA, "gauge", _NEVER, "", {})] if limits.adapters else []


def _config(labels: str, limits: Limits, engines: int, **told: str) -> Row:
    """What is not told is None, as it is for what was not asked for. Blocks are those of all engines together."""
    blocks = limits.kv_tokens // limits.block_tokens * engines
    own = {
        "block_size": str(limits.block_tokens),
        "num_gpu_blocks": str(blocks),
        "enable_prefix_caching": str(limits.prefix_caching),
        "cache_dtype": "auto",
    }
    found = dict.fromkeys(labels.split(), "None") | own | told
    return Row("vllm:cache_config_info", "gauge", _NEVER, "config", found, value=1.0, at_start=True)


def _drafts(limits: Limits) -> list[Row]:
    """Of a server that speculates."""
    rows = [
        _counter("spec_decode_num_drafts", "drafts"),
        _counter("spec_decode_num_draft_tokens", "drafted_tokens"),
        _counter("spec_decode_num_accepted_tokens", "accepted_tokens"),
    ]
    return rows if limits.draft_tokens else []


def _from_start(rows: Iterable[Row]) -> list[Row]:
    return [replace(row, at_start=True) for row in rows]


# 0.6.6.post1: the V0 engine. Series are there once they have moved.


def _of_0_6(limits: Limits, _engines: int) -> list[Row]:
    lengths = _lengths(limits.context_tokens)
    return [
        _histogram("iteration_tokens_total", "step_whole_tokens", _STEP_V0),
        _histogram("time_to_first_token_seconds", "first_token_seconds", _FIRST),
        _histogram("time_per_output_token_seconds", "gap_seconds", _GAP),
        _histogram("e2e_request_latency_seconds", "whole_seconds", _WHOLE),
        _histogram("request_queue_time_seconds", "queue_seconds", _WHOLE),
        _histogram("request_inference_time_seconds", "inference_seconds", _WHOLE),
        _histogram("request_prefill_time_seconds", "prefill_seconds", _WHOLE),
        _histogram("request_decode_time_seconds", "decode_seconds", _WHOLE),
        _histogram("time_in_queue_requests", "queue_seconds", _WHOLE),
        _histogram("request_prompt_tokens", "prompt_length", lengths),
        _histogram("request_generation_tokens", "generation_length", lengths),
        _histogram("request_params_n", "choices", _CHOICES),
        _histogram("request_max_num_generation_tokens", "generation_length", lengths),
        _histogram("request_params_max_tokens", "asked_tokens", lengths),
        *_lora(limits),
        _config(_CONFIG_0_6, limits, 1, **_CONFIG_VALUES_0_6),
        _gauge("num_requests_running", "running"),
        _gauge("num_requests_swapped", "at_first_step"),
        _gauge("num_requests_waiting", "waiting"),
        _gauge("gpu_cache_usage_perc", "kv_usage"),
        _gauge("cpu_cache_usage_perc", "at_first_step"),
        _gauge("cpu_prefix_cache_hit_rate", "at_first_step", -1.0),
        _gauge("gpu_prefix_cache_hit_rate", "block_hit_rate"),
        _gauge("avg_prompt_throughput_toks_per_s", "prompt_throughput"),
        _gauge("avg_generation_throughput_toks_per_s", "generation_throughput"),
        _counter("num_preemptions", "preemptions"),
        _counter("prompt_tokens", "prefilled_tokens"),
        _counter("generation_tokens", "generated_tokens"),
        *_split("request_success", "finished_reason", stop="finished_stop", length="finished_length"),
    ]


_CONFIG_0_6 = """block_size cache_dtype cpu_offload_gb enable_prefix_caching gpu_memory_utilization is_attention_free
num_cpu_blocks num_gpu_blocks num_gpu_blocks_override sliding_window swap_space_bytes"""
_CONFIG_VALUES_0_6 = {
    "cpu_offload_gb": "0",
    "gpu_memory_utilization": "0.9",
    "is_attention_free": "False",
    "num_cpu_blocks": "4681",
    "swap_space_bytes": "4294967296",
}

# 0.10.2: the V1 engine, old and new names side by side. All series are there from the start.


def _of_0_10(limits: Limits, engines: int) -> list[Row]:
    lengths = _lengths(limits.context_tokens)
    rows = [
        _gauge("num_requests_running", "running"),
        _gauge("num_requests_waiting", "waiting"),
        _gauge("gpu_cache_usage_perc", "kv_usage"),
        _counter("gpu_prefix_cache_queries", "looked_up_tokens"),
        _counter("gpu_prefix_cache_hits", "found_tokens"),
        _gauge("kv_cache_usage_perc", "kv_usage"),
        _counter("prefix_cache_queries", "looked_up_tokens"),
        _counter("prefix_cache_hits", "found_tokens"),
        _counter("num_preemptions", "preemptions"),
        _counter("prompt_tokens", "prompt_tokens"),
        _counter("generation_tokens", "generated_tokens"),
        *_split("request_success", "finished_reason", stop="finished_stop", length="finished_length", abort=_NEVER),
        _histogram("request_prompt_tokens", "prompt_length", lengths),
        _histogram("request_generation_tokens", "generation_length", lengths),
        _histogram("iteration_tokens_total", "step_whole_tokens", _STEP),
        _histogram("request_max_num_generation_tokens", "generation_length", lengths),
        _histogram("request_params_n", "choices", _CHOICES),
        _histogram("request_params_max_tokens", "asked_tokens", lengths),
        _histogram("time_to_first_token_seconds", "first_token_seconds", _FIRST_LONG),
        _histogram("time_per_output_token_seconds", "gap_seconds", _GAP_LONG),
        _histogram("inter_token_latency_seconds", "gap_seconds", _GAP_LONG),
        *_phases(),
    ]
    config = _config(_CONFIG_0_10, limits, engines, **_CONFIG_VALUES_0_10)
    return [*_from_start([*rows, *_drafts(limits)]), *_lora(limits), config]


def _phases() -> list[Row]:
    return [
        _histogram("e2e_request_latency_seconds", "whole_seconds", _WHOLE_LONG),
        _histogram("request_queue_time_seconds", "queue_seconds", _WHOLE_LONG),
        _histogram("request_inference_time_seconds", "inference_seconds", _WHOLE_LONG),
        _histogram("request_prefill_time_seconds", "prefill_seconds", _WHOLE_LONG),
        _histogram("request_decode_time_seconds", "decode_seconds", _WHOLE_LONG),
    ]


_CONFIG_0_10 = """block_size cache_dtype calculate_kv_scales cpu_kvcache_space_bytes cpu_offload_gb
enable_prefix_caching gpu_memory_utilization is_attention_free kv_cache_memory_bytes kv_sharing_fast_prefill
mamba_cache_dtype mamba_page_size_padded mamba_ssm_cache_dtype num_cpu_blocks num_gpu_blocks num_gpu_blocks_override
prefix_caching_hash_algo sliding_window swap_space"""
_CONFIG_VALUES_0_10 = {
    "calculate_kv_scales": "False",
    "cpu_offload_gb": "0",
    "gpu_memory_utilization": "0.9",
    "is_attention_free": "False",
    "kv_sharing_fast_prefill": "False",
    "mamba_cache_dtype": "auto",
    "mamba_ssm_cache_dtype": "auto",
    "prefix_caching_hash_algo": "sha256",
    "swap_space": "4",
}

# 0.32.0


def _of_0_32(limits: Limits, engines: int) -> list[Row]:
    server = [
        Row("vllm:admission_rejections_total", "counter", signal, "server", {"reason": reason})
        for reason, signal in {"max_num_queued_reqs": "refused", "max_num_queued_tokens": _NEVER}.items()
    ]
    rows = [*_counted_0_32(), *_drafts(limits), *server, *_distributions_0_32(limits)]
    told = _CONFIG_VALUES_0_32 | {
        "effective_attention_block_size": str(limits.block_tokens),
        "kv_cache_size_tokens": str(limits.kv_tokens),
        "kv_cache_max_concurrency": str(limits.kv_tokens / limits.context_tokens),
    }
    return [*_from_start(rows), *_lora(limits), _config(_CONFIG_0_32, limits, engines, **told)]


def _counted_0_32() -> list[Row]:
    never = ("external_prefix_cache_queries", "external_prefix_cache_hits", "mm_cache_queries", "mm_cache_hits")
    return [
        *[_counter(f"estimated_{what}_per_gpu", _NEVER) for what in ("flops", "read_bytes", "write_bytes")],
        _gauge("num_requests_running", "running"),
        _gauge("num_requests_waiting", "waiting"),
        _gauge("num_requests_waiting_by_reason", "waiting", reason="capacity"),
        _gauge("num_requests_waiting_by_reason", _NEVER, reason="deferred"),
        _gauge("engine_sleep_state", _NEVER, 1.0, sleep_state="awake"),
        _gauge("engine_sleep_state", _NEVER, sleep_state="weights_offloaded"),
        _gauge("engine_sleep_state", _NEVER, sleep_state="discard_all"),
        _gauge("kv_cache_usage_perc", "kv_usage"),
        _counter("prefix_cache_queries", "looked_up_tokens"),
        _counter("prefix_cache_hits", "found_tokens"),
        *[_counter(name, _NEVER) for name in never],
        _counter("num_preemptions", "preemptions"),
        _counter("prompt_tokens", "prompt_tokens"),
        *_split("prompt_tokens_by_source", "source", **_SOURCES),
        _counter("prompt_tokens_cached", "cached_tokens"),
        *_split("prompt_tokens_cached_by_source", "source", **_CACHES),
        _counter("generation_tokens", "generated_tokens"),
        *_split("request_success", "finished_reason", **_ENDS),
    ]


_SOURCES = {"local_compute": "computed_tokens", "local_cache_hit": "cached_tokens", "external_kv_transfer": _NEVER}
_CACHES = {"device": "found_tokens", "host": _NEVER, "p2p": _NEVER, "disk": _NEVER, "external_unspecified": _NEVER}
_ENDS = {
    "stop": "finished_stop",
    "length": "finished_length",
    "abort": _NEVER,
    "error": "finished_error",
    "repetition": _NEVER,
}


def _distributions_0_32(limits: Limits) -> list[Row]:
    lengths = _lengths(limits.context_tokens)
    return [
        _histogram("request_prompt_tokens", "prompt_length", lengths),
        _histogram("request_generation_tokens", "generation_length", lengths),
        _histogram("iteration_tokens_total", "step_tokens", _STEP),
        _histogram("request_max_num_generation_tokens", "generation_length", lengths),
        _histogram("request_params_n", "choices", _CHOICES),
        _histogram("request_params_max_tokens", "asked_tokens", lengths),
        _histogram("time_to_first_token_seconds", "first_token_seconds", _FIRST_LONG),
        _histogram("inter_token_latency_seconds", "gap_seconds", _GAP_LONG),
        _histogram("request_time_per_output_token_seconds", "token_seconds", _GAP_LONG),
        *_phases(),
        _histogram("request_num_preemptions", "preemptions_of_request", _PREEMPTIONS),
        _histogram("request_prefill_kv_computed_tokens", "computed_length", lengths),
    ]


_CONFIG_0_32 = """_block_size_resolved block_size cache_dtype cache_hit_alignment_tokens effective_attention_block_size
enable_mamba_shared_prefix_checkpoint enable_prefix_caching gpu_memory_utilization hash_block_size is_attention_free
kv_cache_dtype_skip_layers kv_cache_layout kv_cache_max_concurrency kv_cache_memory_bytes kv_cache_size_tokens
kv_offloading_backend kv_offloading_size kv_sharing_fast_prefill mamba_block_size mamba_cache_dtype mamba_cache_mode
mamba_page_size_padded mamba_ssm_cache_dtype num_cpu_blocks num_gpu_blocks num_gpu_blocks_override
prefix_cache_retention_interval prefix_caching_hash_algo prefix_match_unit replayssm_buffer_len skip_page_size_padded
sliding_window swa_bounded_replay use_kda_recoverssm use_replayssm user_specified_block_size"""
_CONFIG_VALUES_0_32 = {
    "_block_size_resolved": "True",
    "enable_mamba_shared_prefix_checkpoint": "False",
    "gpu_memory_utilization": "0.92",
    "is_attention_free": "False",
    "kv_cache_dtype_skip_layers": "[]",
    "kv_offloading_backend": "native",
    "kv_sharing_fast_prefill": "False",
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "mamba_ssm_cache_dtype": "float32",
    "prefix_cache_retention_interval": "0",
    "prefix_caching_hash_algo": "sha256",
    "replayssm_buffer_len": "16",
    "swa_bounded_replay": "True",
    "use_kda_recoverssm": "False",
    "use_replayssm": "False",
    "user_specified_block_size": "False",
}


@dataclass(frozen=True, slots=True)
class Release:
    """`rows` are made of limits and the number of engines."""

    rows: Callable[[Limits, int], list[Row]]
    is_v0: bool = False
    metrics_type: str = "text/plain; version=0.0.4; charset=utf-8"


RELEASES = {
    "0.6.6.post1": Release(_of_0_6, is_v0=True),
    "0.10.2": Release(_of_0_10),
    "0.32.0": Release(_of_0_32, metrics_type="text/plain; version=1.0.0; charset=utf-8"),
}
