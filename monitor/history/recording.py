"""Keeps the minutes of all targets and GPUs and writes them as they close."""

from __future__ import annotations

import logging
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock

from exporters.gpu.observation import GpuObservation
from exporters.observation import Observation
from monitor.history import checkpoint, gpu_minutes
from monitor.history.lease import LeaseLost
from monitor.history.minutes import WINDOW_SECONDS, Event, State, Step, Window, advance
from monitor.history.orphans import Orphans
from monitor.history.placement import place, placements
from monitor.history.store import Batch, Key, RowsRefused, Store

log = logging.getLogger(__name__)

MAX_PENDING = 240
"""Closed minutes of a target or a GPU that wait while the database cannot be written; then the oldest are given up."""


@dataclass(slots=True)
class _Pending:
    key: Key
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
        self._pending: dict[Key, _Pending] = {}
        self._orphans = Orphans(store)
        self._told_of_orphans: str | None = None
        self._lock = Lock()
        self._newest = store.newest(until=now)
        self._writes = store.lease is None or store.lease.acquire()
        self._term = 0 if store.lease is None else store.lease.term
        if self.standing_by:
            log.warning("history: %s", self.standing_by)
        _warn_of_the_future(store.newest(), now)

    @property
    def newest(self) -> float | None:
        """End of the newest window that is stored whole, in unix seconds."""
        return self._newest

    @property
    def standing_by(self) -> str | None:
        """Why this process does not write."""
        if self._writes or self._store.lease is None:
            return None
        who = f" ({self._store.lease.other})" if self._store.lease.other else ""
        return f"another inferwatch{who} writes this history; this one stands by and takes over when that one ends"

    @property
    def orphans(self) -> frozenset[Key]:
        """What this process observes and nobody writes, since another has the turn and does not observe it."""
        return self._orphans.keys if self.standing_by else frozenset()

    @property
    def orphans_told(self) -> str | None:
        return self._orphans.told(self._store.lease.other or "another") if self.orphans and self._store.lease else None

    def record(self, observations: Iterable[Observation], now: float, gpus: Iterable[GpuObservation] = ()) -> None:
        """Writes the minutes that these observations close, and those that nothing was heard of since.

        `gpus` are those of the servers' nodes. Raises WriteError; what could not be written is tried again the next
        time. Another that has the turn writes what it observes itself.
        """
        with self._lock:
            if not self._writes:
                self._newest = self._store.newest(until=now)
                self._look_for_orphans(observations, gpus, now)
                return
            for observation in observations:
                pending = self._of(observation.node, observation.server, "")
                self._take(pending, advance(pending.state, observation, self._max_step))
            self._take_gpus(gpus)
            due = [self._batch(each, open_too=self._is_overdue(each, now)) for each in self._pending.values()]
            self._write(due, now)

    def _look_for_orphans(
        self, observations: Iterable[Observation], gpus: Iterable[GpuObservation], now: float
    ) -> None:
        servers = ((each.node, each.server, "") for each in observations)
        self._orphans.look((*servers, *((gpu.node, "", gpu.uuid) for gpu in gpus)), now)
        if self.orphans_told not in (None, self._told_of_orphans):
            log.error("history: %s", self.orphans_told)
        self._told_of_orphans = self.orphans_told

    def attend(self) -> None:
        """Keeps the turn to write, or takes it where nobody has it any more. Raises LeaseError."""
        with self._lock:
            self._attend()

    def _attend(self) -> None:
        """Once another may have written, what stands in the database is what to go on from."""
        lease = self._store.lease
        if lease is None or (lease.acquire(), lease.term) == (self._writes, self._term):
            return
        self._pending.clear()
        self._writes, self._term = lease.other is None, lease.term
        log.warning("history: %s", self.standing_by or "the other has ended: this inferwatch goes on with it")

    def flush(self) -> None:
        """Writes the open minutes too, as far as they got. Raises WriteError."""
        with self._lock:
            self._write([self._batch(each, open_too=True) for each in self._pending.values()])

    def _of(self, *key: str) -> _Pending:
        node, server, uuid = key
        if (node, server, uuid) not in self._pending:
            data = self._store.checkpoint(node, server, uuid)
            state = (None if data is None else checkpoint.load(data)) or State()
            self._pending[node, server, uuid] = _Pending((node, server, uuid), state)
        return self._pending[node, server, uuid]

    def _take(self, pending: _Pending, step: Step) -> None:
        pending.open_is_written = False
        if step.finished is not None:
            if len(pending.windows) == MAX_PENDING:
                of = " ".join(filter(None, pending.key))
                log.error("gave up a minute of %s: the history could not be written for %d minutes", of, MAX_PENDING)
            pending.windows.append(step.finished)
        pending.events.extend(step.events)

    def _take_gpus(self, gpus: Iterable[GpuObservation]) -> None:
        """A reading that was taken before says nothing new of servers either."""
        fresh: defaultdict[str, list[GpuObservation]] = defaultdict(list)
        for gpu in gpus:
            pending = self._of(gpu.node, "", gpu.uuid)
            before = pending.state.at
            self._take(pending, gpu_minutes.advance(pending.state, gpu, self._max_step))
            if pending.state.at != before:
                fresh[gpu.node].append(gpu)
        for node, told in fresh.items():
            self._place(node, told)

    def _place(self, node: str, gpus: Sequence[GpuObservation]) -> None:
        for server, placement in placements(gpus).items():
            pending = self._pending.get((node, server, ""))
            if pending is not None:
                pending.events.extend(place(pending.state, gpus[0].at, placement))

    def _is_overdue(self, pending: _Pending, now: float) -> bool:
        window = pending.state.window
        return window is not None and now > window.start + WINDOW_SECONDS + self._max_step

    def _batch(self, pending: _Pending, *, open_too: bool) -> Batch | None:
        window = pending.state.window
        if window is None or pending.open_is_written:
            open_too = False
        if not (pending.windows or pending.events or open_too):
            return None
        windows = (*pending.windows, *([window] if window is not None and open_too else []))
        node, server, uuid = pending.key
        state = checkpoint.dump(pending.state)
        return Batch(node, server, pending.state.at, windows, tuple(pending.events), state, uuid)

    def _write(self, batches: Iterable[Batch | None], now: float = math.inf) -> None:
        due = [batch for batch in batches if batch is not None]
        try:
            if due:
                self._write_all(due, now)
        except LeaseLost:
            self._attend()

    def _write_all(self, batches: Sequence[Batch], now: float) -> None:
        """Together, or where something is refused each by itself, so that it keeps back no other."""
        try:
            self._store.write(batches)
        except RowsRefused as refused:
            if len(batches) == 1:
                of = f"{batches[0].server or batches[0].uuid} on {batches[0].node}"
                raise RowsRefused(f"minutes of {of} cannot be stored, and are tried again: {refused}") from refused
            self._write_apart(batches, now)
        else:
            for batch in batches:
                self._take_away(batch, now)

    def _write_apart(self, batches: Iterable[Batch], now: float) -> None:
        refused: RowsRefused | None = None
        for batch in batches:
            try:
                self._write_all([batch], now)
            except RowsRefused as error:
                refused = error
        if refused is not None:
            raise refused

    def _take_away(self, batch: Batch, now: float) -> None:
        pending = self._pending[batch.node, batch.server, batch.uuid]
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
