"""NVIDIA NIM for LLMs 1.x: names without prefix, from its documentation and from pages that others published.

NIM runs TensorRT-LLM, vLLM or SGLang underneath and does not say which on this page. NIM 2.x passes vLLM's own names
on (`vllm:…`): such a page is vLLM's.
"""

from __future__ import annotations

from exporters.flags import Flag, Purpose
from exporters.rhythm import Rhythm, TokenTiming
from exporters.table import (
    Document,
    Field,
    Fold,
    Form,
    Frontend,
    Json,
    Keep,
    Over,
    Quality,
    Series,
    Source,
    Trap,
)

_SLOW = 60.0

_FINISHED = Keep(
    "reason",
    {"stop": "stop", "length": "length", "abort": "abort", "cancelled": "abort", "error": "error", "timeout": "error"},
    other="unknown",
)
_STOP, _ERROR = {"reason": "stop"}, {"reason": "error"}
_NOT_EXPOSED = "NIM does not expose it"

_FIELDS = (
    Field(
        "llm_kv_cache_utilization_ratio",
        Source(Series("gpu_cache_usage_perc")),
        definition="0 to 1 in spite of its name.",
    ),
    Field("llm_kv_cache_capacity_tokens", missing=_NOT_EXPOSED),
    Field(
        "llm_requests_running",
        Source(Series("num_requests_running")),
        definition="Requests that run on the GPU, as of the last iteration.",
    ),
    Field(
        "llm_requests_waiting",
        Source(Series("num_requests_waiting")),
        definition="Requests that wait to be processed, as of the last iteration.",
    ),
    Field("llm_requests_waiting_api", missing=_NOT_EXPOSED),
    Field(
        "llm_requests_running_limit",
        Source(Series("num_request_max")),
        definition="Requests that may run at once, whether the KV cache has room for them or not.",
    ),
    Field(
        "llm_prompt_tokens_total",
        Source(Series("prompt_tokens_total")),
        definition="Prefill tokens; with TensorRT-LLM underneath added when the request finishes.",
    ),
    Field(
        "llm_generation_tokens_total",
        Source(Series("generation_tokens_total")),
        definition="With TensorRT-LLM underneath added when the request finishes.",
    ),
    Field("llm_prefix_cache_query_tokens_total", missing=_NOT_EXPOSED),
    Field("llm_prefix_cache_hit_tokens_total", missing=_NOT_EXPOSED),
    Field("llm_prefix_cache_hit_ratio", missing=_NOT_EXPOSED),
    Field(
        "llm_requests_finished_total",
        Source(Series("request_finish_total", keep={"finished_reason": _FINISHED})),
        Source(
            Series("request_success_total", keep={"finished_reason": _FINISHED}),
            needs=("request_success{finished_reason}",),
        ),
        Source(
            Series("request_success_total", add=_STOP),
            Series("request_failure_total", add=_ERROR),
            quality=Quality.APPROXIMATE,
            note="all successes are `stop`, as it is not told which ended by their length",
        ),
        missing="appears with the first finished request",
        definition="Whether requests that the client cancels are counted is not documented.",
    ),
    Field("llm_requests_rejected_total", missing=_NOT_EXPOSED),
    Field(
        "llm_requests_unfinished",
        missing="with TensorRT-LLM underneath latencies are observed at the end: nothing shows requests that never do",
    ),
    Field("llm_preemptions_total", missing=_NOT_EXPOSED),
    Field("llm_spec_decode_draft_tokens_total", missing=_NOT_EXPOSED),
    Field("llm_spec_decode_accepted_tokens_total", missing=_NOT_EXPOSED),
    Field("llm_lora_adapters_running", missing=_NOT_EXPOSED),
    Field("llm_lora_adapters_waiting", missing=_NOT_EXPOSED),
    Field("llm_lora_adapters_limit", missing=_NOT_EXPOSED),
    Field(
        "llm_time_to_first_token_seconds",
        Source(Series("time_to_first_token_seconds")),
        definition="The bounds end at 10 s: longer ones read `at least`.",
    ),
    Field(
        "llm_inter_token_latency_seconds",
        Source(Series("time_per_output_token_seconds")),
        definition="One per token after the first, in spite of the wire's name; the bounds end at 2.5 s.",
    ),
    Field(
        "llm_time_per_output_token_seconds",
        missing="time_per_output_token_seconds has one observation per token: llm_inter_token_latency_seconds",
    ),
    Field(
        "llm_request_duration_seconds",
        Source(Series("e2e_request_latency_seconds")),
        definition="The bounds begin at 1 s and end at 60 s: shorter and longer ones are told no better.",
    ),
    Field("llm_queue_time_seconds", missing=_NOT_EXPOSED),
    Field("llm_prefill_time_seconds", missing=_NOT_EXPOSED),
    Field("llm_decode_time_seconds", missing=_NOT_EXPOSED),
    Field("llm_prompt_length_tokens", Source(Series("request_prompt_tokens"))),
    Field("llm_generation_length_tokens", Source(Series("request_generation_tokens"))),
    Field(
        "llm_process_start_time_seconds",
        Source(Series("@process_start_time_seconds")),
        missing="this page has no process metrics",
    ),
)

_TRAPS = (
    Trap("The engine underneath is not told",
         "The label `framework` reads tensorrt_llm, which NIM 1.x takes where it has an engine for the GPU; the fact "
         "`frontend` says nim. Compare NIM servers with each other."),
    Trap("Five names are those of trtllm-serve 1.1 and 1.2",
         "num_request_max, gpu_cache_usage_perc and request_finish_total are NIM's alone; trtllm-serve's series carry "
         "engine_type."),
    Trap("gpu_cache_usage_perc is no percentage", "0 to 1, as it comes."),
    Trap("time_per_output_token_seconds has one observation per token",
         "It feeds llm_inter_token_latency_seconds: published pages show as many as generated tokens after the first."),
    Trap("NIM 2.x passes vLLM's metrics on under vLLM's names", "Such a page is read as vLLM's."),
    Trap("The page was at /metrics in 24.05", "Asked for there where /v1/metrics is not found."),
)  # fmt: skip

NIM = Frontend(
    name="nim",
    framework="tensorrt_llm",
    prefixes=("",),
    releases="24.05 and 1.x",
    documents=(
        Document("metrics", "/v1/metrics", older="/metrics"),
        Document("version", "/v1/version", Form.JSON, _SLOW),
        Document("models", "/v1/models", Form.JSON, _SLOW),
        Document("health", "/v1/health/live", Form.STATUS, 15.0),
    ),
    folds={"pid": Fold.MAX},
    model_label="model_name",
    facts={
        "version": (Json("version", "release"),),
        "model": (Json("models", "id", records="data", over=Over.FIRST),),
    },
    fields=_FIELDS,
    marks=("num_request_max", "gpu_cache_usage_perc", "request_finish", "request_prompt_tokens",
           "request_generation_tokens"),
    ignore=("python_*", "process_*", "http_*", "vision_encoder_latency_seconds"),
    flags={
        Purpose.BATCH: (Flag("NIM_MAX_NUM_SEQS"),),
        Purpose.KV_MEMORY: (Flag("NIM_KVCACHE_PERCENT"),),
        Purpose.PREFIX_CACHING: (Flag("NIM_ENABLE_KV_CACHE_REUSE"),),
        Purpose.CONTEXT: (Flag("NIM_MAX_MODEL_LEN"),),
    },
    rhythm=Rhythm(TokenTiming.FINISH),
    traps=_TRAPS,
)  # fmt: skip
