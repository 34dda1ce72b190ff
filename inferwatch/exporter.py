from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from exporters.app import create_app
from exporters.config import Config
from inferwatch.console import plural
from inferwatch.discover import Seen, as_lines
from inferwatch.process import (
    Background,
    Stop,
    config_path,
    listening,
    load,
    log_to_stderr,
    say,
    serve,
    tell_of_others,
    url_of,
)
from inferwatch.watched import Watched


@dataclass(frozen=True, slots=True)
class Options:
    config: Path | None = None
    listen: str | None = None
    look_on: str | None = None
    """The host on which servers are looked for, where the configuration names none."""
    ports: Sequence[int] = ()


def exporter(options: Options) -> None:
    path = config_path(options.config)
    loaded = load(path, Config)
    hosts = () if options.look_on is None else (options.look_on,)
    log_to_stderr()
    tell_of_others(loaded, "exporter", "`inferwatch up` and `inferwatch serve` do")
    with listening(loaded.listen, options.listen) as bound:
        asyncio.run(_run(Watched(path, loaded, hosts=hosts, ports=options.ports), options.look_on, bound))


async def _run(watched: Watched, host: str | None, bound: socket.socket) -> None:
    stop = Stop()
    async with AsyncExitStack() as stack:
        if watched.is_looking:
            say(f"looking for inference servers on {host}:", *as_lines(await watched.look()))
        background = await stack.enter_async_context(Background())
        background.start(watched.keep_looking(_tell))

        def started() -> None:
            say(f"watching {plural(len(watched.sidecar.targets()), 'server')}")
            say(f"for Prometheus: {url_of(bound)}/metrics")
            say(f"what was read:  {url_of(bound)}/debug")

        await serve(create_app(watched.sidecar), bound, stop, started=started, reload=watched.reload)


async def _tell(seen: Seen) -> None:
    say(f"found at port {seen.port}: {seen.text}")
