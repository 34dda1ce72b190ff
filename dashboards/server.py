"""One server in depth."""

from __future__ import annotations

from alerts import promql
from dashboards import expressions as ask
from dashboards import parts, trust
from dashboards.model import (
    BAD,
    GOOD,
    NEUTRAL,
    WARNING,
    Colour,
    Column,
    Dashboard,
    Heatmap,
    Line,
    Look,
    Query,
    Row,
    Shown,
    Stat,
    StateTimeline,
    Table,
    TimeSeries,
    Unit,
)
from exporters import schema

_BY = ask.TARGET
_UP, _AVAILABLE = ask.gauge("llm_up"), ask.gauge("llm_metrics_available")
_RUNNING, _WAITING = ask.gauge("llm_requests_running"), ask.gauge("llm_requests_waiting")
_KV = ask.gauge("llm_kv_cache_utilization_ratio")
_LEGEND = "{{model}} engine {{engine}}"
_YES_OR_NO = (Shown(1, "yes", GOOD), Shown(0, "no", BAD))
_STARTED = ask.max_by(_BY, ask.gauge("llm_process_start_time_seconds"))

_NOW = (
    Stat(
        title="Process",
        description="Whether the server's process answers HTTP.",
        unit=Unit.NONE,
        queries=(Query(_UP),),
        shown=parts.UP_OR_DOWN,
        width=3,
    ),
    Stat(
        title="Metrics",
        description="Whether the engine's metrics can be read. Where not, the findings say why and what to do.",
        unit=Unit.NONE,
        queries=(Query(_AVAILABLE),),
        shown=_YES_OR_NO,
        width=3,
    ),
    Stat(
        title="Running for",
        description="Since its process started. Empty where the server does not tell.",
        unit=Unit.SECONDS,
        queries=(Query(promql.binary(promql.call("time"), "-", _STARTED)),),
        width=3,
    ),
    Stat(
        title="Running requests",
        description="The batch of each engine.",
        unit=Unit.NUMBER,
        queries=(Query(_RUNNING, "engine {{engine}}"),),
        width=3,
    ),
    Stat(
        title="Waiting requests",
        description="Admitted and not yet running, at each engine.",
        unit=Unit.NUMBER,
        queries=(Query(_WAITING, "engine {{engine}}"),),
        width=3,
    ),
    Stat(
        title="KV cache in use",
        description="Of each engine.",
        unit=Unit.RATIO,
        queries=(Query(_KV, "engine {{engine}}"),),
        thresholds=parts.FULL,
        decimals=0,
        width=3,
    ),
    Stat(
        title="Time to first token, P99",
        description="Of the whole server.",
        unit=Unit.SECONDS,
        queries=parts.latency_queries("ttft", ())[:2],
        width=3,
    ),
    Stat(
        title="Generated tokens per second",
        description="Of the whole server.",
        unit=Unit.NUMBER,
        queries=(Query(ask.sum_by((), ask.rate("llm_generation_tokens_total"))),),
        width=3,
    ),
)

_STATE_COLOURS = {"awake": GOOD, "sleeping": Colour.SKY, "starting": WARNING, "draining": Colour.YELLOW}
_STATES = tuple(Shown(i, state, _STATE_COLOURS.get(state, NEUTRAL)) for i, state in enumerate(schema.STATES))


def _state() -> str:
    """The number of the state that an engine says it is in."""
    each = (ask.max_by(ask.ENGINE, ask.chosen("llm_server_state", promql.equals("state", s))) for s in schema.STATES)
    return promql.first_of(*(promql.binary(promql.binary(of, "*", "0"), "+", str(i)) for i, of in enumerate(each)))


