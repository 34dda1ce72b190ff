"""Triton Inference Server with TensorRT-LLM 0.7 to 1.4: its own families, and those of the C++ and Python backends.

Read from the backends' and the server's metrics code and from recorded pages. A repository holds several models for
one LLM; requests enter at one of them, the *entry*, and the engine is another: see `_ENTRY` and `_ENGINE`.
"""

from __future__ import annotations

from math import inf

from exporters.flags import Flag, Purpose
from exporters.rhythm import Refresh, Rhythm, TokenTiming
from exporters.table import (
    Calc,
    Document,
    Field,
    Form,
    Frontend,
    Json,
    Keep,
    Label,
    Need,
    Over,
    Prefer,
    Quality,
    Ratio,
    Read,
    Reason,
    Series,
    Source,
    Trap,
)

_APPROXIMATE, _DERIVED = Quality.APPROXIMATE, Quality.DERIVED
_ANY = Need.ANY
_SLOW = 60.0

# The ensemble and the BLS model do not call each other, and may be loaded side by side.
_ENTRY_MODELS = Prefer(("ensemble", "tensorrt_llm_bls"), "tensorrt_llm", role="entry")
_ENTRY = {"model": _ENTRY_MODELS}
_ENGINE = {"model": Prefer("tensorrt_llm", role="engine")}
_OUTCOMES = (("success", "stop"), ("fail", "error"))
_COUNTERS_ON = ("inference_request_duration_us",)
"""With counter_latencies=false the counters of requests stand still at 0 as well."""


def _requests(kind: str, *invalid: float) -> Series:
    return Series("trt_llm_request_metrics", {**_ENGINE, "request_type": kind}, invalid=invalid)


def _blocks(kind: str, *invalid: float) -> Series:
    return Series("trt_llm_kv_cache_block_metrics", {**_ENGINE, "kv_cache_block_type": kind}, invalid=invalid)


def _counted(outcome: str, reason: str) -> Json:
    path = f"inference_stats.{outcome}.count"
    return Json(
        "stats", path, records="model_stats", where={"name": _ENTRY_MODELS}, over=Over.PARTS, add={"reason": reason}
    )


_FAILED = Keep("reason", {"CANCELED": "abort", "BACKEND": "error", "OTHER": "error"}, other="error")
_FAILURES = Series(
    "inference_request_failure",
    {**_ENTRY, "reason": ("CANCELED", "BACKEND", "OTHER", "")},
    keep={"reason": _FAILED},
)
_PENDING = Series("inference_pending_request_count", _ENTRY)
_PROMPT_TOKENS = Series("llm_input_token_len_sum", _ENGINE)

_QUEUE_HIDDEN = "requests in the engine's own queue are not exposed: too small, often 0 while requests wait"
_OUTCOME = (
    "all successes are `stop`, as it is not told which ended by their length; an ensemble may count one failure twice"
)
_FROM_STATS = f"/v2/models/stats does not tell cancelled requests from failed ones; {_OUTCOME}"
_LLM_API = "the LLM-API (PyTorch) model exposes no engine metrics: serve it with trtllm-serve to see more"
_NO_ENGINE = (Reason(_LLM_API, lacks=("trt_llm_request_metrics",)), Reason("appears with the first iteration"))
_SINCE_0_16 = (
    Reason(_LLM_API, lacks=("trt_llm_request_metrics",)),
    Reason("this release of the backend is too old: exposed since 0.16"),
)
_NO_LORA = "Triton exposes nothing of LoRA"
_NO_HISTOGRAM = "Triton has no histogram of it, only totals and, with summary_latencies=true, windowed quantiles"

