"""SGLang 0.4.0 to 0.5.23: read from the releases' own metrics code and from recorded pages."""

from __future__ import annotations

from math import inf

from exporters.flags import Flag, Purpose
from exporters.rhythm import COUNTED_AT_FINISH, Refresh, Rhythm, TokenTiming
from exporters.table import (
    Calc,
    Document,
    Field,
    Fold,
    Form,
    Frontend,
    Json,
    Label,
    Need,
    Over,
    Quality,
    Ratio,
    Read,
    Reason,
    Series,
    Source,
    Term,
    Trap,
)

_APPROXIMATE, _DERIVED = Quality.APPROXIMATE, Quality.DERIVED
_SLOW = 60.0
_HEALTH_SECONDS = 25.0
"""It answers 503 after 20 s without any output of its scheduler (SGLANG_HEALTH_CHECK_TIMEOUT)."""
_INFO = "server_info"

_NOT_AUTO = r"^(?!auto$)(\w+)$"
_ROLES = {"prefill": "prefill", "decode": "decode"}
_MODES = {**_ROLES, "null": "unified"}

_TP_RANK = ("num_running_reqs{tp_rank}",)
_SEVERAL = ("dp>=2",)
_ONE_OF_SEVERAL = (
    "before 0.4.9.post6 data-parallel engines write over one another: what the one that reported last says"
)
_AT_FINISH = f"{COUNTED_AT_FINISH}: what still runs is missing"
_LIVE_DECODE = Series("realtime_tokens_total", {"mode": "decode"})
_PREFILLED = ("prefill_compute", "prefill_cache")
_AGAIN = "tokens that are prefilled again after a retraction count again"
_HITS_AGAIN = "; up to 0.5.5 a retracted request adds its cached part again"

_NOT_YET = "appears with the first request"
_LORA_OFF = "LoRA is off (or the release is older than 0.5.7)"
_SPECULATION = (
    "no release counts drafted or accepted tokens: spec_accept_length and spec_accept_rate are gauges of the last "
    "decode window"
)
_PREFILL_SERVER = Reason(
    "a prefill server sends no tokens to clients: see its decode servers",
    needs=("num_running_reqs{engine_type=prefill}",),
)


def _tokenizer(name: str, **add: str) -> Series:
    """Counted by the tokenizer process, which has no total beside its priorities, as the scheduler's gauges have."""
    return Series(name, add=add, fold={"priority": Fold.SUM})


def _since(release: str) -> str:
    return f"{_NOT_YET}; exposed since {release}"


def _last_writer(term: Term, *, needs: tuple[str, ...] = (), note: str = "") -> tuple[Source, Source]:
    """`term`, and before it what it is worth where several engines write over one another."""
    worth = f"{note}; {_ONE_OF_SEVERAL}" if note else _ONE_OF_SEVERAL
    return (
        Source(term, quality=_APPROXIMATE, needs=(*_SEVERAL, *needs), lacks=_TP_RANK, note=worth),
        Source(term, note=note),
    )


_ADDED_UP = ("num_running_reqs{engine_type}",)
"""Lacking in 0.4.0 to 0.4.3, whose gauges of requests add up over processes."""

_REPORTED = (
    "llm_kv_cache_utilization_ratio",
    "llm_requests_running",
    "llm_requests_waiting",
    "llm_lora_adapters_running",
)
_STEPS, _STEPS_FLAG, _IDLE_SECONDS = 40, "--decode-log-interval", 30.0
_REPORTS = (
    Refresh(
        _REPORTED,
        on="at a prefill batch, when the running batch empties",
        steps=_STEPS,
        flag=_STEPS_FLAG,
        idle_seconds=_IDLE_SECONDS,
        needs=("version>=0.5.16",),
        releases="0.5.16 and later",
    ),
    Refresh(
        _REPORTED,
        on="at a prefill batch",
        steps=_STEPS,
        flag=_STEPS_FLAG,
        idle_seconds=_IDLE_SECONDS,
        needs=_ADDED_UP,
        releases="0.4.4 and later",
    ),
    Refresh(_REPORTED, on="at a prefill batch", steps=_STEPS, idle_seconds=inf, releases="before 0.4.4"),
)


