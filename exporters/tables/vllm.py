"""vLLM 0.4 to 0.33, V0 and V1 engines: read from the releases' own metrics code and from recorded pages."""

from __future__ import annotations

from exporters.flags import Flag, Purpose
from exporters.rhythm import Rhythm, TokenTiming
from exporters.table import (
    Calc,
    Document,
    Engines,
    Field,
    Fold,
    Form,
    Frontend,
    Json,
    Keep,
    Label,
    Over,
    Pick,
    Quality,
    Ratio,
    Read,
    Reason,
    Series,
    Source,
    Trap,
)

_CONFIG = "cache_config_info"
_APPROXIMATE, _DERIVED = Quality.APPROXIMATE, Quality.DERIVED
_SLOW = 60.0

_TOO_OLD = "this release is too old: exposed since {}"


_FILTERED = "this release exposes it, but the page does not show it: not yet, or something filters the page on its way"


def _since(release: str, text: str = "") -> tuple[Reason, ...]:
    """A release that is known to be newer is not too old: then the page has lost the field. A saved page tells none."""
    older = text or _TOO_OLD.format(release)
    return (
        Reason(_FILTERED, needs=(f"version>={release}",)),
        Reason(older, needs=(f"version<{release}",)),
        Reason(f"{older}; or something filters the page on its way, as its release is not known"),
    )


def _server_info(path: str, text: str) -> tuple[Json, Json]:
    """The JSON form (since 0.11.0) and the text form (since 0.8.5) of one setting."""
    return Json("server_info", f"vllm_config.{path}"), Json("server_info", "vllm_config", match=text)


_YES_NO = {"True": "true", "False": "false"}
_FINISHED = Keep(
    "reason",
    {"stop": "stop", "repetition": "stop", "length": "length", "abort": "abort", "error": "error"},
    other="unknown",
)
_REJECTED = Keep(
    "reason",
    {"max_num_queued_reqs": "max_num_queued_reqs", "max_num_queued_tokens": "max_num_queued_tokens"},
    other="unknown",
)
_ALL_FINISHED = Series("request_success_total", fold={"finished_reason": Fold.SUM})

_REQUERY = (
    "releases before 0.28 look up again each step while a request waits for space, so both counters run too high under "
    "KV pressure"
)
_BLOCKS = "full blocks times block size"
_BY_SOURCE = ("prompt_tokens_by_source", f"{_CONFIG}{{enable_prefix_caching=True}}")

