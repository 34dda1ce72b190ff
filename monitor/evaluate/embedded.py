"""Without Prometheus the monitor raises the alerts itself: it judges, keeps what fires, and tells Alertmanager."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from alerts.conditions.rows import key
from exporters.observation import Labels, labels
from monitor.alert_history.firings import Firing
from monitor.alert_history.store import AlertStore
from monitor.evaluate.condition_rows import ConditionRows
from monitor.evaluate.poster import Poster, PostError
from monitor.evaluate.raised import REACH, Causes, Raised, burning
from monitor.evaluate.status import Status
from monitor.history.upsert import Progress

_log = logging.getLogger(__name__)

SOURCE = "alerts judged here"


class Embedded:
    """`lag` tells how far behind the history is, in seconds."""

    def __init__(
        self,
        rows: ConditionRows,
        store: AlertStore,
        node: str,
        lag: Callable[[], float],
        poster: Poster | None = None,
    ) -> None:
        self._rows, self._store, self._poster = rows, store, poster
        self._node, self._lag = node, lag
        self._causes: Causes | None = None
        self._firing: dict[Labels, Raised] = {}
        self._problem: str | None = None

    def problems(self) -> list[str]:
        return [self._problem] if self._problem else []

    def judge(self, statuses: Sequence[Status], at: int) -> None:
        """Once for each minute; `at` is its end. Raises HistoryError."""
        if self._causes is None:
            self._resume()
        if self._causes is None:
            return
        own = {labels({"node": self._node}): {key("inferwatch_history_lag_seconds"): self._lag()}}
        since = {of: raised.since for of, raised in self._firing.items()}
        raised = [*self._causes.judge(self._rows.upto(at, REACH, own), at), *burning(statuses, since)]
        self._keep(raised, at)

    async def tell(self, now: float) -> None:
        """What goes wrong is logged, and tried again the next time."""
        if self._poster is None:
            return
        try:
            await self._poster.post(self._firing.values(), now)
        except PostError as error:
            if str(error) != self._problem:
                _log.error("%s", error)
            self._problem = str(error)
        else:
            self._problem = None

    async def aclose(self) -> None:
        if self._poster is not None:
            await self._poster.aclose()

    def _resume(self) -> None:
        """Where the process before, or another monitor on this history, stood."""
        open_alerts = self._store.firing()
        self._firing = {labels(a.labels): Raised(labels(a.labels), a.starts_at, a.annotations) for a in open_alerts}
        self._causes = Causes((labels(a.labels), a.starts_at) for a in open_alerts)

    def _keep(self, raised: Collection[Raised], at: int) -> None:
        now = {each.labels: each for each in raised}
        ended = [each for of, each in self._firing.items() if of not in now]
        firings = [
            *(Firing(r.labels, r.since, r.since, at, at, None, r.annotations) for r in raised),
            *(Firing(r.labels, r.since, r.since, max(r.since, at - 60), at, float(at)) for r in ended),
        ]
        self._store.see(firings, Progress(SOURCE, at - 60, at))
        self._firing = now
