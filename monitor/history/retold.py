"""Events of windows that are read again, as the samples that are there now tell them: a reading that comes late may
show that something changed earlier than those around it had told."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from sqlalchemy import Connection, select

from exporters.schema import Scope
from monitor.history import tables
from monitor.history.minutes import WINDOW_SECONDS, Event, Window, window_of
from monitor.history.rows import scope_of
from monitor.history.tables import Tier, rows_table
from monitor.history.upsert import Ids, Upsert

_Of = tuple[int, int]
"""Id of a series, and start of a window."""


class _Key(NamedTuple):
    series_id: int
    at: float
    kind: str

    @property
    def of(self) -> _Of:
        return self.series_id, window_of(self.at)


class _Row(NamedTuple):
    scope: Scope
    samples: int


def retell(upsert: Upsert, ids: Ids, windows: Iterable[Window], events: Iterable[Event]) -> None:
    """`events` are all of these windows, whose rows are written. Where one with more readings stayed, its events do."""
    told = {_Key(ids.of_series(upsert, event.target), event.at, event.kind): event for event in events}
    rows = {
        (ids.of_series(upsert, of), window.start): _Row(scope, minute.samples)
        for window in windows
        for of, minute in window.rows.items()
        if (scope := scope_of(of)) is not Scope.ENGINE
    }
    known = _known(upsert.connection, rows)
    stayed = {key.of for key in {*told, *known} if key.of in rows and _stayed(upsert.connection, key.of, rows[key.of])}
    for key in sorted(known - told.keys()):
        if key.of not in stayed:
            upsert.no_event(*key)
    for key in sorted(told):
        if key.of not in stayed:
            upsert.event(key.series_id, told[key])


def _known(connection: Connection, windows: Collection[_Of]) -> set[_Key]:
    if not windows:
        return set()
    c, starts = tables.events.c, [start for _, start in windows]
    wanted = select(c.series_id, c.at, c.kind).where(
        c.series_id.in_({series_id for series_id, _ in windows}),
        c.at > min(starts),
        c.at <= max(starts) + WINDOW_SECONDS,
    )
    return {key for row in connection.execute(wanted) if (key := _Key(*row)).of in windows}


def _stayed(connection: Connection, of: _Of, row: _Row) -> bool:
    c = rows_table(row.scope, Tier.MINUTE).c
    found = connection.scalar(select(c.samples).where(c.series_id == of[0], c.start == of[1]))
    return found is not None and found > row.samples