_FIELDS = (
    Field(
        "llm_kv_cache_utilization_ratio",
        Source(Series("kv_cache_usage_perc")),
        Source(Series("gpu_cache_usage_perc")),
        definition="Blocks of live requests; blocks kept only for prefix reuse count as free, so it is 0 when idle.",
    ),
    Field(
        "llm_kv_cache_capacity_tokens",
        Source(Label(_CONFIG, "kv_cache_size_tokens")),
        Source(
            Calc("/", Calc("*", Label(_CONFIG, "num_gpu_blocks"), Label(_CONFIG, "block_size")), Engines()),
            quality=_DERIVED,
            needs=(f"{_CONFIG}{{engine}}",),
            note="blocks times block size; the wire's block count is the sum over data-parallel engines",
        ),
        Source(
            Calc("*", Label(_CONFIG, "num_gpu_blocks"), Label(_CONFIG, "block_size")),
            quality=_DERIVED,
            note="blocks times block size",
        ),
        missing=(
            Reason("0.8 with the V1 engine says None for its block count: exposed since 0.9.0", needs=(_CONFIG,)),
            Reason("the page has no cache_config_info"),
        ),
    ),
    Field(
        "llm_requests_running",
        Source(Series("num_requests_running")),
        definition="Sequences in the running batch, prefilling or decoding; each of n choices counts.",
    ),
    Field(
        "llm_requests_waiting",
        Source(
            Calc("+", Series("num_requests_waiting"), Series("num_requests_swapped")),
            needs=("num_requests_swapped",),
        ),
        Source(Series("num_requests_waiting")),
        definition="The scheduler's waiting queue, preempted (V0: swapped) requests included. Requests deferred for "
        "LoRA slots or KV transfer are in it since 0.18.",
    ),
    Field("llm_requests_waiting_api", missing="vLLM counts nothing that waits before its engine"),
    Field(
        "llm_requests_running_limit",
        Source(Json("server_info", "vllm_config.scheduler_config.max_num_seqs", each_engine=True)),
        missing="told only by /server_info of 0.11.0 and later, started with VLLM_SERVER_DEV_MODE=1; the flag is "
        "--max-num-seqs",
    ),
    Field(
        "llm_prompt_tokens_total",
        Source(Series("prompt_tokens_total")),
        definition="The whole prompt, cached part included, added with its first token (V0: chunk by chunk). Each of "
        "n choices adds it.",
    ),
    Field(
        "llm_generation_tokens_total",
        Source(Series("generation_tokens_total")),
        definition="Sampled tokens, moving every step; tokens of requests that are later aborted included.",
    ),
    Field(
        "llm_prefix_cache_query_tokens_total",
        Source(Series("prefix_cache_queries_total"), needs=("request_num_preemptions",)),
        Source(Series("prefix_cache_queries_total"), needs=("version>=0.28",)),
        Source(Series("prompt_tokens_total"), needs=_BY_SOURCE, quality=_DERIVED, note="prompt tokens; " + _REQUERY),
        Source(Series("prefix_cache_queries_total"), quality=_APPROXIMATE, note=_REQUERY),
        Source(
            Series("gpu_prefix_cache_queries_total"),
            needs=(f"{_CONFIG}{{engine}}",),
            quality=_APPROXIMATE,
            note=_REQUERY,
        ),
        Source(
            Calc("*", Series("gpu_prefix_cache_queries_total"), Label(_CONFIG, "block_size")),
            quality=_APPROXIMATE,
            note=f"{_BLOCKS}; {_REQUERY}",
        ),
        missing=_since("0.11", "the V0 engine has no prefix-cache counters"),
    ),
    Field(
        "llm_prefix_cache_hit_tokens_total",
        Source(Series("prefix_cache_hits_total"), needs=("request_num_preemptions",)),
        Source(Series("prefix_cache_hits_total"), needs=("version>=0.28",)),
        Source(
            Series("prompt_tokens_by_source_total", {"source": "local_cache_hit"}),
            needs=_BY_SOURCE,
            quality=_DERIVED,
            note="prompt tokens from the local cache; " + _REQUERY,
        ),
        Source(Series("prefix_cache_hits_total"), quality=_APPROXIMATE, note=_REQUERY),
        Source(
            Series("gpu_prefix_cache_hits_total"), needs=(f"{_CONFIG}{{engine}}",), quality=_APPROXIMATE, note=_REQUERY
        ),
        Source(
            Calc("*", Series("gpu_prefix_cache_hits_total"), Label(_CONFIG, "block_size")),
            quality=_APPROXIMATE,
            note=f"{_BLOCKS}; {_REQUERY}",
        ),
        missing=_since("0.11", "the V0 engine has no prefix-cache counters"),
        definition="Whole blocks, and never a prompt's last token: 100 % cannot be reached, prompts shorter than a "
        "block show 0.",
    ),
    Field(
        "llm_prefix_cache_hit_ratio",
        Source(Ratio("llm_prefix_cache_hit_tokens_total", "llm_prefix_cache_query_tokens_total")),
        Source(
            Series("gpu_prefix_cache_hit_rate", invalid=(-1.0,)),
            quality=_APPROXIMATE,
            note="the V0 engine's own rate: over blocks and since start, not over 5 minutes",
        ),
        missing=(
            Reason("prefix caching is off or not supported here (-1)", needs=("gpu_prefix_cache_hit_rate",)),
            Reason("the V0 engine shows a hit rate only in 0.5.5 to 0.8.1"),
        ),
    ),
    Field(
        "llm_requests_finished_total",
        Source(
            Series("request_success_total", keep={"finished_reason": _FINISHED}),
            quality=_APPROXIMATE,
            note="requests that the client cancelled are in no counter, abort included: see llm_requests_unfinished",
        ),
        missing=_since("0.4.2"),
        definition="Sequences: n=3 adds 3. `error` since 0.13; `repetition` (since 0.17) is a stop.",
    ),
    Field(
        "llm_requests_rejected_total",
        Source(Series("admission_rejections_total", keep={"reason": _REJECTED})),
        missing=_since("0.32", "exposed since 0.32 (refusals by --max-num-queued-reqs and --max-num-queued-tokens)"),
        definition="Only refusals by the queue limits; too long prompts and unknown models are HTTP 4xx alone.",
    ),
    Field(
        "llm_requests_unfinished",
        Source(
            Calc(
                "-", Series("time_to_first_token_seconds_count"), _ALL_FINISHED, Series("num_requests_running"), floor=0
            ),
            quality=_APPROXIMATE,
            note="first tokens - finished - running since start; running ones still in prefill make it too small",
        ),
        missing=_since("0.4.2"),
    ),
    Field(
        "llm_preemptions_total",
        Source(Series("num_preemptions_total")),
        missing=_since("0.8.0", "exposed since 0.4.3, with the V1 engine since 0.8.0"),
    ),
    Field(
        "llm_spec_decode_draft_tokens_total",
        Source(
            Series("spec_decode_num_draft_tokens_total"),
            needs=("spec_decode_num_emitted_tokens",),
            quality=_APPROXIMATE,
            note="the V0 engine adds its running total each interval: far too large",
        ),
        Source(Series("spec_decode_num_draft_tokens_total")),
        missing="speculative decoding is off (or the release is older than 0.5.3)",
    ),
    Field(
        "llm_spec_decode_accepted_tokens_total",
        Source(
            Series("spec_decode_num_accepted_tokens_total"),
            needs=("spec_decode_num_emitted_tokens",),
            quality=_APPROXIMATE,
            note="the V0 engine adds its running total each interval: far too large",
        ),
        Source(Series("spec_decode_num_accepted_tokens_total")),
        missing="speculative decoding is off (or the release is older than 0.5.3)",
    ),
    Field(
        "llm_lora_adapters_running",
        Source(
            Label("lora_requests_info", "running_lora_adapters", Read.NAMES, Pick.NEWEST),
            needs=("@process_start_time_seconds",),
        ),
        Source(
            Label("lora_requests_info", "running_lora_adapters", Read.NAMES, Pick.NEWEST),
            quality=_APPROXIMATE,
            note="several API processes add up the times by which the newest list is told",
        ),
        missing="LoRA is off (or the release is older than 0.6.4)",
        definition="Distinct adapters of the newest list; lists are never removed from the page.",
    ),
    Field(
        "llm_lora_adapters_waiting",
        Source(
            Label("lora_requests_info", "waiting_lora_adapters", Read.NAMES, Pick.NEWEST),
            quality=_APPROXIMATE,
            note="an adapter whose requests all wait is not in the list; one with none waiting can be",
        ),
        missing="LoRA is off (or the release is older than 0.6.4)",
    ),
    Field(
        "llm_lora_adapters_limit",
        Source(Label("lora_requests_info", "max_lora", pick=Pick.NEWEST)),
        missing="LoRA is off (or the release is older than 0.6.4)",
    ),
    Field(
        "llm_time_to_first_token_seconds",
        Source(Series("time_to_first_token_seconds")),
        definition="One per sequence at its first token, from the frontend's arrival time, queueing included; requests "
        "that are later aborted included.",
    ),
    Field(
        "llm_inter_token_latency_seconds",
        Source(Series("inter_token_latency_seconds")),
        Source(Series("time_per_output_token_seconds")),
        definition="One per decode step of a sequence; with speculation one step holds several tokens. Named "
        "time_per_output_token_seconds before 0.10.2.",
    ),
    Field(
        "llm_time_per_output_token_seconds",
        Source(Series("request_time_per_output_token_seconds")),
        missing=_since("0.11.0"),
        definition="One per finished sequence: (last - first token) / (tokens - 1); 0 for outputs of one token.",
    ),
    Field(
        "llm_request_duration_seconds",
        Source(Series("e2e_request_latency_seconds")),
        definition="One per finished sequence, arrival to finish; aborted ones are left out.",
    ),
    Field(
        "llm_queue_time_seconds",
        Source(Series("request_queue_time_seconds")),
        Source(Series("time_in_queue_requests")),
        missing=_since("0.6.4"),
        definition="One per finished sequence, queued to first scheduled; waits after a preemption are not in it.",
    ),
    Field(
        "llm_prefill_time_seconds",
        Source(Series("request_prefill_time_seconds")),
        missing=_since("0.6.4"),
        definition="One per finished sequence, scheduled to first token.",
    ),
    Field(
        "llm_decode_time_seconds",
        Source(Series("request_decode_time_seconds")),
        missing=_since("0.6.4"),
        definition="One per finished sequence, first to last token.",
    ),
    Field(
        "llm_prompt_length_tokens",
        Source(Series("request_prompt_tokens")),
        missing=_since("0.4.2"),
        definition="One per finished sequence, cached part included; the bounds end below max_model_len.",
    ),
    Field(
        "llm_generation_length_tokens",
        Source(Series("request_generation_tokens")),
        missing=_since("0.4.2"),
        definition="One per finished sequence; the bounds end below max_model_len.",
    ),
    Field(
        "llm_process_start_time_seconds",
        Source(Series("@process_start_time_seconds")),
        missing="several API processes, or a V0 frontend in its own process, expose no process metrics",
    ),
)

