"""Months of the fleet, from the views of the history's database (docs/sql.md) rather than from Prometheus."""

from __future__ import annotations

from dashboards import budgets, parts, sql
from dashboards.model import (
    Annotation,
    Colour,
    Column,
    Dashboard,
    Line,
    Look,
    Row,
    SqlQuery,
    Stat,
    Table,
    TimeSeries,
    Unit,
    Variable,
)

_SERVER = "framework || ' ' || node || '/' || server"
_PRICE = "nullif(${price:raw}, 0)"
_ELSEWHERE = "CASE WHEN role <> '{}' THEN {} END"
"""What servers of one role count again, or before its end: as on the other dashboards it counts once."""
_GENERATED = f"sum({_ELSEWHERE.format('prefill', 'generation_tokens')})"
_PROMPT = f"sum({_ELSEWHERE.format('decode', 'prompt_tokens')})"
_TOKENS = f"{_PROMPT} + {_GENERATED}"
_WELL = {end: _ELSEWHERE.format("prefill", f"requests_finished_{end}") for end in ("stop", "length")}

_JOULES = "sum(coalesce(energy_joules, power_watts * covered_seconds))"
_KWH = f"{_JOULES} / 3600000"
_GPU_HOURS = "sum(covered_seconds) / 3600"
_WINDOWS = "A window shows once it is over and ten minutes have passed."
_ALL_GPUS = "Of all GPUs of the history, whatever framework and model are chosen."


def _lines(title: str, description: str, unit: Unit, query: SqlQuery, width: int = 8, axis: str = "") -> TimeSeries:
    return TimeSeries(
        title=title,
        description=description,
        unit=unit,
        queries=(query,),
        axis=axis,
        width=width,
        height=9,
        minimum=0,
        maximum=1 if unit is Unit.RATIO else None,
        longest_step=sql.LONGEST_STEP,
        looks=parts.FRAMEWORK_LOOKS if width < 12 else (),
    )


def _bars(
    title: str, description: str, axis: str, query: SqlQuery, looks: tuple[Look, ...] = parts.FRAMEWORK_LOOKS
) -> TimeSeries:
    """What adds up: in all of a window, one upon the other."""
    return TimeSeries(
        title=title,
        description=f"{description} {_WINDOWS}",
        unit=Unit.NUMBER,
        axis=axis,
        queries=(query,),
        is_stacked=True,
        bars=True,
        width=8,
        height=9,
        minimum=0,
        looks=looks,
        legend_values=("sum",),
    )


# The range as a whole

_IN_ALL = (
    Stat(
        title="Tokens",
        description=f"Of the chosen frameworks and models, within the time range. {_WINDOWS}",
        unit=Unit.NUMBER,
        queries=(
            sql.in_all(_GENERATED, "generated", sql.ENGINES),
            sql.in_all(_PROMPT, "prompt", sql.ENGINES),
        ),
        width=6,
    ),
    Stat(
        title="Requests that ended well",
        description="With a stop, or at the length that was asked for; those that a prefill server hands on end at the "
        "decode server.",
        unit=Unit.NUMBER,
        queries=(*(sql.in_all(f"sum({of})", end, sql.ENGINES) for end, of in _WELL.items()),),
    ),
    Stat(
        title="Servers were up",
        description="Share of the observed time in which the chosen servers answered.",
        unit=Unit.RATIO,
        queries=(sql.in_all(sql.mean("up"), "of the time", sql.SERVERS),),
        decimals=2,
    ),
    Stat(
        title="GPU energy",
        description=f"From the energy counters; where a GPU has none, from its mean power. {_ALL_GPUS}",
        unit=Unit.NUMBER,
        queries=(sql.in_all(_KWH, "kWh", sql.GPUS, all_of_them=True),),
        decimals=1,
    ),
    Stat(
        title="GPU-hours",
        description=f"Hours that were observed, and what they cost at the price that is chosen above. {_ALL_GPUS}",
        unit=Unit.NUMBER,
        queries=(
            sql.in_all(_GPU_HOURS, "hours", sql.GPUS, all_of_them=True),
            sql.in_all(f"{_GPU_HOURS} * {_PRICE}", "cost", sql.GPUS, all_of_them=True),
        ),
        width=6,
    ),
)

# Latency


def _percentile(title: str, phase: str) -> TimeSeries:
    description = (
        "P99 of each server: of everything that it served in a window, from merged histograms. Percentiles cannot be "
        f"put together: neither their mean nor the largest is the fleet's. {_WINDOWS} Empty while nothing finishes."
    )
    query = sql.over_time(f"max({phase}_p99)", _SERVER, sql.SERVERS)
    return _lines(f"{title}, P99", description, Unit.SECONDS, query, width=12)


