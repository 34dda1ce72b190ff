"""What the history explorer shows of an answer: a chart, its lines in numbers, and what could not be shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from alerts.burn import MINUTE
from exporters.schema import Metric, Unit
from monitor.history.answer import Answer
from monitor.history.ask import Point, Told
from monitor.history.planning import Part
from monitor.history.question import Aggregation, Question
from monitor.page import quantities
from monitor.page.charts import model as charts
from monitor.page.charts import units
from monitor.page.charts.legend import Entry, legend

SIZE = charts.Size(1200, 360)
_NOUNS = {
    Unit.TOKENS: "tokens", Unit.REQUESTS: "requests", Unit.WATTS: "W", Unit.JOULES: "J", Unit.CELSIUS: "°C",
    Unit.HERTZ: "Hz", Unit.NONE: "", Unit.COUNT: "", Unit.TIMESTAMP: "s",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Group:
    """One line in numbers. `drawn` is how the chart shows it; None where it does not."""

    labels: tuple[str, ...]
    drawn: Entry | None
    latest: str
    lowest: str
    highest: str
    windows: int
    observed: str
    """Share of these windows that was really observed."""


@dataclass(frozen=True, slots=True)
class View:
    title: str
    chart: charts.TimeSeries
    groups: tuple[Group, ...]
    notes: tuple[str, ...]


def view(asked: Question, told: Told) -> View:
    unit = unit_of(asked.metric, asked.aggregation)
    answers = sorted((a for a in told.answers if a.points), key=_size, reverse=True)
    shown = answers[: charts.MOST_LINES]
    title = title_of(asked)
    chart = charts.TimeSeries(
        title,
        unit,
        asked.since,
        math.ceil(asked.until / MINUTE) * MINUTE,  # a page that is loaded again within it shows the same drawing
        tuple(charts.Line(_name(a), tuple(_point(p) for p in a.points)) for a in shown),
        top=1.0 if asked.metric.unit is Unit.RATIO else None,
        size=SIZE,
    )
    entries = {entry.name: entry for entry in legend(chart)}
    groups = tuple(_group(a, unit, entries.get(_name(a)) if i < len(shown) else None) for i, a in enumerate(answers))
    return View(title, chart, groups, tuple(_notes(asked, told.parts, len(answers))))


def unit_of(metric: Metric, aggregation: Aggregation) -> units.Unit:
    is_rate = aggregation is Aggregation.RATE
    if metric.unit is Unit.RATIO or (metric.unit is Unit.SECONDS and is_rate):
        return units.RATIO
    if metric.unit is Unit.SECONDS:
        return units.SECONDS
    if metric.unit is Unit.BYTES:
        return units.Unit(units.Kind.BYTES, "/s" if is_rate else "")
    if metric.unit is Unit.JOULES and is_rate:
        return units.counted("W")
    return units.counted(f"{_NOUNS[metric.unit]}/s" if is_rate else _NOUNS[metric.unit])


def title_of(asked: Question) -> str:
    name, step = asked.metric.name, quantities.duration(asked.step)
    match asked.aggregation:
        case Aggregation.QUANTILE:
            return f"{name}, P{100 * (asked.q or 0.0):g} over each {step}"
        case Aggregation.RATE:
            return f"{name}, per second over each {step}"
        case Aggregation.SUM:
            return f"{name}, increase in each {step}"
        case Aggregation.MAXIMUM:
            return f"{name}, highest in each {step}"
        case Aggregation.AVERAGE:
            return f"{name}, mean over each {step}"


def _size(answer: Answer) -> float:
    return math.fsum(point.value for point in answer.points) / len(answer.points)


def _name(answer: Answer) -> str:
    """Labels in their order; "–" is a label that is not there."""
    return " ".join(value or "–" for value in answer.labels.values())


def _point(point: Point) -> charts.Point:
    return charts.Point(point.start, point.seconds, point.value, point.lower, point.upper)


def _group(answer: Answer, unit: units.Unit, drawn: Entry | None) -> Group:
    points = answer.points
    by_value = sorted(points, key=lambda point: point.value)
    observed = sum(p.covered_seconds for p in points) / sum(p.seconds for p in points)
    return Group(
        tuple(answer.labels.values()),
        drawn,
        _said(points[-1], unit),
        _said(by_value[0], unit),
        _said(by_value[-1], unit),
        len(points),
        quantities.percent(min(1.0, observed)),
    )


def _said(point: Point, unit: units.Unit) -> str:
    if point.lower is None:
        return unit.said(point.value)
    return " ".join(filter(None, quantities.quantile(point.value, point.lower, point.upper)))


def _notes(asked: Question, parts: Sequence[Part], groups: int) -> list[str]:
    notes = [
        f"Up to {quantities.moment(part.until)} only windows of {quantities.duration(part.step)} are kept."
        for part in parts
        if part.step != asked.step
    ]
    if groups > charts.MOST_LINES:
        notes.append(f"{charts.MOST_LINES} of {groups} groups are drawn, those with the largest values.")
    return notes
