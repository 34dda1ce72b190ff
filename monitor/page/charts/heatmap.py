"""How many fell between which bounds over time: the more, the less transparent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import altair as alt

from monitor.page import quantities
from monitor.page.charts import look
from monitor.page.charts.look import Layer, milliseconds
from monitor.page.charts.model import Column, Heatmap

_FAINTEST = 0.12
"""Few are not none."""


def specification(chart: Heatmap) -> dict[str, Any]:
    rows = list(_rows(chart))
    most = max((row["count"] for row in rows), default=1.0)
    x = look.time_x("at", chart.since, chart.until)
    y = alt.Y(
        "bottom:Q",
        axis=_axis(chart),
        scale=alt.Scale(domain=[0, len(chart.bounds) + 1], nice=False),
    )
    opacity = alt.Opacity("count:Q", legend=None, scale=alt.Scale(domain=[0, most], range=[_FAINTEST, 1]))
    cells = alt.Chart().mark_rect(fill="var(--data)")
    drawn = cells.encode(x, alt.X2("end"), y, alt.Y2("top"), opacity, description="said:N")
    return look.finished([Layer(rows, drawn)], chart.size)


def _rows(chart: Heatmap) -> Iterator[dict[str, Any]]:
    names = between(chart)
    for column in chart.columns:
        at = quantities.moment(column.start)
        for i, count in enumerate(column.counts):
            if count > 0:
                said = f"{at}\n{names[i]}: {chart.counted.said(count)}"
                yield {**_place(chart, column), "bottom": i, "top": i + 1, "count": count, "said": said}


def _place(chart: Heatmap, column: Column) -> dict[str, float]:
    ends = max(column.start, chart.since), min(column.start + column.seconds, chart.until)
    return {"at": milliseconds(ends[0]), "end": milliseconds(ends[1])}


def between(chart: Heatmap) -> list[str]:
    """What each bucket holds, in words."""
    said = [chart.unit.bound(b) for b in chart.bounds]
    if not said:
        return ["all"]
    return [f"up to {said[0]}", *(f"{low} – {high}" for low, high in pairwise(said)), f"above {said[-1]}"]


def _axis(chart: Heatmap) -> alt.Axis:
    """Bounds stand between the rows; of many only some are written."""
    every = max(1, len(chart.bounds) * 22 // chart.size.height)
    shown = range(0, len(chart.bounds), every)
    texts = [chart.unit.bound(chart.bounds[i]) for i in shown]
    return look.upright("", values=[i + 1 for i in shown], labelExpr=_written(texts, every), grid=False)


def _written(texts: Sequence[str], every: int) -> str:
    quoted = ", ".join("'" + text.replace("\\", "").replace("'", "") + "'" for text in texts)
    return f"[{quoted}][(datum.value - 1) / {every}]"