def _slowest() -> TimeSeries:
    ranked = (
        "SELECT time, ttft_p99, ttft_p99_lower, ttft_p99_upper,\n"
        "row_number() OVER (PARTITION BY time ORDER BY ttft_p99 DESC) AS place\n"
        f"{sql.of(sql.SERVERS)} AND ttft_p99 IS NOT NULL"
    )
    named = (("", "P99 of the slowest"), ("_lower", "at least"), ("_upper", "at most"))
    pieces = [
        f"SELECT time, '{name}' AS metric, ttft_p99{bound} AS \"Value\" FROM (\n{ranked}\n) AS ranked\n"  # noqa: S608
        f"WHERE place = 1 AND ttft_p99{bound} IS NOT NULL"
        for bound, name in named
    ]
    return TimeSeries(
        title="Time to first token of the slowest server, P99",
        description="In each window the server whose P99 is the longest: its estimate, and dotted the bounds that its "
        "own buckets leave no doubt about. Without an upper one it lies beyond the largest bucket: read “at least”.",
        unit=Unit.SECONDS,
        queries=(sql.united(pieces),),
        looks=(Look("^at least$", line=Line.DOTTED), Look("^at most$", line=Line.DOTTED)),
        longest_step=sql.LONGEST_STEP,
        width=12,
        height=9,
        minimum=0,
    )


_SHOWN = tuple(
    (f"{phase}_{q}", f"{phase.upper()} {q.upper()}") for phase in ("ttft", "itl", "e2e") for q in ("p50", "p99")
)


def _newest() -> Table:
    newest = f"(SELECT max(start) {sql.of(sql.SERVERS)} AND ttft_p99 IS NOT NULL)"
    columns = ", ".join(name for name, _ in _SHOWN)
    text = f"SELECT node, server, framework, model, {columns}\n{sql.of(sql.SERVERS)} AND start = {newest}"
    return Table(
        title="The newest window, slowest first",
        description="Percentiles of each server in the newest window of the time range.",
        unit=Unit.SECONDS,
        queries=(sql.table(f"{text}\nORDER BY ttft_p99 DESC"),),
        columns=(
            Column("node", "Host"),
            Column("server", "Server"),
            Column("framework", "Framework"),
            Column("model", "Model"),
            *(Column(name, title, Unit.SECONDS) for name, title in _SHOWN),
        ),
        width=12,
        height=9,
    )


def _by_framework(title: str, phase: str) -> TimeSeries:
    pieces = [
        sql.piece(f"{of}({phase}_p99)", f"framework || ' {name}'", sql.SERVERS)
        for of, name in (("max", "at most"), ("min", "at least"))
    ]
    return TimeSeries(
        title=f"{title} by framework, P99",
        description="Percentiles of servers do not merge in SQL, but the P99 of all that a framework served lies "
        "between those of its fastest and its slowest server: dotted, it is at least that, and at most the other. With "
        f"one server both are the same. The API merges the histograms. {_WINDOWS}",
        unit=Unit.SECONDS,
        queries=(sql.united(pieces),),
        looks=(*parts.FRAMEWORK_LOOKS, Look(" at least$", line=Line.DOTTED)),
        longest_step=sql.LONGEST_STEP,
        width=12,
        height=9,
        minimum=0,
    )


_LATENCY = (
    _percentile("Time to first token", "ttft"),
    _percentile("Request duration", "e2e"),
    _percentile("Time between tokens", "itl"),
    _percentile("Time in the queue", "queue"),
    _by_framework("Time to first token", "ttft"),
    _by_framework("Request duration", "e2e"),
    _slowest(),
    _newest(),
)

# Work

_ENDS = (*((of, end) for end, of in _WELL.items()),
         *((f"requests_finished_{end}", end) for end in ("abort", "error", "unknown")))  # fmt: skip
_WORK = (
    _bars(
        "Generated tokens",
        "Of all servers of a framework, in each window.",
        "tokens",
        sql.over_time(_GENERATED, "framework", sql.ENGINES),
    ),
    _bars(
        "Prompt tokens",
        "Likewise, those found in a prefix cache included.",
        "tokens",
        sql.over_time(_PROMPT, "framework", sql.ENGINES),
    ),
    _bars(
        "Requests, by how they ended",
        "What a framework cannot tell apart is “unknown”; what it does not tell at all is missing.",
        "requests",
        sql.sums(_ENDS, sql.ENGINES),
        parts.REASON_LOOKS,
    ),
    _lines(
        "KV cache in use",
        "Mean over time and engines, weighted by capacity. Engines that do not tell their capacity are left out.",
        Unit.RATIO,
        sql.over_time(
            sql.mean("kv_cache_utilization_ratio", "kv_cache_capacity_tokens * covered_seconds"),
            "framework",
            sql.ENGINES,
        ),
    ),
    _lines(
        "KV cache, the fullest engine",
        "The highest reading of any engine of a framework.",
        Unit.RATIO,
        sql.over_time("max(kv_cache_utilization_ratio_max)", "framework", sql.ENGINES),
    ),
    _lines(
        "Prefix cache hits",
        "Tokens found per token looked up. Empty where nothing is looked up, or not counted.",
        Unit.RATIO,
        sql.over_time(
            "sum(prefix_cache_hit_tokens) / nullif(sum(prefix_cache_query_tokens), 0)", "framework", sql.ENGINES
        ),
    ),
)