_INFO = ("model", "role", "engine", *schema.SERVER_INFO_LABELS)
_TITLES = {"tp": "TP", "pp": "PP", "dp": "DP", "kv_cache_dtype": "KV cache dtype"}
_WHAT_IT_IS = (
    Table(
        title="What it says of itself",
        description="Version, model and configuration, as far as the server tells them. Empty while it is down.",
        queries=(Query(ask.max_by(_INFO, ask.gauge("llm_server_info"))),),
        columns=tuple(Column(label, _TITLES.get(label, label.replace("_", " ").capitalize())) for label in _INFO),
        width=24,
        height=5,
    ),
    StateTimeline(
        title="Process and state",
        description="Whether its process answered, and the state that each engine said it was in. A gap: nobody "
        "asked, or the server does not tell states.",
        queries=(Query(_state(), _LEGEND),),
        shown=_STATES,
        width=12,
        height=6,
    ),
    parts.findings_table(width=12, height=6),
)

_LOAD = (
    TimeSeries(
        title="Running requests",
        description="The batch of each engine, and the largest that it allows.",
        unit=Unit.NUMBER,
        axis="requests",
        queries=(Query(_RUNNING, _LEGEND), Query(ask.gauge("llm_requests_running_limit"), f"{_LEGEND} limit")),
        looks=(Look("limit$", NEUTRAL, Line.DASHED),),
    ),
    TimeSeries(
        title="Waiting requests",
        description="Admitted and not yet running; of these, those queued before the engine, where the server tells.",
        unit=Unit.NUMBER,
        axis="requests",
        queries=(Query(_WAITING, _LEGEND), Query(ask.gauge("llm_requests_waiting_api"), f"{_LEGEND} before it")),
        looks=(Look("before it$", line=Line.DASHED),),
    ),
    TimeSeries(
        title="Tokens per second",
        description="Prompt tokens (cached ones included) and generated ones. A server that counts when a request "
        "ends shows them then.",
        unit=Unit.NUMBER,
        axis="tokens/s",
        queries=(
            Query(ask.sum_by((), ask.rate("llm_generation_tokens_total")), "generated"),
            Query(ask.sum_by((), ask.rate("llm_prompt_tokens_total")), "prompt"),
        ),
        looks=(Look("^generated$", Colour.BLUE), Look("^prompt$", Colour.ORANGE)),
    ),
    TimeSeries(
        title="Requests that end",
        description="How requests end. A reason that the server does not count is missing.",
        unit=Unit.REQUESTS_PER_SECOND,
        queries=(
            Query(ask.sum_by(("reason",), ask.rate("llm_requests_finished_total")), "{{reason}}"),
            Query(ask.sum_by((), ask.rate("llm_requests_rejected_total")), "rejected"),
        ),
        looks=parts.REASON_LOOKS,
        is_stacked=True,
    ),
    TimeSeries(
        title="Vanished requests",
        description="Requests that saw a first token, never finished and do not run: clients that went away, at "
        "servers that do not count them. Empty where it cannot be told.",
        unit=Unit.NUMBER,
        axis="requests",
        queries=(Query(ask.gauge("llm_requests_unfinished"), _LEGEND),),
    ),
    TimeSeries(
        title="Preemptions",
        description="Requests thrown out of the batch, per second: their work is done again. One request can add "
        "several.",
        unit=Unit.NUMBER,
        axis="per second",
        queries=(Query(ask.rate("llm_preemptions_total"), _LEGEND),),
    ),
)

_PERCENTILES = tuple(
    parts.latency(phase, (), width=8) for phase in ("ttft", "itl", "tpot", "e2e", "queue", "prefill", "decode")
)


def _heatmap(title: str, phase: str, description: str) -> Heatmap:
    of = schema.PHASES[phase]
    return Heatmap(
        title=title,
        description=f"{description} Buckets are those of the shared grid; counts between the server's own bounds are "
        "interpolated.",
        unit=Unit.SECONDS if of.unit is schema.Unit.SECONDS else Unit.NUMBER,
        queries=(Query(ask.sum_by(("le",), ask.increase(f"{of.metric}_bucket")), "{{le}}"),),
    )


