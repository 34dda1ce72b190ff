from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from alerts.conditions.condition import Limit
from alerts.conditions.servers import APART, BUSY, OF_ONE_REPLICA
from monitor.advise.model import Confidence, Evidence, Finding, Missing, Target
from monitor.advise.rule import HELD, Judged, Rule, lacks
from monitor.advise.world import FINISHED, RUNNING, WAITING, Server, Steps, World

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


def _judge(world: World) -> Judged:
    for group in _groups(world.servers):
        for server in group:
            if told := lacks(server, (RUNNING,)):
                yield Missing(NAME, told, (server.target,))
        yield from _of(world, [replica for server in group for replica in _replicas(server)])


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
    if not starts or replicas[0].server.length(starts) < HELD.value:
        return
    mean = [sum(replica.load(start) or 0.0 for start in starts) / len(starts) for replica in replicas]
    busiest, idlest = replicas[mean.index(max(mean))], replicas[mean.index(min(mean))]
    many, few = (each.steps.total(FINISHED, starts) for each in (busiest, idlest))
    if many is not None and few is not None and many < SENT.value * few:
        return
    yield _finding(world, busiest, idlest, starts, counted=many is not None and few is not None)


def _starts(replicas: Iterable[_Replica]) -> set[int]:
    return {start for replica in replicas for start in replica.steps.of(RUNNING)}


def _loads(replicas: Iterable[_Replica], start: int) -> list[float]:
    return [load for replica in replicas if (load := replica.load(start)) is not None]


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
        mean = sum(replica.load(start) or 0.0 for start in starts) / len(starts)
        what = f"requests running and waiting at {replica.name}, mean"
        yield _at(replica, world.evidence(replica.server, what, RUNNING, mean, "requests", starts))
    for replica in replicas:
        finished = replica.steps.total(FINISHED, starts)
        if finished is not None:
            what = f"requests finished at {replica.name}"
            yield _at(replica, world.evidence(replica.server, what, FINISHED, finished, "requests", starts))


def _at(replica: _Replica, evidence: Evidence) -> Evidence:
    where: Mapping[str, str] = {**evidence.where, **({"engine": replica.engine} if replica.engine else {})}
    return Evidence(
        evidence.what,
        evidence.value,
        evidence.unit,
        evidence.asked,
        evidence.since,
        evidence.until,
        evidence.step,
        where,
    )


RULE = Rule(
    name=NAME,
    title="Replicas with unequal load",
    meaning="Of replicas of one model some are sent most of the requests, while others have few.",
    limits=(APART, BUSY, SENT, HELD),
    needs=(RUNNING,),
    judge=_judge,
)
