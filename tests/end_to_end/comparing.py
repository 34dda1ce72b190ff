"""A monitor that saw four simulated frameworks at 16, 64 and 128 requests at once, each on a server of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

from sqlalchemy import Engine

from alerts.reference import AT_ONCE
from demo.fidelity import LIMITS
from demo.fleet import Fleet
from demo.server import Spec
from demo.transport import FleetTransport, gpu_url, server_url
from demo.virtual import VirtualLoop
from demo.workload import ClosedLoop, benchmark
from exporters.config import Config
from exporters.sidecar import Sidecar
from monitor.app import create_app
from monitor.compare.asked import Prices
from monitor.compare.imported.run import Run
from monitor.compare.model import Measure, Workload
from monitor.compare.runs import Runs
from monitor.fleet import Fleet as Seen
from monitor.history.ask import History
from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.store import Store
from monitor.page.charts.artist import Artist
from monitor.recorder import Recorder
from monitor.sources.in_process import InProcess
from tests.end_to_end.browser import serving
from tests.end_to_end.processes import DEADLINE

MODEL, GPU = "Qwen2.5-7B-Instruct", "NVIDIA H100 80GB HBM3"
START = 1_796_083_200
WARM_UP, MINUTE, INTERVAL = 60, 60, 30
_RAMP = 3.75
RELEASES = {
    "vllm": ("vllm", "0.32.0"),
    "sglang": ("sglang", "0.5.23"),
    "lmdeploy": ("lmdeploy", "0.18.0"),
    "tensorrt_llm": ("trtllm_serve", "1.3.0"),
}
"""Frontend and release, by framework."""


@dataclass(frozen=True)
class Lived:
    """`fleet` knows every request."""

    database: Engine
    fleet: Fleet
    since: int
    until: int
    slowness: float


def specs(slowness: float) -> list[Spec]:
    return [
        Spec(
            f"{framework}-{at_once}", "sim-1", *RELEASES[framework], MODEL, (number * len(AT_ONCE) + place,),
            LIMITS[framework], slowness=slowness, labels={"source": "simulated"},
        )
        for number, framework in enumerate(LIMITS)
        for place, at_once in enumerate(AT_ONCE)
    ]  # fmt: skip


@contextmanager
def lived(folder: Path, minutes: int, slowness: float = 1.0) -> Iterator[Lived]:
    database = open_database(sqlite_url(folder / "history.sqlite"))
    upgrade(database)
    since, until = START + WARM_UP, START + WARM_UP + minutes * MINUTE
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(START)) as runner:
        fleet = runner.run(_live(Store(database), specs(slowness), until))
    yield Lived(database, fleet, since, until, slowness)
    database.dispose()


async def _live(store: Store, servers: list[Spec], until: int) -> Fleet:
    clock = asyncio.get_running_loop().time
    fleet = Fleet(servers, [], {"sim-1": len(servers)}, seed=3, start=START)
    for spec in servers:
        _load(fleet, spec)
    sidecar = Sidecar(_config(servers), clock=clock, transport=lambda *_: FleetTransport(fleet))
    source = InProcess(sidecar)
    recorder = Recorder([source], Seen(), store, interval=INTERVAL, clock=clock)
    while clock() < until + MINUTE:
        await recorder.observe(source)
        await asyncio.sleep(INTERVAL)
    return fleet


def _load(fleet: Fleet, spec: Spec) -> None:
    process = fleet.servers[spec.name].process
    assert process is not None
    at_once = int(spec.name.rpartition("-")[2])
    [engine] = process.engines
    loop = ClosedLoop(benchmark(), at_once, engine.submit, at_once)
    engine.observe(loop)
    loop.start(START, over=_RAMP * spec.slowness)


def _config(servers: list[Spec]) -> Config:
    return Config.model_validate(
        {
            "node": "sim-1",
            "scrape": {"interval": INTERVAL},
            "servers": [{"name": s.name, "url": server_url(s.name), "labels": dict(s.labels)} for s in servers],
            "gpus": {"dcgm": gpu_url("sim-1"), "servers": {s.name: list(s.gpus) for s in servers}},
        }
    )


@contextmanager
def comparing(seen: Lived) -> Iterator[str]:
    """Yields the URL of its page. There is a load test beside."""
    measures = {Measure.TOKENS: 18_800.0 / seen.slowness, Measure.TTFT_P99: 1.1}
    run = Run("guidellm", 60.0, measures, Workload(512, 256), MODEL, framework="vllm", gpu=GPU)
    Runs(seen.database).add("rate-25.json", b"", [run])
    prices = Prices(of_any=2.9, currency="EUR")
    with patch("monitor.app.Artist", partial(Artist, timeout=DEADLINE)):
        app = create_app(Seen(), History(seen.database), node="sim-1", prices=prices, clock=lambda: float(seen.until))
    with serving(app) as port:
        yield f"http://127.0.0.1:{port}"
