"""LMDeploy 0.9.2 to 0.18, pytorch and turbomind engines: read from the releases' own metrics code and recorded pages.

Releases are told apart by what their pages show, for none of them tells its version: `iter_token_latency` since
0.10.0, `num_requests_completed` in 0.12.1 and 0.12.2 alone, `num_requests_failed` since 0.12.3, `cached_tokens_total`
since 0.14.0, the reason NOT_SUPPORTED since 0.15.0.
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
    Over,
    Quality,
    Ratio,
    Reason,
    Series,
    Source,
    Trap,
)

_APPROXIMATE, _DERIVED = Quality.APPROXIMATE, Quality.DERIVED
_SLOW = 60.0
_HEALTH_SECONDS = 15.0
"""An unhealthy server asks its engine again first, which has 10 s to answer (LMDEPLOY_HEALTH_PROBE_TIMEOUT)."""
_ENGINE_INFO = "engine_info"

_TOO_OLD = "this release is too old: exposed since {}"
_SINCE_0_10 = ("iter_token_latency",)
_SINCE_0_15 = ("request_success_total{finished_reason=ResponseType.NOT_SUPPORTED}",)

_GAUGES = (
    "llm_kv_cache_utilization_ratio",
    "llm_requests_running",
    "llm_requests_waiting",
    "llm_requests_waiting_api",
)
_SECONDS = 10.0
_REFRESHES = (
    Refresh(_GAUGES, seconds=_SECONDS, needs=_SINCE_0_10, releases="0.10.0 and later"),
    Refresh(_GAUGES, on="with each output of the engine", idle_seconds=inf, releases="0.9.2"),
)


def _since(release: str) -> tuple[Reason, ...]:
    return (Reason(_TOO_OLD.format(release)),)


_SUCCEEDED = Series("request_success_total", {"finished_reason": "ResponseType.FINISH"}, add={"reason": "stop"})
_FAILED = Series("num_requests_failed", add={"reason": "unknown"})
_ONE_SUCCESS = "successes count as stop, those that ended by length too: the wire does not tell them apart"

_RUNNING, _WAITING = Series("num_requests_running"), Series("num_requests_waiting")
# Below 0 for a moment while a failed request gives its handle back.
_API_WAITING = Calc("+", Series("num_api_requests_waiting"), floor=0)
_API_WAITING_BEFORE_0_12_1 = Calc("-", Series("num_requests_unfinished"), _RUNNING, _WAITING, floor=0)
_ABANDONED = "requests given up in the API queue stay counted until a restart"
_UNFINISHED = "unfinished - running - waiting; requests cancelled or failed stay counted as unfinished until a restart"

_PREFIX_KEPT = "with prefix caching on, blocks kept for reuse count as used: it drifts to 1 on an idle server"
_PYTORCH = "0.15 to 0.17: " + _PREFIX_KEPT + "; since 0.18 only blocks of live requests; which of both is not told"
_TURBOMIND = "turbomind: bytes of live cache objects, those kept for prefix reuse included, so not 0 when idle"

_LATE_START = "from the moment the request leaves the API process's queue: waiting there and tokenising are not in it"
_AT_FINISH = "tokens of successful requests, added when they finish"
_PREFIX_OFF = "also 0 where prefix caching is off, which is not told, and with turbomind 0.14.0"
_PREFIX_MISSING = (
    Reason("this release is too old: exposed since 0.14.0, in its log (prefix cache hit rate) since 0.11.1"),
)

_FIELDS = (
    Field(
        "llm_kv_cache_utilization_ratio",
        Source(
            Series("gpu_cache_usage_perc"),
            needs=(*_SINCE_0_15, f"json:{_ENGINE_INFO}"),
            quality=_APPROXIMATE,
            note=f"pytorch {_PYTORCH}",
        ),
        Source(
            Series("gpu_cache_usage_perc"),
            needs=_SINCE_0_15,
            quality=_APPROXIMATE,
            note=f"{_TURBOMIND}; pytorch {_PYTORCH}",
        ),
        Source(Series("gpu_cache_usage_perc"), quality=_APPROXIMATE, note=_PREFIX_KEPT),
        definition="A ratio in spite of `perc`, as of the last refresh. Blocks or bytes of live requests; before 0.18, "
        "and with turbomind, what is kept for prefix reuse counts too, and "
        "LMDEPLOY_ENABLE_REQUEST_CACHE_USAGE_METRIC=0 brings that back. Judge it together with llm_requests_waiting.",
    ),
    Field(
        "llm_kv_cache_capacity_tokens",
        Source(
            Calc("*", Json(_ENGINE_INFO, "num_gpu_blocks"), Json(_ENGINE_INFO, "block_size")),
            quality=_DERIVED,
            note="blocks times block size",
        ),
        missing="told only by /distserve/engine_info of the pytorch engine, which since 0.12.2 wants a key where "
        "--api-keys is set; turbomind writes it to its log alone",
    ),
    Field(
        "llm_requests_running",
        Source(_RUNNING),
        definition="Sequences in the running batch as of the last refresh. Since 0.11.1 those that run, before those "
        "that hold their blocks. Turbomind with several data-parallel ranks shows rank 0 alone.",
    ),
    Field(
        "llm_requests_waiting",
        Source(
            Calc("+", _WAITING, _API_WAITING),
            needs=("num_api_requests_waiting",),
            quality=_APPROXIMATE,
            note=f"engine queue and API queue; {_ABANDONED}",
        ),
        Source(
            Calc("+", _WAITING, _API_WAITING_BEFORE_0_12_1),
            needs=("num_requests_unfinished",),
            quality=_APPROXIMATE,
            note=f"engine queue and API queue, the latter as {_UNFINISHED}",
        ),
        definition="Waiting in the engine, and in the API process for a free handle: there are --max-batch-size "
        "handles, and the engine counts none that waits for one.",
    ),
    Field(
        "llm_requests_waiting_api",
        Source(_API_WAITING, quality=_APPROXIMATE, note=_ABANDONED),
        Source(_API_WAITING_BEFORE_0_12_1, quality=_APPROXIMATE, note=_UNFINISHED),
        definition="Requests that wait in the API process for one of --max-batch-size handles.",
    ),
    Field("llm_requests_running_limit", missing="in no document of the server; the flag is --max-batch-size"),
    Field(
        "llm_prompt_tokens_total",
        Source(Series("prompt_tokens_total")),
        definition="The whole prompt, cached part included, added with the first token: a request that ends in prefill "
        "adds nothing.",
    ),
    Field(
        "llm_generation_tokens_total",
        Source(Series("generation_tokens_total")),
        definition="Added with each output; tokens of requests that later fail are included.",
    ),
    Field(
        "llm_prefix_cache_query_tokens_total",
        # Not prompt_tokens_total: it moves at the first token, and for requests whose hits are never added.
        Source(
            Series("request_prompt_tokens_sum"),
            needs=("cached_tokens_total",),
            quality=_APPROXIMATE,
            note=f"prompt {_AT_FINISH}, as hits are",
        ),
        missing=_PREFIX_MISSING,
        definition="Prompt tokens of successful requests, looked up or not: the wire counts no look-ups.",
    ),
    Field(
        "llm_prefix_cache_hit_tokens_total",
        Source(Series("cached_tokens_total"), quality=_APPROXIMATE, note=f"{_AT_FINISH}; {_PREFIX_OFF}"),
        missing=_PREFIX_MISSING,
        definition="Cached prompt tokens of successful requests, added when they finish.",
    ),
    Field(
        "llm_prefix_cache_hit_ratio",
        Source(
            Ratio("llm_prefix_cache_hit_tokens_total", "llm_prefix_cache_query_tokens_total"),
            quality=_APPROXIMATE,
            note=f"over requests that finished in the window; {_PREFIX_OFF}",
        ),
        Source(
            Series("prefix_cache_hit_rate"),
            quality=_APPROXIMATE,
            note=f"the server's own rate: since start, not over 5 minutes; {_PREFIX_OFF}",
        ),
        missing=_PREFIX_MISSING,
    ),
    Field(
        "llm_requests_finished_total",
        Source(
            _SUCCEEDED,
            _FAILED,
            needs=("num_requests_failed",),
            quality=_APPROXIMATE,
            note=f"{_ONE_SUCCESS}; unknown holds cancelled, aborted and failed ones in one number that is up to "
            f"{_SECONDS:g} s old, since 0.13 also requests refused as too long or invalid",
        ),
        Source(
            _SUCCEEDED,
            quality=_APPROXIMATE,
            note=f"{_ONE_SUCCESS}; failed and cancelled requests are in no counter before 0.12.3",
        ),
        definition="Successes by request_success_total, all as `stop`. What ended otherwise is `unknown`: one number "
        "for cancelled, aborted and failed.",
    ),
    Field(
        "llm_requests_rejected_total",
        missing="LMDeploy has no counter for it: since 0.13 requests refused as too long or invalid are among reason "
        "unknown of llm_requests_finished_total",
    ),
    Field(
        "llm_requests_unfinished",
        missing=(
            Reason(
                "failed and cancelled requests are counted in llm_requests_finished_total (reason unknown), and gauges "
                f"up to {_SECONDS:g} s older than counters leave no meaningful rest",
                needs=("num_requests_failed",),
            ),
            Reason("before 0.12.3 vanished requests cannot be told from those in the API queue"),
        ),
    ),
    Field("llm_preemptions_total", missing="LMDeploy's metrics leave preemptions out in every release"),
    Field(
        "llm_spec_decode_draft_tokens_total",
        Source(Series("spec_decode_num_draft_tokens_total")),
        missing=_since("0.14.0"),
        definition="Pytorch engine; turbomind leaves it at 0.",
    ),
    Field(
        "llm_spec_decode_accepted_tokens_total",
        Source(Series("spec_decode_num_accepted_tokens_total")),
        missing=_since("0.14.0"),
        definition="Without the bonus token. Pytorch engine; turbomind leaves it at 0.",
    ),
    Field("llm_lora_adapters_running", missing="LMDeploy only lists its adapters' names, in /v1/models"),
    Field("llm_lora_adapters_waiting", missing="LMDeploy only lists its adapters' names, in /v1/models"),
    Field("llm_lora_adapters_limit", missing="LMDeploy only lists its adapters' names, in /v1/models"),
    Field(
        "llm_time_to_first_token_seconds",
        Source(Series("time_to_first_token_seconds"), quality=_APPROXIMATE, note=_LATE_START),
        definition="One per request at its first token, from the moment it leaves the API process's queue: waiting "
        "there, tokenising and image preprocessing are not in it. Requests that later fail are included.",
    ),
    Field(
        "llm_inter_token_latency_seconds",
        Source(Series("iter_token_latency")),
        Source(Series("time_per_output_token_seconds")),
        definition="One per output after the first; with speculation one output holds several tokens. Named "
        "time_per_output_token_seconds in 0.9.2.",
    ),
    Field(
        "llm_time_per_output_token_seconds",
        missing="time_per_output_token_seconds has one observation per output (gap / new tokens), not one per request: "
        "see llm_inter_token_latency_seconds",
    ),
    Field(
        "llm_request_duration_seconds",
        Source(Series("e2e_request_latency_seconds"), quality=_APPROXIMATE, note=_LATE_START),
        definition="One per successful request, from the moment it leaves the API process's queue to its last output; "
        "failed and cancelled ones are left out.",
    ),
    Field(
        "llm_queue_time_seconds",
        Source(Series("request_queue_time_seconds")),
        definition="One per successful request, in the engine's queue alone; the first bound is 0.3 s. The API "
        "process's queue is in no histogram: see llm_requests_waiting_api.",
    ),
    Field(
        "llm_prefill_time_seconds",
        Source(Series("request_prefill_time_seconds")),
        definition="One per successful request, scheduled to first token.",
    ),
    Field(
        "llm_decode_time_seconds",
        Source(Series("request_decode_time_seconds")),
        definition="One per successful request, first to last token.",
    ),
    Field(
        "llm_prompt_length_tokens",
        Source(Series("request_prompt_tokens")),
        definition="One per successful request, cached part included; the bounds end below the session length.",
    ),
    Field(
        "llm_generation_length_tokens",
        Source(Series("request_generation_tokens")),
        definition="One per successful request; the bounds end below the session length.",
    ),
    Field("llm_process_start_time_seconds", Source(Series("@process_start_time_seconds"))),
)

_NO_METRICS = (
    "LMDeploy has metrics since 0.9.2: update an older one. 0.9.2 to 0.10.2 need --enable-metrics (0.9.2 with "
    "--backend pytorch), later ones must not run with --disable-metrics. `lmdeploy serve proxy` has none: list its "
    "nodes instead."
)

_TRAPS = (
    Trap("Releases up to 0.9.1, 0.9.2 with turbomind and servers without the metrics flag have no page (404)",
         "Recognised by owned_by in /v1/models: up, no metrics, and what to do."),
    Trap("The proxy has no metrics and answers /v1/models as a server does",
         "It reads as a server without metrics; the remedy says to list its nodes. Its own figures are not used."),
    Trap("--api-keys guards the model list, and since 0.12.2 all but /health, the metrics page included",
         "401 is its own finding; the bearer token of a server is sent with every document."),
    Trap("With --max-concurrent-requests a scrape waits behind inference",
         "The collection ends at its deadline with the finding timeout."),
    Trap("num_requests_finished, completed, succeeded and failed are gauges that count",
         "Only num_requests_failed is used, as the counter it is; a fall is a restart."),
    Trap("Those gauges lag request_success_total, and together they would count a request twice",
         "Successes come from request_success_total alone, failures from num_requests_failed alone."),
    Trap("request_success_total has a dozen reasons and moves only FINISH",
         "FINISH counts as stop; the others, always 0, are not shown as `no errors`."),
    Trap("Failed, cancelled and aborted requests are one number, and before 0.12.3 none",
         "Reason unknown, `approximate`; earlier it is missing and the note says so."),
    Trap("num_requests_unfinished and num_api_requests_waiting keep requests that were given up in the API queue",
         "Both waiting gauges are `approximate` and say so."),
    Trap("num_api_requests_waiting can fall below 0 for a moment", "It counts as 0."),
    Trap("num_requests_waiting leaves out what waits in the API process",
         "llm_requests_waiting adds it; llm_requests_waiting_api shows it alone."),
    Trap("Time to first token and request duration start after the API queue",
         "Both are `approximate`; llm_requests_waiting_api tells when they mislead."),
    Trap("Gauges are set every 10 seconds", "They are `approximate` and say so; in the first 10 s "
         "after a start they are 0. Counters and histograms are live."),
    Trap("0.9.2 sets gauges with each output and keeps them when idle: KV use, running, one request unfinished",
         "They are `approximate` and say so."),
    Trap("gpu_cache_usage_perc is a ratio, and has four meanings by release and engine",
         "Told apart by what else the page and /distserve/engine_info show; `approximate`, the note says which. 0.17 "
         "and 0.18 pages are alike, so one note names both."),
    Trap("There is no counter of prefix look-ups",
         "Prompt tokens of successful requests stand for them: added at finish, as the hits are."),
    Trap("prefix_cache_hit_rate is since start, and 0 where prefix caching is off or turbomind is 0.14.0",
         "Used only where the counters are missing; the notes name the zeros."),
    Trap("prompt_tokens_total moves at the first token", "Said in the definition."),
    Trap("time_per_output_token_seconds is no per-request mean",
         "It feeds llm_inter_token_latency_seconds, and only in 0.9.2; llm_time_per_output_token_seconds is missing."),
    Trap("iter_token_latency has no unit in its name", "It is in seconds."),
    Trap("iteration_tokens_total is a histogram, one observation per request and step", "Not used."),
    Trap("Only successes enter the histograms of finished requests", "Said in each definition."),
    Trap("0.10.0 to 0.17.0 lose a success whose last output carries no token",
         "Nothing on the wire tells; such requests are missing from llm_requests_finished_total and durations."),
    Trap("The first bound of queue time is 0.3 s", "The bounds of the percentile say so: [0, 0.3]."),
    Trap("Bounds of lengths end at 1, 2 or 5 times a power of ten below the session length",
         "Read from the wire; they only bound the session length, so max_model_len is not told."),
    Trap("Bounds of inter-token latency gain 0.005 in 0.10.0", "Read from the wire; native ones are exported."),
    Trap("Preemptions are not counted", "llm_preemptions_total is missing and says so."),
    Trap("With pytorch and data parallelism each rank is a server of its own, with its own port",
         "Configure each; `engine` is the rank. Up to 0.14.0 ports are random, later consecutive from --server-port."),
    Trap("Turbomind with data parallelism shows rank 0 alone", "Said in the definition of llm_requests_running."),
    Trap("No document tells version, configuration or prefill/decode role",
         "Version and prefix_caching stay unknown; set `role` in the configuration. backend_config_info is empty."),
    Trap("/distserve/engine_info is JSON inside a JSON string, and an error 500 with turbomind",
         "Decoded twice; asked for every ten minutes, capacity is missing where it fails."),
    Trap("A sleeping server keeps its metrics page, with old gauges",
         "/is_sleeping (since 0.11.0) sets llm_server_state to sleeping; older ones stay unknown."),
    Trap("/health is empty before 0.14.0 and JSON since; 503 also while starting",
         "Its status alone counts: 503 is the finding unhealthy."),
    Trap("/health of an engine that hangs is 503 only 90 s after the last step, and only with requests to work on",
         "A server that hangs while it is idle is healthy until somebody asks it for something."),
    Trap("/terminate stops the server on GET", "Never asked for."),
    Trap("No _created series: process_start_time_seconds alone tells a restart",
         "It is llm_process_start_time_seconds."),
    Trap("OpenMetrics bodies have names with `_` under headers with `:`",
         "Both spellings are one name; the sidecar asks for text/plain;version=0.0.4."),
    Trap("Series by speculative position appear with the first draft", "Not used."),
    Trap("Turbomind leaves the speculative counters at 0", "Said in their definitions."),
    Trap("model_name may be a path", "model_aliases of the configuration rename it; llm_server_info keeps the path."),
)  # fmt: skip

LMDEPLOY = Frontend(
    name="lmdeploy",
    framework="lmdeploy",
    prefixes=("lmdeploy",),
    releases="0.9.2 to 0.18, pytorch and turbomind engines; older ones have no metrics",
    documents=(
        Document("metrics", "/metrics"),
        Document("models", "/v1/models", Form.JSON, _SLOW),
        Document(_ENGINE_INFO, "/distserve/engine_info", Form.JSON, _SLOW * 10),
        Document("sleeping", "/is_sleeping", Form.JSON, 15.0),
        Document("health", "/health", Form.STATUS, 15.0, within=_HEALTH_SECONDS),
    ),
    folds={"engine": Fold.ENGINE},
    model_label="model_name",
    facts={
        "model": (Json("models", "id", records="data", over=Over.FIRST),),
        "tp": (Json(_ENGINE_INFO, "tp_size"),),
        "dp": (Json(_ENGINE_INFO, "dp_size"),),
        "block_size": (Json(_ENGINE_INFO, "block_size"),),
        "state": (
            Json("sleeping", "is_sleeping", values={"True": "sleeping", "False": "awake"}, each_engine=True),
        ),
    },
    fields=_FIELDS,
    owner=(Json("models", "owned_by", records="data"), "lmdeploy"),
    no_metrics=_NO_METRICS,
    ignore=(
        "@python_*", "@process_*",
        "backend_config", "num_requests_finished", "num_requests_completed", "num_requests_succeeded",
        "num_api_requests_routed", "iteration_tokens", "request_cached_tokens", "request_cache_hit_ratio",
        "request_inference_time_seconds", "spec_decode_num_drafts", "spec_decode_num_accepted_tokens_per_pos",
        "spec_decode_mean_accept_rate", "spec_decode_mean_accept_length", "spec_decode_per_position_accept_rate",
    ),
    flags={
        Purpose.BATCH: (Flag("--max-batch-size"),),
        Purpose.KV_MEMORY: (Flag("--cache-max-entry-count", default="0.8"),),
        Purpose.PREFIX_CACHING: (Flag("--enable-prefix-caching"),),
        Purpose.STATISTICS: (
            Flag("--disable-metrics", since="0.11", off=True), Flag("--enable-metrics", since="0.9.2", before="0.11"),
        ),
        Purpose.CONTEXT: (Flag("--session-len"),),
        Purpose.PREFILL: (Flag("--max-prefill-token-num"),),
        Purpose.BLOCK: (Flag("--cache-block-seq-len", default="64"),),
        Purpose.SPECULATION: (Flag("--speculative-algorithm", since="0.11"),),
    },
    rhythm=Rhythm(TokenTiming.LIVE, gauges=_REFRESHES),
    traps=_TRAPS,
)  # fmt: skip