def _waiting(*queues: str) -> Calc:
    names = ("num_queue_reqs", "num_grammar_queue_reqs", *queues)
    return Calc("+", *(Series(name) for name in names), need=Need.ANY)


_FIELDS = (
    Field(
        "llm_kv_cache_utilization_ratio",
        Source(Series("full_token_usage"), needs=("max_total_num_tokens_swa",)),
        Source(
            Calc("/", Series("num_used_tokens"), Series("max_total_num_tokens")),
            quality=_DERIVED,
            note="tokens in use by capacity, without the rounding of token_usage",
        ),
        *_last_writer(Series("token_usage"), note="the fullest of the pools where a model has several; two decimals"),
        missing=_NOT_YET,
        definition="Tokens of live requests; a prefix kept only for reuse counts as free, so it is 0 when idle.",
    ),
    Field(
        "llm_kv_cache_capacity_tokens",
        Source(Series("max_total_num_tokens")),
        Source(Json("loads", "max_total_num_tokens", records="loads", engine="dp_rank")),
        Source(
            Json(_INFO, "max_total_num_tokens", each_engine=True),
            quality=_APPROXIMATE,
            needs=_SEVERAL,
            lacks=_TP_RANK,
            note="of one of the data-parallel engines, which the page does not tell apart",
        ),
        Source(Json(_INFO, "max_total_num_tokens", each_engine=True)),
        missing="before 0.5.6 only /get_server_info tells, and it did not answer",
        definition="Of the full-attention pool, each data-parallel engine.",
    ),
    Field(
        "llm_requests_running",
        *_last_writer(Series("num_running_reqs"), needs=_ADDED_UP),
        missing=_NOT_YET,
        definition="The running batch at the last report; a prefill batch reports it without the requests that it "
        "starts. On a prefill server the batch being prefilled.",
    ),
    Field(
        "llm_requests_waiting",
        Source(
            _waiting(
                "num_prefill_bootstrap_queue_reqs",
                "num_prefill_inflight_queue_reqs",
                "num_decode_prealloc_queue_reqs",
                "num_decode_transfer_queue_reqs",
            ),
            needs=("num_prefill_bootstrap_queue_reqs",),
        ),
        Source(
            _waiting(
                "num_prefill_prealloc_queue_reqs",
                "num_prefill_inflight_queue_reqs",
                "num_decode_prealloc_queue_reqs",
                "num_decode_transfer_queue_reqs",
            ),
            needs=("num_prefill_inflight_queue_reqs",),
        ),
        *_last_writer(
            _waiting(
                "num_prefill_prealloc_queue_reqs",
                "num_prefill_infight_queue_reqs",
                "num_decode_prealloc_queue_reqs",
                "num_decode_transfer_queue_reqs",
            ),
            needs=_ADDED_UP,
        ),
        missing=_NOT_YET,
        definition="The waiting queue, those that wait for a grammar, and with prefill and decode servers apart those "
        "that wait for the other side or for KV transfer. As of the last report.",
    ),
    Field("llm_requests_waiting_api", missing="SGLang counts nothing that waits before its scheduler"),
    Field(
        "llm_requests_running_limit",
        Source(Json("loads", "max_running_requests", records="loads", engine="dp_rank")),
        Source(
            Json(
                _INFO,
                "effective_max_running_requests_per_dp",
                records="internal_states",
                over=Over.FIRST,
                each_engine=True,
            )
        ),
        Source(
            Json(_INFO, "max_running_requests", each_engine=True),
            quality=_APPROXIMATE,
            note="the flag --max-running-requests; memory or data parallelism may allow fewer per engine",
        ),
        missing="not set, and /v1/loads (since 0.5.8) or /server_info does not tell; the flag is "
        "--max-running-requests",
    ),
    Field(
        "llm_prompt_tokens_total",
        Source(_tokenizer("prompt_tokens_total"), quality=_APPROXIMATE, note=_AT_FINISH),
        missing=_NOT_YET,
        definition="The whole prompt, cached part included, added when the request finishes. n choices add it n + 1 "
        "times; with prefill and decode servers apart both count it.",
    ),
    Field(
        "llm_generation_tokens_total",
        Source(
            _LIVE_DECODE,
            quality=_APPROXIMATE,
            needs=("num_running_reqs{engine_type=decode}",),
            note="live; each request's first token is made, and counted, by its prefill server",
        ),
        Source(
            Calc("+", _LIVE_DECODE, Series("queue_time_seconds_count")),
            quality=_APPROXIMATE,
            note="live: tokens of decode steps, and one for each request begun; within one token a request and a "
            "retraction, as the overlapped scheduler's last step of a request counts too",
        ),
        Source(_tokenizer("generation_tokens_total"), quality=_APPROXIMATE, note=_AT_FINISH),
        missing=_NOT_YET,
        definition="Sampled tokens, live since 0.5.7, at finish before; tokens of aborted requests included.",
    ),
    Field(
        "llm_prefix_cache_query_tokens_total",
        Source(Series("prefill_effective_tokens_total")),
        Source(Series("realtime_tokens_total", {"mode": _PREFILLED}), quality=_APPROXIMATE, note=_AGAIN),
        Source(
            _tokenizer("prompt_tokens_total"), needs=("cached_tokens_total",), quality=_APPROXIMATE, note=_AT_FINISH
        ),
        missing=_since("0.4.4"),
        definition="Prompt tokens admitted to prefill, chunk by chunk.",
    ),
    Field(
        "llm_prefix_cache_hit_tokens_total",
        Source(Series("prefill_effective_tokens_total", {"mode": ("device_hit", "host_hit", "storage_hit")})),
        Source(
            Series("realtime_tokens_total", {"mode": "prefill_cache"}, zero=("realtime_tokens{mode=prefill_compute}",)),
            quality=_APPROXIMATE,
            note=_AGAIN,
        ),
        Source(_tokenizer("cached_tokens_total"), quality=_APPROXIMATE, note=_AT_FINISH + _HITS_AGAIN),
        missing=_since("0.4.4"),
        definition="Found on the device, in host memory or in storage. A prompt's last token is always computed: 100 % "
        "cannot be reached.",
    ),
    Field(
        "llm_prefix_cache_hit_ratio",
        Source(
            Ratio("llm_prefix_cache_hit_tokens_total", "llm_prefix_cache_query_tokens_total"),
            needs=("prefill_effective_tokens_total",),
        ),
        Source(
            Ratio("llm_prefix_cache_hit_tokens_total", "llm_prefix_cache_query_tokens_total"),
            quality=_APPROXIMATE,
            note="see the notes of its two counters",
        ),
        Source(
            Series("cache_hit_rate"),
            quality=Quality.LAST_BATCH,
            note="one prefill batch, kept when idle; 0 after each decode report of 0.4.4 to 0.5.19",
        ),
        missing=_NOT_YET,
    ),
    Field(
        "llm_requests_finished_total",
        Source(
            _tokenizer("num_requests_total", reason="unknown"),
            quality=_APPROXIMATE,
            note="no release tells the reason; requests aborted while they run are in it, those aborted in the queue "
            "or refused are not",
        ),
        Source(
            _tokenizer("e2e_request_latency_seconds_count", reason="unknown"),
            quality=_APPROXIMATE,
            note="no release tells the reason; durations counted, as 0.4.0 and 0.4.1 have no counter",
        ),
        missing=_NOT_YET,
        definition="Engine requests: n choices are n + 1 of them, one being the prefix they share. With prefill and "
        "decode servers apart each request finishes on both.",
    ),
    Field(
        "llm_requests_rejected_total",
        missing="requests refused by validation or a full queue are HTTP errors only (sglang:http_responses_total, "
        "since 0.5.7)",
    ),
    Field(
        "llm_requests_unfinished",
        missing="every request that saw a first token is counted as finished, aborted ones too: nothing vanishes",
    ),
    Field(
        "llm_preemptions_total",
        Source(Series("num_retracted_requests_total", zero=("realtime_tokens",))),
        Source(
            _tokenizer("num_retractions_sum"),
            quality=_APPROXIMATE,
            note="retractions of finished requests (0.5.5 and 0.5.6)",
        ),
        Source(
            Series("total_retracted_reqs"),
            quality=_DERIVED,
            note="a gauge that only counts up, brought up to date by decode reports",
        ),
        missing=(
            Reason(
                "0.5.3 and 0.5.4 show only the size of the last retraction (num_retracted_reqs): no count can be made "
                "of it",
                needs=("num_retracted_reqs",),
            ),
            Reason(_since("0.4.9.post6")),
        ),
        definition="Retractions; one request can add several.",
    ),
    Field("llm_spec_decode_draft_tokens_total", missing=_SPECULATION),
    Field("llm_spec_decode_accepted_tokens_total", missing=_SPECULATION),
    Field(
        "llm_lora_adapters_running",
        Source(Series("lora_pool_slots_used")),
        missing=_LORA_OFF,
        definition="Distinct adapters in the running batch at the last report.",
    ),
    Field("llm_lora_adapters_waiting", missing="SGLang does not count adapters of waiting requests"),
    Field("llm_lora_adapters_limit", Source(Series("lora_pool_slots_total")), missing=_LORA_OFF),
    Field(
        "llm_time_to_first_token_seconds",
        Source(_tokenizer("time_to_first_token_seconds"), needs=("dp_attention_steps",)),
        Source(_tokenizer("time_to_first_token_seconds"), needs=("version>=0.5.22",)),
        Source(
            _tokenizer("time_to_first_token_seconds"),
            quality=_APPROXIMATE,
            note="before 0.5.22 a request that is not streamed is measured at its first message: 50 tokens, or its end",
        ),
        missing=(_PREFILL_SERVER, Reason(_NOT_YET)),
        definition="From arrival in the tokenizer process, queueing included; one per engine request. The first bound "
        "is 0.1 s since 0.4.2. Aborted requests are left out since 0.5.22.",
    ),
    Field(
        "llm_inter_token_latency_seconds",
        Source(_tokenizer("inter_token_latency_seconds")),
        Source(
            _tokenizer("time_per_output_token_seconds"),
            quality=_APPROXIMATE,
            note="0.4.0 to 0.4.3: each message adds its request's mean so far, and the finish duration by tokens",
        ),
        missing=(_PREFILL_SERVER, Reason(_NOT_YET)),
        definition="One per token: a message's gap divided by its tokens, counted that often; the first message (1 "
        "token streamed, up to 50 not) is left out, a wait after a retraction is in it.",
    ),
    Field(
        "llm_time_per_output_token_seconds",
        Source(_tokenizer("request_time_per_output_token_seconds")),
        Source(
            _tokenizer("time_per_output_token_seconds"),
            quality=_APPROXIMATE,
            needs=("inter_token_latency_seconds",),
            note="0.4.4: duration by tokens, the wait for the first token included",
        ),
        missing=(_PREFILL_SERVER, Reason(_since("0.5.22"))),
        definition="One per request that stopped or reached its length with two tokens or more: (last - first token) / "
        "(tokens - 1).",
    ),
    Field(
        "llm_request_duration_seconds",
        Source(_tokenizer("e2e_request_latency_seconds")),
        missing=_NOT_YET,
        definition="One per finished engine request, from arrival in the tokenizer process; aborted ones included.",
    ),
    Field(
        "llm_queue_time_seconds",
        Source(Series("queue_time_seconds")),
        Source(Series("queue_time_s")),
        missing=_since("0.5.2"),
        definition="One per request at its first forward pass, from the scheduler's queue; waits after a retraction "
        "are not in it.",
    ),
    Field(
        "llm_prefill_time_seconds",
        Source(Series("per_stage_req_latency_seconds", {"stage": "prefill_forward"})),
        missing=_since("0.5.5 (0.5.3 with prefill and decode servers apart)"),
        definition="One per prefill, so a request that is retracted adds one more each time.",
    ),
    Field(
        "llm_decode_time_seconds",
        missing="no release has it; llm_time_per_output_token_seconds is the nearest",
    ),
    Field(
        "llm_prompt_length_tokens",
        Source(_tokenizer("prompt_tokens_histogram")),
        missing=_since("0.4.6.post5, before 0.5.11 only with --collect-tokens-histogram"),
        definition="One per finished engine request, cached part included.",
    ),
    Field(
        "llm_generation_length_tokens",
        Source(_tokenizer("generation_tokens_histogram")),
        missing=_since("0.4.6.post5, before 0.5.11 only with --collect-tokens-histogram"),
        definition="One per finished engine request.",
    ),
    Field(
        "llm_process_start_time_seconds",
        missing="the page merges several processes and shows no process metrics; a falling counter tells a restart",
    ),
)

