"""Chromium in front of the page of a fleet made by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread

import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, expect, sync_playwright

from monitor.fleet import Fleet
from monitor.page.routes import router
from tests.end_to_end.processes import DEADLINE, until
from tests.monitor.page.fleet_data import NOW, Past, Server, Wave
from tests.services import require

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE_MILLISECONDS = DEADLINE * 1000
expect.set_options(timeout=PATIENCE_MILLISECONDS)


@contextmanager
def chromium() -> Iterator[Browser]:
    path = require("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, headless=True, args=FLAGS, timeout=PATIENCE_MILLISECONDS
        )
        browser.on("context", lambda context: context.set_default_timeout(PATIENCE_MILLISECONDS))
        yield browser
        browser.close()


def still(page: Page) -> None:
    """Nothing that is opened from now on is refreshed: an element that was found is still there when it is asked."""
    page.add_init_script("window.setTimeout = () => 0")


@dataclass
class Monitor:
    """A page whose fleet and clock stand still until a test moves them."""

    servers: Sequence[Server]
    looked_for: Sequence[str] = ()
    now: float = NOW
    fleet: Fleet = field(default_factory=Fleet)
    url: str = ""
    gpus: Mapping[tuple[str, str], Mapping[str, Wave]] = field(default_factory=dict)
    """The last hour of GPUs, by node and uuid."""

    def observe(self, *servers: Server) -> None:
        for server in servers:
            for observation in server.observations(self.now):
                self.fleet.update([observation])

    def app(self) -> FastAPI:
        self.observe(*self.servers)
        app = FastAPI()
        past = Past(*self.servers, gpus=self.gpus)
        routes = router(self.fleet, past, clock=lambda: self.now, looked_for=self.looked_for, debug_path="/debug")
        app.include_router(routes)
        return app


@contextmanager
def serving(app: FastAPI, port: int = 0) -> Iterator[int]:
    """Yields the port."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", ws="none"))
    thread = Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def monitoring(
    *servers: Server,
    looked_for: Sequence[str] = (),
    gpus: Mapping[tuple[str, str], Mapping[str, Wave]] | None = None,
) -> Iterator[Monitor]:
    monitor = Monitor(servers, looked_for, gpus=gpus or {})
    with serving(monitor.app()) as port:
        monitor.url = f"http://127.0.0.1:{port}"
        yield monitor
