"""Grafana's JSON of a dashboard. The only place that knows grafanalib.

grafanalib frames dashboards as Grafana did years ago: what has gone since is left out here, and each kind of panel gets
the options of today from `dashboards/kinds.py`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from grafanalib import _gen, core  # type: ignore[import-untyped]

from dashboards.fields import data_link, fields, steps, url
from dashboards.kinds import Json, Kind, kind_of, lettered
from dashboards.model import (
    COLUMNS,
    Annotation,
    Dashboard,
    Dialect,
    Link,
    Panel,
    Query,
    Row,
    SqlQuery,
    Text,
    Variable,
)

SCHEMA_VERSION = 42
_REFRESH_ON_TIME_CHANGE = 2
_SORTED = 1
_SHARED_CROSSHAIR = 1
_PROMETHEUS = "prometheus"
_SQL = {Dialect.POSTGRES: "grafana-postgresql-datasource", Dialect.SQLITE: "frser-sqlite-datasource"}
_OF_DASHBOARDS = frozenset({
    "annotations", "description", "editable", "graphTooltip", "links", "panels", "refresh", "schemaVersion", "tags",
    "templating", "time", "timezone", "title", "uid",
})  # fmt: skip
_OF_PANELS = frozenset({
    "datasource", "description", "fieldConfig", "gridPos", "id", "links", "options", "targets", "title",
    "transformations", "type",
})  # fmt: skip
_OF_ROWS = frozenset({"collapsed", "gridPos", "id", "panels", "title", "type"})
_OF_TARGETS = frozenset({
    "datasource", "editorMode", "expr", "format", "instant", "legendFormat", "queryText", "queryType", "range",
    "rawQuery", "rawQueryText", "rawSql", "refId", "timeColumns",
})  # fmt: skip
_OF_VARIABLES = frozenset({
    "allValue", "current", "datasource", "hide", "includeAll", "label", "multi", "name", "options", "query", "refresh",
    "regex", "sort", "type",
})  # fmt: skip


def to_json(dashboard: Dashboard, dialect: Dialect = Dialect.POSTGRES) -> str:
    """Stable: the same dashboard is the same text, and a panel keeps its id wherever it moves within its row."""
    return json.dumps(_dashboard(dashboard, _Source(dashboard, dialect)), indent=2, sort_keys=True) + "\n"


class _Source:
    """Where a dashboard's numbers come from: whatever is chosen in its variable.

    Links take variables along as they are, so a database goes by another name than a Prometheus: neither can be asked
    in the place of the other.
    """

    def __init__(self, dashboard: Dashboard, dialect: Dialect) -> None:
        self.dialect = dialect
        self.type = _SQL[dialect] if dashboard.is_sql else _PROMETHEUS
        self.variable = "database" if dashboard.is_sql else "datasource"
        self.ref = {"type": self.type, "uid": f"${{{self.variable}}}"}


class _Panel(core.Panel):  # type: ignore[misc]
    """grafanalib's frame around what a kind of panel is today."""

    def to_json_data(self) -> Json:
        found: Json = self.panel_json({})
        return found


def _dashboard(dashboard: Dashboard, source: _Source) -> Json:
    framed = core.Dashboard(
        title=dashboard.title,
        uid=dashboard.uid,
        description=dashboard.description,
        editable=False,
        tags=list(dashboard.tags),
        time=core.Time(dashboard.since, "now"),
        timezone="browser",
        refresh=dashboard.refresh,
        schemaVersion=SCHEMA_VERSION,
        graphTooltip=_SHARED_CROSSHAIR,
        templating=core.Templating([_datasource(source), *(_variable(v, source) for v in dashboard.variables)]),
        annotations=core.Annotations([_annotation(a, source) for a in dashboard.annotations]),
        links=[_dashboard_link(link) for link in dashboard.links],
        panels=list(_rows(dashboard.rows, source)),
    )
    return _mended(_plain(framed))


def _plain(framed: object) -> Json:
    found: Json = json.loads(json.dumps(framed, cls=_gen.DashboardEncoder))
    return found


def _mended(found: Json) -> Json:
    found["panels"] = [_panel_of_today(panel) for panel in found["panels"]]
    templating = found["templating"]
    templating["list"] = [_only(variable, _OF_VARIABLES) for variable in templating["list"]]
    kept: Json = _without_nulls(_only(found, _OF_DASHBOARDS))
    return kept


def _panel_of_today(panel: Json) -> Json:
    if panel["type"] == "row":
        return _only({**panel, "panels": [_panel_of_today(inner) for inner in panel["panels"]]}, _OF_ROWS)
    return _only({**panel, "targets": [_only(target, _OF_TARGETS) for target in panel["targets"]]}, _OF_PANELS)


def _only(found: Json, keys: Iterable[str]) -> Json:
    return {key: value for key, value in found.items() if key in keys}


def _without_nulls(value: Any) -> Any:
    """Of a threshold too: the first begins wherever values do."""
    if isinstance(value, dict):
        return {key: _without_nulls(of) for key, of in value.items() if of is not None}
    return [_without_nulls(of) for of in value] if isinstance(value, list) else value


