from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from exporters.__main__ import reload
from exporters.app import create_app
from exporters.config import Config
from exporters.sidecar import Sidecar
from inferwatch.console import plural
from inferwatch.process import Stop, config_path, listening, load, log_to_stderr, say, serve, url_of


def exporter(config: Path | None, listen: str | None) -> None:
    path = config_path(config)
    loaded = load(path, Config)
    log_to_stderr()
    with listening(loaded.listen, listen) as bound:
        asyncio.run(_run(path, loaded, bound))


async def _run(path: Path | None, config: Config, bound: socket.socket) -> None:
    stop = Stop()
    sidecar = Sidecar(config)

    def started() -> None:
        say(f"watching {plural(len(sidecar.targets()), 'server')}")
        say(f"for Prometheus: {url_of(bound)}/metrics")
        say(f"what was read:  {url_of(bound)}/debug")

    await serve(create_app(sidecar), bound, stop, started=started, reload=lambda: reload(path, sidecar))
