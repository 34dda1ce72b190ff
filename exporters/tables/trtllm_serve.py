"""trtllm-serve of TensorRT-LLM 0.18 to the 1.4 development versions, read from its metrics code and recorded pages.

Three generations of metrics, told apart by what the page shows: five families without prefix (1.1, 1.2), `trtllm_`
names (1.3.0rc5), and the same with gauges, token counters and `model_config_info` (development from March 2026). The
JSON statistics at /metrics, older than all of them, have what the first two lack.
"""

from __future__ import annotations

from math import inf

from exporters.flags import Flag, Purpose
from exporters.rhythm import Refresh, Rhythm, TokenTiming
from exporters.table import (
    Calc,
    Document,
    Field,
    Fold,
    Form,
    Frontend,
    Json,
    Keep,
    Label,
    Need,
    Over,
    Quality,
    Ratio,
    Read,
    Reason,
    Series,
    Source,
    Trap,
)

_APPROXIMATE, _DERIVED = Quality.APPROXIMATE, Quality.DERIVED
_SLOW = 60.0
_ANY = Need.ANY
_ITERATIONS = "iterations"
_FROM_JSON = (f"json:{_ITERATIONS}",)
_NEW = ("model_config_info",)
"""On the page of every version since March 2026, also before the first request."""


def _stat(path: str, over: Over = Over.LAST, idle: float | None = None) -> Json:
    return Json(_ITERATIONS, path, over=over, engine="attentionDpRank", idle=idle)


_SERVER_ERRORS = Series(
    "request_error_total", {"http_code": ("500", "501", "502", "503", "504")}, {}, {"reason": "error"}
)
_FINISHED = Keep(
    "reason", {"stop": "stop", "length": "length", "cancelled": "abort", "timeout": "error"}, other="unknown"
)
_SUCCESS = Series("request_success_total", keep={"finished_reason": _FINISHED})
_COMPLETED = Json(
    _ITERATIONS, "numCompletedRequests", over=Over.SUM, engine="attentionDpRank", add={"reason": "unknown"}
)

_RUNNING, _SCHEDULED = Series("num_requests_running"), Series("num_scheduled_requests")
_ACTIVE_STAT = _stat("numActiveRequests", idle=0.0)
_SCHEDULED_STAT = _stat("inflightBatchingStats.numScheduledRequests", idle=0.0)
_BLOCK_SIZE, _BLOCK_SIZE_STAT = Series("kv_cache_tokens_per_block"), _stat("kvCacheStats.tokensPerBlock", Over.HELD)
_REUSED = Series("kv_cache_reused_blocks_total")
_REUSED_STAT = _stat("kvCacheStats.reusedBlocks", Over.RISE)

_AT_FINISH = Refresh(
    ("llm_kv_cache_utilization_ratio", "llm_requests_running", "llm_requests_waiting"),
    on="when a request finishes, so it stands still during one long generation",
    idle_seconds=inf,
)
_POLLED = "of the last iteration read; an empty answer reads as idle, also where somebody else took the records"
_LOSSY = "iterations that overflowed the server's queue, or that somebody else read, are missing"
_WHOLE_BLOCKS = "blocks times block size: a prompt's last, partly filled block counts in full"
_IDLE = "no iteration since the last reading: the server is idle, or somebody else reads /metrics too"
_FIRST_FINISHED = "appears with the first finished request"
_ONLY_JSON = (
    "not on the metrics page of this version; the JSON statistics at /metrics have it where the server runs with "
    "`enable_iter_perf_stats: true`"
)
_NOT_YET = (Reason(_FIRST_FINISHED, needs=_NEW), Reason(_ONLY_JSON))
_GAUGE_MISSING = (Reason(_IDLE, needs=_FROM_JSON), *_NOT_YET)
_TOKEN_PAIR_LACKS = ("kv_cache_config_info{enable_block_reuse=False}",)
_SPEC_OFF = "speculative decoding is off, or the version is too old to count it"
_NO_LORA = "trtllm-serve exposes nothing of LoRA"
_SINCE_MARCH_2026 = (
    Reason(_FIRST_FINISHED, needs=_NEW),
    Reason("this version is too old: exposed by the 1.3 development versions from March 2026 on"),
)
_HISTOGRAM_MISSING = (
    Reason(
        "only the metrics page has it: start the server with `return_perf_metrics: true`",
        needs=_FROM_JSON,
        lacks=("request_success",),
    ),
    Reason(_FIRST_FINISHED),
)

