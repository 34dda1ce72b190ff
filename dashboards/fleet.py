"""All servers of all frameworks together."""

from __future__ import annotations

from alerts import promql
from alerts.burn import HOUR
from dashboards import expressions as ask
from dashboards import parts
from dashboards.model import (
    Column,
    Dashboard,
    Look,
    Query,
    Row,
    Stat,
    StateTimeline,
    Table,
    TimeSeries,
    Unit,
)
from dashboards.objectives import states

_UP, _AVAILABLE = (ask.of_chosen(ask.gauge(f"llm_{name}")) for name in ("up", "metrics_available"))
_RUNNING, _WAITING = ask.gauge("llm_requests_running"), ask.gauge("llm_requests_waiting")
_KV = ask.gauge("llm_kv_cache_utilization_ratio")
_BY = ("framework",)
_NOT_READ = promql.binary(_UP, ">", _AVAILABLE)
_RECENT = ask.of_chosen(ask.max_by(ask.TARGET, promql.over_time("last", ask.chosen("llm_up"), HOUR)))
_GONE = promql.binary(_RECENT, "unless", _UP)

_NOW = (
    Stat(
        title="Servers",
        description="Servers whose process answers HTTP, and all that are configured and chosen above.",
        unit=Unit.NUMBER,
        queries=(Query(ask.sum_by((), _UP), "up"), Query(ask.count_by((), _UP), "configured")),
    ),
    Stat(
        title="Servers in trouble",
        description="Servers that do not answer, those that answer while their metrics cannot be read (for the reason "
        "see the findings), and those of the last hour of which nobody tells any more: their sidecar is gone, or they "
        "were taken out of its configuration.",
        unit=Unit.NUMBER,
        queries=(
            Query(ask.sum_by((), ask.holds(_UP, "==", 0)), "down"),
            Query(ask.none_as_zero(ask.count_by((), _NOT_READ), ask.count_by((), _UP)), "without metrics"),
            Query(ask.none_as_zero(ask.count_by((), _GONE), ask.count_by((), _RECENT)), "not heard of"),
        ),
        thresholds=parts.NONE_IS_GOOD,
    ),
    Stat(
        title="Requests",
        description="Requests in running batches, and those that wait.",
        unit=Unit.NUMBER,
        queries=(Query(ask.sum_by((), _RUNNING), "running"), Query(ask.sum_by((), _WAITING), "waiting")),
    ),
    Stat(
        title="Tokens per second",
        description="Prompt tokens (cached ones included) and generated tokens. A decode server's prompts and a "
        "prefill server's tokens are left out: they are counted where the work is done.",
        unit=Unit.NUMBER,
        queries=(Query(ask.generated_tokens(()), "generated"), Query(ask.prompt_tokens(()), "prompt")),
    ),
    Stat(
        title="KV cache in use",
        description="The mean is weighted by capacity, over the engines that tell theirs: so many of those that tell "
        "how full they are. Beside it the fullest engine.",
        unit=Unit.RATIO,
        queries=(
            Query(ask.kv_mean_of_all(), "mean of {{n}} of {{m}} engines"),
            Query(ask.max_by((), _KV), "fullest"),
        ),
        thresholds=parts.FULL,
        decimals=0,
    ),
    Stat(
        title="Prefix cache",
        description="Tokens found per token looked up, from the counters of all engines that have both. Empty while "
        "nothing is looked up.",
        unit=Unit.RATIO,
        queries=(Query(ask.hit_ratio(())),),
        decimals=0,
    ),
)


_FOUND = ask.count_by((), ask.of_chosen(ask.gauge("inferwatch_finding")))
_GPU_UP = ask.max_by(ask.GPU, ask.gauge("gpu_up"))
_WATTS = ask.sum_by((), ask.of_servers(ask.max_by(ask.GPU, ask.gpu_watts())))
_WORRIES = (
    Stat(
        title="Time to first token, P99",
        description="Of all chosen servers of a role together, from the grid that all frameworks share; “at least” "
        "where it lies beyond their own buckets.",
        unit=Unit.SECONDS,
        queries=parts.latency_queries("ttft", ("role",))[:2],
    ),
    Stat(
        title="Request duration, P99",
        description="Likewise, from arrival to the last token.",
        unit=Unit.SECONDS,
        queries=parts.latency_queries("e2e", ("role",))[:2],
    ),
    Stat(
        title="Alerts",
        description="Alerts that fire now, of everything that Prometheus watches. Empty where the rules are not "
        "loaded.",
        unit=Unit.NUMBER,
        queries=tuple(Query(parts.firing(severity), f"{severity}s") for severity in ("page", "ticket")),
        thresholds=parts.NONE_IS_GOOD,
    ),
    Stat(
        title="Findings",
        description="What inferwatch found out about the chosen servers and is worth acting on.",
        unit=Unit.NUMBER,
        queries=(Query(ask.none_as_zero(_FOUND, ask.count_by((), _UP))),),
        thresholds=parts.NONE_IS_BEST,
    ),
    Stat(
        title="GPUs",
        description="GPUs of the chosen hosts that answer, and those that are lost. Empty where GPUs are not read.",
        unit=Unit.NUMBER,
        queries=(
            Query(ask.sum_by((), _GPU_UP), "up"),
            Query(ask.sum_by((), ask.holds(_GPU_UP, "==", 0)), "lost"),
        ),
        looks=(Look("^lost$", thresholds=parts.NONE_IS_GOOD),),
    ),
    Stat(
        title="Power",
        description="Power drawn by the GPUs of the chosen servers, from their energy counters, else from their "
        "power. Empty where no GPU is known to run one of them.",
        unit=Unit.WATTS,
        queries=(Query(_WATTS),),
    ),
)


