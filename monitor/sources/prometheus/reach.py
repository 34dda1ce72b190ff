"""Whether a server can be asked at all: in the log once when it cannot, and once when it can again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

from monitor.sources import SourceError
from monitor.sources.prometheus.answers import Busy

_log = logging.getLogger(__name__)


class Reach:
    """`clock` tells seconds since any moment."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._name = name
        self._clock = clock
        self._lost_at: float | None = None
        self._told: set[str] = set()

    @property
    def is_lost(self) -> bool:
        return self._lost_at is not None

    def lose(self, error: SourceError) -> None:
        """What is wrong may change meanwhile; that it starts up is no news."""
        if self._lost_at is None or not (isinstance(error, Busy) or str(error) in self._told):
            _log.error("%s", error)
            self._told.add(str(error))
        if self._lost_at is None:
            self._lost_at = self._clock()

    def regain(self) -> None:
        if self._lost_at is not None:
            away = timedelta(seconds=round(self._clock() - self._lost_at))
            _log.info("Prometheus at %s answers again: it did not for %s", self._name, away)
            self._lost_at = None
            self._told.clear()