_HEATMAPS = (
    _heatmap("Time to first token", "ttft", "From arrival to the first token."),
    _heatmap("Time between tokens", "itl", "Between two outputs of one request."),
    _heatmap("Time per output token", "tpot", "Mean after the first token, one observation a request."),
    _heatmap("Request duration", "e2e", "From arrival to the last token."),
    _heatmap("Time in the queue", "queue", "From the engine's queue to the first scheduling."),
    _heatmap("Prefill time", "prefill", "From first scheduling to the first token."),
)
_LENGTHS = (
    _heatmap("Prompt length in tokens", "prompt_length", "Of finished requests."),
    _heatmap("Output length in tokens", "generation_length", "Of finished requests."),
    TimeSeries(
        title="Mean lengths",
        description="Tokens per finished request: the sum of lengths by their number.",
        unit=Unit.NUMBER,
        axis="tokens",
        queries=(Query(ask.mean("prompt_length", ()), "prompt"), Query(ask.mean("generation_length", ()), "output")),
        looks=(Look("^output$", Colour.BLUE), Look("^prompt$", Colour.ORANGE)),
    ),
)

_DRAFTED, _ACCEPTED = (ask.sum_by((), ask.rate(f"llm_spec_decode_{k}_tokens_total")) for k in ("draft", "accepted"))
_MEMORY = (
    TimeSeries(
        title="KV cache in use",
        description="Of each engine: the full-attention pool where pools differ.",
        unit=Unit.RATIO,
        queries=(Query(_KV, _LEGEND),),
        minimum=0,
        maximum=1,
        thresholds=parts.FULL,
        limits_drawn=True,
    ),
    TimeSeries(
        title="KV cache capacity",
        description="Tokens that the KV cache of each engine can hold. Empty where the server does not tell.",
        unit=Unit.NUMBER,
        axis="tokens",
        queries=(Query(ask.gauge("llm_kv_cache_capacity_tokens"), _LEGEND),),
        minimum=0,
    ),
    TimeSeries(
        title="Prefix-cache hits",
        description="Tokens found per token looked up: from counters, and as the sidecar tells it of the last 5 "
        "minutes. Empty while nothing is looked up.",
        unit=Unit.RATIO,
        queries=(
            Query(ask.hit_ratio(()), "from counters"),
            Query(ask.gauge("llm_prefix_cache_hit_ratio"), f"{_LEGEND} 5 min"),
        ),
        looks=(Look("5 min$", line=Line.DASHED),),
        minimum=0,
        maximum=1,
    ),
    TimeSeries(
        title="Speculative decoding",
        description="Draft tokens proposed and accepted, per second. Empty where the server does not speculate.",
        unit=Unit.NUMBER,
        axis="tokens/s",
        queries=(Query(_DRAFTED, "drafted"), Query(_ACCEPTED, "accepted")),
        looks=(Look("^drafted$", Colour.ORANGE), Look("^accepted$", Colour.GREEN)),
    ),
    TimeSeries(
        title="Accepted drafts",
        description="Accepted per proposed token, without the bonus token. Empty where the server does not speculate.",
        unit=Unit.RATIO,
        queries=(Query(ask.per(_ACCEPTED, _DRAFTED), "accepted"),),
        minimum=0,
        maximum=1,
    ),
    TimeSeries(
        title="LoRA adapters",
        description="Adapters in the running batch, with waiting requests, and as many as fit. Empty without adapters.",
        unit=Unit.NUMBER,
        axis="adapters",
        queries=tuple(
            Query(ask.sum_by((), ask.gauge(f"llm_lora_adapters_{kind}")), kind)
            for kind in ("running", "waiting", "limit")
        ),
        looks=(Look("^limit$", NEUTRAL, Line.DASHED),),
    ),
)

_GPU = "{{node}} GPU {{gpu}}"


