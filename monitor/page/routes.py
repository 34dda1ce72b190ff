"""The page's addresses: HTML, the parts that the page swaps in, and the static files."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from monitor.fleet import Fleet, ServerRow
from monitor.history.database import ReadError
from monitor.page import assets, quantities
from monitor.page.accepted import accepts_gzip
from monitor.page.changes import changes
from monitor.page.fleet_view import fleet_view, server_line, server_path
from monitor.page.gpu_view import gpu_view, gpus_of_server, own_gpus
from monitor.page.merged import merged
from monitor.page.server_view import server_view
from monitor.page.standing import Standing
from monitor.page.trends import GPUS, Asks, Trends

REFRESH_SECONDS = 5
_OF_HISTORY = (("/history", "History"), ("/compare", "Comparison"), ("/advice", "Advice"))
_OF_JUDGED = (("/slos", "Objectives"), ("/alerts", "Alerts"))
RELOAD_SECONDS = 15
"""Without JavaScript the whole page is loaded again."""
_COMPRESS_FROM = 1000
_BACKTICKS = re.compile(r"`([^`]+)`")
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_TURNS_TEXT = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that make what stands beside a name read in another order."""
_HARMFUL = dict.fromkeys(map(ord, f"\0{_TURNS_TEXT}"), "\ufffd")
"""HTML may not hold a NUL."""

CONTENT_SECURITY_POLICY = "; ".join((
    "default-src 'none'",
    "style-src 'self'",
    "script-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
))  # fmt: skip
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
AcceptEncoding = Annotated[str, Header(alias="Accept-Encoding")]
IfNoneMatch = Annotated[str, Header(alias="If-None-Match")]


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Pages:
    """Those beside the fleet's, by address and name. `is_simulated` tells whether any server is that they may show."""

    beside: tuple[tuple[str, str], ...] = ()
    is_simulated: Callable[[], bool] = _never

    @property
    def is_judged(self) -> bool:
        """Whether there are alerts, with their runbooks."""
        return any(page in self.beside for page in _OF_JUDGED)

    @classmethod
    def of(cls, is_simulated: Callable[[], bool], *, is_judged: bool) -> Pages:
        """`is_judged`: whether there are objectives and alerts."""
        return cls((*(_OF_JUDGED if is_judged else ()), *_OF_HISTORY), is_simulated)


@dataclass(frozen=True, slots=True)
class Beside:
    """What the page tells beside servers and GPUs: `history` is what is wrong with the history, `sources` with what is
    read, `standing` how alerts and objectives are (raises ReadError), if any are judged."""

    history: Callable[[], Sequence[str]] = list
    sources: Callable[[], Mapping[str, str]] = dict
    standing: Callable[[], Standing] | None = None


class Page:
    """Renders the views. `looked_for` says, a line each, where servers were searched before any was found.

    Without a `debug_path` there is no sidecar in this process: servers are named at those elsewhere.
    """

    def __init__(
        self,
        fleet: Fleet,
        history: Asks,
        clock: Callable[[], float],
        looked_for: Sequence[str],
        debug_path: str | None,
        beside: Beside,
        pages: Pages,
    ) -> None:
        self.fleet, self.history, self.clock = fleet, history, clock
        self.trends, self.gpu_trends = Trends(history), Trends(history, GPUS)
        self.looked_for, self.debug_path = tuple(looked_for), debug_path
        self.beside = beside
        self.assets = assets.load()
        self._templates = environment(self.assets, pages)

    def render(self, template: str, **context: object) -> str:
        return self._templates.get_template(template).render(context)

    def fleet_html(self, template: str) -> str:
        now = self.clock()
        rows, gpus = self.fleet.rows(now), self.fleet.gpus.rows(now)
        standing, unread = self._judged()
        return self.render(
            template,
            standing=standing,
            view=fleet_view(rows, self.trends, now, {} if standing is None else standing.at, gpus),
            gpus=gpu_view(self.fleet.gpus.hosts(now), gpus, rows),
            now=now,
            looked_for=self.looked_for,
            reads_servers=self.debug_path is not None,
            problems=merged([*self.beside.history(), *unread]),
            source_problems=merged(self.beside.sources().values()),
            fragment="/fragments/fleet",
        )

    def _judged(self) -> tuple[Standing | None, list[str]]:
        """Or why it is not known; neither where nothing is judged."""
        try:
            return (None if self.beside.standing is None else self.beside.standing()), []
        except ReadError as error:
            return None, [str(error)]

    def server_html(self, template: str, path: str) -> tuple[str, int]:
        """The HTML and its status; `path` is node and name as they stand in the address."""
        now = self.clock()
        row = self._row(path, now)
        if row is None:
            return self.render(template, line=None, path=path, now=now, fragment=None), 404
        fragment = f"/fragments{server_path(row.node, row.server)}"
        standing, _ = self._judged()
        firing = () if standing is None else standing.at.get((row.node, row.server), ())
        gpus = self.fleet.gpus.rows(now)
        line = server_line(row, self.trends, now, firing, gpus)
        view = server_view(row, self.fleet.latest(row.node, row.server))
        own = own_gpus(gpus, row)
        context = {
            "line": line,
            "view": view,
            "gpus": gpus_of_server(own, row, self.gpu_trends, now),
            "changes": changes(self.history, row.node, row.server, own, now),
            "now": now,
            "fragment": fragment,
            "debug_path": self.debug_path,
        }
        return self.render(template, **context), 200

    def _row(self, path: str, now: float) -> ServerRow | None:
        """Compared as a whole: both names may hold slashes."""
        return next((row for row in self.fleet.rows(now) if f"{row.node}/{row.server}" == path), None)


