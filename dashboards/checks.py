"""What no dashboard may have: numbers that nobody measures, sums of ratios, panels without words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from alerts.rules.files import asked_by_variable
from alerts.rules.known import Catalogue, Expression, of_schema, problems
from alerts.rules.model import Recording
from alerts.rules.slo import slo_groups
from alerts.slo.published import DEFAULT
from alerts.slo.spec import read
from dashboards.model import COLUMNS, Column, Dashboard, Panel, Query, SqlQuery, Table, Text
from dashboards.objectives import GROUPS
from dashboards.ratios import added_ratios

_INTERVALS = {"rate": ("$__rate_interval",), "irate": ("$__rate_interval",),
              "increase": ("$__rate_interval", "$__range")}  # fmt: skip
_OF_GRAFANA = frozenset({"__rate_interval", "__range", "__range_s", "__interval"})
_RANGED = re.compile(r"\b(rate|irate|increase)\(\s*[\w:]*(?:\{[^{}]*\})?\[([^\]]*)\]")
_CALLED = re.compile(r"\b(?:rate|irate|increase)\(")
_VARIABLE = re.compile(r"\$(?:\{(\w+)[^}]*\}|([A-Za-z_]\w*))")
_LEGEND = re.compile(r"\{\{(\w+)\}\}")


class RefusedError(Exception):
    """A dashboard must not be written; `lines` say what is wrong where."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = list(lines)
        super().__init__("\n".join(self.lines))


def check(dashboards: Iterable[Dashboard]) -> None:
    """Raises RefusedError."""
    found = list(dashboards)
    if lines := [line for dashboard in found for line in wrong(dashboard, {d.uid for d in found})]:
        raise RefusedError(lines)


def wrong(dashboard: Dashboard, uids: Iterable[str]) -> list[str]:
    """`uids` are those of the dashboards that links may lead to."""
    known = {"", *uids}
    lines = [*_layout(dashboard), *_links(dashboard, known)]
    for row in dashboard.rows:
        for panel in row.panels:
            place = f"{dashboard.uid}: {row.title}: {panel.title}"
            lines += [f"{place}: {line}" for line in (*_words(panel), *_asked(panel, dashboard))]
    expressions = list(_expressions(dashboard))
    return [*lines, *problems([*_recorded(), *expressions], _known(dashboard.own_labels))]


def _layout(dashboard: Dashboard) -> Iterator[str]:
    for row in dashboard.rows:
        titles = [panel.title for panel in row.panels]
        for title in sorted({title for title in titles if titles.count(title) > 1}):
            yield f"{dashboard.uid}: {row.title}: {title}: another panel of its row has this title"
        for panel in row.panels:
            if not 1 <= panel.width <= COLUMNS or panel.height < 1:
                yield f"{dashboard.uid}: {row.title}: {panel.title}: allowed: 1 to {COLUMNS} columns, 1 row or more"


def _links(dashboard: Dashboard, known: set[str]) -> Iterator[str]:
    for panel in dashboard.panels():
        columns = panel.columns if isinstance(panel, Table) else ()
        for link in (*panel.links, *(c.link for c in columns if c.link)):
            if link.to not in known:
                yield f"{dashboard.uid}: {panel.title}: no dashboard {link.to} to link to"


def _words(panel: Panel) -> Iterator[str]:
    for name, value in (("title", panel.title), ("description", panel.description)):
        if not value.strip():
            yield f"a panel needs a {name}"
    if panel.unit is None and not isinstance(panel, Text):
        yield "a panel needs a unit"
    if isinstance(panel, Table):
        yield from (f"column {c.title}: a number needs a unit" for c in panel.columns if _is_bare_number(c))
    if not panel.queries and not isinstance(panel, Text):
        yield "a panel needs a query"


def _is_bare_number(column: Column) -> bool:
    return len(column.name) == 1 and column.unit is None and not column.shown


def _asked(panel: Panel, dashboard: Dashboard) -> Iterator[str]:
    """What is wrong with the queries of one panel, by themselves."""
    queries: Iterable[Query | SqlQuery] = panel.queries
    defined = {"datasource", *(v.name for v in dashboard.variables)}
    for query in queries:
        if isinstance(query, SqlQuery):
            continue
        yield from _intervals(query.expr)
        yield from (f"a ratio is added up without weights: {text}" for text in added_ratios(query.expr))
        for name in sorted(_variables(query.expr) - defined - _OF_GRAFANA):
            yield f"no variable ${name} above this dashboard"
        for label in _LEGEND.findall(query.legend):
            if label not in _labels(query.expr, dashboard.own_labels):
                yield f"no label `{label}` for the legend"


def _intervals(expr: str) -> Iterator[str]:
    ranged = _RANGED.findall(expr)
    for function, over in ranged:
        if over not in _INTERVALS[function]:
            yield f"{function} over [{over}]: allowed: {', '.join(_INTERVALS[function])}"
    if len(ranged) != len(_CALLED.findall(expr)):
        yield "a rate is taken of one metric alone"


def _variables(text: str) -> set[str]:
    return {one or other for one, other in _VARIABLE.findall(text)}


def _labels(expr: str, own: tuple[str, ...]) -> set[str]:
    """Every label that an expression could have: those that it groups by, makes, or that its metrics have.

    What rules record of an objective has whatever the objective is grouped by.
    """
    metrics = Expression("", expr).metrics
    of_metrics = {label for metric in metrics for label in _known(own).get(metric, ())}
    of_groups = (*GROUPS, *own) if any(metric.startswith("inferwatch:slo_") for metric in metrics) else ()
    return of_metrics.union(of_groups, re.findall(r"\w+", expr))


def _expressions(dashboard: Dashboard) -> Iterator[Expression]:
    for panel in dashboard.panels():
        for query in panel.queries:
            if isinstance(query, Query):
                yield Expression(f"{dashboard.uid}: {panel.title}", query.expr)
    for annotation in dashboard.annotations:
        if isinstance(annotation.query, Query):
            yield Expression(f"{dashboard.uid}: {annotation.name}", annotation.query.expr)
    if not dashboard.is_sql:
        asked = ((v.name, asked_by_variable(v.query)) for v in dashboard.variables)
        yield from (Expression(f"{dashboard.uid}: ${name}", expr) for name, expr in asked if expr)


@cache
def _known(own: tuple[str, ...]) -> Catalogue:
    return of_schema(own)


@cache
def _recorded() -> tuple[Expression, ...]:
    """What the rules of objectives make."""
    return tuple(
        Expression(rule.record, "vector(1)", rule.record, tuple(rule.labels))
        for group in slo_groups(read(DEFAULT))
        for rule in group.rules
        if isinstance(rule, Recording)
    )