_REJECTED = ask.rate("llm_requests_rejected_total")
_LIMIT = ask.gauge("llm_requests_running_limit")
_PLACES, _TAKEN = promql.binary(_LIMIT, "and", _RUNNING), promql.binary(_RUNNING, "and", _LIMIT)
_LOAD = (
    TimeSeries(
        title="Running requests",
        description="The batches of all engines. Gauges that stick when a server is idle are named among its fields.",
        unit=Unit.NUMBER,
        axis="requests",
        queries=(Query(ask.sum_by(_BY, _RUNNING), "{{framework}}"),),
        looks=parts.FRAMEWORK_LOOKS,
        is_stacked=True,
    ),
    TimeSeries(
        title="Waiting requests",
        description="Admitted and not yet running, those queued before the engine included.",
        unit=Unit.NUMBER,
        axis="requests",
        queries=(Query(ask.sum_by(_BY, _WAITING), "{{framework}}"),),
        looks=parts.FRAMEWORK_LOOKS,
        is_stacked=True,
    ),
    TimeSeries(
        title="Batches filled",
        description="Running requests per place in the largest batches that the servers allow, of the engines that "
        "tell both.",
        unit=Unit.RATIO,
        queries=(Query(ask.per(ask.sum_by(_BY, _TAKEN), ask.sum_by(_BY, _PLACES)), "{{framework}}"),),
        looks=parts.FRAMEWORK_LOOKS,
        minimum=0,
        maximum=1,
    ),
    TimeSeries(
        title="Generated tokens per second",
        description="By framework. Servers that count tokens when a request ends show them then: their lines are "
        "rougher.",
        unit=Unit.NUMBER,
        axis="tokens/s",
        queries=(Query(ask.generated_tokens(_BY), "{{framework}}"),),
        looks=parts.FRAMEWORK_LOOKS,
        is_stacked=True,
    ),
    TimeSeries(
        title="Prompt tokens per second",
        description="By framework, tokens that the prefix cache had included.",
        unit=Unit.NUMBER,
        axis="tokens/s",
        queries=(Query(ask.prompt_tokens(_BY), "{{framework}}"),),
        looks=parts.FRAMEWORK_LOOKS,
        is_stacked=True,
    ),
    TimeSeries(
        title="Requests that end",
        description="How requests end; one that a prefill server hands on ends at the decode server. `abort`: the "
        "client went away. `rejected`: refused before the engine. What a framework does not count is missing here and "
        "counts nowhere.",
        unit=Unit.REQUESTS_PER_SECOND,
        queries=(
            Query(ask.finished(("reason",)), "{{reason}}"),
            Query(ask.sum_by((), _REJECTED), "rejected"),
        ),
        looks=parts.REASON_LOOKS,
        is_stacked=True,
    ),
)  # fmt: skip


_CACHE = (
    TimeSeries(
        title="KV cache in use, weighted mean",
        description="Weighted by capacity, over the engines that tell theirs. Ratios are never added up.",
        unit=Unit.RATIO,
        queries=(Query(ask.kv_mean(_BY), "{{framework}}"),),
        looks=parts.FRAMEWORK_LOOKS,
        minimum=0,
        maximum=1,
    ),
    TimeSeries(
        title="KV cache in use, fullest engine",
        description="The fullest engine of each framework: it is the one whose requests wait or are thrown out.",
        unit=Unit.RATIO,
        queries=(Query(ask.max_by(_BY, _KV), "{{framework}}"),),
        looks=parts.FRAMEWORK_LOOKS,
        minimum=0,
        maximum=1,
        thresholds=parts.FULL,
        limits_drawn=True,
    ),
    TimeSeries(
        title="Prefix-cache hits",
        description="Tokens found per token looked up, from counters. Empty while nothing is looked up.",
        unit=Unit.RATIO,
        queries=(Query(ask.hit_ratio(_BY), "{{framework}}"),),
        looks=parts.FRAMEWORK_LOOKS,
        minimum=0,
        maximum=1,
    ),
)


