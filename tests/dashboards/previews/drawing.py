"""One panel as HTML: numbers and tables as text, all else by the page's chart module."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from dashboards import model
from dashboards.model import Colour, Panel, Threshold
from monitor.page import quantities
from monitor.page.charts import model as charts
from monitor.page.charts import units
from monitor.page.charts.artist import Artist
from monitor.page.charts.legend import Entry, legend
from monitor.page.charts.units import Unit, counted
from tests.dashboards.previews.answers import Mark, Series, Source, seconds

COLUMN, ROW, GAP = 60, 30, 8
"""Pixels."""
_TITLE, _LEGEND_LINE, _PADDING = 26, 20, 10
_LETTER = 7
_UNITS: dict[model.Unit | None, Unit] = {
    model.Unit.RATIO: units.RATIO,
    model.Unit.SECONDS: units.SECONDS,
    model.Unit.BYTES: units.BYTES,
    model.Unit.BYTES_PER_SECOND: Unit(units.Kind.BYTES, "/s"),
    model.Unit.REQUESTS_PER_SECOND: counted("requests/s"),
    model.Unit.WATTS: counted("W"),
    model.Unit.JOULES: counted("J"),
    model.Unit.CELSIUS: counted("°C"),
    model.Unit.HERTZ: counted("Hz"),
}
_LOOKS = {
    Colour.GREEN: charts.Look.GOOD, Colour.ORANGE: charts.Look.WARNING, Colour.YELLOW: charts.Look.WARNING,
    Colour.RED: charts.Look.BAD, Colour.GREY: charts.Look.UNKNOWN,
}  # fmt: skip


def unit_of(unit: model.Unit | None, axis: str = "") -> Unit:
    known = _UNITS.get(unit)
    if known is None:
        return counted(axis)
    return known if known.kind is not units.Kind.NUMBER or not axis else counted(f"{known.noun} {axis}")


@dataclass(frozen=True, slots=True)
class Drawing:
    """What stands in a panel's frame; `is_empty` where the data source had no answer."""

    html: Markup
    is_empty: bool = False


EMPTY = Drawing(Markup('<p class="none">no data</p>'), is_empty=True)


def drawing(panel: Panel, source: Source, marks: Sequence[Mark], artist: Artist) -> Drawing:
    for kind, drawn in _KINDS.items():
        if isinstance(panel, kind):
            return drawn(panel, _Room(panel, source, marks, artist))
    raise AssertionError(f"no drawing for {type(panel)}")


@dataclass(frozen=True, slots=True)
class _Room:
    panel: Panel
    source: Source
    marks: Sequence[Mark]
    artist: Artist

    @property
    def width(self) -> int:
        return self.panel.width * COLUMN - GAP - 2 * _PADDING

    def height(self, legend_lines: int = 0) -> int:
        all_of_it = self.panel.height * (ROW + GAP) - GAP
        return all_of_it - _TITLE - 2 * _PADDING - legend_lines * _LEGEND_LINE

    def size(self, names: Iterable[str] = ()) -> charts.Size:
        return charts.Size(self.width, self.height(self.legend_lines(names)))

    def legend_lines(self, names: Iterable[str]) -> int:
        letters = [len(name) for name in names if name]
        return min(_MOST_LEGEND_LINES, math.ceil(sum(n * _LETTER + 44 for n in letters) / self.width))

    def drawn(self, chart: charts.Chart) -> Drawing:
        entries = legend(chart)
        keys = Markup("").join(Markup('<span class="key">{} {}</span>').format(_key(e), e.name) for e in entries)
        lines = self.legend_lines(entry.name for entry in entries)
        below = Markup('<p class="legend" style="height:{}px">{}</p>').format(lines * _LEGEND_LINE, keys)
        return Drawing(Markup(self.artist.draw(chart)) + (below if entries else Markup("")))


_MOST_LEGEND_LINES = 3


