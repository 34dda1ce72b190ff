"""Advice from a history: findings, which framework for each model, and how much more its objectives allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np

from alerts.burn import DAY, HOUR, MINUTE
from alerts.slo.spec import Slo
from exporters.quote import quoted
from monitor.advise.capacity import Capacity, Measured, lacking, limits_of
from monitor.advise.findings import advise
from monitor.advise.framework import Choice, choose
from monitor.advise.model import Advice, Missing, Target
from monitor.advise.reading import Known, known, read
from monitor.advise.workload import traits
from monitor.advise.world import World
from monitor.compare.asked import Asked, Prices
from monitor.compare.compare import compare
from monitor.compare.model import Comparison
from monitor.compare.read import observed, simulated
from monitor.evaluate.once import Once
from monitor.evaluate.reader import Reader
from monitor.evaluate.tally import FIELDS, Tally
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.packed import Floats
from monitor.history.question import InvalidParameter, closest
from monitor.history.rollup import stale
from monitor.history.tables import Tier

CAPACITY = "capacity"
_COMPARED_SECONDS = 2 * DAY
"""Of minutes, the newest: more take long to read and tell hardly more."""
_BY_MINUTES_SECONDS = DAY
"""Longer windows are read by the hour."""
_NOW_SECONDS = HOUR
_OF_REQUESTS = ("ttft", "tpot", "e2e")
"""Phases that are observed once for each request."""


@dataclass(frozen=True, slots=True)
class Told:
    """`compared` says why nothing was compared, "" where it was."""

    advice: Advice
    choices: tuple[Choice, ...]
    capacities: tuple[Capacity, ...]
    compared: str = ""
    servers: tuple[str, ...] = ()
    """Names of those that were observed at all."""
    simulated: tuple[str, ...] = ()
    """Names of those of them that are none."""


@dataclass(frozen=True, slots=True)
class _Whole:
    """Of all servers. `asked` is what it was worked out for."""

    asked: tuple[int, int, tuple[Slo, ...]]
    world: World
    told: Told


class Adviser:
    """Safe to be asked from several threads: what was just worked out for one is told to the others."""

    def __init__(self, history: History, slos: Callable[[], Sequence[Slo]], fleet: Fleet | None = None) -> None:
        """`fleet` is what servers say now, where that is at hand."""
        self._history, self._slos, self._fleet = history, slos, fleet
        self._last: _Whole | None = None
        self._working = Lock()

    def advise(self, since: float, until: float, server: str = "", now: float = 0.0) -> Told:
        """Of all, or of one server: node and name, or the name alone. Raises QuestionError and ReadError."""
        asked = int(since // MINUTE), int(until // MINUTE), tuple(self._slos())
        with self._working:
            if self._last is None or self._last.asked != asked:
                self._last = _Whole(asked, *self._whole(since, until, asked[-1], now))
            whole = self._last
        return _of(whole, _wanted(whole.world, server)) if server else whole.told

    def _whole(self, since: float, until: float, slos: Sequence[Slo], now: float) -> tuple[World, Told]:
        world = read(self._history, since, until, slos, Known() if self._fleet is None else known(self._fleet, now))
        found = advise(world)
        capacities, lacks = self._capacities(world, slos)
        compared, why = self._compared(world)
        choices = tuple(choose(of, compared) for of in traits(world))
        whole = replace(found, missing=(*found.missing, *lacks))
        with self._history.reading() as connection:
            unreal = simulated(connection)
        servers = sorted(_wanted(world, ""))
        return world, Told(
            whole, choices, tuple(capacities), why, tuple(servers), tuple(filter(unreal.__contains__, servers))
        )

    def _compared(self, world: World) -> tuple[Comparison | None, str]:
        """What is too much to compare at once is none, and is said."""
        since = max(world.since, world.until - _COMPARED_SECONDS)
        asked = Asked(since // MINUTE * MINUTE, world.until)
        try:
            return compare(observed(self._history.engine, asked), asked, Prices()), ""
        except InvalidParameter as error:
            return None, str(error)

    def _capacities(self, world: World, slos: Iterable[Slo]) -> tuple[list[Capacity], list[Missing]]:
        found: list[Capacity] = []
        missing: list[Missing] = []
        about_requests = [slo for slo in slos if slo.indicator.latency and slo.indicator.latency.phase in _OF_REQUESTS]
        if not about_requests:
            needs = f"a latency objective in the configuration (`slos`) for {', '.join(f'`{p}`' for p in _OF_REQUESTS)}"
            return [], [Missing(CAPACITY, needs, ())]
        for slo in about_requests:
            for told in self._of_slo(world, slo):
                if isinstance(told, Missing):
                    missing.append(told)
                else:
                    found.append(told)
        return found, missing

    def _of_slo(self, world: World, slo: Slo) -> Iterator[Capacity | Missing]:
        tally = self._tally(world, slo)
        for group, measured in _measured(tally):
            labels = dict(zip(slo.groups, group, strict=True))
            needs = lacking(measured)
            if needs:
                yield Missing(CAPACITY, needs, (Target(model=labels.get("model", "")),))
                continue
            limits, curve = limits_of(measured, float(slo.budget))
            length = int(measured.seconds.max())
            now = _rate_now(measured)
            yield Capacity(slo.name, labels, world.since, world.until, length, now, float(slo.budget), curve, limits)

    def _tally(self, world: World, slo: Slo) -> Tally:
        """By the minute, and of a long window by the hour where hours are rolled up."""
        hours = range(world.since // HOUR * HOUR, world.until, HOUR)
        with self._history.reading() as connection:
            fine = set(hours)
            if world.until - world.since > _BY_MINUTES_SECONDS:
                fine &= {*stale(connection, Tier.HOUR, hours.start, world.until), hours[0], hours[-1]}
            told = Reader(Once(connection), slo).count(list(hours), fine, world.until)
        return told.where((told.cells.start >= world.since) & (told.cells.end <= world.until))


def _measured(tally: Tally) -> Iterator[tuple[tuple[str, ...], Measured]]:
    """Of each group, without stretches that nobody observed: by the field that each is counted in."""
    by_name: dict[str, Floats] = dict(zip(FIELDS, tally.counts, strict=True))
    for number, group in enumerate(tally.groups):
        good, bad, unknown = (np.maximum(by_name[name][number], 0.0) for name in ("good", "bad", "minutes_unknown"))
        there = unknown == 0
        whole = Measured(good + bad, bad, tally.cells.length.astype(np.float64))
        yield group, whole.of(there)


def _rate_now(measured: Measured) -> float:
    """Of the last hour that was observed."""
    last = np.cumsum(measured.seconds[::-1])[::-1] <= _NOW_SECONDS
    chosen = last if last.any() else np.arange(len(last)) == len(last) - 1
    return float(measured.requests[chosen].sum() / measured.seconds[chosen].sum())


def _wanted(world: World, server: str) -> set[str]:
    """Names of all servers, or of those that are meant. Raises InvalidParameter."""
    every = {s.target.name: s.name for s in world.servers} | {p.target.name: p.name for p in world.processes}
    if not server:
        return set(every)
    found = {name for name, own in every.items() if server in (name, own)}
    if not found:
        near = closest(server, [*every, *every.values()])
        raise InvalidParameter("server", f"{quoted(server)} is not in the history of this time", sorted(every), near)
    return found


def _of(whole: _Whole, wanted: set[str]) -> Told:
    """What is about these servers, their models or their GPUs."""
    world, told, advice = whole.world, whole.told, whole.told.advice
    models = {s.model for s in world.servers if s.target.name in wanted}
    gpus = {gpu.target for gpu in world.gpus if any(f"{gpu.node}/{name}" in wanted for name in gpu.servers)}

    def is_meant(target: Target) -> bool:
        if target.server:
            return target.name in wanted
        return target in gpus if target.gpu else target.model in models

    missing = ((m, replace(m, targets=tuple(filter(is_meant, m.targets)))) for m in advice.missing)
    return Told(
        replace(
            advice,
            findings=tuple(finding for finding in advice.findings if is_meant(finding.target)),
            missing=tuple(left for before, left in missing if left.targets or not before.targets),
        ),
        tuple(choice for choice in told.choices if choice.traits.model in models),
        tuple(capacity for capacity in told.capacities if capacity.labels.get("model", "") in {"", *models}),
        told.compared,
        tuple(sorted(wanted)),
        tuple(filter(wanted.__contains__, told.simulated)),
    )
