"""The pages of what is judged: objectives, alerts and runbooks."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Response

from alerts.conditions import CONDITIONS
from monitor.alert_history.history import AlertHistory
from monitor.alert_history.store import Wanted
from monitor.evaluate.watch import Told
from monitor.history.database import ReadError
from monitor.page import assets
from monitor.page.alert_view import firing, over
from monitor.page.routes import PAGES, AcceptEncoding, environment, html_answer
from monitor.page.runbooks import runbook
from monitor.page.slo_view import objectives

_SHOWN_SECONDS = 7 * 86_400
_MOST = 300


class Judged:
    """`told` is how objectives stand; `problems` what keeps them from being judged."""

    def __init__(
        self,
        told: Callable[[], Told],
        alerts: AlertHistory,
        problems: Callable[[], list[str]],
        clock: Callable[[], float],
    ) -> None:
        self._told, self._alerts, self._problems, self._clock = told, alerts, problems, clock
        self._templates = environment(assets.load(), PAGES)

    def slos_html(self, template: str) -> str:
        told = self._told()
        return self._render(
            template, "/slos", "/fragments/slos", objectives=objectives(told), at=told.at, problems=self._problems()
        )

    def alerts_html(self, template: str) -> str:
        now = self._clock()
        problems = self._problems()
        try:
            found = self._alerts.find(Wanted(_MOST, now, since=now - _SHOWN_SECONDS))
            was_told = self._alerts.was_told()
        except ReadError as error:
            found, was_told = [], False
            problems = [*problems, str(error)]
        return self._render(
            template,
            "/alerts",
            "/fragments/alerts",
            firing=firing(found, now, was_told=was_told),
            over=over(found, now, was_told=was_told),
            most=_MOST if len(found) == _MOST else None,
            problems=problems,
        )

    def runbook_html(self, name: str) -> str:
        condition = CONDITIONS.get(name)
        return self._render("runbook.html", "/alerts", None, name=name, condition=condition, text=runbook(name))

    def _render(self, template: str, current: str, fragment: str | None, **context: object) -> str:
        given = {"now": self._clock(), "current": current, "fragment": fragment, **context}
        return self._templates.get_template(template).render(given)


def router(judged: Judged) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/slos")
    def slos(accept: AcceptEncoding = "") -> Response:
        return html_answer(judged.slos_html("slos.html"), accept)

    @routes.get("/fragments/slos")
    def slos_part(accept: AcceptEncoding = "") -> Response:
        return html_answer(judged.slos_html("slos_part.html"), accept)

    @routes.get("/alerts")
    def alerts(accept: AcceptEncoding = "") -> Response:
        return html_answer(judged.alerts_html("alerts.html"), accept)

    @routes.get("/fragments/alerts")
    def alerts_part(accept: AcceptEncoding = "") -> Response:
        return html_answer(judged.alerts_html("alerts_part.html"), accept)

    @routes.get("/runbooks/{name}")
    def one_runbook(name: str, accept: AcceptEncoding = "") -> Response:
        return html_answer(judged.runbook_html(name), accept, 200 if name in CONDITIONS else 404)

    return routes