def _key(entry: Entry) -> Markup:
    shape = {
        "circle": '<circle cx="8" cy="5" r="4"/>',
        "square": '<rect x="4" y="1" width="8" height="8"/>',
        "triangle-up": '<path d="M8 1L13 9H3z"/>',
        "diamond": '<path d="M8 0L13 5L8 10L3 5z"/>',
        None: '<rect width="16" height="10"/>',
    }
    if entry.dashes is not None:
        dashes = " ".join(map(str, entry.dashes))
        drawn = f'<path d="M0 5H16" stroke="{entry.colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
    else:
        drawn = f'<g fill="{entry.colour}" opacity="{entry.opacity}">{shape[entry.shape]}</g>'
    return Markup(f'<svg viewBox="0 0 16 10" width="16" height="10">{drawn}</svg>')


# Numbers


def _stat(panel: model.Stat | model.Gauge, room: _Room) -> Drawing:
    found = [(query, each) for query, all_of_it in enumerate(room.source.series(panel)) for each in all_of_it]
    found = [(query, each) for query, each in found if each.points]
    if not found:
        return EMPTY
    named = len(found) > 1 or any(each.name for _, each in found)
    numbers = Markup("").join(_number(panel, each, named=named) for _, each in found[:8])
    return Drawing(Markup('<div class="numbers{}">{}</div>').format(" many" if len(found) > 2 else "", numbers))


def _number(panel: Panel, series: Series, *, named: bool) -> Markup:
    colour = _colour(panel, series.last)
    name = Markup('<span class="name">{}</span>').format(series.name) if named else Markup("")
    text = said(panel, series.last)
    look = f"{colour} long" if len(text) > _LONG else colour
    return Markup('<span class="number"><span class="value {}">{}</span>{}</span>').format(look, text, name)


_LONG = 9
"""Letters."""


def said(panel: Panel, value: float) -> str:
    for shown in panel.shown:
        if shown.value == value:
            return shown.text
    return _formatted(panel.unit, value, panel.decimals)


def _formatted(unit: model.Unit | None, value: float, decimals: int | None = None) -> str:
    if math.isnan(value):
        return "–"
    if unit is model.Unit.TIMESTAMP:
        return quantities.moment(value / 1000)
    if unit is model.Unit.RATIO and decimals is not None:
        return f"{100 * value:.{decimals}f} %"
    return unit_of(unit).said(value)


def _colour(panel: Panel, value: float) -> str:
    for shown in panel.shown:
        if shown.value == value:
            return _look(shown.colour)
    return _look(_threshold(panel.thresholds, value))


def _threshold(thresholds: Sequence[Threshold], value: float) -> Colour | None:
    reached = [t for t in thresholds if t.value is None or value >= t.value]
    return reached[-1].colour if reached else None


def _look(colour: Colour | None) -> str:
    look = _LOOKS.get(colour) if colour else None
    return "" if look is None else "quiet" if look is charts.Look.UNKNOWN else look.value


# Lines


def _time_series(panel: model.TimeSeries, room: _Room) -> Drawing:
    every = [each for found in room.source.series(panel) for each in found if each.points]
    if not every:
        return EMPTY
    shown = every[: charts.MOST_LINES]
    source, names = room.source, _names(shown)
    stacked = panel.bars or panel.is_stacked
    return room.drawn(
        charts.TimeSeries(
            panel.title,
            unit_of(panel.unit, panel.axis),
            source.since,
            source.until,
            tuple(_line(panel, n, _points(each, source)) for n, each in zip(names, shown, strict=True)),
            form=charts.Form.STACK if stacked else charts.Form.LINES,
            marks=tuple(charts.Mark(mark.at, mark.text) for mark in room.marks),
            thresholds=_limits(panel),
            top=panel.maximum,
            size=room.size(names if any(names) else ()),
        )
    )


def _line(panel: model.TimeSeries, name: str, points: tuple[charts.Point, ...]) -> charts.Line:
    """As the looks say that its name matches; what none says is as it is by its place."""
    looks = [look for look in panel.looks if re.search(look.pattern, name)]
    colour = next((look.colour.value for look in looks if look.colour), "")
    dashes = next((_DASHES[look.line] for look in looks if look.line), ())
    return charts.Line(name, points, colour, dashes)


_DASHES = {model.Line.DASHED: (7, 3), model.Line.DOTTED: (2, 2)}


