"""What Grafana 12 wants to know of each kind of panel: its type, options, and how its fields are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any

from dashboards.model import (
    BarChart,
    BarGauge,
    Gauge,
    Heatmap,
    Panel,
    Query,
    Scatter,
    SqlQuery,
    Stat,
    StateTimeline,
    Table,
    Text,
    TimeSeries,
)

Json = dict[str, Any]

_LAST: Json = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_VISIBLE: Json = {"legend": False, "tooltip": False, "viz": False}
_LINEAR: Json = {"type": "linear"}


@dataclass(frozen=True, slots=True)
class Kind:
    """`custom` belongs to each field; `format` is what targets are asked for."""

    type: str
    options: Json = field(default_factory=dict)
    custom: Json = field(default_factory=dict)
    transformations: tuple[Json, ...] = ()
    format: str = "time_series"
    colours: str = "thresholds"
    overrides: tuple[Json, ...] = ()


def kind_of(panel: Panel) -> Kind:
    return _KINDS[type(panel)](panel)


def _stat(panel: Stat) -> Kind:
    options = {
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "percentChangeColorMode": "standard",
        "reduceOptions": _LAST,
        "showPercentChange": False,
        "textMode": "value_and_name" if any(isinstance(q, SqlQuery) or q.legend for q in panel.queries) else "auto",
        "wideLayout": True,
    }
    return Kind("stat", options)


def _time_series(panel: TimeSeries) -> Kind:
    """Where there is no value there is a gap: nulls are never bridged, and the last value of a query is a point."""
    custom = {
        "axisColorMode": "text",
        "axisLabel": panel.axis,
        "axisPlacement": "auto",
        "barAlignment": 0,
        "drawStyle": "bars" if panel.bars else "line",
        "fillOpacity": 60 if panel.bars else 25 if panel.is_stacked else 0,
        "gradientMode": "none",
        "hideFrom": _VISIBLE,
        "lineInterpolation": "stepAfter" if panel.steps else "linear",
        "lineWidth": 0 if panel.bars else 2,
        "pointSize": 4,
        "scaleDistribution": _LINEAR,
        "showPoints": "auto",
        "spanNulls": False,
        "stacking": {"group": "A", "mode": "normal" if panel.is_stacked else "none"},
        "thresholdsStyle": {"mode": "line" if panel.limits_drawn else "off"},
        **({"insertNulls": panel.longest_step * 1000} if panel.longest_step else {}),
    }
    legend = {
        "calcs": list(panel.legend_values),
        "displayMode": "table",
        "placement": "bottom",
        "showLegend": True,
    }
    options = {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    return Kind("timeseries", options, custom, colours="palette-classic")


def _gauge(_: Gauge) -> Kind:
    options = {
        "minVizHeight": 75,
        "minVizWidth": 75,
        "orientation": "auto",
        "reduceOptions": _LAST,
        "showThresholdLabels": False,
        "showThresholdMarkers": True,
        "sizing": "auto",
    }
    return Kind("gauge", options)


def _bar_gauge(_: BarGauge) -> Kind:
    options = {
        "displayMode": "basic",
        "maxVizHeight": 40,
        "minVizHeight": 16,
        "minVizWidth": 8,
        "namePlacement": "auto",
        "orientation": "horizontal",
        "reduceOptions": _LAST,
        "showUnfilled": True,
        "sizing": "auto",
        "valueMode": "color",
    }
    return Kind("bargauge", options)


def _table(panel: Table) -> Kind:
    options = {
        "cellHeight": "sm",
        "footer": {"show": False, "countRows": False, "fields": "", "reducer": []},
        "showHeader": True,
        "sortBy": [{"desc": panel.descending, "displayName": panel.sort_by}] if panel.sort_by else [],
    }
    custom = {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True, "inspect": False}
    names = {_field(panel, c.name): c.title for c in panel.columns}
    return Kind("table", options, custom, tuple(_side_by_side(names)), format="table")


def lettered(panel: Panel) -> Iterator[tuple[str, Query | SqlQuery]]:
    """The queries, by the letters that Grafana knows them by."""
    return zip(ascii_uppercase, panel.queries, strict=False)


def _field(panel: Panel, name: str) -> str:
    """As Grafana names the value of a query among several, and of a single one."""
    if name not in [letter for letter, _ in lettered(panel)]:
        return name
    return "Value" if len(panel.queries) == 1 else f"Value #{name}"


def _heatmap(panel: Heatmap) -> Kind:
    options = {
        "calculate": False,
        "cellGap": 1,
        "cellValues": {"unit": "short"},
        "color": {
            "exponent": 0.5, "fill": "dark-blue", "mode": "scheme", "reverse": False, "scale": "exponential",
            "scheme": "Viridis", "steps": 64,
        },
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto", "value": "observations"},
        "showValue": "never",
        "tooltip": {"mode": "single", "showColorScale": True, "yHistogram": True},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": panel.unit},
    }  # fmt: skip
    custom = {"hideFrom": _VISIBLE, "scaleDistribution": _LINEAR}
    return Kind("heatmap", options, custom, format="heatmap")


def _state_timeline(_: StateTimeline) -> Kind:
    options = {
        "alignValue": "left",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "mergeValues": True,
        "perPage": 20,
        "rowHeight": 0.85,
        "showValue": "auto",
        "tooltip": {"mode": "single", "sort": "none"},
    }
    custom = {"fillOpacity": 80, "hideFrom": _VISIBLE, "insertNulls": False, "lineWidth": 0, "spanNulls": False}
    return Kind("state-timeline", options, custom)


def _bar_chart(panel: BarChart) -> Kind:
    options = {
        "barRadius": 0,
        "barWidth": 0.9,
        "fullHighlight": False,
        "groupWidth": 0.8,
        "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True},
        "orientation": "auto",
        "showValue": "auto",
        "stacking": "normal" if panel.is_stacked else "none",
        "tooltip": {"mode": "multi", "sort": "none"},
        "xField": f"{panel.category}\\{panel.series_by}" if panel.series_by else panel.category,
        "xTickLabelRotation": 0,
        "xTickLabelSpacing": 0,
    }
    custom = {
        "axisColorMode": "text",
        "axisLabel": panel.axis,
        "axisPlacement": "auto",
        "fillOpacity": 80,
        "gradientMode": "none",
        "hideFrom": _VISIBLE,
        "lineWidth": 1,
        "scaleDistribution": _LINEAR,
        "thresholdsStyle": {"mode": "off"},
    }
    matrix = {
        "columnField": panel.series_by, "emptyValue": "null", "rowField": panel.category, "valueField": "Value",
    }  # fmt: skip
    transformations = ({"id": "groupingToMatrix", "options": matrix},) if panel.series_by else ()
    return Kind("barchart", options, custom, transformations, format="table", colours="palette-classic")


def _scatter(panel: Scatter) -> Kind:
    """One frame: the first field is set against each of the others, which have values in rows of their own."""
    names = {
        _field(panel, letter): query.legend or panel.x_title
        for letter, query in lettered(panel)
        if isinstance(query, Query)
    }
    options = {
        "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True},
        "mapping": "auto",
        "series": [{"x": {"matcher": {"id": "byName", "options": panel.x_title}}}],
        "tooltip": {"mode": "single", "sort": "none"},
    }
    custom = {
        "axisLabel": panel.y_title,
        "axisPlacement": "auto",
        "fillOpacity": 70,
        "hideFrom": _VISIBLE,
        "pointShape": "circle",
        "pointSize": {"fixed": 6},
        "pointStrokeWidth": 1,
        "scaleDistribution": _LINEAR,
        "show": "points",
    }
    across = {
        "matcher": {"id": "byName", "options": panel.x_title},
        "properties": [{"id": "custom.axisLabel", "value": panel.x_title}, {"id": "unit", "value": panel.x_unit}],
    }
    transformations = tuple(_side_by_side(names))
    return Kind("xychart", options, custom, transformations, "table", "palette-classic", (across,))


def _side_by_side(names: Mapping[str, str]) -> Iterator[Json]:
    """Rows with the same labels are one row; of it these fields, in this order."""
    yield {"id": "merge", "options": {}}
    yield {"id": "filterFieldsByName", "options": {"include": {"names": list(names)}}}
    order = {name: place for place, name in enumerate(names)}
    yield {"id": "organize", "options": {"excludeByName": {}, "indexByName": order, "renameByName": dict(names)}}


def _text(panel: Text) -> Kind:
    code = {"language": "plaintext", "showLineNumbers": False, "showMiniMap": False}
    return Kind("text", {"code": code, "content": panel.content, "mode": "markdown"})


_KINDS: Mapping[type[Panel], Callable[[Any], Kind]] = {
    Stat: _stat,
    TimeSeries: _time_series,
    Gauge: _gauge,
    BarGauge: _bar_gauge,
    Table: _table,
    Heatmap: _heatmap,
    StateTimeline: _state_timeline,
    BarChart: _bar_chart,
    Scatter: _scatter,
    Text: _text,
}
