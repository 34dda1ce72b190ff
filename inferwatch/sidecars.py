"""The simulated fleet as inferwatch reads it: by one sidecar for each of its hosts, as it would real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from demo.fleet import Fleet
from demo.server import Spec
from demo.transport import FleetTransport, gpu_url, server_url
from demo.virtual import VirtualLoop
from exporters import exposition
from exporters.collected import Collected
from exporters.config import Config
from exporters.gpu.gathered import Gathered
from exporters.sidecar import NotAllowed, Sidecar
from exporters.target import Target
from monitor.history.database import open_database, upgrade
from monitor.history.recording import Recording
from monitor.history.store import Store

MARK = "simulated"
"""The label `source` of everything that no real server gave."""


def configs(
    fleet: Fleet, servers: Mapping[str, str], gpu_pages: Mapping[str, str], interval: float
) -> Sequence[Config]:
    """By host; `servers` and `gpu_pages` are URLs by name and by host. `interval` in seconds."""
    specs = [server.spec for server in fleet.servers.values()]
    return [
        Config.model_validate(
            {
                "node": node,
                "scrape": {"interval": f"{interval:g}s"},
                "servers": [_server(spec, servers[spec.name]) for spec in specs if spec.node == node],
                "gpus": {"dcgm": page, "servers": {s.name: list(s.gpus) for s in specs if s.node == node}},
            }
        )
        for node, page in gpu_pages.items()
    ]


def _server(spec: Spec, url: str) -> Mapping[str, object]:
    """Triton's metrics are at a port of their own; here that is the API's."""
    more = {"frontend": "triton", "metrics_path": "/metrics"} if spec.frontend == "triton" else {}
    return {"name": spec.name, "url": url, "labels": {**spec.labels, "source": MARK}, **more}


def sidecars_in(loop: asyncio.AbstractEventLoop, fleet: Fleet, interval: float) -> Sequence[Sidecar]:
    """That read the fleet without a port, in the time of that loop."""
    servers = {name: server_url(name) for name in fleet.servers}
    pages = {node: gpu_url(node) for node in fleet.hosts}
    return [
        Sidecar(config, clock=loop.time, transport=lambda _: FleetTransport(fleet))
        for config in configs(fleet, servers, pages, interval)
    ]


def record_past(
    fleet: Fleet, database_url: str, until: float, interval: float, wants_to_end: Callable[[], bool] = lambda: False
) -> None:
    """Lets the fleet live until then, and keeps what a monitor would have. Raises HistoryError.

    It ends earlier, after at most one interval of the fleet's time, where `wants_to_end` says so.
    """
    database = open_database(database_url)
    try:
        upgrade(database)
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(fleet.now)) as runner:
            recording = Recording(Store(database), interval, fleet.now)
            runner.run(_record(fleet, recording, until, interval, wants_to_end))
    finally:
        database.dispose()


async def _record(
    fleet: Fleet, recording: Recording, until: float, interval: float, wants_to_end: Callable[[], bool]
) -> None:
    loop = asyncio.get_running_loop()
    sidecars = sidecars_in(loop, fleet, interval)
    while loop.time() < until and not wants_to_end():
        found = await asyncio.gather(*(sidecar.collect() for sidecar in sidecars))
        gpus = [gpu for sidecar in sidecars for gpu in sidecar.gpus()]
        recording.record((each.observation for each in chain(*found)), loop.time(), gpus)
        await asyncio.sleep(interval)
    recording.flush()
    for sidecar in sidecars:
        await sidecar.aclose()


class Sidecars:
    """Those of several hosts, that answer as one."""

    def __init__(self, sidecars: Iterable[Sidecar]) -> None:
        self.each = tuple(sidecars)

    @property
    def problems(self) -> list[str]:
        return [problem for sidecar in self.each for problem in sidecar.problems]

    @property
    def gpu_readings(self) -> Gathered | None:
        known = [readings for sidecar in self.each if (readings := sidecar.gpu_readings) is not None]
        if not known:
            return None
        gpus, findings = chain(*(each.gpus for each in known)), chain(*(each.findings for each in known))
        return replace(known[0], gpus=tuple(gpus), findings=tuple(findings))

    def targets(self) -> list[Target]:
        return [target for sidecar in self.each for target in sidecar.targets()]

    async def collect(self, timeout: float | None = None) -> list[Collected]:
        return list(chain(*await asyncio.gather(*(sidecar.collect(timeout) for sidecar in self.each))))

    async def probe(self, url: str, timeout: float | None = None) -> Collected:
        """Whoever knows it; no other server may be asked. Raises NotAllowed."""
        for sidecar in self.each[:-1]:
            with suppress(NotAllowed):
                return await sidecar.probe(url, timeout)
        return await self.each[-1].probe(url, timeout)

    def page(self, collected: Iterable[Collected], *, own: bool = True) -> str:
        of_hosts = chain(*(sidecar.own_chunks() for sidecar in self.each)) if own else ()
        return exposition.page([*(c.chunks for c in collected), *of_hosts])

    async def aclose(self) -> None:
        for sidecar in self.each:
            await sidecar.aclose()
