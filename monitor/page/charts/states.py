"""Which state each row was in: a bar for each stretch of time, and nothing where nothing is known."""

from __future__ import annotations

from typing import Any

import altair as alt

from monitor.page import quantities
from monitor.page.charts import look
from monitor.page.charts.legend import OPACITY
from monitor.page.charts.look import Layer, Rows, milliseconds
from monitor.page.charts.model import Look, Row, Span, StateTimeline


def specification(chart: StateTimeline) -> dict[str, Any]:
    rows: Rows = [_row(chart, row, span) for row in chart.rows for span in row.spans]
    names = [row.name for row in chart.rows]
    y = alt.Y("name:N", axis=look.named(names), scale=alt.Scale(domain=names, paddingInner=0.2))
    fill = alt.Fill("look:N", legend=None, scale=alt.Scale(domain=list(Look), range=[f"var(--{x})" for x in Look]))
    opacity = alt.Opacity("opacity:Q", legend=None, scale=None)
    bar = alt.Chart().mark_bar(stroke=look.SURFACE, strokeWidth=0.5)
    x = look.time_x("at", chart.since, chart.until)
    return look.finished(
        [Layer(rows, bar.encode(x, alt.X2("end"), y, fill, opacity, description="said:N"))], chart.size
    )


def _row(chart: StateTimeline, row: Row, span: Span) -> dict[str, Any]:
    lasted = quantities.duration(span.end - span.start)
    said = f"{row.name}: {span.state.name}\n{quantities.moment(span.start)} – {quantities.clock(span.end)} ({lasted})"
    ends = milliseconds(max(span.start, chart.since)), milliseconds(min(span.end, chart.until))
    look_of = {"look": span.state.look, "opacity": OPACITY[span.state.look]}
    return {"name": row.name, **look_of, "at": ends[0], "end": ends[1], "said": said}
