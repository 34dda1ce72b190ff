"""The pages of what is judged: objectives, alerts and runbooks."""

from __future__ import annotations

import math
from collections.abc import Callable

from fastapi import APIRouter, Response

from alerts.conditions import CONDITIONS
from monitor.alert_history.alert import Alert, State
from monitor.alert_history.history import AlertHistory
from monitor.alert_history.store import Wanted
from monitor.evaluate.watch import Told
from monitor.history.database import ReadError
from monitor.page import assets
from monitor.page.alert_view import AlertView, alert_view
from monitor.page.merged import merged
from monitor.page.routes import AcceptEncoding, Pages, environment, html_answer
from monitor.page.runbooks import runbook
from monitor.page.slo_view import objectives, summary
from monitor.page.standing import Standing, standing

_SHOWN_SECONDS = 7 * 86_400
_MOST_FIRING, _MOST_OVER = 1000, 300


class Judged:
    """`told` is how objectives stand; `problems` what is wrong with what is judged."""

    def __init__(
        self,
        told: Callable[[], Told],
        alerts: AlertHistory,
        problems: Callable[[], list[str]],
        clock: Callable[[], float],
        pages: Pages,
    ) -> None:
        self._told, self._alerts, self._problems, self._clock = told, alerts, problems, clock
        self._templates = environment(assets.load(), pages)

    def slos_html(self, template: str) -> str:
        told = self._told()
        of_all = summary(told)
        context = {"objectives": objectives(told), "summary": of_all, "title": of_all.title, "at": told.at}
        return self._render(template, "/slos", "/fragments/slos", problems=merged(self._problems()), **context)

    def alerts_html(self, template: str) -> str:
        now, problems = self._clock(), self._problems()
        try:
            view = self._alert_view(now)
            title = view.title
        except ReadError as error:
            view, title, problems = None, "Alerts · inferwatch", [*problems, str(error)]
        context = {"view": view, "title": title, "most_firing": _MOST_FIRING, "most_over": _MOST_OVER}
        return self._render(template, "/alerts", "/fragments/alerts", problems=merged(problems), **context)

    def standing(self) -> Standing:
        """Raises ReadError."""
        return standing(self._alert_view(self._clock(), most_over=0), self._told())

    def firing(self) -> int:
        """How many alerts that somebody is to act on. Raises ReadError."""
        return sum(len(alert.lines) for alert in self._alert_view(self._clock(), most_over=0).loud)

    def _alert_view(self, now: float, most_over: int = _MOST_OVER) -> AlertView:
        """Raises ReadError."""
        firing = [a for s in (State.FIRING, State.UNKNOWN) for a in self._find(now, s, _MOST_FIRING)]
        over = self._find(now, State.RESOLVED, most_over, since=now - _SHOWN_SECONDS) if most_over else ()
        return alert_view(firing, over, now, was_told=self._alerts.was_told())

    def _find(self, now: float, state: State, most: int, since: float = -math.inf) -> list[Alert]:
        return self._alerts.find(Wanted(most, now, state=state, since=since))

    def runbook_html(self, name: str) -> str:
        condition, text = CONDITIONS.get(name), runbook(name, above=1)
        return self._render("runbook.html", "", None, name=name, condition=condition, text=text)

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
        return html_answer(judged.runbook_html(name), accept, 200 if runbook(name) else 404)

    return routes
