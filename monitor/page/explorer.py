"""The page on which any metric of the history is asked, with the parameters of /api/v1/history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from markupsafe import Markup
from pydantic import ValidationError

from exporters.schema import METRICS, Type
from monitor.api import problems
from monitor.api.parameters import HistoryQuery, Parameters
from monitor.history.ask import History
from monitor.history.columns import STORED
from monitor.history.database import HistoryError
from monitor.history.question import AGGREGATIONS, InvalidParameter, QuestionError
from monitor.page import assets
from monitor.page.charts.artist import Artist, ChartError
from monitor.page.explorer_view import View, view
from monitor.page.routes import AcceptEncoding, Pages, environment, html_answer

PATH = "/history"
FIRST = (("metric", "llm_generation_tokens_total"), ("since", "6h"), ("group_by", "framework"))
"""What is shown to whoever asks for nothing."""
_Q = "0.99"
_SEVERAL = ("group_by", "where")
SPANS = (
    ("1h", "last hour"),
    ("6h", "6 hours"),
    ("24h", "24 hours"),
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("90d", "90 days"),
)
QUANTILES = (("0.5", "P50"), ("0.9", "P90"), ("0.95", "P95"), ("0.99", "P99"))
GROUPS = (
    ("", "all together"), ("framework", "framework"), ("model", "model"), ("node,server", "server"), ("role", "role"),
    ("version", "version"), ("node,server,engine", "engine"), ("node,gpu", "GPU"), ("name", "type of GPU"),
)  # fmt: skip
WAYS = {"": "as is usual", "avg": "mean", "max": "highest", "rate": "per second", "sum": "increase"}


@dataclass(frozen=True, slots=True)
class Answered:
    """Either a `view` or a `problem`. A view that has anything to show has a drawing, or `why` there is none."""

    status: int
    view: View | None = None
    svg: Markup | None = None
    why: str = ""
    problem: str = ""
    allowed: tuple[str, ...] = ()


class Explorer:
    def __init__(self, history: History, artist: Artist, clock: Callable[[], float], pages: Pages) -> None:
        self._history, self._artist, self._clock = history, artist, clock
        self._templates = environment(assets.load(), pages)

    def html(self, given: Parameters) -> tuple[str, int]:
        """The HTML and its status."""
        asked = complete([(name, value.strip()) for name, value in given if value.strip()] or FIRST)
        answered = self._answered(asked)
        context = {
            "answered": answered,
            "asked": {name: ",".join(v for n, v in asked if n == name) for name in HistoryQuery.model_fields},
            "where": [value for name, value in asked if name == "where"] or [""],
            "links": {form: f"/api/v1/history?{urlencode([*asked, ('format', form)])}" for form in ("json", "csv")},
            "metrics": [METRICS[name] for name in STORED],
            "ways": [(way, WAYS[way]) for way in ("", *_ways(asked))],
            "choices": {"since": SPANS, "q": QUANTILES, "group_by": GROUPS},
            "now": self._clock(),
            "current": PATH,
            "fragment": None,
        }
        return self._templates.get_template("history.html").render(context), answered.status

    def _answered(self, given: Parameters) -> Answered:
        try:
            asked = query(given).question(self._clock())
            shown = view(asked, self._history.tell(asked))
        except QuestionError as error:
            return Answered(400, problem=str(error), allowed=error.allowed)
        except HistoryError as error:
            return Answered(503, problem=str(error))
        if not shown.groups:
            return Answered(200, shown)
        try:
            return Answered(200, shown, Markup(self._artist.draw(shown.chart)))  # noqa: S704 of our own chart module
        except ChartError as error:
            return Answered(200, shown, why=str(error))


def complete(given: Parameters) -> Parameters:
    """A histogram needs a quantile and nothing else may have one: the form sends it whatever the metric is."""
    metric = METRICS.get(dict(given).get("metric", ""))
    if metric is None or metric.type not in AGGREGATIONS:
        return given
    if metric.type is not Type.HISTOGRAM:
        given = [(name, value) for name, value in given if name != "q"]
    elif "q" not in dict(given):
        given = [*given, ("q", _Q)]
    fits = {way.value for way in AGGREGATIONS[metric.type]}
    return [(name, value) for name, value in given if name != "aggregation" or value in fits]


def query(given: Parameters) -> HistoryQuery:
    """Raises QuestionError."""
    values: dict[str, str | list[str]] = {}
    for name, value in given:
        if name in _SEVERAL:
            values[name] = [*values.get(name, []), value]
        elif name in values:
            raise InvalidParameter(name, "given twice", ["once"])
        else:
            values[name] = value
    try:
        return HistoryQuery.model_validate(values)
    except ValidationError as error:
        raise problems.wrong(error.errors(), HistoryQuery.model_fields) from error


def _ways(asked: Parameters) -> Iterable[str]:
    metric = METRICS.get(dict(asked).get("metric", ""))
    return () if metric is None or metric.type is Type.HISTOGRAM else [w.value for w in AGGREGATIONS[metric.type]]


def router(explorer: Explorer) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get(PATH)
    def history(request: Request, accept: AcceptEncoding = "") -> Response:
        html, status = explorer.html(request.query_params.multi_items())
        return html_answer(html, accept, status)

    return routes
