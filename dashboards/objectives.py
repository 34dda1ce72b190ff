"""States of objectives, as Prometheus' rules tell them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from alerts import promql
from dashboards import expressions as ask
from dashboards import parts
from dashboards.model import (
    BAD,
    GOOD,
    NEUTRAL,
    WARNING,
    Column,
    Dashboard,
    Link,
    Panel,
    Query,
    Shown,
    StateTimeline,
    Table,
)

GROUPS = ("slo", "node", "server", "framework", "model", "role", "engine")
"""Whatever an objective is grouped by, labels of one's own aside."""


def legend(labels: Iterable[str]) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels)


WHO = legend(GROUPS)
"""What an objective is not grouped by leaves nothing in a legend."""
_PAGE, _TICKET, _OK, _IDLE = 3, 2, 1, 0
STATES = (
    Shown(_PAGE, "burning: page", BAD),
    Shown(_TICKET, "burning: ticket", WARNING),
    Shown(_OK, "no alert", GOOD),
    Shown(_IDLE, "idle", NEUTRAL),
)


def grouped_by(dashboard: Dashboard, own: Sequence[str]) -> Dashboard:
    """With labels of one's own told apart and named wherever objectives are."""
    rows = tuple(replace(row, panels=tuple(_told_apart(each, own) for each in row.panels)) for row in dashboard.rows)
    return replace(dashboard, rows=rows, own_labels=tuple(own))


def _told_apart(panel: Panel, own: Sequence[str]) -> Panel:
    asked = tuple(
        replace(query, expr=_with(query.expr, own), legend=query.legend.replace(WHO, legend((*GROUPS, *own))))
        for query in panel.queries
        if isinstance(query, Query)
    )
    panel = replace(panel, queries=asked or panel.queries)
    if isinstance(panel, Table) and {"slo", "model"} <= {column.name for column in panel.columns}:
        return replace(panel, columns=tuple(_columns(panel.columns, own)))
    return panel


def _with(expr: str, own: Sequence[str]) -> str:
    for labels in (GROUPS, parts.ALERT):
        expr = expr.replace(", ".join(labels), ", ".join((*labels, *own)))
    return expr


def _columns(columns: Iterable[Column], own: Sequence[str]) -> Iterable[Column]:
    for column in columns:
        yield column
        if column.name == "model":
            yield from (Column(label, label) for label in own)


def recorded(kind: str, window: str, *more: promql.Matcher) -> str:
    """What the rules count for objectives, under the dashboard's choices."""
    choices = (promql.matching(name, f"${name}") for name in ("model", "role"))
    return promql.series(f"inferwatch:slo_{kind}:{window}", *choices, *more)


def states(width: int = 24, height: int = 7) -> StateTimeline:
    burning = (
        (_PAGE, _alert("SloBurnPage")),
        (_TICKET, _alert("SloBurnTicket")),
    )
    parts_ = [promql.binary(promql.binary(of, "*", "0"), "+", str(state)) for state, of in burning]
    judged = ask.holds(ask.max_by(GROUPS, recorded("total", "5m")), ">", 0)
    return StateTimeline(
        title="Objectives",
        description="Whether each objective burns its error budget so fast that somebody is told, was met by the "
        "last five minutes' traffic without that, or had no traffic. A gap: it cannot be judged. How much of the "
        "budget is left is on the dashboards of objectives and of the history.",
        queries=(Query(promql.first_of(*parts_, judged, on=GROUPS), WHO),),
        shown=STATES,
        links=(Link("Objectives", parts.SLOS),),
        width=width,
        height=height,
    )


def _alert(name: str) -> str:
    firing = promql.series(
        "ALERTS", promql.equals("alertname", name), promql.equals("alertstate", "firing"),
        *(promql.matching(label, f"${label}") for label in ("model", "role")),
    )  # fmt: skip
    return ask.max_by(GROUPS, firing)
