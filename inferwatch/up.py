from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from demo import replay
from exporters.config import Config, Server
from inferwatch.discover import HOSTS, Seen, as_lines
from inferwatch.process import Background, Stop, config_path, listening, load, log_to_stderr, say, serve
from inferwatch.serve import assembled, prometheus_of, tell_addresses
from inferwatch.watched import LOOK_EVERY_SECONDS, Watched
from monitor.app import create_app
from monitor.assembly import Monitor
from monitor.config import MonitorConfig
from monitor.sources import Source
from monitor.sources.in_process import InProcess

_NONE_FOUND = f"""
No inference server was found here. To watch one elsewhere, write inferwatch.yml:

    servers:
      - url: http://HOST:8000

and start again with: inferwatch up --config inferwatch.yml
To see recorded servers instead: inferwatch up --demo  (make run ARGS=--demo)
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


def up(options: Options) -> None:
    path = config_path(options.config)
    config, monitor_config = load(path, Config), load(path, MonitorConfig)
    if options.demo:
        monitor_config = monitor_config.model_copy(update={"prometheus": None})
    log_to_stderr()
    with listening(config.listen, options.listen) as bound, _state(options) as state:
        asyncio.run(_run(options, _Loaded(path, config, monitor_config, state), bound))


@dataclass(frozen=True, slots=True)
class _Loaded:
    path: Path | None
    sidecar: Config
    monitor: MonitorConfig
    state: Path | None
    """Where the history lies, if not where the configuration says."""


@contextmanager
def _state(options: Options) -> Iterator[Path | None]:
    """A demo's history is nobody's: it is thrown away, unless a folder was given."""
    if options.state_dir is None and options.demo:
        with tempfile.TemporaryDirectory(prefix="inferwatch-demo-") as folder:
            yield Path(folder)
    else:
        yield options.state_dir


async def _run(options: Options, loaded: _Loaded, bound: socket.socket) -> None:
    stop = Stop()
    async with AsyncExitStack() as stack:
        replayed = [await stack.enter_async_context(_replayed(r)) for r in replay.recordings()] if options.demo else []
        hosts = HOSTS if options.look_on is None else (options.look_on,)
        watched = Watched(loaded.path, loaded.sidecar, instead=replayed, hosts=hosts, ports=options.ports)
        seen = await _looked(watched)
        source = _own_source(loaded.monitor, watched)
        monitor = assembled(loaded.monitor, [source] if source else [], loaded.state)
        stack.callback(monitor.close)
        app = create_app(
            monitor.fleet,
            monitor.history,
            recorder=monitor.recorder,
            alerts=monitor.alerts,
            watch=monitor.watch,
            sidecar=watched.sidecar,
            node=loaded.sidecar.node,
            sidecars=loaded.monitor.sources.sidecars,
            prices=loaded.monitor.compare.prices,
            looked_for=[*prometheus_of(loaded.monitor), *(f"port {s.port}: {s.text}" for s in seen)],
        )
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


@asynccontextmanager
async def _replayed(recording: replay.Recording) -> AsyncIterator[Server]:
    async with replay.serve(recording) as url:
        yield Server.model_validate({"url": url, "name": recording.name, "labels": {"source": "replay"}})


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
