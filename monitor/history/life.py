"""The life of servers and GPUs: when they were seen first and last, and what changed in between."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, collate, func, select

from exporters.observation import Labels, labels
from exporters.schema import IDENTITY, Scope
from monitor.history import tables
from monitor.history.minutes import FLAGS, Event
from monitor.history.postgres import byte_order

EVENT_KINDS = ("restart", "version", "model", "wire_model", "state", "gpus", "driver", *FLAGS)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Events in (since, until], the newest `limit` of them; what is empty does not matter."""

    limit: int
    node: str = ""
    server: str = ""
    uuid: str = ""
    kinds: tuple[str, ...] = ()
    since: float = -math.inf
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class Seen:
    """In unix seconds; None of what never answered."""

    first: float | None = None
    last: float | None = None


def events(connection: Connection, wanted: Wanted) -> list[Event]:
    """The newest first."""
    series, event = tables.series.c, tables.events.c
    found = select(tables.series, event.at, event.kind, event.before, event.after)
    found = found.join_from(tables.events, tables.series).where(*_conditions(wanted))
    order = (collate(text, byte_order(connection)) for text in (series.identity, event.kind))
    rows = connection.execute(found.order_by(event.at.desc(), *order).limit(wanted.limit)).all()
    return [Event(_identity(r), r.at, r.kind, r.before, r.after) for r in rows]


def _identity(series: Row[Any]) -> Labels:
    own = {name: series._mapping[name] for name in IDENTITY[Scope(series.scope)]}
    return labels({**series.labels, **own})


def _conditions(wanted: Wanted) -> Iterator[ColumnElement[bool]]:
    series, event = tables.series.c, tables.events.c
    for column, value in ((series.node, wanted.node), (series.server, wanted.server), (series.uuid, wanted.uuid)):
        if value:
            yield column == value
    if wanted.kinds:
        yield event.kind.in_(wanted.kinds)
    if math.isfinite(wanted.since):
        yield event.at > wanted.since
    if math.isfinite(wanted.until):
        yield event.at <= wanted.until


def seen_server(connection: Connection, node: str, server: str) -> Seen:
    c = tables.series.c
    row = connection.execute(_seen(Scope.TARGET).where(c.node == node, c.server == server)).one()
    return Seen(row.first, row.last)


def seen_gpus(connection: Connection) -> dict[tuple[str, str], Seen]:
    """By node and uuid, under whichever numbers they were."""
    c = tables.series.c
    rows = connection.execute(_seen(Scope.GPU).add_columns(c.node, c.uuid).group_by(c.node, c.uuid)).all()
    return {(r.node, r.uuid): Seen(r.first, r.last) for r in rows}


def _seen(scope: Scope) -> Select[tuple[float | None, float | None]]:
    c = tables.series.c
    return select(func.min(c.first_seen).label("first"), func.max(c.last_seen).label("last")).where(
        c.scope == scope.value
    )
