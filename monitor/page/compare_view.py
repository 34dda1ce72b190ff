"""The page of the frameworks side by side, with the parameters of /api/v1/compare."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from alerts.reference import AT_ONCE, FIRST_TOKEN_P99_SECONDS, SETTING, TOKENS_PER_SECOND, Figures
from alerts.reference import name_of as reference_name
from monitor.api import problems
from monitor.api.compare import CompareQuery, query
from monitor.api.parameters import Parameters
from monitor.compare.ask import Comparer
from monitor.compare.asked import By
from monitor.compare.model import Cell, Comparison, Definition, Estimate, Measure
from monitor.compare.notes import name_of
from monitor.compare.words import (
    READING,
    SHOWN,
    SIGNS,
    Section,
    asked_for,
    interval,
    nothing,
    remarks,
    sections,
    title,
    value,
)
from monitor.history.database import HistoryError
from monitor.history.question import QuestionError
from monitor.page import assets
from monitor.page.charts import model as charts
from monitor.page.charts import units
from monitor.page.charts.artist import Artist, ChartError
from monitor.page.charts.legend import Entry, colours, legend
from monitor.page.routes import AcceptEncoding, Pages, environment, html_answer

PATH = "/compare"
SIZE = charts.Size(1200, 340)
MOST_DRAWN = 4
"""Sections with charts; the others have their table alone."""
SPANS = (("1h", "last hour"), ("24h", "24 hours"), ("7d", "7 days"), ("14d", "14 days"), ("30d", "30 days"))
_DEFAULTS = {"since": "24h"}
_REFERENCE = "reference"
_X = charts.Measure("Requests at once", units.counted(""))


@dataclass(frozen=True, slots=True)
class Axis:
    """What a chart shows, and what the reference says of it."""

    measure: Measure
    title: str
    y: charts.Measure
    figures: Figures


TOKENS = Axis(
    Measure.TOKENS,
    "Tokens per second against requests at once",
    charts.Measure("Tokens", units.counted("tokens/s")),
    TOKENS_PER_SECOND,
)
FIRST_TOKENS = Axis(
    Measure.TTFT_P99,
    "P99 of the time to first token against requests at once",
    charts.Measure("P99 of the time to first token", units.SECONDS),
    FIRST_TOKEN_P99_SECONDS,
)


@dataclass(frozen=True, slots=True)
class Number:
    """One measure of a cell. Without `text` it is not known, and `why` may say why, as it does of an interval."""

    text: str = ""
    between: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    at_once: int
    name: str
    minutes: str
    is_told: bool
    numbers: tuple[Number, ...]
    workload: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    title: str
    svg: Markup | None
    legend: tuple[Entry, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    title: str
    is_told: bool
    """Whether any of its lines has enough minutes."""
    lines: tuple[Line, ...]
    rankings: tuple[str, ...]
    drawings: tuple[Drawing, ...]


@dataclass(frozen=True, slots=True)
class View:
    """Sections of which nothing is told come last."""

    since: int
    until: int
    sections: tuple[Shown, ...]
    nothing: str
    """What stands in their place."""
    remarks: tuple[str, ...]
    definitions: tuple[Definition, ...]
    heads: tuple[str, ...]
    reference: str


@dataclass(frozen=True, slots=True)
class Answered:
    """Either a `view` or a `problem`."""

    status: int
    view: View | None = None
    problem: str = ""
    allowed: tuple[str, ...] = ()


class ComparePage:
    def __init__(self, comparer: Comparer, artist: Artist, clock: Callable[[], float], pages: Pages) -> None:
        self._comparer, self._artist, self._clock = comparer, artist, clock
        self._templates = environment(assets.load(), pages)

    def html(self, given: Parameters) -> tuple[str, int]:
        """The HTML and its status."""
        said = [(name, text.strip()) for name, text in given if text.strip()]
        with_reference = any(name == _REFERENCE for name, _ in said)
        said = [(name, text) for name, text in said if name != _REFERENCE]
        answered = self._answered(said, with_reference=with_reference)
        wanted = {**_DEFAULTS, **dict(said)}
        context = {
            "answered": answered,
            "asked": {**CompareQuery().model_dump(), **wanted},
            "with_reference": with_reference,
            "links": {form: f"/api/v1{PATH}?{urlencode({**wanted, 'format': form})}" for form in ("json", "csv")},
            "spans": SPANS,
            "ways": [("", "nothing"), *((by.value, by.value) for by in By)],
            "reading": (READING, SIGNS),
            "now": self._clock(),
            "current": PATH,
            "fragment": None,
        }
        return self._templates.get_template("compare.html").render(context), answered.status

    def _answered(self, given: Parameters, *, with_reference: bool) -> Answered:
        try:
            told = self._comparer.compare(query({**_DEFAULTS, **problems.once(given)}).asked(self._clock()))
        except QuestionError as error:
            return Answered(400, problem=str(error), allowed=error.allowed)
        except HistoryError as error:
            return Answered(503, problem=str(error))
        return Answered(200, self._view(told, with_reference=with_reference))

    def _view(self, told: Comparison, *, with_reference: bool) -> View:
        shown = tuple(
            _shown(section, self._drawings(section, with_reference=with_reference) if n < MOST_DRAWN else ())
            for n, section in enumerate(sorted(sections(told), key=lambda section: not _is_told(section)))
        )
        heads = tuple(title(measure, told.currency) for measure in SHOWN)
        reference = SETTING if with_reference else ""
        said = tuple(remarks(told))
        return View(told.since, told.until, shown, nothing(told), said, told.definitions, heads, reference)

    def _drawings(self, section: Section, *, with_reference: bool) -> tuple[Drawing, ...]:
        drawn = (chart_of(section, axis, with_reference=with_reference) for axis in (TOKENS, FIRST_TOKENS))
        return tuple(self._drawn(chart) for chart in drawn if chart.groups)

    def _drawn(self, chart: charts.Scatter) -> Drawing:
        try:
            svg = Markup(self._artist.draw(chart))  # noqa: S704 of our own chart module
        except ChartError as error:
            return Drawing(chart.title, None, (), str(error))
        return Drawing(chart.title, svg, legend(chart))


def chart_of(section: Section, axis: Axis, *, with_reference: bool) -> charts.Scatter:
    """Without groups where nothing is known."""
    told = [cell for cell in section.cells if cell.is_told and cell.of(axis.measure) is not None]
    names = dict.fromkeys(name_of(cell.group) for cell in told)
    measured = [
        charts.Group(name, tuple(_pair(cell, axis.measure) for cell in told if name_of(cell.group) == name))
        for name in names
    ]
    drawn_as = dict(zip(names, colours(measured), strict=True))
    of_frameworks: dict[str, str] = {}
    for cell in told:
        of_frameworks.setdefault(cell.group.framework, drawn_as[name_of(cell.group)])
    curves = _curves(of_frameworks, axis.figures) if with_reference and section.role == "unified" else ()
    return charts.Scatter(axis.title, _X, axis.y, (*measured, *curves), SIZE)


def _pair(cell: Cell, measure: Measure) -> charts.Pair:
    of = cell.of(measure) or Estimate(math.nan)
    is_open = of.low is None or of.high is None or math.isinf(of.high)
    minutes = "imported" if cell.group.is_imported else f"{cell.minutes:,} minutes"
    said = f"{interval(measure, of)}, {minutes}" if of.high == math.inf else minutes
    return charts.Pair(cell.concurrency, of.value, said, None if is_open else of.low, None if is_open else of.high)


def _curves(of_frameworks: Mapping[str, str], figures: Figures) -> Iterator[charts.Group]:
    """Of the frameworks that are there, each in its colour."""
    for framework, colour in of_frameworks.items():
        if framework in figures:
            pairs = tuple(charts.Pair(x, y) for x, y in zip(AT_ONCE, figures[framework], strict=True))
            yield charts.Group(reference_name(framework), pairs, curve=True, colour=colour)


def _is_told(section: Section) -> bool:
    return any(cell.is_told for cell in section.cells)


def _shown(section: Section, drawings: tuple[Drawing, ...]) -> Shown:
    lines = tuple(map(_line, section.cells))
    return Shown(section.title, _is_told(section), lines, tuple(section.rankings()), drawings)


def _line(cell: Cell) -> Line:
    minutes = f"imported: {cell.group.file}" if cell.group.is_imported else f"{cell.minutes:,}"
    numbers = tuple(_number(cell, measure) for measure in SHOWN)
    return Line(cell.band.at_once, name_of(cell.group), minutes, cell.is_told, numbers, asked_for(cell.workload))


def _number(cell: Cell, measure: Measure) -> Number:
    estimate = cell.of(measure)
    if estimate is None:
        return Number(why=cell.missing.get(measure, "too few minutes" if not cell.is_told else "not measured"))
    between = interval(measure, estimate) or ("" if cell.group.is_imported else "no interval")
    return Number(value(measure, estimate), between, estimate.no_interval)


def router(page: ComparePage) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get(PATH)
    def compare(request: Request, accept: AcceptEncoding = "") -> Response:
        html, status = page.html(request.query_params.multi_items())
        return html_answer(html, accept, status)

    return routes
