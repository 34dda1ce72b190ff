"""How long rows of each tier are kept, and deleting those that are older: whole UTC days, in short transactions.

Minutes of an hour that still has to be rolled up stay, and so do those of the hour in which a source stands and of the
next, and before that in which it begins: the rest of them may be on its way. Hours of such days stay likewise. On
PostgreSQL, where minutes of a day are dropped at once, all of such a day stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
)

from monitor.history import tables
from monitor.history.database import HistoryError, for_writing, reading
from monitor.history.partitions import drop_before
from monitor.history.postgres import is_postgres
from monitor.history.rollup import stale
from monitor.history.size import oldest, rows, tables_of
from monitor.history.tables import Tier
from monitor.history.trouble import explaining
from monitor.history.upsert import Progress, Upsert

OF_ALERTS = "alerts of "
"""So begins the source whose progress tells how far the alerts of a Prometheus were read: it has no rows."""
_HORIZON = "retention:"
_WINDOWS = {Tier.MINUTE: Tier.HOUR, Tier.HOUR: Tier.DAY, Tier.DAY: Tier.DAY}
"""What is deleted in one transaction, or kept as a whole."""
_ALERTS_AT_ONCE = 1000


class RetentionError(HistoryError):
    """Some of what is old is still there."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Seconds by tier, and of alerts since their end; infinite is for ever. Events and budgets are kept as long
    as days."""

    minutes: float
    hours: float = math.inf
    days: float = math.inf
    alerts: float = math.inf

    def of(self, tier: Tier) -> float:
        return {Tier.MINUTE: self.minutes, Tier.HOUR: self.hours, Tier.DAY: self.days}[tier]

    def cut(self, tier: Tier, now: float) -> int | None:
        """Midnight (UTC) before which rows of the tier go; None where they stay for ever."""
        return _midnight_before(now, self.of(tier))

    def cut_of_alerts(self, now: float) -> int | None:
        return _midnight_before(now, self.alerts)


def _midnight_before(now: float, kept: float) -> int | None:
    return None if math.isinf(kept) else int((now - kept) // Tier.DAY.seconds) * Tier.DAY.seconds


@dataclass(frozen=True, slots=True)
class Kept:
    """Of a tier, or of alerts: what is there, and how much of it is older than `cut`."""

    name: str
    seconds: float
    cut: int | None
    rows: int
    oldest: int | None
    old_rows: int


def survey(engine: Engine, retention: Retention, now: float) -> list[Kept]:
    """Raises ReadError."""
    with reading(engine) as connection:
        tiers = [_surveyed(connection, retention, tier, now) for tier in Tier]
        return [*tiers, _alerts(connection, retention, now)]


def _surveyed(connection: Connection, retention: Retention, tier: Tier, now: float) -> Kept:
    cut = retention.cut(tier, now)
    old = 0 if cut is None else sum(_old_rows(connection, table, tier, cut) for table in tables_of(tier))
    return Kept(f"{tier.value}s", retention.of(tier), cut, rows(connection, tier), oldest(connection, tier), old)


def _alerts(connection: Connection, retention: Retention, now: float) -> Kept:
    cut = retention.cut_of_alerts(now)
    old = 0 if cut is None else connection.scalar(select(func.count()).where(_ended_before(cut))) or 0
    c = tables.alerts.c
    number, first = connection.execute(select(func.count(), func.min(c.starts_at)).select_from(tables.alerts)).one()
    return Kept("alerts", retention.alerts, cut, number, None if first is None else int(first), old)


def _old_rows(connection: Connection, table: Table, tier: Tier, cut: int) -> int:
    window, starts = _WINDOWS[tier], kept_windows(connection, tier, 0, cut)
    if tier is Tier.MINUTE and is_postgres(connection):
        window, starts = Tier.DAY, _days(starts)
    of_window = table.c.start - table.c.start % window.seconds
    wanted = select(func.count()).select_from(table).where(table.c.start < cut, of_window.not_in(sorted(starts)))
    return connection.scalar(wanted) or 0


def horizon(tier: Tier) -> str:
    """Source whose progress tells before which moment rows of the tier may be gone."""
    return f"{_HORIZON}{tier.value}"


def forget(engine: Engine, retention: Retention, now: float, pause: Callable[[], bool] = lambda: False) -> None:
    """Deletes what is older than that. `pause` is called after each transaction, and says whether to stop.

    Raises RetentionError.
    """
    with explaining(engine.url, RetentionError, "could not delete what is old from the history"):
        for tier in Tier:
            cut = retention.cut(tier, now)
            if cut is not None and _forget(engine, tier, cut, pause):
                return
        if (cut := retention.cut_of_alerts(now)) is not None and _forget_alerts(engine, cut, pause):
            return
        if (cut := retention.cut(Tier.DAY, now)) is not None:
            _forget_the_rest(engine, cut)


def _forget(engine: Engine, tier: Tier, cut: int, pause: Callable[[], bool]) -> bool:
    """Whether to stop. Questions are told of the cut before the first row goes."""
    with for_writing(engine).begin() as connection:
        Upsert(connection).progress(Progress(horizon(tier), cut, cut))
    if tier is Tier.MINUTE and is_postgres(engine):
        return _drop_days(engine, cut, pause)
    for start in _old_windows(engine, tier, cut):
        with for_writing(engine).begin() as connection:
            if start not in kept_windows(connection, tier, start, start + 1):
                for table in tables_of(tier):
                    connection.execute(delete(table).where(*_within(table, start, start + _WINDOWS[tier].seconds)))
        if pause():
            return True
    return False


def _drop_days(engine: Engine, cut: int, pause: Callable[[], bool]) -> bool:
    with engine.connect() as connection:
        with connection.begin():
            hours = kept_windows(connection, Tier.MINUTE, 0, cut)
        for table in tables_of(Tier.MINUTE):
            drop_before(connection, table, cut, _days(hours))
    return pause()


def _days(hours: Iterable[int]) -> set[int]:
    return {hour // Tier.DAY.seconds * Tier.DAY.seconds for hour in hours}


def _old_windows(engine: Engine, tier: Tier, cut: int) -> Iterator[int]:
    """Starts of those that have rows."""
    length = _WINDOWS[tier].seconds
    since = 0
    while True:
        with engine.connect() as connection:
            first = oldest(connection, tier, since)
        if first is None or first >= cut:
            return
        since = first // length * length + length
        yield since - length


def kept_windows(connection: Connection, tier: Tier, since: int, until: int) -> set[int]:
    """Starts in [since, until) of windows whose rows stay however old they are."""
    if tier is Tier.DAY:
        return set()
    window = _WINDOWS[tier]
    kept = stale(connection, window, since, until) | set(_being_read(connection, tier))
    return {start for start in kept if since <= start < until}


def _being_read(connection: Connection, tier: Tier) -> Iterator[int]:
    """An hour is read at once, of some targets first: from where a source stands, or before where it begins."""
    c, length = tables.progress.c, _WINDOWS[tier].seconds
    sources = c.source.not_like(f"{_HORIZON}%"), c.source.not_like(f"{OF_ALERTS}%")
    for since, until in connection.execute(select(c.since, c.until).where(*sources)):
        begun = until // length * length
        yield begun
        if until % length:
            yield begun + length
        before = (since - 1) // length * length
        first = oldest(connection, tier, before)
        if first is not None and first < before + length:
            yield before


def _within(table: Table, since: int, until: int) -> tuple[ColumnElement[bool], ...]:
    """Series are named, since the key that finds the rows begins with them."""
    return table.c.series_id.in_(select(tables.series.c.id)), table.c.start >= since, table.c.start < until


def _forget_alerts(engine: Engine, cut: int, pause: Callable[[], bool]) -> bool:
    """Whether to stop."""
    c = tables.alerts.c
    key = c.fingerprint == bindparam("of"), c.starts_at == bindparam("since")
    wanted = select(c.fingerprint.label("of"), c.starts_at.label("since")).where(_ended_before(cut))
    while True:
        with for_writing(engine).begin() as connection:
            old = connection.execute(wanted.limit(_ALERTS_AT_ONCE)).mappings().all()
            if old:
                connection.execute(delete(tables.alerts).where(*key, _ended_before(cut)), [dict(each) for each in old])
        if len(old) < _ALERTS_AT_ONCE:
            return False
        if pause():
            return True


def _ended_before(cut: int) -> ColumnElement[bool]:
    """That, or never heard of again since; not what fires, for however long."""
    c = tables.alerts.c
    heard = or_(c.last_seen.is_(None), c.last_seen < cut), or_(c.resolved_at.is_(None), c.resolved_at < cut)
    is_told = or_(c.last_seen.is_not(None), c.resolved_at.is_not(None))
    return or_(c.ends_at < cut, and_(c.ends_at.is_(None), is_told, *heard))


def _forget_the_rest(engine: Engine, cut: int) -> None:
    """Events, budgets, runs of load tests, and series of which nothing is left."""
    with for_writing(engine).begin() as connection:
        for table in (tables.budgets, tables.budgets_due):
            connection.execute(delete(table).where(table.c.start < cut))
        connection.execute(delete(tables.events).where(tables.events.c.at < cut))
        connection.execute(delete(tables.checkpoints).where(tables.checkpoints.c.at < cut))
        connection.execute(delete(tables.comparison_runs).where(tables.comparison_runs.c.imported_at < cut))
        connection.execute(delete(tables.series).where(*_is_gone(cut)))


def _is_gone(cut: int) -> tuple[Any, ...]:
    c = tables.series.c
    all_rows = [table for tier in Tier for table in tables_of(tier)]
    has_rows = (exists().where(table.c.series_id == c.id) for table in all_rows)
    # SQLite would give the highest id out again, and writers remember whose it was.
    highest = select(func.max(c.id)).scalar_subquery()
    return func.coalesce(c.last_seen, 0) < cut, c.id < highest, *(~each for each in has_rows)
