"""Hours of a small simulated fleet through sidecars, history and adviser, in the fleet's own time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from alerts.slo.spec import Slo
from demo.fleet import Fleet, Service
from demo.server import Spec
from demo.truth import Summary, Window
from demo.virtual import VirtualLoop
from inferwatch.sidecars import sidecars_in
from monitor.advise.adviser import Adviser, Told
from monitor.advise.model import Evidence, Finding
from monitor.fleet import Fleet as Seen
from monitor.history.ask import History
from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.store import Store
from monitor.recorder import Recorder
from monitor.sources.in_process import InProcess

HOUR, MINUTE = 3600, 60
START = 1_796_122_800.0
"""11:00 UTC: a whole hour, so that steps of an hour begin with it."""
EVERY = 60.0
"""Seconds between two readings."""
NODE = "sim-1"


@dataclass(frozen=True)
class Lived:
    """Moments are seconds since the start. `seen` is what servers said last."""

    fleet: Fleet
    history: History
    seen: Seen
    slos: Sequence[Slo]
    meanwhile: dict[float, Told]
    """What the adviser told of all until those moments, soon after each."""

    def advice(self, since: float, until: float, *, now: float | None = None) -> Told:
        """Without `now` only the history is known, and not what servers say now."""
        adviser = Adviser(self.history, lambda: self.slos, None if now is None else self.seen)
        return adviser.advise(START + since, START + until, "", 0.0 if now is None else START + now)

    def truth(self, server: str, evidence: Evidence) -> Summary:
        """Of the time that a number is about: what a reading just after a full minute counts is of the one before."""
        window = Window(evidence.since - EVERY, evidence.until - EVERY)
        return self.fleet.truth.summary(window, self.engines(server))

    def engines(self, server: str) -> set[str]:
        spec = self.fleet.servers[server].spec
        return {spec.engine(n) for n in range(spec.engines)}


def findings(told: Told) -> dict[str, list[Finding]]:
    """By the name of the server, the model or the GPU that each is about, in the order in which they stand."""
    found: dict[str, list[Finding]] = {}
    for finding in told.advice.findings:
        of = finding.target
        found.setdefault(of.server or of.model or of.name, []).append(finding)
    return found


def names(told: Told) -> dict[str, list[str]]:
    return {of: [finding.name for finding in each] for of, each in findings(told).items()}


def number(finding: Finding, what: str) -> Evidence:
    return next(evidence for evidence in finding.evidence if evidence.what.startswith(what))


@contextmanager
def lived(
    specs: Sequence[Spec],
    services: Iterable[Service],
    seconds: float,
    folder: Path,
    *,
    orders: Sequence[Mapping[str, object]] = (),
    slos: Sequence[Slo] = (),
    looks: Sequence[float] = (),
) -> Iterator[Lived]:
    """`orders` are faults; at `looks` the adviser is asked meanwhile."""
    gpus = {NODE: 1 + max(number for spec in specs for number in spec.gpus)}
    fleet = Fleet(specs, services, gpus, seed=5, start=START)
    fleet.order(list(orders), START)
    engine = open_database(sqlite_url(folder / "history.sqlite"))
    upgrade(engine)
    made = Lived(fleet, History(engine), Seen(), slos, {})
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(START)) as runner:
        runner.run(_live(made, Store(engine), seconds, looks))
    yield made
    engine.dispose()


async def _live(made: Lived, store: Store, seconds: float, looks: Sequence[float]) -> None:
    """Minutes are written once they are over, a little later."""
    loop, late = asyncio.get_running_loop(), 2 * EVERY
    (sidecar,) = sidecars_in(loop, made.fleet, EVERY)
    source = InProcess(sidecar)
    recorder = Recorder([source], made.seen, store, interval=EVERY, clock=loop.time)
    while (passed := loop.time() - START) < seconds + late:
        await recorder.observe(source)
        for look in looks:
            if look not in made.meanwhile and passed >= look + late:
                made.meanwhile[look] = made.advice(0, look, now=passed)
        await asyncio.sleep(EVERY - loop.time() % EVERY)
    await sidecar.aclose()
