"""How Grafana draws values: units, colours, words for values, columns of tables, and where a click leads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dashboards.kinds import Json, Kind
from dashboards.model import Column, Line, Link, Look, Panel, Shown, Table, Threshold

_DASHES = {Line.DASHED: [10, 6], Line.DOTTED: [2, 6]}


def fields(panel: Panel, kind: Kind) -> Json:
    defaults: Json = {
        "color": {"mode": kind.colours},
        "custom": kind.custom,
        "decimals": panel.decimals,
        "mappings": list(_mappings(panel.shown)),
        "max": panel.maximum,
        "min": panel.minimum,
        "noValue": "no data",
        "unit": panel.unit,
    }
    columns = panel.columns if isinstance(panel, Table) else ()
    return {"defaults": defaults, "overrides": [*kind.overrides, *map(_look, panel.looks), *map(_column, columns)]}


def steps(thresholds: Iterable[Threshold]) -> Iterator[Json]:
    """Without thresholds a value has the colour of plain text."""
    found = tuple(thresholds)
    if not found or found[0].value is not None:
        yield {"color": "text", "value": None}
    yield from ({"color": t.colour.value, "value": t.value} for t in found)


def _mappings(shown: Iterable[Shown]) -> Iterator[Json]:
    for place, each in enumerate(shown):
        result = {"color": each.colour.value, "index": place, "text": each.text}
        if each.value is None:
            yield {"type": "special", "options": {"match": "null+nan", "result": result}}
        else:
            yield {"type": "value", "options": {f"{each.value:g}": result}}


def _look(look: Look) -> Json:
    properties: list[Json] = []
    if look.colour:
        properties.append({"id": "color", "value": {"fixedColor": look.colour.value, "mode": "fixed"}})
    if look.line:
        properties.append({"id": "custom.lineStyle", "value": _line(look.line)})
    if look.thresholds:
        properties.append(_limits(look.thresholds))
    return {"matcher": {"id": "byRegexp", "options": f"/{look.pattern}/"}, "properties": properties}


def _limits(thresholds: Iterable[Threshold]) -> Json:
    return {"id": "thresholds", "value": {"mode": "absolute", "steps": list(steps(thresholds))}}


def _line(line: Line) -> Json:
    return {"dash": _DASHES[line], "fill": line.value}


def _column(column: Column) -> Json:
    properties: list[Json] = []
    if column.unit:
        properties.append({"id": "unit", "value": column.unit.value})
    if column.thresholds:
        properties.append(_limits(column.thresholds))
    if column.shown:
        properties.append({"id": "mappings", "value": list(_mappings(column.shown))})
    if column.thresholds or column.shown:
        properties.append({"id": "custom.cellOptions", "value": {"type": "color-text"}})
    if column.link:
        properties.append({"id": "links", "value": [data_link(column.link, "__data.fields")]})
    if column.width:
        properties.append({"id": "custom.width", "value": column.width})
    return {"matcher": {"id": "byName", "options": column.title}, "properties": properties}


def data_link(link: Link, fields: str) -> Json:
    return {"title": link.title, "url": url(link, fields)}


def url(link: Link, fields: str) -> str:
    """The data source and the time range go along."""
    values = [f"var-{name}={_value(value, fields)}" for name, value in link.values]
    carried = [] if not fields else ["${datasource:queryparam}", "${__url_time_range}"]
    return f"/d/{link.to}" + (f"?{'&'.join([*values, *carried])}" if values or carried else "")


def _value(value: str, fields: str) -> str:
    kind, _, name = value.partition(":")
    if kind != "label":
        return value
    return f'${{__data.fields["{name}"]}}' if fields else f"${{__field.labels.{name}}}"
