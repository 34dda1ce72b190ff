"""One number for each name, the names to the left."""

from __future__ import annotations

from typing import Any, Literal

import altair as alt

from monitor.page.charts import look
from monitor.page.charts.look import Layer, Rows
from monitor.page.charts.model import Bar, Bars

_ROOM_FOR_NUMBERS = 0.18
"""The axis goes on beyond the longest bar, so that its number has room."""


def specification(chart: Bars) -> dict[str, Any]:
    least, most = (of([0.0, *(bar.value for bar in chart.bars)]) for of in (min, max))
    scale = chart.unit.scale(max(most, -least))
    rows: Rows = [_row(chart, bar, scale.divisor) for bar in chart.bars]
    y = alt.Y("name:N", sort=None, axis=look.named([bar.name for bar in chart.bars]))
    x = alt.X("value:Q", scale=_ends(least / scale.divisor, most / scale.divisor), axis=look.sideways(scale.title))
    bar = alt.Chart().mark_bar(height=alt.RelativeBandSize(band=0.7))
    fill = alt.Fill("colour:N", legend=None, scale=None)
    number = alt.Text("text:N")
    layers = [
        Layer(rows, bar.encode(x, y, fill, description="said:N")),
        Layer([row for row in rows if row["value"] >= 0], _numbers("left").encode(x, y, number)),
        Layer([row for row in rows if row["value"] < 0], _numbers("right").encode(x, y, number)),
    ]
    return look.finished(layers, chart.size)


def _row(chart: Bars, bar: Bar, divisor: float) -> dict[str, Any]:
    text = chart.unit.said(bar.value)
    said = "\n".join(filter(None, [f"{bar.name}: {text}", bar.text]))
    return {"name": bar.name, "value": bar.value / divisor, "text": text, "said": said, "colour": bar.colour}


def _ends(least: float, most: float) -> alt.Scale:
    room = _ROOM_FOR_NUMBERS * (most - least or 1.0)
    return alt.Scale(domain=[least - room if least < 0 else 0, most + room], nice=False)


def _numbers(align: Literal["left", "right"]) -> alt.Chart:
    """Beyond the end of their bars."""
    away = 5 if align == "left" else -5
    made: alt.Chart = alt.Chart().mark_text(align=align, dx=away, fill="var(--text)", fontSize=look.LETTERS, aria=False)
    return made