def _names(shown: Sequence[Series]) -> list[str]:
    """No two alike: a chart tells lines apart by name."""
    seen: dict[str, int] = {}
    names = []
    for each in shown:
        seen[each.name] = seen.get(each.name, 0) + 1
        names.append(each.name if seen[each.name] == 1 else f"{each.name} ({seen[each.name]})")
    return names


def _points(series: Series, source: Source) -> tuple[charts.Point, ...]:
    return tuple(
        charts.Point(at - source.before, source.step, value) for at, value in series.points if math.isfinite(value)
    )


def _limits(panel: model.TimeSeries) -> tuple[charts.Threshold, ...]:
    if not panel.limits_drawn:
        return ()
    unit = unit_of(panel.unit, panel.axis)
    return tuple(charts.Threshold(t.value, unit.said(t.value)) for t in panel.thresholds if t.value is not None)


# Bars


def _bars(panel: Panel, room: _Room) -> Drawing:
    every = [each for found in room.source.series(panel) for each in found if each.points]
    if not every:
        return EMPTY
    drawn = tuple(
        charts.Bar(name, each.last, colour=_filled(panel, each.last))
        for name, each in zip(_names(every), every, strict=True)
    )
    return room.drawn(charts.Bars(panel.title, unit_of(panel.unit), drawn[:16], size=room.size()))


def _filled(panel: Panel, value: float) -> str:
    colour = _threshold(panel.thresholds, value)
    return colour.value if colour else "var(--data)"


def _bar_chart(panel: model.BarChart, room: _Room) -> Drawing:
    letters = [chr(ord("A") + i) for i in range(len(panel.queries))]
    bars = []
    for row in room.source.table(panel):
        name = " ".join(str(row[c]) for c in (panel.category, panel.series_by) if c and row.get(c) is not None)
        bars += [charts.Bar(name, float(row[letter])) for letter in letters if row.get(letter) is not None]
    if not bars:
        return EMPTY
    return room.drawn(charts.Bars(panel.title, unit_of(panel.unit, panel.axis), tuple(bars[:20]), size=room.size()))


# Over time


def _heatmap(panel: model.Heatmap, room: _Room) -> Drawing:
    """Series are buckets, cumulative by `le`; of several subjects with one `le` the sum."""
    source = room.source
    found = [each for all_of_it in source.series(panel) for each in all_of_it if "le" in each.labels]
    bounds = sorted({float(each.labels["le"]) for each in found} - {math.inf})
    below: dict[float, dict[float, float]] = {}
    for each in found:
        for at, value in each.points:
            of = below.setdefault(at, {})
            of[float(each.labels["le"])] = of.get(float(each.labels["le"]), 0.0) + value
    counts = [_counts(of, bounds) for of in below.values()]
    used = [b for i, b in enumerate(bounds) if any(c[i] > 0 or c[i + 1] > 0 for c in counts)]
    if not used:
        return EMPTY
    columns = tuple(
        charts.Column(at - source.before, source.step, _counts(of, used)) for at, of in sorted(below.items())
    )
    return room.drawn(
        charts.Heatmap(
            panel.title,
            unit_of(panel.unit),
            counted("requests"),
            source.since,
            source.until,
            tuple(used),
            columns,
            size=room.size(),
        )
    )


def _counts(below: Mapping[float, float], bounds: Sequence[float]) -> tuple[float, ...]:
    cumulative = [below.get(bound, 0.0) for bound in (*bounds, math.inf)]
    return tuple(max(0.0, b - a) for a, b in zip([0.0, *cumulative], cumulative, strict=False))


def _state_timeline(panel: model.StateTimeline, room: _Room) -> Drawing:
    every = [each for found in room.source.series(panel) for each in found if each.points][:12]
    if not every:
        return EMPTY
    source = room.source
    rows = tuple(
        charts.Row(name, tuple(_spans(panel, each, source))) for name, each in zip(_names(every), every, strict=True)
    )
    chart = charts.StateTimeline(panel.title, source.since, source.until, rows, size=room.size(["state"]))
    return room.drawn(chart)


