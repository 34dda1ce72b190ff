"""The page of what to change, with the parameters of /api/v1/advice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from alerts.reference import SETTING
from monitor.advise.adviser import Adviser
from monitor.advise.framework import Basis
from monitor.advise.model import Confidence
from monitor.api import problems
from monitor.api.advice import AdviceOut, AdviceQuery, advice_out, asked
from monitor.api.parameters import Parameters
from monitor.history.database import HistoryError
from monitor.history.question import QuestionError
from monitor.page import assets
from monitor.page.condition import Condition
from monitor.page.routes import AcceptEncoding, Pages, environment, html_answer

PATH = "/advice"
SPANS = (("1h", "last hour"), ("6h", "6 hours"), ("24h", "24 hours"), ("7d", "7 days"), ("30d", "30 days"))
LOOKS: Mapping[Confidence, Condition] = {
    Confidence.HIGH: Condition("high confidence", "warning", "bad"),
    Confidence.MEDIUM: Condition("medium confidence", "warning", "warning"),
    Confidence.LOW: Condition("low confidence", "question", "quiet"),
}
BASES: Mapping[Basis, str] = {
    Basis.SEEN: "", Basis.MEASURED: "good", Basis.REFERENCE: "unreal", Basis.NOTHING: "",
}  # fmt: skip
"""How the chip of each looks."""

MOST_OPEN = 6
"""Groups of objectives whose capacity is shown at once; more are folded away, so that a phone can be read."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Either `advice` or a `problem`."""

    status: int
    advice: AdviceOut | None = None
    firing: int = 0
    problem: str = ""
    allowed: tuple[str, ...] = ()


def _none() -> int:
    return 0


class AdvicePage:
    """`firing` tells how many alerts fire (raises ReadError)."""

    def __init__(
        self, adviser: Adviser, clock: Callable[[], float], pages: Pages, firing: Callable[[], int] = _none
    ) -> None:
        self._adviser, self._clock, self._firing = adviser, clock, firing
        self._templates = environment(assets.load(), pages)

    def html(self, given: Parameters) -> tuple[str, int]:
        """The HTML and its status."""
        said = [(name, value.strip()) for name, value in given if value.strip()]
        answered, wanted = self._answered(said), dict(said)
        known = AdviceQuery().model_dump()
        context = {
            "answered": answered,
            "asked": {name: wanted.get(name, default) for name, default in known.items()},
            "json": f"/api/v1/advice?{urlencode(wanted)}",
            "spans": SPANS,
            "looks": LOOKS,
            "bases": BASES,
            "setting": SETTING,
            "most_open": MOST_OPEN,
            "now": self._clock(),
            "current": PATH,
            "fragment": None,
        }
        return self._templates.get_template("advice.html").render(context), answered.status

    def _answered(self, given: Parameters) -> Answered:
        try:
            told = advice_out(asked(self._adviser, _query(problems.once(given)), self._clock()))
            return Answered(200, told, self._firing())
        except QuestionError as error:
            return Answered(400, problem=str(error), allowed=error.allowed)
        except HistoryError as error:
            return Answered(503, problem=str(error))


def _query(wanted: Mapping[str, str]) -> AdviceQuery:
    """Raises QuestionError."""
    try:
        return AdviceQuery.model_validate(wanted)
    except ValidationError as error:
        raise problems.wrong(error.errors(), AdviceQuery.model_fields) from error


def router(page: AdvicePage) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get(PATH)
    def advice(request: Request, accept: AcceptEncoding = "") -> Response:
        html, status = page.html(request.query_params.multi_items())
        return html_answer(html, accept, status)

    return routes
