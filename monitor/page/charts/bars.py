"""One number for each name, the names to the left."""

from __future__ import annotations

from typing import Any

import altair as alt

from monitor.page.charts import look
from monitor.page.charts.look import Layer, Rows
from monitor.page.charts.model import Bars

_ROOM_FOR_NUMBERS = 1.18
"""The axis goes on beyond the longest bar, so that its number has room."""


def specification(chart: Bars) -> dict[str, Any]:
    largest = max((abs(bar.value) for bar in chart.bars), default=0.0)
    scale = chart.unit.scale(largest)
    rows: Rows = [
        {
            "name": bar.name,
            "value": bar.value / scale.divisor,
            "text": chart.unit.said(bar.value),
            "said": "\n".join(filter(None, [f"{bar.name}: {chart.unit.said(bar.value)}", bar.text])),
        }
        for bar in chart.bars
    ]
    y = alt.Y("name:N", sort=None, axis=look.named([bar.name for bar in chart.bars]))
    ends = alt.Scale(domain=[0, _ROOM_FOR_NUMBERS * largest / scale.divisor or 1], nice=False)
    x = alt.X("value:Q", scale=ends, axis=look.sideways(scale.title))
    bar = alt.Chart().mark_bar(fill="var(--data)", height=alt.RelativeBandSize(band=0.7))
    text = alt.Chart().mark_text(align="left", dx=5, fill="var(--text)", fontSize=look.LETTERS, aria=False)
    return look.finished(
        [
            Layer(rows, bar.encode(x, y, description="said:N")),
            Layer(rows, text.encode(x, y, alt.Text("text:N"))),
        ],
        chart.size,
    )
