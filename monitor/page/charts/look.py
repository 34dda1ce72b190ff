"""The look that all charts share. Colours are the page's CSS variables, so one drawing serves light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from monitor.page.charts.model import Size
from monitor.page.charts.units import Scale

MUTED, EDGE, SURFACE = "var(--muted)", "var(--edge)", "var(--surface)"
LETTERS = 12
_ROOM = {"left": 10, "right": 12, "top": 4, "bottom": 2}
"""Letters in the reader's font may be wider than those that Vega measures."""
_WIDE_LETTER = 0.62
"""Its width by its height."""
_WIDEST_NAME = 240
_NARROW = 0.85
"""Letters as Vega measures them by those that are taken to be wide."""
_AT = "utchours(datum.value) || utcminutes(datum.value) || utcseconds(datum.value)"
_TIMES = f"{_AT} ? utcFormat(datum.value, '%H:%M') : utcFormat(datum.value, '%-d %b')"

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Layer:
    """Rows and how they are drawn: kept apart, since Altair would check every row against its schema."""

    rows: Rows
    drawn: alt.Chart


def finished(layers: Sequence[Layer], size: Size) -> dict[str, Any]:
    """The specification of layers that share their axes."""
    charts = [layer.drawn.properties(data=alt.NamedData(f"rows{i}")) for i, layer in enumerate(layers)]
    autosize = alt.AutoSizeParams(type="fit", contains="padding")
    chart = alt.LayerChart(layer=charts, width=size.width, height=size.height, autosize=autosize)
    made: dict[str, Any] = _configured(chart).to_dict(validate=False)
    return {**made, "datasets": {f"rows{i}": layer.rows for i, layer in enumerate(layers)}}


def _configured(chart: alt.LayerChart) -> alt.LayerChart:
    configured: alt.LayerChart = (
        chart.configure(background="transparent", font="sans-serif", padding=_ROOM)
        .configure_view(stroke=None)
        .configure_axis(
            aria=False, domainColor=EDGE, gridColor=EDGE, tickColor=EDGE, labelColor=MUTED, titleColor=MUTED,
            labelFontSize=LETTERS, titleFontSize=LETTERS, titleFontWeight="normal"
        )
    )  # fmt: skip
    return configured


def milliseconds(moment: float) -> float:
    return round(moment * 1000)


def time_x(field: str, since: float, until: float, *, bare: bool = False) -> alt.X:
    axis = None if bare else alt.Axis(
        labelExpr=_TIMES, labelFlush=True, labelOverlap=True, grid=False, tickCount=6, title="UTC", titleAnchor="end",
        titlePadding=2,
    )  # fmt: skip
    domain = [milliseconds(since), milliseconds(until)]
    return alt.X(field, type="temporal", axis=axis, scale=alt.Scale(type="utc", domain=domain, nice=False))


def value_y(field: str, scale: Scale, *, top: float | None = None, bare: bool = False) -> alt.Y:
    """From 0 to `top`, in what is written at the axis; without it to a round number above all that is drawn."""
    ends = alt.Scale(zero=True, nice=True) if top is None else alt.Scale(domain=[0, top], nice=False)
    return alt.Y(field, type="quantitative", axis=None if bare else upright(scale.title), scale=ends)


def upright(title: str, **more: Any) -> alt.Axis:
    """The title stands above the axis, to be read without turning the head."""
    return alt.Axis(
        title=title, titleAngle=0, titleAnchor="end", titleAlign="left", titleBaseline="bottom", titleX=-40, titleY=-6,
        domain=False, ticks=False, tickCount=4, format=",.12~g", labelPadding=6, minExtent=40, **more,
    )  # fmt: skip


def told_apart(names: Sequence[str], by: Sequence[str | Sequence[float]]) -> alt.Scale:
    return alt.Scale(domain=list(names), range=list(by))


def named(names: Sequence[str]) -> alt.Axis:
    """Names of rows, with room for wide letters."""
    room = min(_WIDEST_NAME, max((len(name) for name in names), default=0) * LETTERS * _WIDE_LETTER)
    return alt.Axis(
        title=None,
        domain=False,
        ticks=False,
        labelPadding=6,
        labelColor="var(--text)",
        minExtent=room,
        labelLimit=_NARROW * _WIDEST_NAME,
    )


def sideways(title: str) -> alt.Axis:
    return alt.Axis(
        title=title or None,
        titleAnchor="end",
        titlePadding=2,
        domain=True,
        tickCount=6,
        format=",.12~g",
        gridOpacity=0.5,
    )


def reach(rows: Rows, *where: alt.X | alt.X2 | alt.Y | alt.Y2) -> Layer:
    """Areas that tell what is `said` of them when pointed at."""
    mark: alt.Chart = alt.Chart().mark_rect(fill="transparent")
    return Layer(rows, mark.encode(*where, description="said:N"))
