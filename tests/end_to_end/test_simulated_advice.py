"""Faults of the simulated fleet through the whole product: for each, its own finding comes first; without one, none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from demo.fleet import Fleet, Service
from demo.model import Limits
from demo.server import Spec
from demo.transport import FleetTransport, gpu_url, server_url
from demo.virtual import VirtualLoop
from demo.workload import CHAT, Rate
from exporters.config import Config
from exporters.sidecar import Sidecar
from monitor.advise.adviser import Adviser
from monitor.fleet import Fleet as Seen
from monitor.history.ask import History
from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.store import Store
from monitor.recorder import Recorder
from monitor.sources.in_process import InProcess
from tests.end_to_end.advised_days import HOUR, Copy, copy

START = 1_796_122_800
"""11:00 UTC: a busy hour."""
INTERVAL = 60.0
WELL, ILL = 35 * 60, 20 * 60
"""Seconds without a fault, then with all of them."""
BEFORE = 46
"""Hours that are well but for twenty minutes of two of them."""
ILL_BEFORE = (20, 9)
"""How many hours ago those were."""

_LIMITS = Limits(running=32, waiting=64, kv_tokens=40_000)


def _spec(name: str, frontend: str, release: str, model: str, gpu: int) -> Spec:
    return Spec(name, "sim-1", frontend, release, model, (gpu,), _LIMITS, slowness=4.0)


SPECS = (
    _spec("cramped", "vllm", "0.32.0", "m-kv", 0),
    _spec("forgetful", "sglang", "0.5.23", "m-prefix", 1),
    _spec("flooded", "vllm", "0.32.0", "m-load", 2),
    _spec("favoured", "vllm", "0.10.2", "m-pair", 3),
    _spec("spared", "vllm", "0.10.2", "m-pair", 4),
)
SERVICES = (
    *(Service(name, (name,), CHAT, Rate(0.7)) for name in ("cramped", "forgetful", "flooded")),
    Service("pair", ("favoured", "spared"), CHAT, Rate(3.0)),
)
FAULTS = (
    {"kind": "kv_exhaustion", "target": "cramped"},
    {"kind": "prefix_collapse", "target": "forgetful"},
    {"kind": "overload", "target": "flooded", "factor": 12},
    {"kind": "imbalance", "target": "pair", "share": 0.95, "factor": 2},
)
EXPECTED = {
    "cramped": "kv_cache_short",
    "forgetful": "prefix_hits_collapsed",
    "flooded": "overloaded",
    "favoured": "replicas_imbalanced",
}


@dataclass(frozen=True)
class Lived:
    history: History
    seen: Seen

    def found(self, since: float, until: float, server: str = "") -> list[str]:
        told = Adviser(self.history, list, self.seen).advise(START + since, START + until, server, START + until)
        return [finding.name for finding in told.advice.findings]

    def first(self, since: float, until: float) -> dict[str, str]:
        """By the server that it is told of first."""
        adviser = Adviser(self.history, list, self.seen)
        told = ((s.name, adviser.advise(START + since, START + until, s.name, START + until)) for s in SPECS)
        found = {server: each.advice.findings[0].name for server, each in told if each.advice.findings}
        return {server: name for server, name in found.items() if server != "spared"}


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    engine = open_database(sqlite_url(tmp_path_factory.mktemp("simulated") / "history.sqlite"))
    upgrade(engine)
    seen = Seen()
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(START)) as runner:
        runner.run(_live(Store(engine), seen))
    yield Lived(History(engine), seen)
    engine.dispose()


async def _live(store: Store, seen: Seen) -> None:
    clock = asyncio.get_running_loop().time
    fleet = Fleet(SPECS, SERVICES, {"sim-1": 5}, seed=3, start=START)
    fleet.order([{**fault, "after": WELL, "seconds": ILL} for fault in FAULTS], START)
    sidecar = Sidecar(_config(), clock=clock, transport=lambda *_: FleetTransport(fleet))
    source = InProcess(sidecar)
    recorder = Recorder([source], seen, store, interval=INTERVAL, clock=clock)
    while clock() < START + WELL + ILL + 60:
        await recorder.observe(source)
        await asyncio.sleep(INTERVAL)


@pytest.fixture(scope="module")
def two_days(lived: Lived) -> Lived:
    """Of minutes that were lived: the first half of an hour twice, in two hours with the faults from minute 15 on."""
    well = (START + 4 * 60, START + 34 * 60)
    for ago in range(1, BEFORE + 1):
        hour = START - ago * HOUR
        if ago in ILL_BEFORE:
            ill = Copy(START + WELL + 60, START + WELL + ILL, hour + 15 * 60)
            rest = Copy(well[0], well[0] + 26 * 60, hour + 34 * 60)
            parts = [Copy(well[0], well[0] + 15 * 60, hour), ill, rest]
        else:
            parts = [Copy(*well, hour), Copy(*well, hour + 30 * 60)]
        copy(lived.history.engine, parts)
    return lived


def _config() -> Config:
    return Config.model_validate(
        {
            "node": "sim-1",
            "servers": [{"name": spec.name, "url": server_url(spec.name)} for spec in SPECS],
            "gpus": {"dcgm": gpu_url("sim-1"), "servers": {spec.name: list(spec.gpus) for spec in SPECS}},
        }
    )


def test_a_fleet_that_is_well_gets_no_advice(lived: Lived) -> None:
    assert lived.found(0, WELL) == []


@pytest.mark.parametrize("server", EXPECTED)
def test_each_fault_has_its_own_finding_first(lived: Lived, server: str) -> None:
    assert lived.found(0, WELL + ILL, server)[0] == EXPECTED[server]


def test_of_two_days_faults_of_minutes_have_the_same_findings_first_as_of_three_hours(two_days: Lived) -> None:
    end = WELL + ILL
    assert two_days.first(-BEFORE * HOUR, end) == two_days.first(-2 * HOUR, end) == EXPECTED


def test_faults_that_are_long_over_are_told_as_of_the_hours_around_them(two_days: Lived) -> None:
    """A cache whose prefixes are found again has no fault."""
    over = {server: name for server, name in EXPECTED.items() if server != "forgetful"}
    around = (-(ILL_BEFORE[1] + 1) * HOUR, -(ILL_BEFORE[1] - 2) * HOUR)
    assert two_days.first(-BEFORE * HOUR, -HOUR) == two_days.first(*around) == over
