"""`inferwatch up --demo`: a simulated fleet on ports of this host, in real time, with a past."""

from __future__ import annotations

import asyncio
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from alerts import slo
from demo.faults import FaultError
from demo.fleet import Fleet
from demo.serve import Served, example
from demo.serve import serve as serve_fleet
from demo.standard import standard
from exporters.config import Scrape
from exporters.loader import read_yaml
from exporters.sidecar import Sidecar
from inferwatch.console import MISUSED, CommandError
from inferwatch.misuse import problems_end
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


def simulate(config: MonitorConfig, folder: Path | None, bound: socket.socket, faults: Path | None) -> None:
    """That fleet and nothing else: servers, Prometheus and Alertmanager of the configuration are left alone.

    The history lies in `folder`, without one it is thrown away. `faults` is a file of orders. Raises CommandError.
    """
    now = time.time()
    fleet = standard(seed=_SEED, start=now - _PAST_SECONDS, kept=_KEPT_SECONDS)
    if faults is not None:
        order_from(faults, fleet, now)
    told: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        # until `Stop`: else the past would leave its folder behind. What is raised here others may keep to themselves.
        signal.signal(number, lambda which, _: told.append(which))
    with _kept(folder) as state:
        say(f"simulating the last {_PAST_SECONDS / 60:.0f} minutes of a fleet")
        _record(fleet, state, now, lambda: bool(told))
        asyncio.run(_run(fleet, _shown(config), state, bound, lambda: bool(told)))


@contextmanager
def _kept(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="inferwatch-demo-") as made:
        yield Path(made)


def order_from(file: Path, fleet: Fleet, since: float) -> None:
    """One order or a list of them, as they are ordered of a running fleet, in YAML or JSON. Raises CommandError."""
    with problems_end():
        given, problems = read_yaml(file)
    if problems:
        raise CommandError(*(problem.line(str(file)) for problem in problems), status=MISUSED)
    try:
        fleet.order(given, fleet.now, since)
    except FaultError as error:
        raise CommandError(f"{file}: {error}", status=MISUSED) from error


def _record(fleet: Fleet, state: Path, now: float, wants_to_end: Callable[[], bool]) -> None:
    try:
        record_past(fleet, sqlite_url(state / "history.sqlite"), now, _PAST_INTERVAL, wants_to_end)
    except HistoryError as error:
        raise CommandError(str(error)) from error


def _shown(config: MonitorConfig) -> MonitorConfig:
    slos = config.slos or (Path(slo.__file__).with_name("default.yml"),)
    nobody_else = {"prometheus": None, "sources": Sources(), "alertmanager": AlertmanagerSection()}
    return config.model_copy(update={**nobody_else, "slos": slos, "scrape": Scrape(interval=_INTERVAL)})


async def _run(
    fleet: Fleet, config: MonitorConfig, state: Path, bound: socket.socket, wants_to_end: Callable[[], bool]
) -> None:
    stop = Stop()
    if wants_to_end():
        return
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