_TRAPS = (
    Trap("There is no page (404) without --enable-metrics",
         "Recognised by owned_by in /v1/models: up, no metrics, and what to do."),
    Trap("Prompt, generation and cached tokens are added when a request finishes",
         "Generation tokens come from realtime_tokens_total since 0.5.7; the rest is `approximate` and says so."),
    Trap("realtime_tokens_total{mode=decode} leaves out the token that prefill makes",
         "One for each request begun (queue_time_seconds_count) is added, except on decode servers; `approximate`."),
    Trap("No counter by finish reason, and num_aborted_requests_total counts calls to abort",
         "All finished requests have the reason unknown; abort calls are not used, as those of running requests are in "
         "both counters and abort-all counts once."),
    Trap("n choices are n + 1 engine requests", "Said in the definitions."),
    Trap("Time to first token of requests that are not streamed is their duration, until 0.5.21",
         "`approximate`; is_streaming is added up. Percentiles of mixed traffic run too high."),
    Trap("Inter-token latency leaves out the first message and spreads a message's gap over its tokens",
         "Said in the definition."),
    Trap("cache_hit_rate is the last prefill batch, 0 after decode reports, or kept for ever",
         "Counters over 5 minutes are used; the gauge only before 0.4.4, as `last_batch`."),
    Trap("Gauges are refreshed by a prefill batch or every 40 decode steps (--decode-log-interval), and when idle "
         "after 30 s", "They are `approximate`, and say how old they may be."),
    Trap("gen_throughput keeps its last value when idle", "Not used: token counters tell throughput."),
    Trap("token_usage is rounded to two decimals and leaves out the evictable prefix cache",
         "num_used_tokens by capacity is preferred (since 0.5.6); said in the definition."),
    Trap("With sliding-window or mamba pools token_usage is the fullest pool",
         "full_token_usage, or tokens in use by capacity, is preferred; else the note says so."),
    Trap("num_running_reqs at a prefill report leaves out the requests being prefilled", "Said in the definition."),
    Trap("Queue time, stages, retractions and preset counters come from every tensor-parallel rank",
         "tp_rank, pp_rank and moe_ep_rank repeat the same requests: the lowest rank of each engine counts."),
    Trap("With dp-attention tp_rank differs along with dp_rank",
         "The lowest rank within each engine counts; nothing is filtered by tp_rank=0."),
    Trap("Before 0.4.9.post6 data-parallel engines have no labels and the last writer shows",
         "`approximate` where /get_server_info says dp_size of 2 or more; token counters are of the whole server."),
    Trap("Gauges of requests add up over processes in 0.4.0 to 0.4.3", "They are right with data parallelism, and so "
         "taken; token_usage is the last writer's."),
    Trap("With priority scheduling the series priority=\"\" is the total of gauges, and tokenizer counters have none",
         "The total is taken for gauges; counters and histograms of requests are added up."),
    Trap("is_streaming (since 0.5.17), cache_source (since 0.5.9) and custom labels split counters", "Added up."),
    Trap("num_retracted_reqs is the size of the last retraction, with a pid label",
         "Not used; num_retracted_requests_total (since 0.5.7), num_retractions or total_retracted_reqs count."),
    Trap("num_retracted_requests_total appears with the first retraction", "It stands at 0 from the first token on."),
    Trap("avg_request_queue_latency, utilization, is_cuda_graph, max_running_requests_under_SLO and fwd_occupancy are "
         "empty, constant or NaN", "Not used."),
    Trap("routing_key_* look like histograms and are gauges with gt and le", "Not used."),
    Trap("Up to 0.5.5 cached tokens of a retracted request count again", "The note says so."),
    Trap("realtime_tokens_total counts prefill again after a retraction, prefill_effective_tokens_total does not",
         "The latter is preferred (since 0.5.18); the former is `approximate`."),
    Trap("Speculative decoding has gauges only, and their meaning changed in 0.5.11",
         "Drafted and accepted tokens are missing, and say why."),
    Trap("kv_transfer_* were gauges before 0.5.10", "Not used."),
    Trap("time_per_output_token_seconds of 0.4.0 to 0.4.4 is neither a gap nor a request's mean",
         "It feeds inter-token latency before 0.4.4, and time per output token in 0.4.4, both `approximate`."),
    Trap("http_* have no model and count /metrics and /health", "Not used."),
    Trap("Prefill servers have no time to first token, and requests finish on prefill and decode servers",
         "Missing with that reason; the label `role` keeps them apart, and nothing is added across roles."),
    Trap("engine_type is always unified before 0.5.7, and dynamic where roles switch",
         "The role comes from /server_info (disaggregation_mode) there."),
    Trap("num_decode_host_receive_queue_reqs is part of num_decode_transfer_queue_reqs", "Not added to waiting."),
    Trap("Host-cache and storage metrics have no model_name", "Not used."),
    Trap("The first bound of time to first token is 0.1 s", "The bounds of the percentile say so: [0, 0.1]."),
    Trap("Bounds differ by release and may be set by flags",
         "Read from the wire; native ones are exported beside the grid."),
    Trap("Without traffic the page is empty (0 bytes) before 0.5.9, and has constants only since",
         "Finding empty_body, or the fields say that they appear with the first request; nothing reads as 0."),
    Trap("The warm-up request counts", "Nothing tells it apart: counters start at about one request."),
    Trap("A restart with PROMETHEUS_MULTIPROC_DIR set goes on from the old totals, with the old gauges",
         "Nothing on the page tells; empty the directory at each start, or do not set it. Gauges are right again "
         "with the first report, increases of counters are right throughout."),
    Trap("A dead scheduler keeps its last gauges as long as HTTP answers",
         "Only /health tells (finding unhealthy), that of 0.4.9 does not; counters stand still."),
    Trap("There is no process_start_time_seconds and no _created", "A falling counter tells a restart."),
    Trap("/health makes a token where the server is idle, and takes a second or more",
         "Asked every 30 s, beside the metrics; such a token is in the live counters."),
    Trap("/health of a server that hangs takes 20 s to answer 503",
         "It has 25 s. Where it once answered and now does not within them, that is the finding unhealthy too."),
    Trap("/server_info holds every argument, API keys among them", "Only the settings that the table names are kept."),
    Trap("OpenMetrics bodies have names with `_` under headers with `:`",
         "Both spellings are one name; the sidecar asks for text/plain;version=0.0.4."),
    Trap("On the wire counters end in _total, also where the source name does not", "Wire names are used."),
)  # fmt: skip

