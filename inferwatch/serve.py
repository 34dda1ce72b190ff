from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

from fastapi import FastAPI

from exporters.app import Reader
from exporters.config import warn_of_unread
from inferwatch import process
from inferwatch.console import MISUSED, CommandError
from inferwatch.process import config_path, listening, load, log_to_stderr, say, tell_of_others, url_of
from monitor.app import create_app
from monitor.assembly import Monitor, assemble
from monitor.config import MonitorConfig
from monitor.history.database import HistoryError, sqlite_url
from monitor.sources import Source

_NO_SOURCES = (
    'no sidecar to read: name them in the configuration, `sources: {sidecars: ["http://HOST:9840"]}`, or the '
    "Prometheus that scrapes them, `prometheus: {url: http://HOST:9090}`; "
    "`inferwatch up` reads the servers of this host by itself"
)


def serve(config: Path | None, listen: str | None, state_dir: Path | None) -> None:
    loaded = load(config_path(config), MonitorConfig)
    log_to_stderr()
    warn_of_unread(loaded)
    tell_of_others(loaded, "serve", "`inferwatch up` and `inferwatch exporter` do")
    if not (loaded.sources.sidecars or loaded.prometheus):
        raise CommandError(_NO_SOURCES, status=MISUSED)
    with listening(loaded.listen, listen) as bound:
        asyncio.run(_run(loaded, state_dir, bound))


async def _run(config: MonitorConfig, state: Path | None, bound: socket.socket) -> None:
    stop = process.Stop()
    monitor = assembled(config, [], state)
    try:
        app = app_of(config, monitor, prometheus_of(config) or [f"sidecar {url}" for url in config.sources.sidecars])
        await process.serve(app, bound, stop, started=lambda: tell_addresses(bound), reload=_cannot_reload)
    finally:
        monitor.close()


def prometheus_of(config: MonitorConfig) -> list[str]:
    """Where servers are looked for, on the page."""
    return [] if config.prometheus is None else [f"Prometheus {config.prometheus.url}"]


def _cannot_reload() -> None:
    say("the monitor reads its configuration at the start only: start it again")


def assembled(config: MonitorConfig, sources: Sequence[Source], state: Path | None) -> Monitor:
    """Raises CommandError."""
    url = None if state is None else sqlite_url(state / "history.sqlite")
    try:
        return assemble(config, sources, database_url=url)
    except HistoryError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"could not keep the history at {error.filename}: {error.strerror}") from error


def app_of(
    config: MonitorConfig, monitor: Monitor, looked_for: Sequence[str], sidecar: Reader | None = None
) -> FastAPI:
    """`looked_for` says where servers were searched; `sidecar` is that of this process."""
    return create_app(
        monitor.fleet,
        monitor.history,
        recorder=monitor.recorder,
        alerts=monitor.alerts,
        watch=monitor.watch,
        sidecar=sidecar,
        node=config.node,
        looked_for=looked_for,
        sidecars=config.sources.sidecars,
        prices=config.compare.prices,
    )


def tell_addresses(bound: socket.socket) -> None:
    url = url_of(bound)
    say(f"page:           {url}/")
    say(f"API:            {url}/api/v1/servers (described at {url}/docs)")
    say(f"for Prometheus: {url}/metrics")