_TRAPS = (
    Trap("Requests that the client cancels vanish",
         "They are in no finished counter; llm_requests_unfinished shows the gap, llm_requests_finished_total is "
         "`approximate`."),
    Trap("Rejected requests vanish",
         "Only queue-limit refusals are counted (llm_requests_rejected_total); HTTP 4xx are not the engine's."),
    Trap("Finished counts are sequences, HTTP counts are requests", "Said in the definition; HTTP is not used."),
    Trap("Prefix counters before 0.28 count look-ups again under KV pressure",
         "0.16 to 0.27 use prompt_tokens_by_source_total; older ones are `approximate`."),
    Trap("A hit rate of 100 % is impossible", "Said in the definition of llm_prefix_cache_hit_tokens_total."),
    Trap("KV use is 0 at idle although the prefix cache is full", "Said in the definition of the ratio."),
    Trap("With data parallelism the block count is the sum over engines, repeated by each",
         "kv_cache_size_tokens is preferred; else blocks are divided by the engines seen."),
    Trap("LoRA lists are never removed and their order varies",
         "The series with the largest value counts; names are counted as a set."),
    Trap("The waiting list of adapters is incomplete", "llm_lora_adapters_waiting is `approximate`."),
    Trap("Adapters and aliases are counted under the first served name", "llm_server_info tells it as wire_model."),
    Trap("A dead engine keeps its last gauges until the port closes",
         "A refused connection exports only llm_up 0; counters restart with the next process."),
    Trap("Restarts are told by process_start_time_seconds only in single-process mode",
         "Elsewhere a falling counter tells; llm_process_start_time_seconds says why it is missing."),
    Trap("V0 has no series before their first use",
         "Declared counters start at 0 as soon as the model is known; the finding no_requests_yet says so."),
    Trap("Inter-token latency counts engine steps", "Said in the definition."),
    Trap("time_per_output_token_seconds is the inter-token latency in spite of its name",
         "It feeds llm_inter_token_latency_seconds, and never together with the newer name."),
    Trap("/pause is not visible in any metric", "llm_server_state stays awake; nothing on the wire tells."),
    Trap("request_time_per_output_token_seconds holds zeros of one-token outputs", "Said in the definition."),
    Trap("OpenMetrics bodies have names with `_` under headers with `:`",
         "Both spellings are one name; the sidecar asks for text/plain;version=0.0.4."),
    Trap("Old and new names stand side by side (0.9.2 to 0.11)", "The newest counts, once."),
    Trap("iteration_tokens_total is a histogram", "Not used."),
    Trap("With --disable-log-stats there is no vllm series at all",
         "llm_metrics_available is 0, finding stats_disabled; nothing reads as zero load."),
    Trap("Bounds differ by release and may be set by the user",
         "Bounds are read from the wire; native ones are exported beside the grid."),
    Trap("gpu_prefix_cache_queries counts blocks up to 0.8.5 and tokens since 0.9.0",
         "Told apart by the engine label of cache_config_info."),
    Trap("The V0 engine adds speculative totals again and again", "`approximate`, and says so."),
    Trap("/server_info holds environment and paths", "Only the settings that the table names are kept."),
    Trap("Gauges are those of the last engine step, and a scrape may be one behind its clients",
         "Taken as they stand; an idle engine's last step leaves zeros (V0: within a poll), so nothing sticks."),
    Trap("A histogram without observations has no mean", "No mean is made of it: without requests there is no value."),
    Trap("Order of labels and of samples differs between modes",
         "Names and labels count, never their order; `le` is read as the number it is."),
    Trap("The content type may say version=1.0.0 for the classic text format",
         "The body tells the format, never the content type's version."),
    Trap("Percentiles out of the default bounds may be off by 10 % and more",
         "Each comes with the bounds between which the true one lies."),
    Trap("Fast GPUs put most inter-token latencies into the first bucket",
         "The bounds of the percentile say so: [0, 0.01]."),
)  # fmt: skip