def _gpu(title: str, metric: str, unit: Unit, description: str, *, most: float | None = None) -> TimeSeries:
    return TimeSeries(
        title=title,
        description=f"{description} Empty where GPUs are not read, or none is known to run this server.",
        unit=unit,
        queries=(Query(ask.of_servers(ask.gauge(metric)), _GPU),),
        minimum=0,
        maximum=most,
    )


_GPUS = (
    _gpu("GPU utilisation", "gpu_utilization_ratio", Unit.RATIO, "Some kernel ran: not how full the GPU was.", most=1),
    _gpu("GPU memory in use", "gpu_memory_used_bytes", Unit.BYTES, "Memory in use on each of its GPUs."),
    TimeSeries(
        title="GPU power",
        description="From the energy counters, else the readings of power, and the limit in force. Empty where GPUs "
        "are not read, or none is known to run this server.",
        unit=Unit.WATTS,
        queries=(
            Query(ask.of_servers(ask.gpu_watts()), _GPU),
            Query(ask.of_servers(ask.gauge("gpu_power_limit_watts")), f"{_GPU} limit"),
        ),
        looks=(Look("limit$", NEUTRAL, Line.DASHED),),
        minimum=0,
    ),
    _gpu("SM activity", "gpu_sm_active_ratio", Unit.RATIO, "Share of cycles with a warp on the SMs.", most=1),
    _gpu("Memory activity", "gpu_dram_active_ratio", Unit.RATIO, "Share of cycles with memory traffic.", most=1),
    TimeSeries(
        title="Slowed down",
        description="Share of the time in which clocks were held down, by reason; reasons overlap. Empty where no "
        "GPU is known to run this server.",
        unit=Unit.RATIO,
        queries=parts.seldom(ask.of_servers(ask.rate("gpu_throttled_seconds_total")), f"{_GPU} {{{{reason}}}}"),
        minimum=0,
        bars=True,
        is_stacked=True,
    ),
)

_PROBE_NOTE = "Empty where no synthetic requests are configured."
_OUTSIDE = (
    StateTimeline(
        title="Synthetic requests",
        description=f"Whether the last one got its tokens and ended in order, seen from outside. {_PROBE_NOTE}",
        queries=(Query(ask.gauge("llm_probe_success"), "{{node}} {{server}}"),),
        shown=(Shown(1, "good", GOOD), Shown(0, "failed", BAD)),
        width=12,
        height=6,
    ),
    TimeSeries(
        title="Synthetic requests, time",
        description=f"From before connecting to the first text and to the end. {_PROBE_NOTE}",
        unit=Unit.SECONDS,
        queries=(
            Query(ask.gauge("llm_probe_time_to_first_token_seconds"), "first token"),
            Query(ask.gauge("llm_probe_duration_seconds"), "whole request"),
        ),
        width=12,
        height=6,
        minimum=0,
    ),
)


def dashboard() -> Dashboard:
    return parts.of_one_server(
        Dashboard(
            uid=parts.SERVER,
            title="inferwatch / Server",
            description="One server: what it does, how well, what it runs on, and how far its numbers can be trusted.",
            variables=(parts.ONE_NODE, parts.FRAMEWORK, parts.MODEL, parts.ROLE, parts.ONE_SERVER),
            links=(parts.ALL_DASHBOARDS,),
            annotations=parts.MARKS,
            since="now-3h",
            rows=(
                Row("Now", _NOW),
                Row("What it is", _WHAT_IT_IS),
                Row("Load", _LOAD),
                Row("Latency", _PERCENTILES),
                Row("Latency as heatmaps", _HEATMAPS),
                Row("Lengths", _LENGTHS, is_collapsed=True),
                Row("KV cache, prefixes, speculation, adapters", _MEMORY),
                Row("Its GPUs", _GPUS),
                Row("Seen from outside", _OUTSIDE, is_collapsed=True),
                trust.ROW,
            ),
        )
    )
