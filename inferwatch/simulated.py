"""`inferwatch up --demo`: a simulated fleet on ports of this host, in real time, with a past."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from alerts import slo
from demo.fleet import Fleet
from demo.serve import Served, example
from demo.serve import serve as serve_fleet
from demo.standard import standard
from exporters.config import Scrape
from exporters.sidecar import Sidecar
from inferwatch.console import CommandError
from inferwatch.process import Stop, say, serve
from inferwatch.serve import app_of, assembled, tell_addresses
from inferwatch.sidecars import Sidecars, configs, record_past
from monitor.config import AlertmanagerSection, MonitorConfig, Sources
from monitor.history.database import HistoryError, sqlite_url
from monitor.sources.in_process import InProcess

_INTERVAL = 5.0
_PAST_SECONDS, _PAST_INTERVAL = 600.0, 60.0
"""What the fleet has behind it when it is first seen."""
_KEPT_SECONDS = 3600.0
_SEED = 7


def simulate(config: MonitorConfig, folder: Path | None, bound: socket.socket) -> None:
    """That fleet and nothing else: servers, Prometheus and Alertmanager of the configuration are left alone.

    The history lies in `folder`, without one it is thrown away. Raises CommandError.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))  # until `Stop`: else the past would leave its folder behind
    with _kept(folder) as state:
        say(f"simulating the last {_PAST_SECONDS / 60:.0f} minutes of a fleet")
        fleet = _with_a_past(state)
        asyncio.run(_run(fleet, _shown(config), state, bound))


@contextmanager
def _kept(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="inferwatch-demo-") as made:
        yield Path(made)


def _with_a_past(state: Path) -> Fleet:
    now = time.time()
    fleet = standard(seed=_SEED, start=now - _PAST_SECONDS, kept=_KEPT_SECONDS)
    try:
        record_past(fleet, sqlite_url(state / "history.sqlite"), now, _PAST_INTERVAL)
    except HistoryError as error:
        raise CommandError(str(error)) from error
    return fleet


def _shown(config: MonitorConfig) -> MonitorConfig:
    slos = config.slos or (Path(slo.__file__).with_name("default.yml"),)
    nobody_else = {"prometheus": None, "sources": Sources(), "alertmanager": AlertmanagerSection()}
    return config.model_copy(update={**nobody_else, "slos": slos, "scrape": Scrape(interval=_INTERVAL)})


async def _run(fleet: Fleet, config: MonitorConfig, state: Path, bound: socket.socket) -> None:
    stop = Stop()
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(serve_fleet(fleet, time.time))
        sidecars = Sidecars(map(Sidecar, configs(fleet, served.servers, served.gpu_pages, _INTERVAL)))
        sources = [InProcess(sidecar, name=f"sidecar of {sidecar.config.node}") for sidecar in sidecars.each]
        monitor = assembled(config, sources, state)
        stack.callback(monitor.close)
        app = app_of(config, monitor, (), sidecars)
        await serve(app, bound, stop, started=lambda: _tell(bound, served), reload=_nothing_to_reload)


def _tell(bound: socket.socket, served: Served) -> None:
    tell_addresses(bound)
    say(f"faults:         {served.faults}, for example", f"  {example(served)}")
    say(f"truth:          {served.truth}?server={next(iter(served.servers))}")
    say("All servers and GPUs here are simulated.")


def _nothing_to_reload() -> None:
    say("the simulated fleet reads no configuration anew")
