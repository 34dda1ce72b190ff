from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from exporters.config import Config
from inferwatch.console import MISUSED, CommandError
from inferwatch.discover import HOSTS, Seen, as_lines
from inferwatch.process import Background, Stop, config_path, listening, load, log_to_stderr, say, serve
from inferwatch.serve import app_of, assembled, prometheus_of, tell_addresses
from inferwatch.simulated import simulate
from inferwatch.watched import LOOK_EVERY_SECONDS, Watched
from monitor.assembly import Monitor
from monitor.config import MonitorConfig
from monitor.sources import Source
from monitor.sources.in_process import InProcess

_NONE_FOUND = f"""
No inference server was found here. To watch one elsewhere, write inferwatch.yml:

    servers:
      - url: http://HOST:8000

and start again with: inferwatch up --config inferwatch.yml
To see a simulated fleet instead: inferwatch up --demo  (make run ARGS=--demo)
A server that starts on this host appears by itself: looking again every {LOOK_EVERY_SECONDS:g} seconds.
"""


@dataclass(frozen=True, slots=True)
class Options:
    config: Path | None = None
    demo: bool = False
    listen: str | None = None
    state_dir: Path | None = None
    ports: Sequence[int] = ()
    look_on: str | None = None
    faults: Path | None = None
    """Of the simulated fleet."""


def up(options: Options) -> None:
    if options.faults is not None and not options.demo:
        raise CommandError("--faults: only with --demo: real servers have faults of their own", status=MISUSED)
    path = config_path(options.config)
    config, monitor_config = load(path, Config), load(path, MonitorConfig)
    log_to_stderr()
    with listening(config.listen, options.listen) as bound:
        if options.demo:
            simulate(monitor_config, options.state_dir, bound, options.faults)
        else:
            asyncio.run(_run(options, _Loaded(path, config, monitor_config, options.state_dir), bound))


@dataclass(frozen=True, slots=True)
class _Loaded:
    path: Path | None
    sidecar: Config
    monitor: MonitorConfig
    state: Path | None
    """Where the history lies, if not where the configuration says."""


async def _run(options: Options, loaded: _Loaded, bound: socket.socket) -> None:
    stop = Stop()
    async with AsyncExitStack() as stack:
        hosts = HOSTS if options.look_on is None else (options.look_on,)
        watched = Watched(loaded.path, loaded.sidecar, hosts=hosts, ports=options.ports)
        seen = await _looked(watched)
        source = _own_source(loaded.monitor, watched)
        monitor = assembled(loaded.monitor, [source] if source else [], loaded.state)
        stack.callback(monitor.close)
        looked_for = [*prometheus_of(loaded.monitor), *(f"port {s.port}: {s.text}" for s in seen)]
        app = app_of(loaded.monitor, monitor, looked_for, watched.sidecar)
        background = await stack.enter_async_context(Background())
        background.start(watched.keep_looking(_told(monitor, source)))

        def reload() -> None:
            watched.reload()
            if source is not None:
                background.start(monitor.recorder.observe(source))

        await serve(app, bound, stop, started=lambda: tell_addresses(bound), reload=reload)


def _own_source(config: MonitorConfig, watched: Watched) -> Source | None:
    """None where a Prometheus tells what the sidecar of this process reads."""
    return InProcess(watched.sidecar) if config.prometheus is None else None


async def _looked(watched: Watched) -> list[Seen]:
    if not watched.is_looking:
        return []
    say("looking for inference servers on this host:")
    seen = await watched.look()
    say(*as_lines(seen))
    if not any(s.server for s in seen):
        say(*_NONE_FOUND.split("\n"))
    return seen


def _told(monitor: Monitor, source: Source | None) -> Callable[[Seen], Awaitable[None]]:
    async def found(seen: Seen) -> None:
        say(f"found at port {seen.port}: {seen.text}")
        if source is not None:
            await monitor.recorder.observe(source)

    return found
