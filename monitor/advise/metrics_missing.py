from __future__ import annotations

from collections.abc import Iterable, Iterator

from exporters.flags import Flag, Purpose, flags_of
from exporters.tables import FRONTENDS
from monitor.advise.gpus_idle import BUSY
from monitor.advise.model import Asked, Change, Confidence, Finding, Missing
from monitor.advise.rule import HELD, Judged, Rule
from monitor.advise.world import (
    AVAILABLE,
    FINISHED,
    GENERATED,
    GPU_BUSY,
    KV,
    PROMPTED,
    RUNNING,
    UP,
    WAITING,
    Process,
    Server,
    World,
)

NAME = "metrics_missing"
_OF_FLAGS = frozenset({"not_found", "json_body", "stats_disabled", "records_not_read"})
"""Reasons of findings of a sidecar that a flag of the server does away with."""
_OF_WORK = frozenset({"no_records_yet"})
"""Reasons that a flag does away with if the server works; an idle one has them too."""
_WAS_READ = "why its engine metrics can be read no more: `inferwatch check` tells it"
_WANTED = (KV, RUNNING, WAITING, FINISHED, GENERATED, PROMPTED)
"""What alerts and objectives rest on."""


def _judge(world: World) -> Judged:
    for process in world.processes:
        yield from _unreadable(world, process)
    for server in world.servers:
        yield from _hidden(world, server)


def _unreadable(world: World, process: Process) -> Iterator[Finding | Missing]:
    """It answers, and shows no engine metrics at all. What its sidecar says is no flag's fault is for alerts."""
    starts = [s for s in process.of(UP) if (process.at(UP, s) or 0.0) > 0 and process.at(AVAILABLE, s) == 0]
    is_now = bool(starts) and max(process.of(UP)) in starts
    if not is_now or process.length(starts) < HELD.value:
        return
    reasons = _of_flags(world, process)
    if process.remarks is None and process.frontend:
        yield Missing(NAME, _WAS_READ, (process.target,))
    elif process.remarks is None or reasons:
        yield _finding(world, process, starts, " ".join((process.remarks or {})[reason] for reason in reasons))


def _of_flags(world: World, process: Process) -> list[str]:
    """An idle server has no records; one whose GPU works does not keep any."""
    works = any((gpu.mean(GPU_BUSY) or 0.0) >= BUSY.value for gpu in world.gpus_of(process))
    return sorted({*_OF_FLAGS, *(_OF_WORK if works else ())} & (process.remarks or {}).keys())


def _finding(world: World, process: Process, starts: list[int], told: str) -> Finding:
    flags = _flags(process.frontend, process.version)
    return Finding(
        name=NAME,
        target=process.target,
        text=f"{process.target.name} answers, and its engine metrics cannot be read: nothing else is known of it.",
        evidence=(world.evidence(process, "metrics available", AVAILABLE, 0.0, "", starts),),
        confidence=Confidence.HIGH if told else Confidence.LOW,
        why="its sidecar says why" if told else "why is not in the history: inferwatch check tells it",
        seconds=process.length(starts),
        change=Change(flags, "switch on") if flags else None,
        instead=told or ("" if flags else f"By framework: {_of_all()}."),
    )


def _hidden(world: World, server: Server) -> Iterator[Finding]:
    """Some are there, and others need a flag."""
    flags = server.flags(Purpose.STATISTICS)
    lacking = [asked for asked in _WANTED if not server.has(asked) and _is_named(flags, server.worth_of(asked).missing)]
    shown = [asked for asked in _WANTED if server.has(asked)]
    if not lacking or not shown or server.seconds(shown[0]) < HELD.value:
        return
    starts = list(server.of(shown[0]))
    yield Finding(
        name=NAME,
        target=server.target,
        text=f"{server.target.name} does not show {_listed(lacking)}.",
        evidence=(world.evidence(server, f"{shown[0].metric}, which it shows", shown[0],
                                 server.mean(shown[0]) or 0.0, "", starts),),
        confidence=Confidence.HIGH,
        why="its table says which flag shows it",
        seconds=server.seconds(shown[0]),
        change=Change(flags, "switch on"),
        instead=server.worth_of(lacking[0]).missing,
    )  # fmt: skip


def _is_named(flags: Iterable[Flag], note: str) -> bool:
    return any(part in note for flag in flags for part in flag.name.split(", "))


def _listed(asked: Iterable[Asked]) -> str:
    return ", ".join(f"`{each.metric}`" for each in asked)


def _flags(frontend: str, version: str) -> tuple[Flag, ...]:
    table = FRONTENDS.get(frontend)
    return () if table is None else tuple(flags_of(table.flags, Purpose.STATISTICS, version))


def _of_all() -> str:
    known = ((name, _flags(name, "")) for name in FRONTENDS)
    return "; ".join(f"{name}: {Change(flags, 'switch on').text}" for name, flags in known if flags)


RULE = Rule(
    name=NAME,
    title="Metrics flags missing",
    meaning="The server shows no engine metrics, or not those that alerts and objectives rest on, for want of a flag.",
    limits=(HELD,),
    needs=(UP, AVAILABLE),
    judge=_judge,
)