_WHO = ("node", "server", "framework", "model", "role")
_INFO = ask.max_by(_WHO, ask.gauge("llm_server_info"))
_ROWS = promql.first_of(promql.binary(_INFO, "*", _UP, on=ask.TARGET, group="left"), _UP, on=ask.TARGET)
_SERVERS = (
    Table(
        title="Servers",
        description="One row for each server and model. A server that is down has only its name: it does not tell "
        "more.",
        queries=(
            Query(_ROWS),
            Query(ask.max_by((*_WHO, "version"), ask.gauge("llm_server_info"))),
            Query(ask.sum_by(_WHO, _RUNNING)),
            Query(ask.sum_by(_WHO, _WAITING)),
            Query(ask.max_by(_WHO, _KV)),
            Query(ask.sum_by(_WHO, ask.rate("llm_generation_tokens_total"))),
            Query(ask.quantile(ask.P99, "ttft", _WHO)),
        ),
        columns=(
            Column("node", "Host"),
            Column("server", "Server", link=parts.FROM_ROW),
            Column("A", "Up", shown=parts.UP_OR_DOWN, width=70),
            Column("framework", "Framework"),
            Column("version", "Version", width=110),
            Column("model", "Model"),
            Column("role", "Role", width=90),
            Column("C", "Running", Unit.NUMBER, width=90),
            Column("D", "Waiting", Unit.NUMBER, width=90),
            Column("E", "KV cache", Unit.RATIO, thresholds=parts.FULL, width=100),
            Column("F", "Tokens/s", Unit.NUMBER, width=100),
            Column("G", "TTFT P99", Unit.SECONDS, width=100),
        ),
        sort_by="Up",
        width=24,
        height=10,
    ),
    StateTimeline(
        title="Servers over time",
        description="Whether each server's process answered. A gap: nobody asked it, or its sidecar was gone.",
        queries=(Query(_UP, "{{node}} {{server}}"),),
        shown=parts.UP_OR_DOWN,
        links=(parts.TO_SERVER,),
        width=24,
        height=8,
    ),
)


_BUSY = ask.of_servers(ask.max_by(ask.GPU, ask.gauge("gpu_utilization_ratio")))
_USED, _TOTAL = (
    ask.sum_by(("node",), ask.of_servers(ask.max_by(ask.GPU, ask.gauge(f"gpu_memory_{kind}_bytes"))))
    for kind in ("used", "total")
)
_OF_GPUS = (
    TimeSeries(
        title="GPU utilisation",
        description="The idlest, the middle one and the busiest GPU of the chosen servers. Utilisation says that "
        "some kernel ran, not how full the GPU was.",
        unit=Unit.RATIO,
        queries=(
            Query(ask.max_by((), _BUSY), "busiest"),
            Query(ask.median_by((), _BUSY), "median"),
            Query(ask.min_by((), _BUSY), "idlest"),
        ),
        minimum=0,
        maximum=1,
    ),
    TimeSeries(
        title="GPU memory in use",
        description="Bytes in use per byte there is, of each host's GPUs that the chosen servers run on.",
        unit=Unit.RATIO,
        queries=(Query(promql.binary(_USED, "/", _TOTAL), "{{node}}"),),
        minimum=0,
        maximum=1,
    ),
    TimeSeries(
        title="Energy per token",
        description="Energy of the chosen servers' GPUs per prompt or generated token. Where a GPU also serves a "
        "server that is not chosen, its energy counts all the same.",
        unit=Unit.JOULES,
        axis="per token",
        queries=(Query(ask.per(_WATTS, ask.all_tokens(())), "prompt and generated"),),
    ),
)


def dashboard() -> Dashboard:
    return Dashboard(
        uid=parts.FLEET,
        title="inferwatch / Fleet",
        description="All inference servers together, whatever framework serves them, in one set of names.",
        variables=parts.CHOICES,
        links=(parts.ALL_DASHBOARDS,),
        annotations=parts.MARKS,
        rows=(
            Row("Now", (*_NOW, *_WORRIES)),
            Row("Load", _LOAD),
            Row("Latency", tuple(parts.latency(phase) for phase in ("ttft", "itl", "e2e"))),
            Row("KV cache and prefixes", _CACHE),
            Row("Servers", _SERVERS),
            Row("GPUs of these servers", _OF_GPUS),
            Row("Objectives, alerts and findings", (states(24), parts.alerts_table(), parts.findings_table())),
        ),
    )
