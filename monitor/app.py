"""The monitor's HTTP face: API, page and its own metrics; and the sidecar's, where both run in one process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route

from exporters import app as sidecar_app
from exporters import exposition, schema
from exporters.fetch import product_version
from exporters.observation import labels
from monitor.advise.adviser import Adviser
from monitor.alert_history.history import AlertHistory
from monitor.api import describe, problems
from monitor.api.advice import router as advice_router
from monitor.api.alerts import router as alerts_router
from monitor.api.compare import router as compare_router
from monitor.api.discovery import router as discovery_router
from monitor.api.routes import router as api_router
from monitor.api.slos import router as slos_router
from monitor.api.sources import router as sources_router
from monitor.compare.ask import Comparer
from monitor.compare.asked import NO_PRICES, Prices
from monitor.evaluate.watch import Watch
from monitor.fleet import Fleet
from monitor.head import AnswersHead
from monitor.history.ask import History
from monitor.page.advice_view import AdvicePage
from monitor.page.advice_view import router as advice_page_router
from monitor.page.charts.artist import Artist
from monitor.page.compare_view import ComparePage
from monitor.page.compare_view import router as compare_page_router
from monitor.page.explorer import Explorer
from monitor.page.explorer import router as explorer_router
from monitor.page.judged import Judged
from monitor.page.judged import router as judged_router
from monitor.page.nowhere import Nowhere
from monitor.page.routes import Beside, Pages
from monitor.page.routes import router as page_router
from monitor.recorder import Recorder

_OWN_PATHS = ("/", "/metrics", "/healthz")
"""What monitor and sidecar both have; all other pages of the sidecar are served beside the monitor's."""


def create_app(  # noqa: PLR0913 (a monitor's parts)
    fleet: Fleet,
    history: History,
    *,
    recorder: Recorder | None = None,
    alerts: AlertHistory | None = None,
    watch: Watch | None = None,
    sidecar: sidecar_app.Reader | None = None,
    node: str | None = None,
    looked_for: Sequence[str] = (),
    sidecars: Sequence[str] = (),
    prices: Prices = NO_PRICES,
    clock: Callable[[], float] = time.time,
) -> FastAPI:
    """Runs `recorder`, `alerts` and `watch` while it is up, and closes `sidecar`, whose pages it serves beside its own.

    `node` labels the own metrics (default: this host); `looked_for` says where servers were searched, for the page;
    `sidecars` are those that a Prometheus is to scrape; `prices` are what a comparison counts with.
    """
    inner = None if sidecar is None else sidecar_app.create_app(sidecar)
    parts = _Parts(fleet, history, recorder, alerts, watch, prices, clock)
    running = [part.run for part in (recorder, alerts, watch) if part is not None]
    lifespan = _lifespan(parts.artist, inner, running)
    app = FastAPI(title="inferwatch", version=product_version(), lifespan=lifespan, docs_url=None, redoc_url=None)
    problems.install(app)
    _add_api(app, parts, sidecars)
    own = partial(_own_metrics, recorder, alerts, watch, node or socket.gethostname(), build_info=sidecar is None)
    _add_own(app, own, sidecar)
    app.router.routes.extend(_of_sidecar(() if inner is None else inner.routes))
    _add_pages(app, parts, looked_for, debug_path=None if inner is None else "/debug")
    app.add_middleware(AnswersHead)
    return app


class _Parts:
    """What the addresses are about."""

    def __init__(
        self,
        fleet: Fleet,
        history: History,
        recorder: Recorder | None,
        alerts: AlertHistory | None,
        watch: Watch | None,
        prices: Prices,
        clock: Callable[[], float],
    ) -> None:
        self.fleet, self.history, self.clock = fleet, history, clock
        self.recorder, self.alerts, self.watch = recorder, alerts, watch
        self.comparer = Comparer(history.engine, prices)
        self.adviser = Adviser(history, lambda: () if watch is None else watch.told.slos, fleet)
        self.artist = Artist()

    def history_problems(self) -> list[str]:
        parts = (self.recorder, self.alerts, self.watch)
        return [problem for part in parts if part for problem in part.history_problems()]

    def source_problems(self) -> Mapping[str, str]:
        return {} if self.recorder is None else self.recorder.source_problems()

    def problems(self) -> list[str]:
        return [*self.history_problems(), *self.source_problems().values()]

    def is_simulated(self) -> bool:
        return any(row.simulated for row in self.fleet.rows(self.clock()))