# Servers

_CHANGES = Table(
    title="What changed",
    description="Restarts, versions, flags, drivers and lost GPUs, the newest 200.",
    queries=(
        sql.table(
            "SELECT time, node, coalesce(server, uuid) AS subject, kind, before, after\nFROM event_view\n"
            "WHERE {within}\nORDER BY at DESC\nLIMIT 200",
            column="at",
        ),
    ),
    columns=(
        Column("time", "When"),
        Column("node", "Host"),
        Column("subject", "Server or GPU"),
        Column("kind", "What"),
        Column("before", "Before"),
        Column("after", "After"),
    ),
    width=12,
    height=9,
)
_SERVERS = (
    _lines(
        "Servers that were up",
        f"Share of the observed time in which each server answered. {_WINDOWS}",
        Unit.RATIO,
        sql.over_time("max(up)", _SERVER, sql.SERVERS),
        width=12,
    ),
    _CHANGES,
)

# GPUs, energy and cost

_OF_GPUS = (
    _lines(
        "GPU power",
        f"Mean draw of all GPUs of a type together. {_ALL_GPUS}",
        Unit.WATTS,
        sql.over_time("sum(power_watts)", "name", sql.GPUS, all_of_them=True),
    ),
    _bars(
        "GPU energy",
        f"From the energy counters; where a GPU has none, from its mean power. {_ALL_GPUS}",
        "kWh",
        sql.over_time(_KWH, "name", sql.GPUS, all_of_them=True),
    ),
    _lines(
        "Energy per generated token",
        f"Of all GPUs and all servers together. {_ALL_GPUS}",
        Unit.JOULES,
        sql.per(_JOULES, sql.GPUS, _GENERATED, "per generated token"),
    ),
    _lines(
        "GPU utilisation",
        f"Share of time in which any kernel ran: not idle, never how full. {_ALL_GPUS}",
        Unit.RATIO,
        sql.over_time(sql.mean("utilization_ratio"), "name", sql.GPUS, all_of_them=True),
    ),
    _bars(
        "Cost of the GPUs",
        f"GPU-hours by the price that is chosen above, in its currency. Empty while none is chosen. {_ALL_GPUS}",
        "cost",
        sql.over_time(f"{_GPU_HOURS} * {_PRICE}", "name", sql.GPUS, all_of_them=True),
    ),
    _lines(
        "Cost per million tokens",
        f"Cost of all GPUs by prompt and generated tokens of all servers. Empty while no price is chosen. {_ALL_GPUS}",
        Unit.NUMBER,
        sql.per(f"{_GPU_HOURS} * {_PRICE} * 1000000", sql.GPUS, _TOKENS, "per million tokens"),
        axis="cost",
    ),
)


def _mark(name: str, kind: str, words: str, colour: Colour) -> Annotation:
    text = (
        f"SELECT time, server || ' {words}' AS title, 'on ' || node AS text\n"
        f"FROM event_view\nWHERE {{within}} AND kind = '{kind}' AND server IS NOT NULL\nORDER BY time"
    )
    return Annotation(name, sql.table(text, column="at"), "", colour)


_PRICES = tuple((f"{price:g}", f"{price:g}") for price in (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12))
_CHOICES = (
    Variable("step", "Windows of", options=(("a day", "day"), ("an hour", "hour")), single=True),
    Variable("framework", "Framework", sql.names("framework")),
    Variable("model", "Model", sql.names("model")),
    budgets.CHOICE,
    Variable("price", "Price of a GPU-hour", options=(("not chosen", "0"), *_PRICES), single=True),
)


def dashboard() -> Dashboard:
    return Dashboard(
        uid=parts.HISTORY,
        title="inferwatch / History",
        description="Months of error budgets, latency, tokens, KV cache, energy and cost, from the history's database. "
        "In the first days choose windows of an hour: a day shows once it is over.",
        variables=_CHOICES,
        annotations=(
            _mark("Restarts", "restart", "restarted", Colour.PINK),
            _mark("Versions", "version", "has another version", Colour.SKY),
        ),
        rows=(
            Row("In all", _IN_ALL),
            budgets.ROW,
            Row("Latency", _LATENCY),
            Row("Work", _WORK),
            Row("Servers", _SERVERS),
            Row("GPUs, energy and cost", _OF_GPUS),
        ),
        links=(parts.ALL_DASHBOARDS,),
        since="now-90d",
        refresh="15m",
        is_sql=True,
    )