def code_marked(text: str) -> Markup:
    """Text with `…` around what is to be typed, as HTML."""
    return Markup(_BACKTICKS.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 escaped before anything is added


def breaking(name: str) -> Markup:
    """A name of several words in one, which may be broken between two of them."""
    return Markup(_BETWEEN_WORDS.sub("<wbr>", str(escape(name))))  # noqa: S704 escaped before anything is added


def harmless(value: object) -> object:
    return value.translate(_HARMFUL) if isinstance(value, str) else value


def environment(known: dict[str, assets.Asset], pages: Pages) -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        finalize=harmless,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(code=code_marked, breaking=breaking)
    made.globals.update(
        assets=known,
        quantities=quantities,
        refresh_seconds=REFRESH_SECONDS,
        reload_seconds=RELOAD_SECONDS,
        pages=pages,
        current="",
    )
    return made


def router(
    fleet: Fleet,
    history: Asks,
    *,
    clock: Callable[[], float] = time.time,
    looked_for: Sequence[str] = (),
    debug_path: str | None = None,
    beside: Beside = Beside(),
    pages: Pages = Pages(),
) -> APIRouter:
    """`debug_path` is where the sidecar's debug pages are, if this process serves them."""
    page = Page(fleet, history, clock, looked_for, debug_path, beside, pages)
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    def overview(accept: AcceptEncoding = "") -> Response:
        return html_answer(page.fleet_html("fleet.html"), accept)

    @routes.get("/fragments/fleet")
    def overview_part(accept: AcceptEncoding = "") -> Response:
        return html_answer(page.fleet_html("fleet_part.html"), accept)

    @routes.get("/servers/{path:path}")
    def server(path: str, accept: AcceptEncoding = "") -> Response:
        if not path:
            return RedirectResponse("/", headers=_HEADERS)
        html, status = page.server_html("server.html", path)
        return html_answer(html, accept, status)

    @routes.get("/fragments/servers/{path:path}")
    def server_part(path: str, accept: AcceptEncoding = "") -> Response:
        html, status = page.server_html("server_part.html", path)
        return html_answer(html, accept, status)

    _serve_files(routes, page.assets)
    return routes


def _serve_files(routes: APIRouter, known: dict[str, assets.Asset]) -> None:
    @routes.get("/static/{name}")
    def static(name: str, v: str = "", if_none_match: IfNoneMatch = "") -> Response:
        return _static(known.get(name), v, if_none_match)

    @routes.get("/favicon.svg")
    @routes.get("/favicon.ico")
    def icon(if_none_match: IfNoneMatch = "") -> Response:
        """Of answers that are no page of ours."""
        return _static(known["icon.svg"], "", if_none_match)


def html_answer(text: str, accept_encoding: str, status: int = 200) -> Response:
    body, headers = text.encode(), {**_HEADERS, "Cache-Control": "no-store", "Vary": "Accept-Encoding"}
    if len(body) >= _COMPRESS_FROM and accepts_gzip(accept_encoding):
        body, headers = gzip.compress(body, 5), {**headers, "Content-Encoding": "gzip"}
    return Response(body, status, headers, "text/html; charset=utf-8")


def _static(asset: assets.Asset | None, version: str, if_none_match: str) -> Response:
    if asset is None:
        return Response("no such file\n", 404, _HEADERS, "text/plain; charset=utf-8")
    lasting = "public, max-age=31536000, immutable" if version == asset.digest else "no-cache"
    headers = {**_HEADERS, "Cache-Control": lasting, "ETag": asset.etag}
    if asset.etag in if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(asset.body, 200, headers, asset.media_type)