def _rows(rows: Iterable[Row], source: _Source) -> Iterator[object]:
    y = 0
    for row in rows:
        top = core.RowPanel(title=row.title, collapsed=row.is_collapsed, id=_id(row.title))
        inner = list(_placed(row, y + 1, source))
        yield _with(top, gridPos=core.GridPos(h=1, w=COLUMNS, x=0, y=y), panels=inner if row.is_collapsed else [])
        if not row.is_collapsed:
            yield from inner
        y = max((p.gridPos.y + p.gridPos.h for p in inner), default=y + 1)


def _with(panel: Any, **more: object) -> Any:
    for name, value in more.items():
        setattr(panel, name, value)
    return panel


def _placed(row: Row, y: int, source: _Source) -> Iterator[Any]:
    """From left to right, and below what does not fit."""
    x, height = 0, 0
    for panel in row.panels:
        if x + panel.width > COLUMNS:
            x, y, height = 0, y + height, 0
        at = core.GridPos(h=panel.height, w=panel.width, x=x, y=y)
        yield _panel(panel, _id(f"{row.title}/{panel.title}"), at, source)
        x, height = x + panel.width, max(height, panel.height)


def _id(name: str) -> int:
    """Told by the name, so that others may come and go before it."""
    return zlib.crc32(name.encode()) % 1_000_000 + 1


def _panel(panel: Panel, number: int, at: object, source: _Source) -> _Panel:
    kind = kind_of(panel)
    extra: Json = {"type": kind.type, "options": kind.options}
    if not isinstance(panel, Text):
        extra |= {"datasource": source.ref, "fieldConfig": fields(panel, kind)}
    return _Panel(
        title=panel.title,
        description=panel.description,
        id=number,
        gridPos=at,
        links=[data_link(link, "") for link in panel.links],
        targets=list(_targets(panel, kind, source)),
        transformations=list(kind.transformations),
        thresholds=list(steps(panel.thresholds)),
        extraJson=extra,
    )


def _targets(panel: Panel, kind: Kind, source: _Source) -> Iterator[object]:
    for letter, query in lettered(panel):
        if isinstance(query, SqlQuery):
            yield _sql(query, letter, source)
        else:
            yield {**_promql(query, letter, kind, source), "instant": panel.is_instant, "range": not panel.is_instant}


def _promql(query: Query, letter: str, kind: Kind, source: _Source) -> Json:
    target = core.Target(expr=query.expr, refId=letter, format=kind.format, legendFormat=query.legend)
    return {**target.to_json_data(), "datasource": source.ref, "editorMode": "code"}


def _sql(query: SqlQuery, letter: str, source: _Source) -> Json:
    form = "time_series" if query.series else "table"
    text = query.text(source.dialect)
    target = core.SqlTarget(rawSql=text, refId=letter, format=form).to_json_data()
    common = {"refId": letter, "datasource": source.ref}
    if source.dialect is Dialect.SQLITE:
        form = form.replace("_", " ")
        return {**common, "queryText": text, "rawQueryText": text, "queryType": form, "timeColumns": ["time"]}
    return {**common, "editorMode": "code", **{key: target[key] for key in ("format", "rawQuery", "rawSql")}}


def _datasource(source: _Source) -> Json:
    made = core.Template(name=source.variable, query=source.type, type="datasource", label="Data source")
    return {**made.to_json_data(), "current": {}}


def _variable(variable: Variable, source: _Source) -> Json:
    if variable.options:
        return _custom(variable)
    made = core.Template(
        name=variable.name,
        label=variable.label,
        query=variable.query,
        regex=variable.regex,
        dataSource=source.ref,
        refresh=_REFRESH_ON_TIME_CHANGE,
        sort=_SORTED,
        includeAll=not variable.single,
        multi=not variable.single,
        allValue=variable.all_value or None,
    )
    everything = {} if variable.single else {"text": ["All"], "value": ["$__all"]}
    return {**made.to_json_data(), "current": everything}


def _custom(variable: Variable) -> Json:
    """Among words that are known."""
    first = variable.options[0][0]
    options = [{"selected": text == first, "text": text, "value": value} for text, value in variable.options]
    query = ",".join(f"{text} : {value}" for text, value in variable.options)
    made = core.Template(name=variable.name, label=variable.label, query=query, type="custom", options=options)
    return {**made.to_json_data(), "current": {"text": options[0]["text"], "value": options[0]["value"]}}


def _annotation(annotation: Annotation, source: _Source) -> Json:
    return {
        "datasource": source.ref,
        "enable": True,
        "hide": False,
        "iconColor": annotation.colour.value,
        "name": annotation.name,
        "target": _marks(annotation.query, source),
        "textFormat": annotation.text,
        "titleFormat": annotation.title,
    }


def _marks(query: Query | SqlQuery, source: _Source) -> Json:
    """Asked for every minute: what is true for less is not seen."""
    if isinstance(query, SqlQuery):
        return _sql(query, "Anno", source)
    return {"datasource": source.ref, "expr": query.expr, "interval": "60s", "refId": "Anno"}


def _dashboard_link(link: Link) -> object:
    """To one dashboard; without one, to all others of this product."""
    one, others = {"type": "link", "uri": url(link, "")}, {"type": "dashboards", "tags": ["inferwatch"]}
    common = {"includeVars": True, "keepTime": True, "icon": "dashboard"}
    return core.DashboardLink(title=link.title, **common, **(one if link.to else others))
