"""Keeps the minutes of all targets and writes them as they close."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock

from exporters.observation import Observation
from monitor.history import checkpoint
from monitor.history.minutes import WINDOW_SECONDS, Event, State, Window, advance
from monitor.history.store import Batch, Store

log = logging.getLogger(__name__)

MAX_PENDING = 240
"""Closed minutes of a target that wait while the database cannot be written; then the oldest are given up."""


@dataclass(slots=True)
class _Pending:
    state: State
    windows: deque[Window] = field(default_factory=lambda: deque(maxlen=MAX_PENDING))
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=MAX_PENDING))
    open_is_written: bool = False


class Recording:
    """Safe to call from several threads. `interval` is the time between two observations of a target in seconds.

    Minutes that are stored already and lie after `now` do not count as the newest.
    """

    def __init__(self, store: Store, interval: float, now: float = math.inf) -> None:
        self._store = store
        self._max_step = 2 * interval
        self._targets: dict[tuple[str, str], _Pending] = {}
        self._lock = Lock()
        self._newest = store.newest(until=now)
        _warn_of_the_future(store.newest(), now)

    @property
    def newest(self) -> float | None:
        """End of the newest window that is stored whole, in unix seconds."""
        return self._newest

    def record(self, observations: Iterable[Observation], now: float) -> None:
        """Writes the minutes that these observations close, and those that nothing was heard of since.

        Raises WriteError; what could not be written is tried again the next time.
        """
        with self._lock:
            for observation in observations:
                self._take(observation)
            due = [self._batch(*item, open_too=self._is_overdue(item[1], now)) for item in self._targets.items()]
            self._write(due, now)

    def flush(self) -> None:
        """Writes the open minutes too, as far as they got. Raises WriteError."""
        with self._lock:
            self._write([self._batch(*item, open_too=True) for item in self._targets.items()])

    def _take(self, observation: Observation) -> None:
        key = observation.node, observation.server
        if key not in self._targets:
            self._targets[key] = _Pending(self._restored(*key))
        pending = self._targets[key]
        step = advance(pending.state, observation, self._max_step)
        pending.open_is_written = False
        if step.finished is not None:
            if len(pending.windows) == MAX_PENDING:
                log.error("gave up a minute of %s: the history could not be written for %d minutes", key, MAX_PENDING)
            pending.windows.append(step.finished)
        pending.events.extend(step.events)

    def _restored(self, node: str, server: str) -> State:
        data = self._store.checkpoint(node, server)
        return (None if data is None else checkpoint.load(data)) or State()

    def _is_overdue(self, pending: _Pending, now: float) -> bool:
        window = pending.state.window
        return window is not None and now > window.start + WINDOW_SECONDS + self._max_step

    def _batch(self, key: tuple[str, str], pending: _Pending, *, open_too: bool) -> Batch | None:
        window = pending.state.window
        if window is None or pending.open_is_written:
            open_too = False
        if not (pending.windows or pending.events or open_too):
            return None
        windows = (*pending.windows, *([window] if window is not None and open_too else []))
        return Batch(*key, pending.state.at, windows, tuple(pending.events), checkpoint.dump(pending.state))

    def _write(self, batches: Iterable[Batch | None], now: float = math.inf) -> None:
        due = [batch for batch in batches if batch is not None]
        if not due:
            return
        self._store.write(due)
        for batch in due:
            pending = self._targets[batch.node, batch.server]
            pending.open_is_written = pending.state.window in batch.windows
            ends = (self._newest, *(w.start + WINDOW_SECONDS for w in pending.windows))
            self._newest = max((end for end in ends if end is not None and end <= now), default=None)
            pending.windows.clear()
            pending.events.clear()


def _warn_of_the_future(latest: float | None, now: float) -> None:
    if latest is not None and latest - WINDOW_SECONDS > now:
        log.warning(
            "the history holds minutes in the future, up to %s: this host's clock is wrong, or was when they were "
            "written; they do not count for inferwatch_history_lag_seconds",
            datetime.fromtimestamp(latest, UTC).isoformat(),
        )