_FIELDS = (
    Field(
        "llm_kv_cache_utilization_ratio",
        Source(Series("kv_cache_utilization")),
        Source(
            Calc("/", _stat("kvCacheStats.usedNumBlocks"), _stat("kvCacheStats.maxNumBlocks")),
            quality=_DERIVED,
            note="used blocks / all blocks of the last iteration read",
        ),
        missing=_GAUGE_MISSING,
        definition="Blocks in use / all blocks, of rank 0.",
    ),
    Field(
        "llm_kv_cache_capacity_tokens",
        Source(Calc("*", Series("kv_cache_max_blocks"), _BLOCK_SIZE), quality=_DERIVED, note="blocks times block size"),
        Source(
            Calc("*", _stat("kvCacheStats.maxNumBlocks", Over.HELD), _BLOCK_SIZE_STAT),
            quality=_DERIVED,
            note="blocks times block size",
        ),
        missing=_NOT_YET,
    ),
    Field(
        "llm_requests_running",
        Source(_SCHEDULED),
        Source(_RUNNING, quality=_APPROXIMATE, note="requests admitted, in the batch or not"),
        Source(_SCHEDULED_STAT, quality=_APPROXIMATE, note=_POLLED),
        missing=_NOT_YET,
        definition="Requests in the batch of the last iteration; with overlap scheduling that is one behind.",
    ),
    Field(
        "llm_requests_waiting",
        Source(
            Calc("+", Series("num_requests_waiting"), Calc("-", _RUNNING, _SCHEDULED, floor=0)),
            quality=_DERIVED,
            note="queued, and admitted without being in the batch",
        ),
        Source(Series("num_requests_waiting"), quality=_APPROXIMATE, note="queued only"),
        Source(
            Calc("+", _stat("numQueuedRequests", idle=0.0), Calc("-", _ACTIVE_STAT, _SCHEDULED_STAT, floor=0)),
            quality=_APPROXIMATE,
            note=f"queued, and admitted without being in the batch; {_POLLED}",
        ),
        missing=_NOT_YET,
        definition="The executor's queue and admitted requests that the last batch left out.",
    ),
    Field("llm_requests_waiting_api", missing="trtllm-serve counts nothing that waits before its executor"),
    Field(
        "llm_requests_running_limit",
        Source(
            Series("max_num_active_requests", invalid=(0.0,)),
            quality=_APPROXIMATE,
            note="requests that may be admitted at once; the batch may be smaller (max_batch_size)",
        ),
        Source(
            _stat("maxNumActiveRequests", Over.HELD),
            quality=_APPROXIMATE,
            note="requests that may be admitted at once; the batch may be smaller (max_batch_size)",
        ),
        missing=_NOT_YET,
    ),
    Field(
        "llm_prompt_tokens_total",
        Source(Series("prompt_tokens_total")),
        Source(
            Calc(
                "+",
                _stat("inflightBatchingStats.numCtxTokens", Over.SUM),
                Calc("*", _REUSED_STAT, _BLOCK_SIZE_STAT),
                need=_ANY,
            ),
            quality=_APPROXIMATE,
            note=f"prefilled tokens of each iteration, plus reused blocks times block size; {_LOSSY}",
        ),
        missing=_NOT_YET,
        definition="The whole prompt, cached part included, added when the request finishes; from the JSON statistics: "
        "as it is prefilled.",
    ),
    Field(
        "llm_generation_tokens_total",
        Source(Series("generation_tokens_total")),
        Source(
            Calc(
                "+",
                _stat("inflightBatchingStats.numGenRequests", Over.SUM),
                _stat("specDecodingStats.numAcceptedTokens", Over.SUM),
                _stat("numCompletedRequests", Over.SUM),
                need=_ANY,
            ),
            quality=_APPROXIMATE,
            note="one token for each decoding request of an iteration, accepted draft tokens, and one first token for "
            f"each finished request; {_LOSSY}",
        ),
        missing=_NOT_YET,
        definition="Added when the request finishes; from the JSON statistics: live.",
    ),
    Field(
        "llm_prefix_cache_query_tokens_total",
        Source(
            Series("prompt_tokens_total"),
            needs=("prompt_cached_tokens",),
            lacks=_TOKEN_PAIR_LACKS,
            quality=_DERIVED,
            note="prompt tokens of finished requests",
        ),
        Source(
            Calc("*", Calc("+", _REUSED, Series("kv_cache_missed_blocks_total"), need=_ANY), _BLOCK_SIZE),
            quality=_APPROXIMATE,
            note=_WHOLE_BLOCKS,
        ),
        Source(
            Calc("*", Calc("+", _REUSED_STAT, _stat("kvCacheStats.missedBlocks", Over.RISE)), _BLOCK_SIZE_STAT),
            quality=_APPROXIMATE,
            note=_WHOLE_BLOCKS,
        ),
        missing=_NOT_YET,
    ),
    Field(
        "llm_prefix_cache_hit_tokens_total",
        Source(Series("prompt_cached_tokens_total"), lacks=_TOKEN_PAIR_LACKS),
        Source(Calc("*", _REUSED, _BLOCK_SIZE), quality=_DERIVED, note="reused blocks times block size"),
        Source(Calc("*", _REUSED_STAT, _BLOCK_SIZE_STAT), quality=_DERIVED, note="reused blocks times block size"),
        missing=_NOT_YET,
        definition="Prompt tokens of finished requests that came from the cache; where only blocks are counted, those "
        "reused. Needs enable_block_reuse.",
    ),
    Field(
        "llm_prefix_cache_hit_ratio",
        Source(Ratio("llm_prefix_cache_hit_tokens_total", "llm_prefix_cache_query_tokens_total")),
        Source(
            Series("kv_cache_hit_rate"),
            quality=_APPROXIMATE,
            note="over blocks and since start, not over 5 minutes; warm-up requests count as misses before March 2026",
        ),
        missing=_NOT_YET,
    ),
    Field(
        "llm_requests_finished_total",
        Source(_SUCCESS, _SERVER_ERRORS, needs=_NEW),
        Source(
            _SUCCESS,
            _SERVER_ERRORS,
            quality=_APPROXIMATE,
            note="requests that fail are in no counter before March 2026",
        ),
        Source(_SERVER_ERRORS, lacks=("request_success",)),
        Source(_COMPLETED, quality=_APPROXIMATE, note=f"why they finished is not told; {_LOSSY}"),
        missing=_FIRST_FINISHED,
        definition="Generations: n=3 adds 3. `cancelled` is abort (it is not proven that every abort arrives), "
        "`timeout` and answers with HTTP 5xx are error; HTTP 4xx are the client's and not counted.",
    ),
    Field(
        "llm_requests_rejected_total",
        Source(Series("request_error_total", {"http_code": "429"}, add={"reason": "http_429"})),
        missing="no request was refused with HTTP 429, or the version is too old to count it (before March 2026)",
    ),
    Field(
        "llm_requests_unfinished",
        missing="every latency is observed when its request finishes: nothing shows requests that never do",
    ),
    Field(
        "llm_preemptions_total",
        missing="only a gauge shows the paused requests of the last iteration; nothing counts pauses",
    ),
    Field(
        "llm_spec_decode_draft_tokens_total",
        Source(Series("spec_decode_num_draft_tokens_total")),
        Source(
            Series("spec_decode_drafted_tokens_total", fold={"token_position": Fold.SUM}),
            lacks=("spec_decode_num_draft_tokens",),
        ),
        Source(_stat("specDecodingStats.numDraftTokens", Over.SUM), quality=_APPROXIMATE, note=_LOSSY),
        missing=_SPEC_OFF,
    ),
    Field(
        "llm_spec_decode_accepted_tokens_total",
        Source(Series("spec_decode_num_accepted_tokens_total")),
        Source(
            Series("spec_decode_accepted_tokens_total", fold={"token_position": Fold.SUM}),
            lacks=("spec_decode_num_draft_tokens",),
        ),
        Source(_stat("specDecodingStats.numAcceptedTokens", Over.SUM), quality=_APPROXIMATE, note=_LOSSY),
        missing=_SPEC_OFF,
    ),
    Field("llm_lora_adapters_running", missing=_NO_LORA),
    Field("llm_lora_adapters_waiting", missing=_NO_LORA),
    Field("llm_lora_adapters_limit", missing=_NO_LORA),
    Field(
        "llm_time_to_first_token_seconds",
        Source(Series("time_to_first_token_seconds")),
        missing=_HISTOGRAM_MISSING,
        definition="One per finished generation, arrival at the executor to first token: HTTP and tokenising before it "
        "are left out.",
    ),
    Field(
        "llm_inter_token_latency_seconds",
        missing="only the mean of each request is exposed: llm_time_per_output_token_seconds",
    ),
    Field(
        "llm_time_per_output_token_seconds",
        Source(Series("time_per_output_token_seconds")),
        missing=_HISTOGRAM_MISSING,
        definition="One per finished generation: (last - first token) / (tokens - 1); none for outputs of one token "
        "and for n > 1.",
    ),
    Field(
        "llm_request_duration_seconds",
        Source(Series("e2e_request_latency_seconds")),
        missing=_HISTOGRAM_MISSING,
        definition="One per finished generation, arrival at the executor to last token.",
    ),
    Field(
        "llm_queue_time_seconds",
        Source(Series("request_queue_time_seconds"), needs=_NEW),
        Source(
            Series("request_queue_time_seconds"),
            quality=_APPROXIMATE,
            note="requests that waited for no time at all are left out before March 2026",
        ),
        missing=_HISTOGRAM_MISSING,
        definition="Arrival at the executor to first scheduling. The first bound is 0.3 s: shorter waits are told as "
        "[0, 0.3].",
    ),
    Field(
        "llm_prefill_time_seconds",
        Source(Series("request_prefill_time_seconds")),
        missing=_SINCE_MARCH_2026,
        definition="First scheduling to first token.",
    ),
    Field(
        "llm_decode_time_seconds",
        Source(Series("request_decode_time_seconds")),
        missing=_SINCE_MARCH_2026,
        definition="First to last token; none for outputs of one token.",
    ),
    Field("llm_prompt_length_tokens", missing="not exposed; only the cached part of prompts is, as a histogram"),
    Field("llm_generation_length_tokens", missing="not exposed"),
    Field(
        "llm_process_start_time_seconds",
        missing="in multi-process mode there are no process metrics; a restart shows as counters that fall",
    ),
)

