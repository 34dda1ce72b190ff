"""Hours of the simulated fleet, read by the whole product in the fleet's own time: sidecars, history, objectives and
alerts run as in a process of their own, but that time passes as soon as nobody has anything to do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from demo.fleet import Fleet, Service
from demo.standard import GPUS, SERVICES, SPECS
from demo.truth import Window
from demo.virtual import VirtualLoop
from demo.workload import Burst
from inferwatch.sidecars import sidecars_in
from monitor.alert_history.alert import Alert
from monitor.alert_history.store import Wanted
from monitor.assembly import Monitor, assemble
from monitor.config import MonitorConfig
from monitor.history.database import sqlite_url
from monitor.sources.in_process import InProcess
from tests.end_to_end.processes import ROOT

DAY, HOUR, MINUTE = 86_400, 3600, 60
EVERY = 60.0
"""Seconds between two readings."""
QUIET = 600.0
"""At the end nobody asks for anything, so that all that was asked for is done and told."""
START = 1_795_996_800
"""2026-11-30 00:00:00 UTC"""


@dataclass(frozen=True)
class Shown:
    """What a server's gauges have to say at one moment, of all engines together."""

    at: float
    running: float
    waiting: float
    kv_share: float
    """On average over the engines."""


@dataclass(frozen=True)
class Lived:
    """`shown` by server, at each reading."""

    fleet: Fleet
    monitor: Monitor
    until: float
    shown: Mapping[str, Sequence[Shown]]

    @property
    def window(self) -> Window:
        return Window(START, self.until)

    def engines(self, server: str) -> set[str]:
        spec = self.fleet.servers[server].spec
        return {spec.engine(n) for n in range(spec.engines)}

    def alerts(self) -> list[Alert]:
        return self.monitor.alerts.find(Wanted(10_000, self.until))

    def told(self, metric: str, q: float | None = None, aggregation: str | None = None) -> dict[str, Told]:
        """Of all the time, by server."""
        found = self.monitor.history.ask(metric, q, START, self.until, DAY, ("server",), aggregation=aggregation)
        return {a.labels["server"]: Told(p.value, p.lower, p.upper) for a in found for p in a.points}


@dataclass(frozen=True)
class Told:
    value: float
    lower: float | None
    upper: float | None


def live(hours: float, orders: Sequence[Mapping[str, object]], folder: Path, *, load: float) -> Lived:
    """`orders` are faults, `load` the share of the usual requests."""
    until = START + hours * HOUR
    services = [_calmed(service, load, until - QUIET) for service in SERVICES]
    fleet = Fleet(SPECS, services, GPUS, seed=11, start=START)
    fleet.order(list(orders), START)
    return read_until(until, fleet, folder)


def read_until(until: float, fleet: Fleet, folder: Path) -> Lived:
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(fleet.now)) as runner:
        return runner.run(_live(fleet, until, folder))


def _calmed(service: Service, load: float, ends: float) -> Service:
    rate = replace(service.rate, mean=load * service.rate.mean, bursts=(Burst(ends, 2 * QUIET, 0.0),))
    return replace(service, rate=rate)


async def _live(fleet: Fleet, until: float, folder: Path) -> Lived:
    loop = asyncio.get_running_loop()
    sidecars = sidecars_in(loop, fleet, EVERY)
    sources = [InProcess(sidecar, name=sidecar.config.node) for sidecar in sidecars]
    config = MonitorConfig.model_validate(
        {"scrape": {"interval": f"{EVERY:g}s"}, "slos": str(ROOT / "alerts" / "slo" / "default.yml")}
    )
    monitor = assemble(config, sources, database_url=sqlite_url(folder / "history.sqlite"), clock=loop.time)
    shown: dict[str, list[Shown]] = {name: [] for name in fleet.servers}
    work = [monitor.recorder.run(), monitor.alerts.run(), monitor.watch.run(), _note(fleet, shown)]
    parts = [asyncio.create_task(part) for part in work]
    await asyncio.sleep(until + 1 - loop.time())
    for part in parts:
        part.cancel()
    await asyncio.gather(*parts, return_exceptions=True)
    for sidecar in sidecars:
        await sidecar.aclose()
    return Lived(fleet, monitor, until, shown)


async def _note(fleet: Fleet, shown: Mapping[str, list[Shown]]) -> None:
    """At the moments at which the recorder reads."""
    loop = asyncio.get_running_loop()
    while True:
        fleet.advance(loop.time())
        for name, server in fleet.servers.items():
            if server.process is not None:
                engines = server.process.engines
                running, waiting = (
                    float(sum(map(len, of))) for of in zip(*((e.running, e.waiting) for e in engines), strict=True)
                )
                share = sum(engine.kv_tokens / engine.limits.kv_tokens for engine in engines) / len(engines)
                shown[name].append(Shown(fleet.now, running, waiting, share))
        await asyncio.sleep(EVERY - loop.time() % EVERY)