VLLM = Frontend(
    name="vllm",
    framework="vllm",
    prefixes=("vllm",),
    releases="0.4 to 0.33, V0 and V1 engines",
    documents=(
        Document("metrics", "/metrics"),
        Document("version", "/version", Form.JSON, _SLOW),
        Document("models", "/v1/models", Form.JSON, _SLOW),
        Document("server_info", "/server_info?config_format=json", Form.JSON, _SLOW * 5),
        Document("health", "/health", Form.STATUS, 15.0),
    ),
    folds={"engine": Fold.ENGINE, "pid": Fold.MAX},
    model_label="model_name",
    facts={
        "version": (Json("version", "version"),),
        "model": (Json("models", "id", records="data", where={"parent": None}, over=Over.FIRST),),
        "max_model_len": (
            Json("models", "max_model_len", records="data", where={"parent": None}, over=Over.FIRST),
            *_server_info("model_config.max_model_len", r"max_seq_len=(\d+)"),
        ),
        "dtype": (
            Json("server_info", "vllm_config.model_config.dtype", match=r"(?:torch\.)?(\w+)"),
            Json("server_info", "vllm_config", match=r"\bdtype=torch\.(\w+)"),
        ),
        "tp": _server_info("parallel_config.tensor_parallel_size", r"\btensor_parallel_size=(\d+)"),
        "pp": _server_info("parallel_config.pipeline_parallel_size", r"\bpipeline_parallel_size=(\d+)"),
        "dp": _server_info("parallel_config.data_parallel_size", r"\bdata_parallel_size=(\d+)"),
        "quantization": _server_info("model_config.quantization", r"\bquantization=(?!None)(\w+)"),
        "prefix_caching": (Label(_CONFIG, "enable_prefix_caching", Read.TEXT, values=_YES_NO),),
        "kv_cache_dtype": (Label(_CONFIG, "cache_dtype", Read.TEXT),),
        "block_size": (Label(_CONFIG, "block_size", Read.TEXT),),
        "state": (
            Label(
                "engine_sleep_state",
                "sleep_state",
                Read.TEXT,
                Pick.HOT,
                {"awake": "awake", "weights_offloaded": "sleeping", "discard_all": "sleeping"},
            ),
        ),
    },
    fields=_FIELDS,
    switched_off=("@http_request_duration_highr_seconds",),
    owner=(Json("models", "owned_by", records="data"), "vllm"),
    ignore=(
        "@python_*", "@process_*", "@http_*", "@num_request_max", "@request_finish",
        "avg_prompt_throughput_toks_per_s", "avg_generation_throughput_toks_per_s", "cpu_cache_usage_perc",
        "cpu_prefix_cache_hit_rate", "num_requests_waiting_by_reason", "num_requests_kv_fetch_by_stage", "tokens",
        "prompt_tokens_by_source", "prompt_tokens_cached", "prompt_tokens_cached_by_source", "prompt_tokens_recomputed",
        "external_prefix_cache_*", "mm_cache_*", "corrupted_requests", "iteration_tokens", "request_params_*",
        "request_max_num_generation_tokens", "request_inference_time_seconds", "request_prefill_kv_computed_tokens",
        "request_num_preemptions", "spec_decode_num_drafts", "spec_decode_num_emitted_tokens",
        "spec_decode_num_accepted_tokens_per_pos", "spec_decode_draft_acceptance_rate", "spec_decode_efficiency",
        "diffusion_num_*", "estimated_*_per_gpu", "watermark_requests", "tool_call_parser_invocations",
        "model_forward_time_milliseconds", "model_execute_time_milliseconds", "kv_block_*", "nixl_*", "kv_offload_*",
        "mooncake_*", "hf3fs_*", "simple_kv_offload_*", "hisparse_*", "umbp_*", "sleep_mode_*", "rl_weight_update_*",
        "websocket_*",
    ),
    flags={
        Purpose.BATCH: (Flag("--max-num-seqs"),),
        Purpose.KV_MEMORY: (Flag("--gpu-memory-utilization", default="0.9"),),
        Purpose.PREFIX_CACHING: (
            Flag("--no-enable-prefix-caching", since="0.8", off=True), Flag("--enable-prefix-caching", before="0.8"),
        ),
        Purpose.STATISTICS: (Flag("--disable-log-stats", off=True),),
        Purpose.CONTEXT: (Flag("--max-model-len"),),
        Purpose.PREFILL: (Flag("--max-num-batched-tokens"),),
        Purpose.BLOCK: (Flag("--block-size", default="16"),),
        Purpose.SPECULATION: (Flag("--speculative-config", since="0.8"), Flag("--speculative-model", before="0.8")),
    },
    rhythm=Rhythm(TokenTiming.LIVE),
    traps=_TRAPS,
)  # fmt: skip