_FIELDS = (
    Field(
        "llm_kv_cache_utilization_ratio",
        Source(Calc("/", _blocks("used"), _blocks("max")), quality=_DERIVED, note="used / all blocks"),
        missing=_NO_ENGINE,
        definition="Blocks in use / all blocks.",
    ),
    Field(
        "llm_kv_cache_capacity_tokens",
        Source(Calc("*", _blocks("max", 0.0), _blocks("tokens_per")), quality=_DERIVED, note="blocks times block size"),
        missing=_NO_ENGINE,
    ),
    Field(
        "llm_requests_running",
        Source(_requests("scheduled")),
        missing=_NO_ENGINE,
        definition="Requests in the batch of the last iteration.",
    ),
    Field(
        "llm_requests_waiting",
        Source(
            Calc("+", _requests("waiting"), _PENDING, need=_ANY, floor=0),
            needs=("trt_llm_request_metrics{request_type=waiting}",),
            quality=_APPROXIMATE,
            note=_QUEUE_HIDDEN,
        ),
        Source(
            Calc("+", Calc("-", _requests("active"), _requests("scheduled"), floor=0), _PENDING, need=_ANY),
            needs=("trt_llm_request_metrics",),
            quality=_APPROXIMATE,
            note=_QUEUE_HIDDEN,
        ),
        Source(_PENDING, quality=_APPROXIMATE, note=f"Triton's queue alone; {_QUEUE_HIDDEN}"),
        missing=_NO_ENGINE,
        definition="Admitted by the engine without being in the batch, and pending at the entry model.",
    ),
    Field(
        "llm_requests_waiting_api",
        Source(_PENDING),
        missing="exposed since Triton 23.09",
        definition="Requests that wait in Triton for the entry model.",
    ),
    Field(
        "llm_requests_running_limit",
        Source(
            _requests("max", 0.0),
            quality=_APPROXIMATE,
            note="requests that may be admitted at once; the batch may be smaller (max_batch_size of the engine)",
        ),
        missing=_NO_ENGINE,
    ),
    Field(
        "llm_prompt_tokens_total",
        Source(_PROMPT_TOKENS),
        missing=_SINCE_0_16,
        definition="The whole prompt, cached part included, added when the request finishes.",
    ),
    Field(
        "llm_generation_tokens_total",
        Source(Series("llm_output_token_len_sum", _ENGINE)),
        missing=_SINCE_0_16,
        definition="Added when the request finishes.",
    ),
    Field(
        "llm_prefix_cache_query_tokens_total",
        Source(
            _PROMPT_TOKENS,
            needs=("trt_llm_kv_cache_block_metrics{kv_cache_block_type=reused}",),
            quality=_APPROXIMATE,
            note="prompt tokens of finished requests: the server does not tell what was looked up",
        ),
        missing="only the C++ backend since 0.13 counts reused blocks",
    ),
    Field(
        "llm_prefix_cache_hit_tokens_total",
        Source(
            Calc("*", _blocks("reused"), _blocks("tokens_per")), quality=_DERIVED, note="reused blocks times block size"
        ),
        missing="only the C++ backend since 0.13 counts reused blocks",
    ),
    Field(
        "llm_prefix_cache_hit_ratio",
        Source(
            Ratio("llm_prefix_cache_hit_tokens_total", "llm_prefix_cache_query_tokens_total"),
            quality=_APPROXIMATE,
            note="hits as they happen over prompt tokens of finished requests",
        ),
        missing="only the C++ backend since 0.13 counts reused blocks",
    ),
    Field(
        "llm_requests_finished_total",
        Source(
            Series("inference_request_success", _ENTRY, add={"reason": "stop"}),
            _FAILURES,
            needs=_COUNTERS_ON,
            quality=_APPROXIMATE,
            note=_OUTCOME,
        ),
        Source(
            *(_counted(*outcome) for outcome in _OUTCOMES),
            quality=_APPROXIMATE,
            note=_FROM_STATS,
        ),
        Source(
            Series("inference_request_summary_us_count", _ENTRY, add={"reason": "stop"}),
            quality=_APPROXIMATE,
            note="successes alone, all as `stop`: with counter_latencies=false failures are not counted",
        ),
        missing="no entry model is known: none of ensemble, tensorrt_llm_bls and tensorrt_llm is loaded, and several "
        "others are: name it with `entry_model`; or the server runs with counter_latencies=false",
        definition="Requests to the entry model (ensemble and tensorrt_llm_bls, else tensorrt_llm; or `entry_model`). "
        "Successes are all `stop`.",
    ),
    Field(
        "llm_requests_rejected_total",
        Source(
            Series("inference_request_failure", {**_ENTRY, "reason": "REJECTED"}, add={"reason": "rejected"}),
            needs=_COUNTERS_ON,
        ),
        missing="exposed since Triton 24.07, unless the server runs with counter_latencies=false",
        definition="Refused by Triton's queue policy of the entry model.",
    ),
    Field(
        "llm_requests_unfinished",
        missing="Triton counts a request when it ends, and the engine when it is scheduled: nothing tells who vanished",
    ),
    Field(
        "llm_preemptions_total",
        missing="only a gauge shows the paused requests of the last iteration; nothing counts pauses",
    ),
    Field("llm_spec_decode_draft_tokens_total", missing="Triton exposes nothing of speculative decoding"),
    Field("llm_spec_decode_accepted_tokens_total", missing="Triton exposes nothing of speculative decoding"),
    Field("llm_lora_adapters_running", missing=_NO_LORA),
    Field("llm_lora_adapters_waiting", missing=_NO_LORA),
    Field("llm_lora_adapters_limit", missing=_NO_LORA),
    Field(
        "llm_time_to_first_token_seconds",
        Source(Series("inference_first_response_histogram_ms", _ENTRY, scale=1e-3)),
        missing="exposed since Triton 24.11 with --metrics-config histogram_latencies=true, up to 26.01 for decoupled "
        "(streaming) models only",
        definition="One per request, arrival at Triton to first response of the entry model, tokenising included. Four "
        "bounds by default: 0.1, 0.5, 2 and 5 s.",
    ),
    Field("llm_inter_token_latency_seconds", missing="not exposed"),
    Field("llm_time_per_output_token_seconds", missing="not exposed"),
    Field("llm_request_duration_seconds", missing=_NO_HISTOGRAM),
    Field("llm_queue_time_seconds", missing="nv_inference_queue_* is Triton's queue; the engine's is not exposed"),
    Field("llm_prefill_time_seconds", missing="not exposed"),
    Field("llm_decode_time_seconds", missing="not exposed"),
    Field(
        "llm_prompt_length_tokens",
        Source(Series("llm_input_token_len", _ENGINE)),
        missing=_SINCE_0_16,
        definition="One per finished request, cached part included; the bounds end at 1000.",
    ),
    Field(
        "llm_generation_length_tokens",
        Source(Series("llm_output_token_len", _ENGINE)),
        missing=_SINCE_0_16,
        definition="One per finished request; the bounds end at 1000.",
    ),
    Field("llm_process_start_time_seconds", missing="not exposed; a restart shows as counters that fall"),
)