def _add_api(app: FastAPI, of: _Parts, sidecars: Sequence[str]) -> None:
    app.include_router(api_router(of.fleet, of.history, of.clock))
    unread = frozenset if of.recorder is None else of.recorder.unread
    app.include_router(sources_router(() if of.recorder is None else of.recorder.sources, of.source_problems, unread))
    app.include_router(discovery_router(sidecars))
    app.include_router(compare_router(of.comparer, of.clock))
    app.include_router(advice_router(of.adviser, of.clock))
    if of.alerts is not None:
        app.include_router(alerts_router(of.alerts, of.clock))
    if (watch := of.watch) is not None:
        app.include_router(slos_router(lambda: watch.told))


def _add_pages(app: FastAPI, of: _Parts, looked_for: Sequence[str], debug_path: str | None) -> None:
    judging = None if of.alerts is None or of.watch is None else (of.alerts, of.watch)
    pages = Pages.of(of.is_simulated, is_judged=judging is not None)
    judged = None if judging is None else _judged(of, *judging, pages)
    beside = Beside(of.history_problems, of.source_problems, None if judged is None else judged.standing)
    app.include_router(
        page_router(
            of.fleet,
            of.history,
            clock=of.clock,
            looked_for=looked_for,
            debug_path=debug_path,
            beside=beside,
            pages=pages,
        )
    )
    if judged is not None:
        app.include_router(judged_router(judged))
    app.include_router(explorer_router(Explorer(of.history, of.artist, of.clock, pages)))
    app.include_router(compare_page_router(ComparePage(of.comparer, of.artist, of.clock, pages)))
    firing = () if judged is None else (judged.firing,)
    app.include_router(advice_page_router(AdvicePage(of.adviser, of.clock, pages, *firing)))
    app.router.default = Nowhere(app.router.default, pages)


def _judged(of: _Parts, alerts: AlertHistory, watch: Watch, pages: Pages) -> Judged:
    return Judged(lambda: watch.told, alerts, of.problems, of.clock, pages)


def _lifespan(
    artist: Artist, sidecar: Starlette | None, running: Iterable[Callable[[], Coroutine[None, None, None]]]
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.callback(artist.close)
            if sidecar is not None:
                await stack.enter_async_context(sidecar.router.lifespan_context(sidecar))
            for run in running:
                await stack.enter_async_context(_running(run()))
            yield

    return lifespan


@asynccontextmanager
async def _running(what: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(what)
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _add_own(app: FastAPI, own: Callable[[], str], sidecar: sidecar_app.Reader | None) -> None:
    """`own` are the monitor's own metrics."""

    @app.get("/metrics", include_in_schema=False)
    async def metrics(request: Request) -> Response:
        if sidecar is None:
            return _exposition(own())
        return _exposition(sidecar.page(await sidecar.collect(sidecar_app.time_allowed(request.headers))) + own())

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return PlainTextResponse("ok\n")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(describe.html(app.openapi()), headers=describe.HEADERS)


def _own_metrics(
    recorder: Recorder | None, alerts: AlertHistory | None, watch: Watch | None, node: str, *, build_info: bool
) -> str:
    of_node = {"node": node}
    chunks = {}
    if build_info:
        build = labels({**of_node, "version": product_version(), "grid": str(schema.GRID_VERSION)})
        chunks["inferwatch_build_info"] = exposition.line("inferwatch_build_info", build, 1.0)
    if recorder is not None:
        lag, size = "inferwatch_history_lag_seconds", "inferwatch_history_size_bytes"
        chunks[lag] = exposition.line(lag, labels(of_node), recorder.lag())
        if (found := recorder.history_bytes()) is not None:
            chunks[size] = exposition.line(size, labels(of_node), float(found))
    if alerts is not None:
        truncated = "inferwatch_truncated_alerts_total"
        chunks[truncated] = exposition.line(truncated, labels(of_node), float(alerts.truncated))
    if watch is not None and (failures := watch.failures) is not None:
        told = "inferwatch_alertmanager_failures_total"
        chunks[told] = exposition.line(told, labels(of_node), float(failures))
    return exposition.page([chunks])


def _exposition(text: str) -> Response:
    return Response(text, headers={"Content-Type": exposition.CONTENT_TYPE})


def _of_sidecar(routes: Iterable[BaseRoute]) -> list[BaseRoute]:
    return [route for route in routes if isinstance(route, Route) and route.path not in _OWN_PATHS]
