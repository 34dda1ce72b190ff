"""Without Prometheus the monitor raises the alerts itself: it judges, keeps what fires, and tells Alertmanager."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from alerts.burn import MINUTE
from alerts.conditions import CONDITIONS
from alerts.conditions.condition import Condition
from alerts.conditions.holding import Firing as JudgedFiring
from exporters.observation import Labels, labels
from monitor.alert_history.firings import Firing
from monitor.alert_history.store import AlertStore
from monitor.evaluate.causes import OWN, REACH, Causes, Fired
from monitor.evaluate.condition_rows import ConditionRows
from monitor.evaluate.ourselves import Ourselves
from monitor.evaluate.poster import Poster
from monitor.evaluate.raised import Raised, burning, of_condition, without_name
from monitor.evaluate.status import Status
from monitor.history.upsert import Progress

SOURCE = "alerts judged here"


def _nobody(_node: str, _uuid: str) -> Collection[str]:
    return ()


class Embedded:
    def __init__(
        self,
        rows: ConditionRows,
        store: AlertStore,
        ourselves: Ourselves,
        poster: Poster | None = None,
        *,
        servers_on: Callable[[str, str], Collection[str]] = _nobody,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`servers_on` tells the servers that were last on the GPU of a node and uuid."""
        self._servers_on = servers_on
        self._rows, self._store, self._ourselves, self._poster = rows, store, ourselves, poster
        self._clock = clock
        # Alertmanager keeps milliseconds, and would tell of an alert that began before this.
        self._started = int(clock())
        self._causes: Causes | None = None
        self._judged_until = 0
        self._firing: dict[Labels, Raised] = {}
        self._burning: list[Raised] = []
        """Of objectives; at first also what nobody judges any more."""
        self._over: list[Raised] = []
        """Still to be written."""
        self._written: dict[Labels, float] = {}

    def problems(self) -> list[str]:
        return [] if self._poster is None else self._poster.problems()

    @property
    def failures(self) -> int | None:
        """How often an Alertmanager could not be told so far; None where none is."""
        return None if self._poster is None else self._poster.failures

    def judge(self, statuses: Sequence[Status], at: int | None) -> None:
        """Once for each minute. `at` is the end of the newest in the history, None where that cannot be read.

        The history is judged from its first minute on that ended in this process's time: what was before it is old,
        and what only this process knows is missing. Raises HistoryError; what could be judged is told all the same.
        """
        now = int(self._clock()) // MINUTE * MINUTE
        self._rows.notice(now)
        causes = self._resumed()
        try:
            if at is not None and at > self._started:
                causes.judge(self._rows.upto(at, REACH, causes.needed_since(at)), at)
                self._burning, self._judged_until = list(burning(statuses, self._firing)), at
        finally:
            causes.judge_ourselves(self._ourselves.rows(now, self._rows.known_since), now)
            self._take(causes)
            self._write()

    async def tell(self, now: float) -> None:
        """What goes wrong is logged, and tried again the next time."""
        if self._poster is not None:
            await self._poster.post(self._firing.values(), now)

    async def aclose(self) -> None:
        if self._poster is not None:
            await self._poster.aclose()

    def _resumed(self) -> Causes:
        """From where the process before, or another monitor on this history, stood."""
        if self._causes is not None:
            return self._causes
        before = self._store.progress(SOURCE)
        alerts = [(labels(a.labels), a) for a in self._store.firing()]
        self._firing = {of: Raised(of, a.starts_at, a.known_until, a.annotations) for of, a in alerts}
        self._written = {of: raised.seen for of, raised in self._firing.items()}
        causes = [(a.name, Fired(without_name(of), int(a.starts_at), int(a.known_until))) for of, a in alerts]
        self._burning = [self._firing[of] for of, a in alerts if a.name not in CONDITIONS]
        for name, fired in causes:
            self._ourselves.remember(name, fired.of, fired.since)
        self._causes = Causes([each for each in causes if each[0] in CONDITIONS], (before and before.until) or None)
        return self._causes

    def _take(self, causes: Causes) -> None:
        told = causes.told()
        earliest = {condition.name: self._started for condition in OWN}
        firing, over = (
            [of_condition(c, f, self._firing, earliest.get(c.name, 0.0), self._hit(c, f)) for c, f in found]
            for found in (told.firing, told.over)
        )
        now = {each.labels: each for each in (*firing, *self._burning)}
        gone = self._firing.keys() - now.keys() - {each.labels for each in over}
        self._over += [*over, *(replace(self._firing[of], end=self._judged_until) for of in sorted(gone))]
        self._firing = now

    def _hit(self, condition: Condition, firing: JudgedFiring) -> Collection[str]:
        of = dict(firing.labels)
        return self._servers_on(of.get("node", ""), of.get("uuid", "")) if condition.hits_servers else ()

    def _write(self) -> None:
        firings = [self._as_row(raised) for raised in (*self._over, *self._firing.values())]
        self._store.see(firings, Progress(SOURCE, max(0, self._judged_until - MINUTE), self._judged_until))
        self._written, self._over = {of: raised.seen for of, raised in self._firing.items()}, []

    def _as_row(self, raised: Raised) -> Firing:
        """Active since it was last written: what was over before that need not be looked at."""
        active_since = max(raised.since, self._written.get(raised.labels, raised.since))
        end = None if raised.end is None else float(raised.end)
        known_until = raised.seen if end is None else end
        return Firing(raised.labels, active_since, raised.since, raised.seen, known_until, end, raised.annotations)