_TRAPS = (
    Trap("1.1 and 1.2 have five families without prefix, no gauges, and labels that read `undefined`",
         "Prefixed and bare names are one name; `undefined` is no model, /v1/models tells it; gauges come from the "
         "JSON statistics."),
    Trap("/metrics is JSON, and reading it takes the records away from the next reader",
         "One poller, with its own sums from zero on: what follows an empty answer counts in full, what came with the "
         "first answer may be old and is a base line. `inferwatch check` leaves it alone. The page is "
         "/prometheus/metrics."),
    Trap("An idle call for the JSON statistics takes 2 s, under steady load it may take as long as the load",
         "It is read in the background in its own time and holds up nothing else."),
    Trap("Up to April 2026 the server's own collector takes most JSON records",
         "Where the page has a field, the page is used; sums of JSON records are `approximate`."),
    Trap("The queue of JSON records is bounded (1000), and iter_perf_stats_interval leaves some out",
         "It is read every 5 s; sums of records are `approximate`. Block totals are the engine's own: no rise is "
         "missed."),
    Trap("An empty JSON array means idle, not down, and an idle server writes no record",
         "It adds nothing; running and waiting read 0 once there was a record, KV use is not told."),
    Trap("JSON counters of a restarted server begin anew, sums of records go on",
         "Their rises are added up apart, from the first record on that was read."),
    Trap("With attention data parallelism there is one JSON record per rank",
         "attentionDpRank is the engine; without it only rank 0 is told."),
    Trap("Gauges are refreshed when a request finishes and never fall to 0 at idle",
         "They are `approximate`, and say so."),
    Trap("The page is empty until the first request finishes",
         "Finding empty_body, a warning; config_info and a 0 of prompt_cached_tokens_total come first since 2026."),
    Trap("Without return_perf_metrics, and before 1.1, /prometheus/metrics is a 404",
         "The JSON statistics stand in for it: finding no_records_yet until they have a record, not_found where they "
         "are not there either."),
    Trap("Every gauge carries a pid, and a preset PROMETHEUS_MULTIPROC_DIR keeps those of dead processes",
         "The largest counts; a dead process's larger value cannot be told from a live one: let the server make its "
         "own directory."),
    Trap("With a preset PROMETHEUS_MULTIPROC_DIR counters survive a restart", "They go on, no restart is seen."),
    Trap("The hit rate is over the whole life of the server, and warm-up counts as misses before March 2026",
         "Counters over a window are preferred; what warm-up added lies before it."),
    Trap("kv_cache_iter_* and kv_cache_reused_blocks_total count the same events", "Only the latter is used."),
    Trap("Token counters jump when requests finish", "The rhythm says `finish`."),
    Trap("spec_decode_num_* and spec_decode_drafted/accepted_* count the same tokens",
         "Never mixed; the first pair is preferred."),
    Trap("iterLatencyMS is in seconds in 0.19 and 0.20, and spans two iterations with overlap", "Not used."),
    Trap("staticBatchingStats is filled with zeros by the PyTorch backend", "Not used."),
    Trap("max_batch_size and max_num_tokens gauges stay 0 with the PyTorch backend", "Not used."),
    Trap("GPU memory is that of the whole device, other processes included", "Not used: see the GPU metrics."),
    Trap("CUDA-graph padding may inflate batch numbers", "Not told by the server; nothing corrects it."),
    Trap("time_per_output_token_seconds is a mean per request", "It feeds llm_time_per_output_token_seconds."),
    Trap("The queue-time histogram drops zeros before March 2026", "`approximate` there."),
    Trap("Bounds may be set by the user since March 2026", "Bounds are read from the page."),
    Trap("/health_generate runs a real request", "Never called: health is /health."),
    Trap("/perf_metrics and /kv_cache_events are read destructively too", "Not read."),
    Trap("`trtllm-serve disaggregated` is a proxy with metrics of its own", "Not read: watch its workers."),
    Trap("A Dynamo worker passes these families on, and takes the JSON statistics itself",
         "Its page is read as this frontend; its dynamo_* families are left out."),
)  # fmt: skip

