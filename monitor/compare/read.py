"""Reads the minutes of the servers that are compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine, select

from exporters.observation import labels
from exporters.schema import Scope
from monitor.compare import gpus as of_gpus
from monitor.compare import rows as of_rows
from monitor.compare.asked import Asked
from monitor.compare.gpus import Host
from monitor.compare.observed import Named, Observed, Server
from monitor.compare.rows import MINUTE, Flags, Members, Rows, folded
from monitor.compare.timeline import Timeline
from monitor.history import tables
from monitor.history.aggregate import Lives
from monitor.history.cells import Columns
from monitor.history.database import reading
from monitor.history.minutes import Event, window_of
from monitor.history.native import bounds
from monitor.history.packed import Ints
from monitor.history.placement import types_of
from monitor.history.planning import Span
from monitor.history.question import InvalidParameter
from monitor.history.scan import kept_since, scan
from monitor.history.tables import Tier

MOST_ROWS = 600_000
"""Minutes of engines in memory at once: 40 of them for ten days."""
_CHANGES = ("restart", "version", "model", "wire_model", "gpus")
"""Kinds of events after which a server is another one than before."""
_UNREAL = ("simulated", "replay")
"""Values of the label `source` of servers that are none."""
_Series = Mapping[str, Any]


def observed(engine: Engine, asked: Asked) -> Observed:
    """Raises InvalidParameter where that would be too much, and ReadError."""
    with reading(engine) as connection:
        return _Reader(connection, asked).observed()


def models(engine: Engine) -> list[str]:
    """All that the history ever saw. Raises ReadError."""
    c = tables.series.c
    with reading(engine) as connection:
        return sorted(filter(None, connection.scalars(select(c.model).where(c.scope == Scope.ENGINE.value).distinct())))


@dataclass(frozen=True, slots=True)
class _Changes:
    """Of each host, in order of time."""

    of: Mapping[Host, Sequence[Event]]

    def timeline(self, host: Host, kind: str, now: str) -> Timeline:
        return Timeline.of([event for event in self.of.get(host, ()) if event.kind == kind], now)

    def minutes(self, host: Host) -> Ints:
        """Starts of those in which anything changed."""
        return np.array([window_of(event.at) for event in self.of.get(host, ())], np.int64)


class _Reader:
    def __init__(self, connection: Connection, asked: Asked) -> None:
        self._connection, self._asked = connection, asked
        self._span = Span(Tier.MINUTE, asked.since, asked.until)

    def observed(self) -> Observed:
        there = [row for row in self._series(Scope.ENGINE) if self._was_there(row)]
        engines = [row for row in there if self._asked.model in ("", row["model"])]
        self._refuse_too_many(engines)
        servers, members = _members(engines)
        read = self._scan(Scope.ENGINE, of_rows.COLUMNS, engines)
        found = folded(read, members, bounds(self._connection))
        hosts, changes = [(one.node, one.server) for one in servers], self._changes()
        beside = [row for row in there if self._asked.model not in ("", row["model"])]
        rows, types = self._with_gpus(found.rows, hosts, changes, beside)
        return Observed(
            tuple(servers),
            rows,
            found.partial,
            _changed(rows, hosts, changes),
            _versions(rows, hosts, changes, _latest(engines, "version")),
            _gpu_types(rows, types, hosts, _latest(engines, "gpu")),
            kept_since(self._connection).get(Tier.MINUTE, 0),
        )

    def _was_there(self, engine: _Series) -> bool:
        lived = _lives([engine])
        return bool(lived.first[0] < self._asked.until and lived.last[0] > self._asked.since)

    def _scan(self, scope: Scope, names: Sequence[str], series: Sequence[_Series]) -> Columns:
        return scan(self._connection, scope, [self._span] if series else [], names, _ids(series))

    def _refuse_too_many(self, engines: Sequence[_Series]) -> None:
        minutes = (self._asked.until - self._asked.since) // MINUTE
        if minutes * len(engines) > MOST_ROWS:
            most = MOST_ROWS // len(engines) * MINUTE // 3600
            told = f"{minutes:,} minutes of {len(engines)} engines are more than are compared at once"
            raise InvalidParameter("since", told, [f"at most {most} hours, or one model"])

    def _series(self, scope: Scope) -> list[_Series]:
        """In order of identity, whatever the ids are."""
        c = tables.series.c
        found = self._connection.execute(select(tables.series).where(c.scope == scope.value)).mappings()
        return sorted((dict(row) for row in found), key=lambda row: str(row["identity"]))

    def _changes(self) -> _Changes:
        """Also those after the time that is asked for: they tell what was before."""
        series, c = tables.series.c, tables.events.c
        wanted = select(series.node, series.server, c.at, c.kind, c.before, c.after)
        wanted = wanted.join_from(tables.events, tables.series).where(
            series.scope == Scope.TARGET.value, c.at > self._asked.since, c.kind.in_(_CHANGES)
        )
        found: defaultdict[Host, list[Event]] = defaultdict(list)
        for row in self._connection.execute(wanted.order_by(c.at)):
            of = labels({"node": row.node, "server": row.server})
            found[row.node, row.server].append(Event(of, row.at, row.kind, row.before, row.after))
        return _Changes(found)

    def _with_gpus(
        self, rows: Rows, hosts: Sequence[Host], changes: _Changes, beside: Sequence[_Series]
    ) -> tuple[Rows, list[str]]:
        """`beside` are engines that are not asked for and may be on the same GPUs."""
        now = {(row["node"], row["server"]): row["info"].get("gpus", "") for row in self._series(Scope.TARGET)}
        placed = {host: changes.timeline(host, "gpus", gpus) for host, gpus in now.items()}
        there = [row for row in self._series(Scope.GPU) if row["node"] in {node for node, _ in hosts}]
        read = self._scan(Scope.GPU, of_gpus.COLUMNS, there)
        powers = of_gpus.power(read, [(row["node"], row["uuid"]) for row in there])
        used = of_gpus.uses(rows.server, rows.start, hosts, placed)
        asked = {gpu for host in hosts for gpu in _ever_on(host, placed)}
        sharing = [row for row in beside if asked & set(_ever_on((row["node"], row["server"]), placed))]
        many = of_gpus.users([*used, *self._uses_of(sharing, placed)])
        return of_gpus.of_servers(rows, hosts, placed, many, powers)

    def _uses_of(self, engines: Sequence[_Series], placed: Mapping[Host, Timeline]) -> Iterator[of_gpus.Use]:
        servers, members = _members(engines)
        read = self._scan(Scope.ENGINE, ("covered_seconds",), engines)
        there = np.unique(np.stack([members.server[read["series"]], read["start"]], axis=1), axis=0)
        yield from of_gpus.uses(there[:, 0], there[:, 1], [(one.node, one.server) for one in servers], placed)


def _ever_on(host: Host, placed: Mapping[Host, Timeline]) -> Iterator[of_gpus.Gpu]:
    for value in placed[host].values if host in placed else ():
        yield from ((host[0], uuid) for uuid in types_of(value))


def simulated(connection: Connection) -> set[str]:
    """node/name of all servers of the history that are none."""
    c = tables.series.c
    found = connection.execute(select(c.node, c.server, c.labels).where(c.scope == Scope.ENGINE.value))
    return {f"{row.node}/{row.server}" for row in found if row.labels.get("source") in _UNREAL}


def _members(engines: Sequence[_Series]) -> tuple[list[Server], Members]:
    """The servers whose these are. A series of all engines of a server together may not know the frontend."""
    known = {_named_by(row): row["info"]["frontend"] for row in engines if row["info"].get("frontend")}
    each = [_server(row, known.get(_named_by(row), "")) for row in engines]
    servers = list(dict.fromkeys(each))
    number = np.array([servers.index(one) for one in each], np.int64)
    return servers, Members(number, _lives(engines), np.array([not row["engine"] for row in engines], bool))


def _named_by(engine: _Series) -> tuple[str, ...]:
    return tuple(str(engine[name] or "") for name in ("node", "server", "framework", "model", "role"))


def _server(engine: _Series, frontend: str) -> Server:
    node, server, framework, model, role = _named_by(engine)
    return Server(node, server, framework, model, role, frontend, engine["labels"].get("source") in _UNREAL)


def _ids(series: Iterable[_Series]) -> Ints:
    return np.array([row["id"] for row in series], np.int64)


def _lives(engines: Sequence[_Series]) -> Lives:
    first, last = (
        np.array([end if row[seen] is None else row[seen] for row in engines], np.float64)
        for seen, end in (("first_seen", -np.inf), ("last_seen", np.inf))
    )
    return Lives(first, last)


def _latest(engines: Iterable[_Series], fact: str) -> dict[Host, str]:
    """What each host said last."""
    by_time = sorted(engines, key=lambda row: row["last_seen"] or 0.0)
    return {(row["node"], row["server"]): row["info"][fact] for row in by_time if row["info"].get(fact)}


def _changed(rows: Rows, hosts: Sequence[Host], changes: _Changes) -> Flags:
    found = np.zeros(len(rows), bool)
    for number, host in enumerate(hosts):
        own = rows.server == number
        found[own] = np.isin(rows.start[own], changes.minutes(host))
    return found


def _versions(rows: Rows, hosts: Sequence[Host], changes: _Changes, now: Mapping[Host, str]) -> Named:
    names: list[str] = [""] * len(rows)
    for number, host in enumerate(hosts):
        own = np.flatnonzero(rows.server == number)
        timeline = changes.timeline(host, "version", now.get(host, ""))
        for row, value in zip(own.tolist(), timeline.at(rows.start[own]).tolist(), strict=True):
            names[row] = timeline.values[value]
    return _named(names)


def _gpu_types(rows: Rows, types: Sequence[str], hosts: Sequence[Host], told: Mapping[Host, str]) -> Named:
    """As the GPUs tell; where they do not, as was told last of the server."""
    each = (kind or told.get(hosts[server], "") for kind, server in zip(types, rows.server.tolist(), strict=True))
    return _named(list(each))


def _named(names: Sequence[str]) -> Named:
    different = tuple(sorted(set(names)))
    place = {name: number for number, name in enumerate(different)}
    return Named(different, np.array([place[name] for name in names], np.int64))
