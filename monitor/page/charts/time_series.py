"""Lines over time: gaps as gaps, bounds as bands, and at each moment what all lines say."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import altair as alt

from monitor.page import quantities
from monitor.page.charts import legend, look
from monitor.page.charts.look import Layer, Rows, milliseconds
from monitor.page.charts.model import Form, Line, Point, TimeSeries
from monitor.page.charts.units import Scale, Unit
from monitor.page.sparkline import runs

_MOST_REACHES = 300
"""Areas that can be pointed at: about two pixels wide each."""

Runs = list[tuple[Line, list[Point]]]
Moments = list[tuple[float, list[tuple[Line, Point]]]]


def specification(chart: TimeSeries) -> dict[str, Any]:
    """Of windows that reach over an end of the axis that part is drawn which lies within."""
    plan = _Plan.of(_within(chart))
    drawn = plan.stack() if chart.form is Form.STACK else plan.lines()
    return look.finished([*drawn, *plan.thresholds(), plan.reaches(), *plan.marks()], chart.size)


@dataclass(frozen=True, slots=True)
class _Plan:
    chart: TimeSeries
    scale: Scale
    top: float | None
    """In what is written at the axis."""

    @classmethod
    def of(cls, chart: TimeSeries) -> _Plan:
        largest = max([0.0, *_heights(chart)])
        scale = chart.unit.scale(max(largest, chart.top or 0.0))
        given = chart.top if chart.top is not None or largest > 0 else 1.0
        return cls(chart, scale, None if given is None or largest > given else given / scale.divisor)

    def x(self, field: str) -> alt.X:
        return look.time_x(field, self.chart.since, self.chart.until, bare=self.chart.bare)

    def y(self, field: str) -> alt.Y:
        return look.value_y(field, self.scale, top=self.top, bare=self.chart.bare)

    def lines(self) -> Iterator[Layer]:
        every = [(line, run) for line in self.chart.lines for run in runs(line.points)]
        beyond: Runs = [(line, [p]) for line in self.chart.lines for p in line.points if p.upper == math.inf]
        yield from self._bands()
        yield self._line(_longer(every))
        yield self._dots(_lone(every), alt.MarkDef(type="point", size=22))
        if beyond:
            yield self._dots(beyond, alt.MarkDef(type="point", shape="triangle-up", size=40))

    def _line(self, drawn: Runs) -> Layer:
        mark = alt.Chart().mark_line(strokeWidth=1.75, strokeJoin="round", aria=False)
        dashes = alt.StrokeDash("name:N", legend=None, scale=self._told_apart(legend.dashes(self.chart.lines)))
        encoded = mark.encode(self.x("at"), self.y("value"), self._colour(), dashes, alt.Detail("run:N"))
        return Layer(self._rows(drawn), encoded)

    def _dots(self, drawn: Runs, mark: alt.MarkDef) -> Layer:
        mark.filled, mark.opacity, mark.aria = True, 1, False
        encoded = alt.Chart(mark=mark).encode(self.x("at"), self.y("value"), self._colour())
        return Layer(self._rows(drawn), encoded)

    def _bands(self) -> Iterator[Layer]:
        bounded = [(line, run) for line in self.chart.lines for run in runs(_bounded(line.points))]
        if bounded:
            encodings = (self.x("at"), self.y("lower"), alt.Y2("upper"), self._colour())
            area, rule = alt.Chart().mark_area(opacity=0.18, aria=False), alt.Chart().mark_rule(opacity=0.3, aria=False)
            yield Layer(self._rows(_longer(bounded)), area.encode(*encodings, alt.Detail("run:N")))
            yield Layer(self._rows(_lone(bounded)), rule.encode(*encodings, strokeWidth=alt.value(3)))

    def _colour(self) -> alt.Color:
        return alt.Color("name:N", legend=None, scale=self._told_apart(legend.colours(self.chart.lines)))

    def _told_apart(self, by: Sequence[str | Sequence[float]]) -> alt.Scale:
        return look.told_apart([line.name for line in self.chart.lines], by)

    def _rows(self, drawn: Runs) -> Rows:
        return [
            {"at": milliseconds(p.start + p.seconds / 2), "run": number, "name": line.name, **self._written(p)}
            for number, (line, run) in enumerate(drawn)
            for p in run
        ]

    def _written(self, point: Point) -> dict[str, float | None]:
        found = {"value": point.value, "lower": point.lower, "upper": point.upper}
        return {name: None if v is None or math.isinf(v) else v / self.scale.divisor for name, v in found.items()}

    def stack(self) -> Iterator[Layer]:
        mark = alt.Chart().mark_rect(stroke=look.SURFACE, strokeWidth=0.5, aria=False)
        encodings = (self.x("at"), alt.X2("end"), self.y("value"), alt.Y2("below"), self._colour())
        yield Layer(list(self._stacked()), mark.encode(*encodings))

    def _stacked(self) -> Iterator[dict[str, Any]]:
        for start, found in _moments(self.chart):
            below = 0.0
            for line, point in found:
                top = below + point.value / self.scale.divisor
                ends = {"at": milliseconds(start), "end": milliseconds(point.end)}
                yield {"name": line.name, "below": below, "value": top, **ends}
                below = top

    def thresholds(self) -> Iterator[Layer]:
        if self.chart.thresholds and not self.chart.bare:
            rows: Rows = [{"value": t.value / self.scale.divisor, "text": t.text} for t in self.chart.thresholds]
            rule = alt.Chart().mark_rule(stroke="var(--bad)", strokeDash=[3, 3], aria=False)
            yield Layer(rows, rule.encode(self.y("value")))
            yield self._words(rows[::2], "right", self.chart.until)
            yield self._words(rows[1::2], "left", self.chart.since)

    def _words(self, rows: Rows, align: Literal["left", "right"], at: float) -> Layer:
        """Of thresholds by turns at either end, so that two near to each other can be read."""
        text = alt.Chart().mark_text(
            align=align, baseline="bottom", dy=-2, fill="var(--bad)", aria=False, fontSize=look.LETTERS
        )
        placed = [{**row, "at": milliseconds(at)} for row in rows]
        return Layer(placed, text.encode(self.x("at"), self.y("value"), alt.Text("text:N")))

    def marks(self) -> Iterator[Layer]:
        inside = [mark for mark in self.chart.marks if self.chart.since <= mark.at <= self.chart.until]
        if inside:
            rows: Rows = [{"at": milliseconds(m.at), "said": f"{quantities.moment(m.at)}\n{m.text}"} for m in inside]
            yield Layer(rows, alt.Chart().mark_rule(stroke="var(--quiet)", aria=False).encode(self.x("at")))
            wide = alt.Chart().mark_rule(stroke="transparent", strokeWidth=9)
            yield Layer(rows, wide.encode(self.x("at"), description="said:N"))

    def reaches(self) -> Layer:
        moments = _moments(self.chart)
        rows: Rows = [
            {"at": milliseconds(start), "end": milliseconds(_end(found)), "said": _said(self.chart.unit, start, found)}
            for start, found in moments[:: math.ceil(len(moments) / _MOST_REACHES) or 1]
        ]
        return look.reach(rows, self.x("at"), alt.X2("end"))


def _within(chart: TimeSeries) -> TimeSeries:
    lines = tuple(replace(line, points=tuple(_clipped(chart, line.points))) for line in chart.lines)
    return replace(chart, lines=lines)


def _clipped(chart: TimeSeries, points: Sequence[Point]) -> Iterator[Point]:
    for point in points:
        start, end = max(point.start, chart.since), min(point.end, chart.until)
        if start < end:
            yield replace(point, start=start, seconds=end - start)


def _lone(found: Runs) -> Runs:
    return [each for each in found if len(each[1]) == 1]


def _longer(found: Runs) -> Runs:
    return [each for each in found if len(each[1]) > 1]


def _bounded(points: Sequence[Point]) -> list[Point]:
    return [p for p in points if p.lower is not None and p.upper is not None and not math.isinf(p.upper)]


def _moments(chart: TimeSeries) -> Moments:
    """What all lines say of each window, in order of time."""
    found: defaultdict[float, list[tuple[Line, Point]]] = defaultdict(list)
    for line in chart.lines:
        for point in line.points:
            found[point.start].append((line, point))
    return sorted(found.items())


def _end(found: list[tuple[Line, Point]]) -> float:
    return max(point.end for _, point in found)


def _heights(chart: TimeSeries) -> Iterator[float]:
    yield from (threshold.value for threshold in chart.thresholds)
    if chart.form is Form.STACK:
        yield from (sum(point.value for _, point in found) for _, found in _moments(chart))
        return
    for line in chart.lines:
        for point in line.points:
            yield from (v for v in (point.value, point.upper) if v is not None and math.isfinite(v))


def _said(unit: Unit, start: float, found: list[tuple[Line, Point]]) -> str:
    return "\n".join([quantities.moment(start), *(_line_said(unit, line, point) for line, point in found)])


def _line_said(unit: Unit, line: Line, point: Point) -> str:
    before = f"{line.name}: " if line.name else ""
    if point.upper == math.inf:
        return f"{before}at least {unit.said(point.value if point.lower is None else point.lower)}"
    if point.lower is None or point.upper is None:
        return f"{before}{unit.said(point.value)}"
    return f"{before}{unit.said(point.value)} ({unit.said(point.lower)} – {unit.said(point.upper)})"
