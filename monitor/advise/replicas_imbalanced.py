from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from alerts.conditions.condition import Limit
from alerts.conditions.servers import APART, BUSY, OF_ONE_REPLICA
from monitor.advise.model import Confidence, Evidence, Finding, Missing, Target
from monitor.advise.rule import HELD, Judged, Rule, Signs, lacks
from monitor.advise.world import FINISHED, QUEUED_HIGHEST, RUNNING, RUNNING_HIGHEST, WAITING, Server, Steps, World

NAME = "replicas_imbalanced"
SENT = Limit(
    "requests that the busiest finished, times the idlest's, at least", 1.5, "",
    "a replica that is merely slow has a queue, and finishes no more than the others",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Replica:
    server: Server
    engine: str
    steps: Steps

    @property
    def name(self) -> str:
        return f"{self.server.target.name} engine {self.engine}" if self.engine else self.server.target.name

    def load(self, start: int) -> float | None:
        """Requests running and waiting; of one that sticks and finishes nothing none. Who stood still is no measure."""
        running, waiting = self.steps.at(RUNNING, start), self.steps.at(WAITING, start)
        if running is None or start in self.server.still:
            return None
        idle = self.server.worth_of(RUNNING).sticks and start not in self.server.busy
        return 0.0 if idle else running + (waiting or 0.0)

    def peak(self, start: int) -> float:
        """At most."""
        return sum(self.steps.at(asked, start) or 0.0 for asked in (RUNNING_HIGHEST, QUEUED_HIGHEST))

    def mean(self, starts: Iterable[int]) -> float:
        """Of its load over those of these steps in which it is known; 0 without any."""
        loads = [(load, self.server.lengths[s]) for s in starts if (load := self.load(s)) is not None]
        return sum(load * length for load, length in loads) / (sum(length for _, length in loads) or 1.0)


def _judge(world: World) -> Judged:
    for group in _groups(world.servers):
        for server in group:
            if told := lacks(server, (RUNNING,)):
                yield Missing(NAME, told, (server.target,))
        yield from _of(world, [replica for server in group for replica in _replicas(server)])


def _signs(world: World, step: int, _: int) -> Signs:
    """By how much the busiest was above the idlest at its highest moment."""
    for group in _groups(world.servers):
        replicas = [replica for server in group for replica in _replicas(server)]
        starts = {start for replica in replicas for start in replica.steps.steps_of(step)}
        yield {start: _spread(replicas, start) for start in starts}


def _spread(replicas: Iterable[_Replica], start: int) -> float:
    most = max(replica.peak(start) for replica in replicas)
    loads = _loads(replicas, start)
    least = min(loads, default=most)
    return most / max(least, 1.0) if len(loads) > 1 and most > BUSY.value and most > APART.value * least else 0.0


def _groups(servers: Iterable[Server]) -> Iterator[list[Server]]:
    """Those that serve the same to the same people."""
    found: dict[tuple[object, ...], list[Server]] = {}
    for server in servers:
        apart = tuple(sorted((n, v) for n, v in server.labels.items() if n not in OF_ONE_REPLICA))
        found.setdefault((server.model, server.framework, server.role, apart), []).append(server)
    return (group for group in found.values() if sum(len(_replicas(server)) for server in group) > 1)


def _replicas(server: Server) -> list[_Replica]:
    if len(server.engines) > 1:
        return [_Replica(server, engine, steps) for engine, steps in server.engines.items()]
    return [_Replica(server, "", server)]


def _of(world: World, replicas: list[_Replica]) -> Iterator[Finding]:
    starts = [start for start in sorted(_starts(replicas)) if _apart(_loads(replicas, start))]
    seen = [replica for replica in replicas if _loads([replica], *starts)]
    if not seen or max(replica.server.length(starts) for replica in seen) < HELD.value:
        return
    idlest, *_, busiest = sorted(seen, key=lambda replica: replica.mean(starts))
    many, few = (each.steps.total(FINISHED, starts) for each in (busiest, idlest))
    if many is not None and few is not None and many < SENT.value * few:
        return
    yield _finding(world, busiest, idlest, starts, counted=many is not None and few is not None)


def _starts(replicas: Iterable[_Replica]) -> set[int]:
    return {start for replica in replicas for start in replica.steps.of(RUNNING)}


def _loads(replicas: Iterable[_Replica], *starts: int) -> list[float]:
    return [load for replica in replicas for start in starts if (load := replica.load(start)) is not None]


def _apart(loads: list[float]) -> bool:
    return len(loads) > 1 and max(loads) > BUSY.value and max(loads) > APART.value * min(loads)


def _finding(world: World, busiest: _Replica, idlest: _Replica, starts: list[int], *, counted: bool) -> Finding:
    server = busiest.server
    inside = busiest.server is idlest.server
    target = server.target if inside else Target(framework=server.framework, model=server.model)
    return Finding(
        name=NAME,
        target=target,
        text=f"Of the replicas of {server.model} ({server.framework}) {busiest.name} has most of the requests, while "
        f"{idlest.name} has few.",
        evidence=tuple(_evidence(world, (busiest, idlest), starts)),
        confidence=Confidence.HIGH if counted else Confidence.MEDIUM,
        why="requests are counted at both" if counted else "what each finished is not counted: one may only be slow",
        seconds=server.length(starts),
        instead="No flag of the servers: the one that spreads requests over its engines."
        if inside
        else "No flag of the servers: what sends them requests. Spread by requests in flight rather than in turn, and "
        "look for sessions that stick to one replica.",
    )


def _evidence(world: World, replicas: Iterable[_Replica], starts: list[int]) -> Iterator[Evidence]:
    for replica in replicas:
        what = f"requests running and waiting at {replica.name}, mean"
        yield _at(replica, world.evidence(replica.server, what, RUNNING, replica.mean(starts), "requests", starts))
    for replica in replicas:
        finished = replica.steps.total(FINISHED, starts)
        if finished is not None:
            what = f"requests finished at {replica.name}"
            yield _at(replica, world.evidence(replica.server, what, FINISHED, finished, "requests", starts))


def _at(replica: _Replica, evidence: Evidence) -> Evidence:
    where: Mapping[str, str] = {**evidence.where, **({"engine": replica.engine} if replica.engine else {})}
    return replace(evidence, where=where)


RULE = Rule(
    name=NAME,
    title="Replicas with unequal load",
    meaning="Of replicas of one model some are sent most of the requests, while others have few.",
    limits=(APART, BUSY, SENT, HELD),
    needs=(RUNNING,),
    judge=_judge,
    signs=_signs,
)
