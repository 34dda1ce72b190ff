"""The table of alerts: reads what may be of one firing, and writes what became of it, in one transaction."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    and_,
    bindparam,
    collate,
    delete,
    func,
    insert,
    or_,
    select,
)

from monitor.alert_history.alert import DELIVERED_WITHIN_SECONDS, SEEN_WITHIN_SECONDS, Alert, Delivery, State
from monitor.alert_history.firings import Firing
from monitor.alert_history.ledger import Ledger
from monitor.alert_history.notification import Notification
from monitor.history import tables
from monitor.history.database import for_writing, reading
from monitor.history.postgres import byte_order, is_postgres
from monitor.history.store import WriteError
from monitor.history.trouble import explaining, repeatedly
from monitor.history.upsert import Progress, Upsert

_TABLE = tables.alerts
_C = _TABLE.c


@dataclass(frozen=True, slots=True)
class Wanted:
    """Alerts that fired at some moment of [since, until), the newest `limit` of them; what is None does not matter."""

    limit: int
    now: float
    name: str | None = None
    severity: str | None = None
    server: str | None = None
    state: State | None = None
    delivered: bool | None = None
    since: float = -math.inf
    until: float = math.inf


class AlertStore:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def tell(self, notification: Notification, now: float) -> None:
        """Raises WriteError where nothing was written."""
        alerts = notification.alerts
        since = min((alert.starts_at for alert in alerts), default=now)
        of = _C.name.in_({alert.name for alert in alerts})

        def write(connection: Connection) -> None:
            ledger = _ledger(connection, and_(of, _ended_after(since)))
            for alert in alerts:
                ledger.tell(alert, notification.receiver, now)
            _save(connection, ledger)

        if alerts:
            self._write(write)

    def see(self, firings: Collection[Firing], progress: Progress) -> None:
        """Raises WriteError where nothing was written."""
        since = min((firing.active_since for firing in firings), default=0.0)
        until = max((firing.known_until for firing in firings), default=0.0)

        def write(connection: Connection) -> None:
            if firings:
                ledger = _ledger(connection, and_(_C.starts_at <= until, _ended_after(since)))
                for firing in sorted(firings, key=lambda firing: firing.active_since):
                    ledger.see(firing)
                _save(connection, ledger)
            Upsert(connection).progress(progress)

        self._write(write)

    def firing(self) -> list[Alert]:
        """Those that fired when Prometheus was last read. Raises ReadError."""
        with self._reading() as connection:
            return _rows(connection, and_(_C.ends_at.is_(None), _C.last_seen.is_not(None)))

    def progress(self, source: str) -> Progress | None:
        """Raises ReadError."""
        with self._reading() as connection:
            return Progress.read(connection, source)

    def find(self, wanted: Wanted) -> list[Alert]:
        """The newest first. Raises ReadError."""
        with self._reading() as connection:
            newest = select(_TABLE).where(*_conditions(wanted))
            name = collate(_C.fingerprint, byte_order(connection))
            newest = newest.order_by(_C.starts_at.desc(), name).limit(wanted.limit)
            return [_alert(row) for row in connection.execute(newest)]

    def was_told(self) -> bool:
        """Whether Alertmanager ever told of any alert. Raises ReadError."""
        with self._reading() as connection:
            return connection.scalar(select(func.count()).where(_C.delivered_at.is_not(None)).limit(1)) != 0

    def _write(self, write: Callable[[Connection], None]) -> None:
        def once() -> None:
            with for_writing(self._engine).begin() as connection:
                if is_postgres(connection):
                    # One after the other, so that none makes a row of its own of what another is writing.
                    connection.exec_driver_sql(f"LOCK TABLE {_TABLE.name} IN SHARE ROW EXCLUSIVE MODE")
                write(connection)

        with explaining(self._engine.url, WriteError, "could not write the alert history"):
            repeatedly(once)

    def _reading(self) -> AbstractContextManager[Connection]:
        return reading(self._engine, "alert history")


def _ended_after(moment: float) -> ColumnElement[bool]:
    return or_(_C.ends_at.is_(None), _C.ends_at >= moment)


def _ledger(connection: Connection, condition: ColumnElement[bool]) -> Ledger:
    return Ledger(_rows(connection, condition))


def _rows(connection: Connection, condition: ColumnElement[bool]) -> list[Alert]:
    return [_alert(row) for row in connection.execute(select(_TABLE).where(condition))]


def _save(connection: Connection, ledger: Ledger) -> None:
    changed = ledger.changed()
    if old := sorted({*ledger.gone(), *(alert.key for alert in changed)}):
        of = and_(_C.fingerprint == bindparam("of"), _C.starts_at == bindparam("since"))
        connection.execute(delete(_TABLE).where(of), [{"of": name, "since": since} for name, since in old])
    if changed:
        connection.execute(insert(_TABLE), [_values(alert) for alert in changed])


def _values(alert: Alert) -> dict[str, Any]:
    return {
        "fingerprint": alert.fingerprint,
        "starts_at": alert.starts_at,
        "ends_at": alert.ends_at,
        "name": alert.name,
        "labels": dict(sorted(alert.labels.items())),
        "annotations": dict(sorted(alert.annotations.items())),
        "last_seen": alert.last_seen,
        "delivered_at": alert.delivered_at,
        "resolved_at": alert.resolved_at,
        "receivers": {name: asdict(told) for name, told in sorted(alert.deliveries.items())},
        "generator_url": alert.generator_url,
    }


def _alert(row: Row[Any]) -> Alert:
    receivers: Mapping[str, Mapping[str, Any]] = row.receivers
    return Alert(
        fingerprint=row.fingerprint,
        starts_at=row.starts_at,
        labels=row.labels,
        ends_at=row.ends_at,
        annotations=row.annotations,
        last_seen=row.last_seen,
        deliveries={name: Delivery(**told) for name, told in receivers.items()},
        generator_url=row.generator_url,
    )


def _conditions(wanted: Wanted) -> Iterator[ColumnElement[bool]]:
    of_labels = {"severity": wanted.severity, "server": wanted.server}
    for name, value in of_labels.items():
        if value is not None:
            yield _C.labels[name].as_string() == value
    if wanted.name is not None:
        yield _C.name == wanted.name
    if math.isfinite(wanted.since):
        yield _ended_after(wanted.since)
    if math.isfinite(wanted.until):
        yield _C.starts_at < wanted.until
    if wanted.state is not None:
        yield _states(wanted.now)[wanted.state]
    if wanted.delivered is not None:
        yield _C.delivered_at.is_not(None) if wanted.delivered else _undelivered(wanted.now)


def _states(now: float) -> dict[State, ColumnElement[bool]]:
    """As Alert.state says."""
    is_told = and_(_C.resolved_at.is_not(None), or_(_C.last_seen.is_(None), _C.last_seen < _C.resolved_at))
    is_resolved = or_(_C.ends_at.is_not(None), is_told)
    is_lost = and_(_C.last_seen.is_not(None), _C.last_seen < now - SEEN_WITHIN_SECONDS)
    return {
        State.RESOLVED: is_resolved,
        State.UNKNOWN: and_(~is_resolved, is_lost),
        State.FIRING: and_(~is_resolved, ~is_lost),
    }


def _undelivered(now: float) -> ColumnElement[bool]:
    """As Alert.was_delivered says."""
    fired = func.coalesce(_C.ends_at, now) - _C.starts_at
    return and_(_C.delivered_at.is_(None), fired >= DELIVERED_WITHIN_SECONDS)