SGLANG = Frontend(
    name="sglang",
    framework="sglang",
    prefixes=("sglang",),
    releases="0.4.0 to 0.5.23",
    documents=(
        Document("metrics", "/metrics"),
        Document(_INFO, "/server_info", Form.JSON, _SLOW * 5, older="/get_server_info"),
        Document("loads", "/v1/loads?include=core", Form.JSON, _SLOW * 5),
        Document("models", "/v1/models", Form.JSON, _SLOW),
        Document("health", "/health", Form.STATUS, 30.0, within=_HEALTH_SECONDS),
    ),
    folds={
        "dp_rank": Fold.ENGINE,
        "tp_rank": Fold.FIRST,
        "pp_rank": Fold.FIRST,
        "moe_ep_rank": Fold.FIRST,
        "priority": Fold.TOTAL,
        "is_streaming": Fold.SUM,
        "cache_source": Fold.SUM,
        "pid": Fold.MAX,
    },
    model_label="model_name",
    facts={
        "version": (Json(_INFO, "version"), Json("loads", "version")),
        "model": (Json("models", "id", records="data", where={"parent": None}, over=Over.FIRST),),
        "max_model_len": (Json("models", "max_model_len", records="data", where={"parent": None}, over=Over.FIRST),),
        "dtype": (Json(_INFO, "dtype", match=_NOT_AUTO),),
        "tp": (Json(_INFO, "tp_size"),),
        "pp": (Json(_INFO, "pp_size"),),
        "dp": (Json(_INFO, "dp_size"),),
        "quantization": (Json(_INFO, "quantization"),),
        "prefix_caching": (Json(_INFO, "disable_radix_cache", values={"False": "true", "True": "false"}),),
        "kv_cache_dtype": (Json(_INFO, "kv_cache_dtype", match=_NOT_AUTO),),
        "block_size": (Label("cache_config_info", "page_size", Read.TEXT), Json(_INFO, "page_size")),
        "role": (
            Label("num_running_reqs", "engine_type", Read.TEXT, values=_ROLES),
            Label("max_total_num_tokens", "engine_type", Read.TEXT, values=_ROLES),
            Json(_INFO, "disaggregation_mode", records="internal_states", over=Over.FIRST, values=_MODES),
            Json(_INFO, "disaggregation_mode", values=_MODES),
        ),
    },
    fields=_FIELDS,
    owner=(Json("models", "owned_by", records="data"), "sglang"),
    no_metrics="SGLang has metrics only with --enable-metrics: start it with that flag.",
    ignore=(
        "gen_throughput", "decode_sum_seq_lens", "num_pages", "page_size", "context_len",
        "new_token_ratio", "utilization", "is_cuda_graph", "fwd_occupancy", "max_running_requests_under_SLO",
        "max_total_num_tokens_swa", "kv_*_tokens", "swa_*", "mamba_*", "hicache_*", "pending_prealloc_token_usage",
        "prealloc_*_token_usage", "num_running_reqs_offline_batch", "time_to_first_token_seconds_offline_batch",
        "avg_request_queue_latency", "num_retracted_reqs", "num_paused_reqs", "num_retracted_*_tokens",
        "num_aborted_requests", "num_so_requests", "num_grammar", "num_grammar_*", "grammar_*",
        "uncached_prompt_tokens_histogram", "dp_cooperation_*", "dp_attention_*", "cuda_graph_passes",
        "forward_execution_seconds", "gpu_execution_seconds", "gpu_overlap_wait_seconds", "estimated_*_per_gpu",
        "eplb_*", "scheduler_*_seconds", "process_cpu_seconds", "func_latency_seconds", "get_loads_duration_seconds",
        "engine_startup_time", "engine_load_weights_time", "startup_*", "*_memory_usage_gb",
        "weight_load_duration_seconds", "spec_*", "lora_pool_utilization", "kv_transfer_*", "num_bootstrap_failed_reqs",
        "num_transfer_failed_reqs", "num_prefill_retries", "num_decode_host_receive_*", "num_decode_deferred_*",
        "decode_deferred_kv_release*", "prefill_delayer_*", "routing_key*", "num_unique_running_routing_keys",
        "num_streaming_sessions", "streaming_session_held_tokens", "failed_session_recoveries", "http_*",
        "evicted_tokens", "eviction_duration_seconds", "load_back_*", "backup_*", "backuped_tokens", "prefetch*",
        "storage_prefetch_*", "encoder_*", "diffusion_*",
    ),
    flags={
        Purpose.BATCH: (Flag("--max-running-requests"),),
        Purpose.KV_MEMORY: (Flag("--mem-fraction-static"),),
        Purpose.PREFIX_CACHING: (Flag("--disable-radix-cache", off=True),),
        Purpose.STATISTICS: (Flag("--enable-metrics"),),
        Purpose.CONTEXT: (Flag("--context-length"),),
        Purpose.PREFILL: (Flag("--chunked-prefill-size"),),
        Purpose.BLOCK: (Flag("--page-size", default="1"),),
        Purpose.SPECULATION: (Flag("--speculative-algorithm"),),
    },
    rhythm=Rhythm(TokenTiming.LIVE, live_since="0.5.7", gauges=_REPORTS),
    traps=_TRAPS,
)  # fmt: skip
