"""What has to be done to a history besides writing it: rolling up, deleting what is old, counting what days spent of
budgets, seeing how large it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from threading import Event

from sqlalchemy import Engine

from monitor.history.database import reading
from monitor.history.lease import RENEW_SECONDS, Lease
from monitor.history.postgres import is_postgres
from monitor.history.retention import Retention, forget
from monitor.history.rollup import roll_up
from monitor.history.size import size_bytes

TURN_SECONDS = 60.0
UPKEEP = "upkeep"
"""The lease of whoever does it."""
BREATH_SECONDS = 0.15
"""Left to SQLite's other writers between two transactions: they look at most 0.1 s apart whether it is their turn."""
_FORGET_EVERY_SECONDS = 3600.0

Pause = Callable[[], bool]
"""Called between two pieces of work; says whether to stop."""


class Upkeep:
    """Of one history; where several processes keep the same, one of them does it for all."""

    def __init__(self, engine: Engine, retention: Retention, count: Callable[[Pause], None] | None = None) -> None:
        """`count` keeps the budgets of days that are rolled up."""
        self.size_bytes: int | None = None
        """When it was last looked at; None before that."""
        self._engine = engine
        self._retention = retention
        self._count = count
        self._lease = Lease(engine, UPKEEP)
        self._renewed = -math.inf
        self._forgotten_at = -math.inf
        self._stopping = Event()
        self._is_over = False

    def turn(self, now: float) -> None:
        """Meant for a thread of its own, every minute. Raises HistoryError."""
        self.size_bytes = self._size()
        self._is_over = self._stopping.is_set() or not self._is_mine()
        if not self._is_over:
            roll_up(self._engine, now, self._pause)
        if not self._is_over and now - self._forgotten_at >= _FORGET_EVERY_SECONDS:
            self._read_anew()
            forget(self._engine, self._retention, now, self._pause)
            self._forgotten_at = now
        if not self._is_over and self._count is not None:
            self._count(self._pause)

    def stop(self) -> None:
        """A turn that is under way ends soon. Raises LeaseError."""
        self._stopping.set()
        self._lease.release()

    def _size(self) -> int:
        with reading(self._engine) as connection:
            return size_bytes(connection)

    def _is_mine(self) -> bool:
        self._renewed = time.monotonic()
        return self._lease.acquire()

    def _pause(self) -> bool:
        """Whether to stop."""
        if not is_postgres(self._engine):
            self._stopping.wait(BREATH_SECONDS)
        late = time.monotonic() - self._renewed >= RENEW_SECONDS
        self._is_over = self._stopping.is_set() or (late and not self._is_mine())
        return self._is_over

    def _read_anew(self) -> None:
        """So that damage which SQLite's cache hides shows."""
        if not is_postgres(self._engine):
            self._engine.dispose()
