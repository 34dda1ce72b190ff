"""What several dashboards share: choices, marks, colours, links, and panels that mean the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from alerts import promql
from dashboards import expressions as ask
from dashboards.model import (
    BAD,
    GOOD,
    NEUTRAL,
    WARNING,
    Annotation,
    Colour,
    Column,
    Dashboard,
    Line,
    Link,
    Look,
    Panel,
    Query,
    Shown,
    Table,
    Threshold,
    TimeSeries,
    Unit,
    Variable,
)

ANY = ".*"
FLEET, SERVER, GPUS, SLOS = "inferwatch-fleet", "inferwatch-server", "inferwatch-gpus", "inferwatch-slos"
FRAMEWORKS, ITSELF, HISTORY = "inferwatch-frameworks", "inferwatch-itself", "inferwatch-history"
"""Uids, which are also what links name."""
ALL_DASHBOARDS = Link("inferwatch", to="")

# Choices

_INFO = "llm_server_info"


def labels(metric: str, label: str, *more: promql.Matcher) -> str:
    return promql.call("label_values", promql.series(metric, *more), label)


def _matching(*names: str) -> tuple[promql.Matcher, ...]:
    return tuple(promql.matching(name, f"${name}") for name in names)


def _servers() -> str:
    """Those whose framework, model and role are chosen, and those that never said theirs as they were always down."""
    known = promql.call("last_over_time", promql.within(promql.series(_INFO), ask.RANGE))
    fitting = promql.series(_INFO, *_matching("node", "framework", "model", "role"))
    fits = promql.call("last_over_time", promql.within(fitting, ask.RANGE))
    configured = promql.call("last_over_time", promql.within(promql.series("llm_up", *_matching("node")), ask.RANGE))
    silent = promql.binary(configured, "unless", known, on=ask.TARGET)
    either = promql.first_of(
        promql.aggregate("group", ("server",), fits), promql.aggregate("group", ("server",), silent)
    )
    return promql.call("query_result", either)


NODE = Variable("node", "Host", labels("llm_up", "node"), all_value=ANY)
FRAMEWORK = Variable("framework", "Framework", labels(_INFO, "framework"), all_value=ANY)
MODEL = Variable("model", "Model", labels(_INFO, "model", *_matching("framework")), all_value=ANY)
ROLE = Variable("role", "Role", labels(_INFO, "role", *_matching("framework", "model")), all_value=ANY)
SERVERS = Variable("server", "Server", _servers(), regex='/server="([^"]*)"/')
"""Without a word for all of them: a server that is down tells no framework, so only its name can choose it."""
ONE_NODE, ONE_SERVER = (replace(of, name=f"one_{of.name}", single=True) for of in (NODE, SERVERS))
"""Under names of their own: links take along that all are chosen, which would show all of them as one. Servers of
several hosts may have the same name."""
CHOICES = (NODE, FRAMEWORK, MODEL, ROLE, SERVERS)


def of_one_server(dashboard: Dashboard) -> Dashboard:
    """Of the panels' questions about several servers those about one.

    Grafana makes regular expressions of choices of several alone: as one, `[::1]:8000` does not match itself.
    """
    variables = tuple(replace(variable, query=_of_one(variable.query)) for variable in dashboard.variables)
    rows = tuple(replace(row, panels=tuple(map(_drawn_of_one, row.panels))) for row in dashboard.rows)
    marks = tuple(
        replace(mark, query=_asked_of_one(mark.query))
        for mark in dashboard.annotations
        if isinstance(mark.query, Query)
    )
    return replace(dashboard, variables=variables, rows=rows, annotations=marks)


def _drawn_of_one(panel: Panel) -> Panel:
    asked = tuple(_asked_of_one(query) for query in panel.queries if isinstance(query, Query))
    return replace(panel, queries=asked)


def _asked_of_one(query: Query) -> Query:
    return replace(query, expr=_of_one(query.expr))


def _of_one(expr: str) -> str:
    for name in ask.TARGET:
        expr = expr.replace(promql.matching(name, f"${name}"), promql.equals(name, f"$one_{name}"))
    return expr


# Marks

_NOTICED = 120


def _restarted() -> str:
    """By the start that the process tells, or by a counter that fell."""
    start = promql.call("changes", promql.raw(ask.chosen("llm_process_start_time_seconds"), _NOTICED))
    fell = promql.call("resets", promql.raw(ask.chosen("llm_generation_tokens_total"), _NOTICED))
    return promql.first_of(*(promql.binary(ask.max_by(ask.TARGET, of), ">", "0") for of in (start, fell)))


def _upgraded() -> str:
    """A version that the server did not have within the hour before, in which it had another."""
    info = promql.raw(ask.chosen(_INFO), 3600)
    before = promql.call("last_over_time", promql.offset(info, _NOTICED))
    versions = (*ask.TARGET, "version")
    now = promql.aggregate("group", versions, ask.chosen(_INFO))
    new = promql.binary(now, "unless", before, on=versions)
    return promql.binary(new, "and", before, on=ask.TARGET)


RESTARTS = Annotation("Restarts", Query(_restarted()), "{{server}} restarted", Colour.PINK, "on {{node}}")
VERSIONS = Annotation("Versions", Query(_upgraded()), "{{server}} runs {{version}}", Colour.SKY, "on {{node}}")
MARKS = (RESTARTS, VERSIONS)

# Looks

OF_FRAMEWORKS = {
    "vllm": Colour.BLUE, "sglang": Colour.ORANGE, "lmdeploy": Colour.GREEN, "tensorrt_llm": Colour.PINK,
}  # fmt: skip
FRAMEWORK_LOOKS = tuple(Look(f"^{name}\\b", colour) for name, colour in OF_FRAMEWORKS.items())
LATENCY_LOOKS = (*FRAMEWORK_LOOKS, Look("P50", line=Line.DASHED), Look("at least", line=Line.DOTTED))
REASON_LOOKS = (
    Look("^stop$", Colour.GREEN), Look("^length$", Colour.SKY), Look("^abort$", Colour.YELLOW),
    Look("^error$", Colour.RED), Look("^rejected$", Colour.PINK), Look("^unknown$", Colour.GREY),
)  # fmt: skip
NONE_IS_GOOD = (Threshold(None, GOOD), Threshold(1, BAD))
NONE_IS_BEST = (Threshold(None, GOOD), Threshold(1, WARNING))
FULL = (Threshold(None, GOOD), Threshold(0.85, WARNING), Threshold(0.95, BAD))
BUDGET = (Threshold(None, BAD), Threshold(0, WARNING), Threshold(0.25, GOOD))
UP_OR_DOWN = (Shown(1, "up", GOOD), Shown(0, "down", BAD), Shown(None, "no data", NEUTRAL))


TO_SERVER = Link("This server", SERVER, (("one_node", "label:node"), ("one_server", "label:server")))
"""From a line; in a table a field goes by its title."""
FROM_ROW = Link("This server", SERVER, (("one_node", "label:Host"), ("one_server", "label:Server")))

# Panels

_NAMES = {
    "ttft": "Time to first token", "itl": "Time between tokens", "tpot": "Time per output token",
    "e2e": "Request duration", "queue": "Time in the queue", "prefill": "Prefill time", "decode": "Decode time",
}  # fmt: skip
_HOW = (
    "Percentiles of the whole group, estimated over the grid of buckets that all frameworks share; they are never "
    "averages of percentiles. “At least”: so many requests lie beyond the servers' own largest bucket that this "
    "bound is all that is known. Empty while nothing finishes."
)


def latency_queries(phase: str, by: Sequence[str] = ask.GROUP) -> tuple[Query, ...]:
    name = " ".join(f"{{{{{label}}}}}" for label in by)
    return tuple(
        query
        for q, told in ((ask.P99, "P99"), (ask.P50, "P50"))
        for query in (
            Query(ask.quantile(q, phase, by), f"{name} {told}".strip()),
            Query(ask.at_least(q, phase, by), f"{name} {told} at least".strip()),
        )
    )


def latency(phase: str, by: Sequence[str] = ask.GROUP, width: int = 8, note: str = "") -> TimeSeries:
    return TimeSeries(
        title=f"{_NAMES[phase]}, P99 and P50",
        description=f"{_HOW} {note}".strip(),
        unit=Unit.SECONDS,
        queries=latency_queries(phase, by),
        looks=LATENCY_LOOKS,
        width=width,
        height=9,
        minimum=0,
        legend_values=("last",),
    )


def seldom(of: str, legend: str) -> tuple[Query, Query]:
    """For bars: one for each kind where it happened, and elsewhere 0 rather than no data."""
    return Query(ask.if_any(of), legend), Query(ask.none_of_any(of), "none")


_FIRING = promql.equals("alertstate", "firing")


def firing(severity: str) -> str:
    """Numbers of alerts; 0 only if rules are evaluated, which the alert that always fires tells."""
    alerts = promql.series("ALERTS", _FIRING, promql.equals("severity", severity))
    watchdog = ask.count_by((), promql.series("ALERTS", _FIRING, promql.equals("alertname", "Watchdog")))
    return ask.none_as_zero(ask.count_by((), alerts), watchdog)


ALERT = ("severity", "alertname", "slo", "node", "server", "model", "uuid")


def alerts_table(*matchers: promql.Matcher, width: int = 12, height: int = 9) -> Table:
    by = ALERT
    real = promql.none_of("severity", ("none",))
    since = promql.series("ALERTS_FOR_STATE", *matchers)
    shown = promql.binary(since, "and", promql.series("ALERTS", _FIRING, real), on=(*by, "instance"))
    return Table(
        title="Alerts that fire",
        description="Alerts of Prometheus' rules that fire now, and since when they are active. Empty while none "
        "fires, and where the rules are not loaded.",
        queries=(Query(promql.binary(ask.min_by(by, shown), "*", "1000")),),
        columns=(
            Column("severity", "Severity", width=90),
            Column("alertname", "Alert"),
            Column("slo", "Objective", link=Link("This objective", SLOS, (("slo", "label:Objective"),))),
            Column("node", "Host"),
            Column("server", "Server", link=FROM_ROW),
            Column("model", "Model"),
            Column("uuid", "GPU"),
            Column("A", "Active", Unit.AGO, width=130),
        ),
        sort_by="Severity",
        width=width,
        height=height,
    )


def findings_table(width: int = 12, height: int = 9) -> Table:
    by = (*ask.TARGET, "severity", "reason")
    return Table(
        title="Findings",
        description="What inferwatch found out about the chosen servers and is worth acting on; `inferwatch check` "
        "and the page tell the remedy. Empty while nothing was found.",
        queries=(Query(ask.of_chosen(ask.max_by(by, ask.chosen("inferwatch_finding")))),),
        columns=(
            Column("severity", "Severity", width=90),
            Column("node", "Host"),
            Column("server", "Server", link=FROM_ROW),
            Column("reason", "Finding"),
        ),
        sort_by="Severity",
        width=width,
        height=height,
    )
