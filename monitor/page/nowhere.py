"""What a browser is shown at an address where nothing is. Programs, and whoever asks the API, get problem details."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from monitor.page import assets
from monitor.page.accepted import accepts_html
from monitor.page.routes import Pages, environment, html_answer

_MOST_CHARACTERS = 200


class Nowhere:
    """`otherwise` answers all others."""

    def __init__(self, otherwise: ASGIApp, pages: Pages) -> None:
        self._otherwise = otherwise
        self._template = environment(assets.load(), pages).get_template("nowhere.html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = html_answer(self._html(scope["path"]), _said(scope, "Accept-Encoding"), 404) if _shows(scope) else None
        await (answer or self._otherwise)(scope, receive, send)

    def _html(self, path: str) -> str:
        cut = path if len(path) <= _MOST_CHARACTERS else f"{path[:_MOST_CHARACTERS]}…"
        return self._template.render(path=cut, fragment=None)


def _shows(scope: Scope) -> bool:
    """Whether it is somebody who looks for a page."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    return not scope["path"].startswith("/api/") and accepts_html(_said(scope, "Accept"))


def _said(scope: Scope, name: str) -> str:
    return ", ".join(Headers(scope=scope).getlist(name))