_TRAPS = (
    Trap("Every step of an ensemble counts the request again, a streaming step once per response",
         "Only the entry model is read: ensemble and tensorrt_llm_bls, else tensorrt_llm, else the only one there is; "
         "`entry_model` of the configuration overrides it."),
    Trap("A decoupled Python model is timed until it returns, not until its last response",
         "Latencies come from the entry model alone."),
    Trap("`model` is the name in the repository, not the LLM",
         "It is the served name at Triton's API; `model` of the server's configuration gives the LLM's."),
    Trap("With counter_latencies=false the request counters stay at 0",
         "They are not used then: /v2/models/stats counts, else the summaries' count."),
    Trap("One failing request may count twice in an ensemble, and as a success of tensorrt_llm",
         "llm_requests_finished_total is `approximate`."),
    Trap("REJECTED, CANCELED and others are told apart since 24.07 only", "Before, every failure is an error."),
    Trap("Counters carry no _total, and times are µs, ms and ns side by side",
         "Types come from the schema, every source has its scale."),
    Trap("Fresh summaries read `Nan`", "Any spelling of NaN is read; summaries' quantiles are not used: windows of "
         "unknown age merge with nothing."),
    Trap("Until the first iteration the block counts and limits are 0",
         "0 stands for unknown there; use is told once there are blocks."),
    Trap("The last iteration's values stay when the load ends", "They are `approximate`, and say so."),
    Trap("waiting = active - scheduled, and may fall below 0", "0 is the least; releases before 0.18 are computed so."),
    Trap("Requests queued inside the engine are not exposed, and Triton's pending count does not know them",
         "llm_requests_waiting is `approximate`: it may read 0 while requests wait."),
    Trap("reused is a gauge that only counts up", "It is treated as the counter it is."),
    Trap("The general timestamp is in seconds or microseconds by backend and release, in local time", "Not used."),
    Trap("terminated_requests (0.8) became paused_requests (0.9)", "Not used: gauges of one iteration."),
    Trap("nv_llm_* count when a request finishes", "The rhythm says `finish`."),
    Trap("nv_cache_* is the response cache, never the KV cache", "Not used."),
    Trap("nv_inference_queue_* is Triton's queue, not the engine's", "Not used for llm_queue_time_seconds."),
    Trap("24.10 accepts histogram_latencies=true and exposes nothing", "The field says since when."),
    Trap("In leader mode every rank is a Triton, and only the leader has engine metrics", "Watch the leader."),
    Trap("kv_cache_transfer_ms and request_count of disaggregated serving are 0 elsewhere", "Not used."),
    Trap("The LLM-API (PyTorch) model has none of the nv_trt_llm_* families", "The fields say so."),
    Trap("The version that Triton tells is its own, not TensorRT-LLM's", "llm_server_info shows Triton's."),
    Trap("Metrics have their own port (8002), and may be switched off alone", "The model API's port tells whether the "
         "server is up."),
)  # fmt: skip

