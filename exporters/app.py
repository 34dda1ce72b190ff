"""The sidecar's HTTP face. A target's failure is data: only a wrong question gets an error status."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from difflib import get_close_matches
from typing import Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from exporters import debug
from exporters.collected import Collected
from exporters.exposition import CONTENT_TYPE
from exporters.fetch import resolve_in_many_threads
from exporters.gpu.gathered import Gathered
from exporters.sidecar import NotAllowed
from exporters.target import Target

TIMEOUT_HEADER = "x-prometheus-scrape-timeout-seconds"
_PATHS = {
    "/metrics": "every configured server, normalised",
    "/probe?target=URL": "one server, configured or allowed by `probe.allow`",
    "/debug": "what was read, mapped, left out and found wrong, server by server",
    "/debug/gpus": "the GPUs of this host, and why a reading is missing",
    "/healthz": "whether this process runs",
}
# Pages show text that servers wrote.
_PAGE_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


class Reader(Protocol):
    """A sidecar, or several that answer as one."""

    @property
    def problems(self) -> list[str]: ...
    @property
    def gpu_readings(self) -> Gathered | None: ...
    def targets(self) -> Sequence[Target]: ...
    async def collect(self, timeout: float | None = None) -> list[Collected]: ...
    async def probe(self, url: str, timeout: float | None = None) -> Collected: ...
    def page(self, collected: Iterable[Collected], *, own: bool = True) -> str: ...
    async def aclose(self) -> None: ...


def create_app(sidecar: Reader) -> Starlette:
    """Closes the sidecar when it shuts down."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        resolve_in_many_threads()
        yield
        await sidecar.aclose()

    pages = _Pages(sidecar)
    return Starlette(
        routes=[
            Route("/", pages.index),
            Route("/metrics", pages.metrics),
            Route("/probe", pages.probe),
            Route("/debug", pages.debug_list),
            Route("/debug/gpus", pages.debug_gpus),
            Route("/debug/{server:path}", pages.debug_server),
            Route("/healthz", pages.healthz),
        ],
        exception_handlers={404: _not_found},
        lifespan=lifespan,
    )


class _Pages:
    def __init__(self, sidecar: Reader) -> None:
        self._sidecar = sidecar

    async def index(self, _request: Request) -> Response:
        return _html(debug.index(_PATHS))

    async def metrics(self, request: Request) -> Response:
        collected = await self._sidecar.collect(time_allowed(request.headers))
        return _exposition(self._sidecar.page(collected))

    async def probe(self, request: Request) -> Response:
        target = request.query_params.get("target", "")
        if not target:
            return PlainTextResponse("which target? /probe?target=http://host:8000\n", 400)
        try:
            collected = await self._sidecar.probe(target, time_allowed(request.headers))
        except NotAllowed as error:
            return PlainTextResponse(f"{error}\n", 403)
        return _exposition(self._sidecar.page([collected], own=False))

    async def debug_list(self, _request: Request) -> Response:
        return _html(debug.overview(self._sidecar.targets(), self._sidecar.problems))

    async def debug_gpus(self, request: Request) -> Response:
        if self._sidecar.gpu_readings is None:
            await self._sidecar.collect(time_allowed(request.headers))
        return _html(debug.gpus(self._sidecar.gpu_readings))

    async def debug_server(self, request: Request) -> Response:
        name = request.path_params["server"]
        targets = {t.server.name: t for t in self._sidecar.targets()}
        if name not in targets:
            raise HTTPException(404, _no_such_server(name, list(targets)))
        target = targets[name]
        if target.last is None:
            await self._sidecar.collect(time_allowed(request.headers))
        return _html(debug.page(target))

    async def healthz(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")


def time_allowed(headers: Mapping[str, str]) -> float | None:
    """The scraper's time-out less what the answer needs on its way: half a second, a tenth of short time-outs."""
    try:
        seconds = float(headers.get(TIMEOUT_HEADER, ""))
    except ValueError:
        return None
    if not math.isfinite(seconds) or seconds <= 0:
        return None
    return seconds - min(0.5, seconds / 10)


def _html(text: str) -> Response:
    return HTMLResponse(text, headers=_PAGE_HEADERS)


def _exposition(text: str) -> Response:
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


def _no_such_server(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"configured: {', '.join(known) or 'none'}"
    return f"no server is named {name!r}: {hint}"


async def _not_found(request: Request, error: Exception) -> Response:
    detail = error.detail if isinstance(error, HTTPException) else ""
    told = f"{detail}\n" if detail not in ("", "Not Found") else f"nothing at {request.url.path}\n"
    paths = "".join(f"  {path:20} {text}\n" for path, text in _PATHS.items())
    return PlainTextResponse(f"{told}\nThere is:\n{paths}", 404)