def _spans(panel: Panel, series: Series, source: Source) -> list[charts.Span]:
    spans: list[charts.Span] = []
    for at, value in series.points:
        state, start = _state(panel, value), at - source.before
        if spans and spans[-1].state == state and start - spans[-1].end < source.step / 2:
            start = spans.pop().start
        spans.append(charts.Span(start, at - source.before + source.step, state))
    return spans


def _state(panel: Panel, value: float) -> charts.State:
    for shown in panel.shown:
        if shown.value == value:
            return charts.State(shown.text, _LOOKS.get(shown.colour, charts.Look.QUIET))
    return charts.State(_formatted(panel.unit, value), charts.Look.QUIET)


def _scatter(panel: model.Scatter, room: _Room) -> Drawing:
    across, *up = room.source.series(panel)
    places = {_identity(each.labels): each.last for each in across if each.points}
    groups: dict[str, tuple[charts.Pair, ...]] = {}
    for query, found in zip(panel.queries[1:], up, strict=True):
        pairs = ((places.get(_identity(each.labels)), each.last) for each in found if each.points)
        if known := tuple(charts.Pair(x, y) for x, y in pairs if x is not None):
            groups[query.legend if isinstance(query, model.Query) else ""] = known
    if not groups:
        return EMPTY
    drawn = tuple(charts.Group(name, pairs, colour=_of_group(panel, name)) for name, pairs in sorted(groups.items()))
    x, y = charts.Measure(panel.x_title, unit_of(panel.x_unit)), charts.Measure(panel.y_title, unit_of(panel.unit))
    return room.drawn(charts.Scatter(panel.title, x, y, drawn, size=room.size(groups)))


def _of_group(panel: model.Scatter, name: str) -> str:
    return next((look.colour.value for look in panel.looks if look.colour and re.search(look.pattern, name)), "")


def _identity(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, v) for k, v in labels.items() if k != "__name__"))


# Text


def _table(panel: model.Table, room: _Room) -> Drawing:
    rows = room.source.table(panel)
    if not rows:
        return EMPTY
    columns = [c for c in panel.columns if any(row.get(c.name) not in (None, "") for row in rows)] or panel.columns
    head = Markup("").join(Markup("<th>{}</th>").format(c.title) for c in columns)
    most = (room.height() - 30) // 25
    ordered = sorted(rows, key=lambda row: _sorted_by(panel, row), reverse=panel.descending) if panel.sort_by else rows
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(_cell(panel, c, row.get(c.name), room.source.until) for c in columns)
        )
        for row in ordered[:most]
    )
    return Drawing(Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(head, body))


def _sorted_by(panel: model.Table, row: Mapping[str, Any]) -> tuple[int, float, str]:
    name = next((c.name for c in panel.columns if c.title == panel.sort_by), "")
    value = row.get(name)
    return (1, value, "") if isinstance(value, int | float) else (0, 0.0, str(value))


def _cell(panel: model.Table, column: model.Column, value: object, until: int) -> Markup:
    if value is None or value == "":
        return Markup("<td></td>")
    if column.name == "time" or not isinstance(value, int | float):
        return Markup("<td>{}</td>").format(_text(value))
    if column.unit is model.Unit.AGO:
        return Markup("<td>{}</td>").format(quantities.age(until - value / 1000))
    for shown in column.shown:
        if shown.value == value:
            return Markup('<td class="{}">{}</td>').format(_look(shown.colour), shown.text)
    look = _look(_threshold(column.thresholds, value))
    return Markup('<td class="n {}">{}</td>').format(look, _formatted(column.unit or panel.unit, value))


def _text(value: object) -> str:
    return quantities.moment(seconds(value)) if isinstance(value, datetime | int | float) else str(value)


def _words(panel: model.Text, room: _Room) -> Drawing:
    return Drawing(Markup('<div class="text">{}</div>').format(Markup(MarkdownIt().render(panel.content))))


_KINDS: dict[type[Panel], Callable[[Any, _Room], Drawing]] = {
    model.Stat: _stat,
    model.Gauge: _stat,
    model.TimeSeries: _time_series,
    model.BarGauge: _bars,
    model.BarChart: _bar_chart,
    model.Heatmap: _heatmap,
    model.StateTimeline: _state_timeline,
    model.Scatter: _scatter,
    model.Table: _table,
    model.Text: _words,
}