TRITON = Frontend(
    name="triton",
    framework="tensorrt_llm",
    prefixes=("nv_",),
    releases="Triton 23.11 to 26.07 with TensorRT-LLM 0.7 and later",
    documents=(
        Document("metrics", ":8002/metrics"),
        Document("server", "/v2", Form.JSON, _SLOW),
        Document("stats", "/v2/models/stats", Form.JSON, 15.0),
        Document("health", "/v2/health/live", Form.STATUS, 15.0),
    ),
    folds={},
    model_label="",
    facts={
        "version": (Json("server", "version"),),
        "model": (
            *(
                Label("inference_request_success", "model", Read.TEXT, values={name: name})
                for name in ("ensemble", "tensorrt_llm_bls", "tensorrt_llm")
            ),
            Label("inference_request_success", "model", Read.TEXT),
            Json("stats", "name", records="model_stats", where={"name": _ENTRY_MODELS}, over=Over.FIRST),
        ),
    },
    fields=_FIELDS,
    marks=(
        "trt_llm_request_metrics", "trt_llm_kv_cache_block_metrics", "trt_llm_general_metrics",
        "llm_input_token_len", "llm_output_token_len",
        "inference_request_success{model=tensorrt_llm}", "inference_request_success{model=tensorrt_llm_bls}",
        "inference_first_response_histogram_ms{model=tensorrt_llm}",
    ),
    accepts=("inference_request_success",),
    owner=(Json("server", "name"), "triton"),
    no_metrics="Triton serves metrics on a port of their own, 8002 unless --metrics-port says otherwise; "
    "--allow-metrics=false switches them off.",
    ignore=(
        "inference_count", "inference_exec_count", "inference_*_duration_us", "inference_*_summary_us", "cache_*",
        "gpu_*", "energy_consumption", "cpu_*", "pinned_memory_pool_*", "model_load_duration_secs",
        "trt_llm_runtime_memory_metrics", "trt_llm_inflight_batcher_metrics", "trt_llm_v1_metrics",
        "trt_llm_general_metrics", "trt_llm_disaggregated_serving_metrics",
    ),
    flags={
        Purpose.BATCH: (Flag("max_batch_size of the engine"),),
        Purpose.KV_MEMORY: (Flag("kv_cache_free_gpu_mem_fraction", default="0.9"),),
        Purpose.PREFIX_CACHING: (Flag("enable_kv_cache_reuse"),),
        Purpose.STATISTICS: (Flag("--allow-metrics, --metrics-config"),),
        Purpose.CONTEXT: (Flag("max_seq_len of the engine"),),
        Purpose.PREFILL: (Flag("max_num_tokens of the engine"),),
        Purpose.BLOCK: (Flag("tokens_per_block of the engine"),),
    },
    rhythm=Rhythm(
        TokenTiming.FINISH,
        gauges=(
            Refresh(
                ("llm_kv_cache_utilization_ratio", "llm_requests_running", "llm_requests_waiting"),
                seconds=0.1,
                flag="stats_check_period_ms of the model",
                idle_seconds=inf,
                needs=("trt_llm_request_metrics",),
            ),
        ),
    ),
    traps=_TRAPS,
)  # fmt: skip
