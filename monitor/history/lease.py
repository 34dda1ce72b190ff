"""Who may do what only one process should, for a while at a time: by the database's own clock, so that those of hosts
do not matter."""

from __future__ import annotations

import os
import socket
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Double, Engine, delete, literal_column, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from monitor.history.database import HistoryError, for_writing
from monitor.history.postgres import is_postgres
from monitor.history.tables import leases
from monitor.history.trouble import explaining

LEASE_SECONDS = 30.0
"""After this long without a word the holder counts as gone."""
RENEW_SECONDS = 10.0
SCRAPED = "scraped"
"""The lease of those sources that cannot be asked again: what one process has read of them, no other can know."""

_PROC = Path("/proc")
_SQLITE_NOW = "((julianday('now') - 2440587.5) * 86400.0)"
_POSTGRES_NOW = "extract(epoch FROM clock_timestamp())::float8"
"""Not now(), which is when the transaction began: it may have waited since."""


class LeaseLost(HistoryError):
    """Another process holds the lease: nothing was written."""


class LeaseError(HistoryError):
    """Whose turn it is could not be found out."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process, so that others of its host see when it has died."""

    host: str
    pid: str
    started: str
    """In ticks since the host's start: pids come again."""
    space: str
    """The boot and namespace in which the pid means something; empty where that is not known."""
    token: str

    def __str__(self) -> str:
        return " ".join(part or "-" for part in astuple(self))

    @classmethod
    def parsed(cls, text: str) -> Holder | None:
        parts = [part if part != "-" else "" for part in text.split(" ")]
        return cls(*parts) if len(parts) == len(cls.__slots__) else None

    def is_dead(self) -> bool:
        """Of another host, container or boot that cannot be told."""
        if not self.space or self.space != _pid_space():
            return False
        started = _started(self.pid)
        return started is not None and started != self.started


def this_process() -> Holder:
    pid = str(os.getpid())
    return Holder(socket.gethostname(), pid, _started(pid) or "", _pid_space(), uuid4().hex[:8])


@cache
def _pid_space() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: str) -> str | None:
    """Empty where no such process runs; None where it is another user's that cannot be seen."""
    is_anothers = False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        is_anothers = True
    try:
        after_name = (_PROC / pid / "stat").read_text().rpartition(")")[2].split()
    except (ProcessLookupError, FileNotFoundError):
        return None if is_anothers else ""
    return "" if after_name[0] in "ZX" else after_name[19]


class Lease:
    def __init__(self, engine: Engine, name: str, holder: str | None = None) -> None:
        self._engine = engine
        self._name = name
        self._holder = holder or str(this_process())
        self.other: str | None = None
        """Who holds it instead, in words."""
        self.term = 0
        """Grows whenever it is taken anew: others may have held it in between, however short."""

    def acquire(self) -> bool:
        """Takes the lease, or keeps it. False while another holds it, which `other` names. Raises LeaseError."""
        failed = "could not find out who writes the history"
        with explaining(self._engine.url, LeaseError, failed), for_writing(self._engine).begin() as connection:
            before, holder = self._acquire(connection)
        self.other = None if holder == self._holder else _in_words(holder)
        self.term += self.other is None and before != self._holder
        return self.other is None

    def hold(self, connection: Connection) -> None:
        """Keeps it until the end of the transaction, and some time longer. Raises LeaseLost."""
        mine = update(leases).where(leases.c.name == self._name, leases.c.holder == self._holder)
        if connection.execute(mine.values(until=_now(connection) + LEASE_SECONDS)).rowcount != 1:
            raise LeaseLost("could not write the history: another inferwatch has taken that over")

    def release(self) -> None:
        """Where that fails it runs out by itself. Raises LeaseError."""
        mine = delete(leases).where(leases.c.name == self._name, leases.c.holder == self._holder)
        failed = "could not give up the lease of the history"
        with explaining(self._engine.url, LeaseError, failed), for_writing(self._engine).begin() as connection:
            connection.execute(mine)

    def _acquire(self, connection: Connection) -> tuple[str | None, str]:
        """Returns who held it before, and who does now."""
        now = _now(connection)
        known = select(leases.c.holder).where(leases.c.name == self._name)
        free = [leases.c.holder == self._holder, leases.c.until <= now, leases.c.until > now + 2 * LEASE_SECONDS]
        found: str | None = connection.scalar(known.with_for_update())  # or another could have it before the insert
        process = Holder.parsed(found) if found else None
        if process is not None and process.is_dead():
            free.append(leases.c.holder == found)
        insert = (postgresql if is_postgres(connection) else sqlite).insert(leases)
        insert = insert.values(name=self._name, holder=self._holder, until=now + LEASE_SECONDS)
        changed = {"holder": insert.excluded.holder, "until": insert.excluded.until}
        connection.execute(insert.on_conflict_do_update(index_elements=["name"], set_=changed, where=or_(*free)))
        holder: str = connection.scalars(known).one()
        return found, holder


def _now(connection: Connection) -> ColumnElement[float]:
    return literal_column(_POSTGRES_NOW if is_postgres(connection) else _SQLITE_NOW, Double)


def _in_words(holder: str) -> str:
    known = Holder.parsed(holder)
    return holder if known is None else f"process {known.pid} on {known.host}"