TRTLLM_SERVE = Frontend(
    name="trtllm_serve",
    framework="tensorrt_llm",
    prefixes=("trtllm_", ""),
    releases="0.18 to the 1.4 development versions; the metrics page since 1.1",
    documents=(
        Document("metrics", "/prometheus/metrics"),
        Document("version", "/version", Form.JSON, _SLOW),
        Document("models", "/v1/models", Form.JSON, _SLOW),
        Document(_ITERATIONS, "/metrics", Form.JSON, 5.0, destructive=True),
        Document("health", "/health", Form.STATUS, 15.0),
    ),
    folds={"pid": Fold.MAX},
    model_label="model_name",
    unknown_models=("undefined",),
    facts={
        "version": (Json("version", "version"),),
        "model": (
            Json("models", "id", records="data", over=Over.FIRST),
            Label("model_config_info", "served_model_name", Read.TEXT),
        ),
        "max_model_len": (Label("model_config_info", "max_model_len", Read.TEXT),),
        "dtype": (Label("model_config_info", "dtype", Read.TEXT),),
        "quantization": (Label("model_config_info", "quantization", Read.TEXT),),
        "tp": (Label("parallel_config_info", "tensor_parallel_size", Read.TEXT),),
        "pp": (Label("parallel_config_info", "pipeline_parallel_size", Read.TEXT),),
        "prefix_caching": (
            Label(
                "kv_cache_config_info", "enable_block_reuse", Read.TEXT, values={"True": "true", "False": "false"}
            ),
        ),
        "kv_cache_dtype": (Label("kv_cache_config_info", "cache_dtype", Read.TEXT),),
        "block_size": (Label("kv_cache_config_info", "page_size", Read.TEXT), _BLOCK_SIZE_STAT),
    },
    fields=_FIELDS,
    marks=(
        "request_success{engine_type}", "request_error{engine_type}", "e2e_request_latency_seconds{engine_type}",
        "time_to_first_token_seconds{engine_type}", "time_per_output_token_seconds{engine_type}",
        "request_queue_time_seconds{engine_type}", "kv_cache_utilization{engine_type}",
        "kv_cache_hit_rate{engine_type}", "num_requests_running{engine_type}", "prompt_tokens{engine_type}",
        "generation_tokens{engine_type}", "prompt_cached_tokens{engine_type}", "model_config_info{engine_type}",
        *_FROM_JSON,
    ),
    owner=(Json("models", "owned_by", records="data"), "tensorrt_llm"),
    no_metrics="Start trtllm-serve with `return_perf_metrics: true` and `enable_iter_perf_stats: true` in the file "
    "given by --config or --extra_llm_api_options: without the first there is no /prometheus/metrics (1.1 and later). "
    "Older releases have no such page: from 0.18 on they have JSON statistics at /metrics.",
    no_records="Send a request: an idle engine writes no records. If none come, start trtllm-serve with "
    "`enable_iter_perf_stats: true` in the file given by --config or --extra_llm_api_options (up to 0.20 it belongs "
    "below `pytorch_backend_config`): the PyTorch backend writes none without it, the TensorRT backend always does. "
    "1.1 and later have a metrics page besides, with `return_perf_metrics: true`.",
    ignore=(
        "num_requests_completed", "max_batch_size_static", "max_batch_size_runtime", "max_num_tokens_runtime",
        "iteration_latency_seconds", "gpu_memory_usage_bytes", "cpu_memory_usage_bytes", "pinned_memory_usage_bytes",
        "kv_cache_free_blocks", "kv_cache_used_blocks", "kv_cache_host_utilization", "kv_cache_iter_*",
        "kv_cache_gen_alloc_blocks", "kv_cache_onboard_bytes", "kv_cache_offload_bytes",
        "kv_cache_intra_device_copy_bytes", "kv_cache_disk_prefetch_blocks", "num_context_requests",
        "num_generation_requests", "num_paused_requests", "total_context_tokens", "avg_decoded_tokens_per_iter",
        "scheduled_batch_size", "spec_decode_acceptance_length", "spec_decode_draft_overhead",
        "speculative_config_info", "prompt_cached_tokens_per_request", "prompt_cache_hit_tokens",
        "prefill_perplexity", "generation_perplexity", "prefill_batch_occupancy", "prefill_batch_tokens",
        "request_inference_time_seconds", "num_aborted_requests", "request_type_*", "kv_transfer_*", "dynamo_*",
        "python_*", "process_*",
    ),
    flags={
        Purpose.BATCH: (Flag("--max_batch_size"),),
        Purpose.KV_MEMORY: (Flag("--kv_cache_free_gpu_memory_fraction", default="0.9"),),
        Purpose.PREFIX_CACHING: (Flag("kv_cache_config.enable_block_reuse", default="true"),),
        Purpose.STATISTICS: (Flag("return_perf_metrics, enable_iter_perf_stats", default="false"),),
        Purpose.CONTEXT: (Flag("--max_seq_len"),),
        Purpose.PREFILL: (Flag("--max_num_tokens"),),
        Purpose.BLOCK: (Flag("kv_cache_config.tokens_per_block", default="32"),),
        Purpose.SPECULATION: (Flag("speculative_config"),),
    },
    rhythm=Rhythm(TokenTiming.FINISH, gauges=(_AT_FINISH,)),
    traps=_TRAPS,
)  # fmt: skip
