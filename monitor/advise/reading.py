"""Reads the history of a fleet for advice, and asks the sidecars' latest words where they are at hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import select

from alerts.burn import DAY, HOUR, MINUTE
from alerts.slo.spec import Slo
from exporters.findings import KINDS
from exporters.schema import METRICS, Scope
from monitor.advise.closer import FINER, telling
from monitor.advise.model import Asked
from monitor.advise.standing import OF_MINUTES, STOOD, STOOD_LONG, around, stretches, touched
from monitor.advise.world import (
    OF_ENGINES,
    OF_GPUS,
    OF_SERVERS,
    OF_TARGETS,
    QUEUED_HIGHEST,
    RUNNING_HIGHEST,
    SHORTEST,
    Gpu,
    Points,
    Process,
    Server,
    Steps,
    World,
    of_slos,
)
from monitor.advise.worth import Worth, of_field, of_table
from monitor.compare.windows import counts_live
from monitor.fleet import Fleet
from monitor.history import tables
from monitor.history.ask import History
from monitor.history.placement import types_of
from monitor.history.question import MAX_POINTS_IN_ALL

_SERVER = ("node", "server", "framework", "model", "role")
_ENGINE, _PROCESS, _GPU = (*_SERVER, "engine"), ("node", "server"), ("node", "uuid", "gpu")
_STEPS = ((12 * HOUR, SHORTEST), (30 * DAY, HOUR))
"""Up to how long was observed which step: what lasts shows by the hour, and hours are rolled up."""

_AT_ONCE = 7 * DAY
"""Of minutes."""

Key = tuple[str, ...]
Found = Mapping[Key, Mapping[Asked, Points]]


class _Found(NamedTuple):
    servers: Found
    engines: Found
    targets: Found
    gpus: Found


class Span(NamedTuple):
    """Unix seconds, and the seconds of a step."""

    since: int
    until: int
    step: int


@dataclass(frozen=True, slots=True)
class Known:
    """What servers and sidecars say now; empty where only the history is at hand."""

    worth: Mapping[tuple[str, str], Mapping[str, Worth]] = field(default_factory=dict)
    remarks: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)


def known(fleet: Fleet, now: float) -> Known:
    """Of observations that came lately: a server that is silent says nothing."""
    rows = [row for row in fleet.rows(now) if row.up]
    return Known(
        {(r.node, r.server): {f.field: of_field(f) for f in r.fields} for r in rows if r.fields},
        {
            (r.node, r.server): {f.reason: f"{f.message} {f.remedy}" for f in r.findings if f.reason in KINDS}
            for r in rows
        },
    )


def step_of(since: float, until: float, groups: int = 1) -> int:
    """Longer where so many groups would have more points than may be asked for at once."""
    length = until - since
    fine = (step for most, step in _STEPS if length <= most and length / step * groups <= MAX_POINTS_IN_ALL)
    return next(fine, DAY)


def read(history: History, since: float, until: float, slos: Sequence[Slo] = (), told: Known | None = None) -> World:
    """Raises QuestionError and ReadError."""
    return _Reading(history, since, until, told or Known()).world(slos)


class _Reading:
    def __init__(self, history: History, since: float, until: float, told: Known) -> None:
        self._history, self._told = history, told
        self._rows = self._series()
        self._step = step_of(max(since, self._begun()), until, len(self._rows))
        self._since = int(since // self._step) * self._step
        self._until = int(until // MINUTE) * MINUTE

    def world(self, slos: Sequence[Slo]) -> World:
        """Steps that may hide something are told in shorter ones."""
        questions, step = ((*OF_SERVERS, *of_slos(slos)), OF_ENGINES, OF_TARGETS, OF_GPUS), self._step
        found = self._found(questions, Span(self._since, self._until, step))
        world = self._made(found, slos)
        while step in FINER:
            known = [{asked for told in of.values() for asked in told} for of in found]
            for start in telling(world, step):
                finer = self._found(known, Span(start, min(start + step, self._until), FINER[step]))
                found = _instead(found, finer, start, FINER[step])
            step = FINER[step]
            world = self._made(found, slos)
        return replace(world, servers=[replace(server, still=self._still(server)) for server in world.servers])

    def _found(self, questions: Iterable[Iterable[Asked]], span: Span) -> _Found:
        labels = (_SERVER, _ENGINE, _PROCESS, _GPU)
        return _Found(*(self._asked(asked, by, span) for asked, by in zip(questions, labels, strict=True)))

    def _made(self, found: _Found, slos: Sequence[Slo]) -> World:
        servers = self._servers(found)
        processes = self._processes(found.targets, servers)
        gpus = self._gpus(found.gpus, processes)
        return World(self._since, self._until, self._step, servers, gpus, processes, tuple(slos))

    def _series(self) -> list[dict[str, Any]]:
        """In order of when they were seen last, so that the newest word counts."""
        with self._history.reading() as connection:
            rows = [dict(row) for row in connection.execute(select(tables.series)).mappings()]
        return sorted(rows, key=lambda row: (row["last_seen"] or 0.0, row["identity"]))

    def _begun(self) -> float:
        """Before that there is nothing that longer steps would make less of."""
        return min((row["first_seen"] for row in self._rows if row["first_seen"] is not None), default=0.0)

    def _asked(
        self,
        questions: Iterable[Asked],
        labels: tuple[str, ...],
        span: Span,
        where: Mapping[str, str] | None = None,
    ) -> Found:
        since, until, step = span
        found: dict[Key, dict[Asked, Points]] = {}
        for asked in questions:
            answers = self._history.ask(
                asked.metric, asked.q, since, until, step, labels, where,
                aggregation=None if asked.q is not None else asked.aggregation,
            )  # fmt: skip
            for answer in answers:
                points = {point.start: point for point in answer.points}
                if points:
                    found.setdefault(tuple(answer.labels.values()), {})[asked] = points
        return found

    def _servers(self, found: _Found) -> list[Server]:
        rows = [row for row in self._rows if row["scope"] == Scope.ENGINE.value]
        own = {tuple(row[name] or "" for name in _SERVER): row for row in rows}
        engines: dict[Key, dict[str, Steps]] = {}
        for of, points in found.engines.items():
            if of[-1]:
                engines.setdefault(of[:-1], {})[of[-1]] = Steps(points)
        return [
            self._server(key, told, own.get(key, {}), engines.get(key, {}))
            for key, told in sorted(found.servers.items())
        ]

    def _server(
        self, key: Key, told: Mapping[Asked, Points], own: Mapping[str, Any], engines: Mapping[str, Steps]
    ) -> Server:
        node, name, framework, model, role = key
        facts = dict(own.get("info") or {})
        worth = of_table(facts.get("frontend", ""), facts.get("version", ""))
        return Server(
            {**told, **_added_up(engines)},
            node=node,
            name=name,
            framework=framework,
            model=model,
            role=role,
            facts=facts,
            labels=dict(own.get("labels") or {}),
            worth={**worth, **_exact_where_silent(self._told.worth.get((node, name)))},
            engines=engines,
        )

    def _still(self, server: Server) -> frozenset[int]:
        """Minutes are read around queues alone: a long window has many."""
        live = counts_live(server.facts.get("frontend", ""), server.version)
        least = (STOOD if live else STOOD_LONG).value
        found = (
            run
            for near in around(server, DAY)
            for begin in range(near[0], near[-1] + MINUTE, _AT_ONCE)
            for run in stretches(self._minutes(server, begin, near[-1] + MINUTE), least)
        )
        return touched(found, server.lengths)

    def _minutes(self, server: Server, begin: int, end: int) -> Steps:
        span = Span(max(begin, self._since), min(end, self._until, begin + _AT_ONCE), MINUTE)
        if span.since >= span.until:
            return Steps({})
        key = (server.node, server.name, server.framework, server.model, server.role)
        return Steps(self._asked(OF_MINUTES, _SERVER, span, server.where).get(key, {}))

    def _processes(self, targets: Found, servers: Sequence[Server]) -> list[Process]:
        rows = [row for row in self._rows if row["scope"] == Scope.ENGINE.value]
        info = {(row["node"], row["server"]): row["info"] for row in rows}
        framework = {(server.node, server.name): server.framework for server in servers}
        return [
            Process(
                told,
                node=node,
                name=name,
                frontend=info.get((node, name), {}).get("frontend", ""),
                framework=framework.get((node, name), ""),
                version=info.get((node, name), {}).get("version", ""),
                remarks=self._told.remarks.get((node, name)),
            )
            for (node, name), told in sorted(targets.items())
        ]

    def _gpus(self, found: Found, processes: Sequence[Process]) -> list[Gpu]:
        info = {(row["node"], row["uuid"]): row["info"] for row in self._rows if row["scope"] == Scope.GPU.value}
        placed = _placed(self._rows)
        alone = {node: [p.name for p in processes if p.node == node] for node in {p.node for p in processes}}
        return [
            Gpu(
                told,
                node=node,
                uuid=uuid,
                number=number,
                type=info.get((node, uuid), {}).get("name", ""),
                servers=placed.get((node, uuid)) or _only(alone.get(node, ())),
            )
            for (node, uuid, number), told in sorted(found.items())
        ]


def _instead(coarse: _Found, finer: _Found, start: int, step: int) -> _Found:
    """With steps of `step` in place of the one at `start`; where they are kept no more, it stays."""
    return _Found(*(_closer(*both, start, step) for both in zip(coarse, finer, strict=True)))


def _closer(coarse: Found, finer: Found, start: int, step: int) -> Found:
    found = dict(coarse)
    for key, told in finer.items():
        known = found.get(key, {})
        is_finer = all(point.seconds == step for points in told.values() for point in points.values())
        if is_finer and all(asked in told for asked, points in known.items() if start in points):
            kept = {asked: {at: p for at, p in points.items() if at != start} for asked, points in known.items()}
            found[key] = {asked: {**kept.get(asked, {}), **told.get(asked, {})} for asked in {**kept, **told}}
    return found


def _added_up(engines: Mapping[str, Steps]) -> dict[Asked, Points]:
    """Of several engines as many at once as at each at most; the history has the most of a single one."""
    if len(engines) < 2:
        return {}
    return {
        asked: _sums([steps.of(asked) for steps in engines.values()]) for asked in (RUNNING_HIGHEST, QUEUED_HIGHEST)
    }


def _sums(of: Sequence[Points]) -> Points:
    starts = {start for points in of for start in points}
    known = {start: [points[start] for points in of if start in points] for start in starts}
    return {s: replace(points[0], value=math.fsum(p.value for p in points)) for s, points in sorted(known.items())}


def _placed(series: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Names of the servers on each GPU, by node and uuid."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for row in series:
        if row["scope"] == Scope.TARGET.value:
            for uuid in types_of(row["info"].get("gpus", "")):
                found[row["node"], uuid] = (*found.get((row["node"], uuid), ()), row["server"])
    return found


def _exact_where_silent(told: Mapping[str, Worth] | None) -> Mapping[str, Worth]:
    """Of a sidecar's word: it tells of the fields that are not exact, and of those alone."""
    return {} if told is None else {name: told.get(name, Worth()) for name in METRICS}


def _only(servers: Sequence[str]) -> tuple[str, ...]:
    """A GPU is the server's that is alone on its node; of several nobody knows."""
    return tuple(servers) if len(servers) == 1 else ()
