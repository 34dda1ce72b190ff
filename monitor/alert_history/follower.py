"""Reads the alerts of a Prometheus: what was missed, oldest first, and then every minute what came since."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable

from alerts import promql
from exporters.observation import Labels
from monitor.alert_history import firings
from monitor.alert_history.firings import MINUTE, Firing, Known
from monitor.alert_history.samples import ALERTS, CONTEXT_SECONDS, FOR_STATE, Activation, activations, identity
from monitor.alert_history.store import AlertStore
from monitor.config import PrometheusSection
from monitor.history.retention import OF_ALERTS
from monitor.history.upsert import Progress
from monitor.sources.prometheus.answers import Points, TimedOut, TooMuch
from monitor.sources.prometheus.client import Client, source_key
from monitor.trouble import Trouble

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 60.0
_AFTER_TROUBLE_SECONDS = 10.0
_REREAD_SECONDS = 300
"""Samples may come late: by remote write, or from a queue that was full."""
_MOST_SECONDS = 6 * 3600
"""In one question."""
_MOST_MOMENTS = 60
"""Asked for within one window whether an alert was marked as gone. What ended more often than that was."""
_SIGNS_OF_LIFE = ("up", "llm_up", FOR_STATE)
"""Who scrapes or evaluates anything has one of these."""


class AlertFollower:
    """The windows are read again and overlap; a window's rows follow from samples alone, so that changes nothing."""

    def __init__(
        self,
        client: Client,
        config: PrometheusSection,
        store: AlertStore,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._config = config
        self._store = store
        self._sleep = sleep
        self._source = f"{OF_ALERTS}{source_key(config)}"
        self._seconds = _MOST_SECONDS
        self._gone: frozenset[tuple[Labels, float]] = frozenset()
        self.trouble = Trouble(_log, "alert history")
        """What keeps it from reading or writing now."""

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.follow()
            await self._sleep(_AFTER_TROUBLE_SECONDS if self.trouble.text else _EVERY_SECONDS)

    async def follow(self) -> None:
        """Once. What goes wrong is logged; the next time goes on from where this one came to."""
        try:
            await self.catch_up()
        except Exception as error:
            self.trouble.come(error)
        else:
            self.trouble.go()

    async def catch_up(self) -> None:
        """Raises SourceError and HistoryError."""
        until = math.floor(await self._client.now() - self._config.delay)
        done = await asyncio.to_thread(self._store.progress, self._source)
        earliest = math.floor(until - self._config.backfill)
        since = earliest if done is None else max(earliest, done.until)
        while since < until:
            since = await self._read(since, until)

    async def _read(self, since: int, until: int) -> int:
        """As far as one question goes; returns how far that was."""
        end = min(until, since + self._seconds)
        try:
            found = await self._firings(since, end)
        except TooMuch as error:
            self._seconds = max(MINUTE, (end - since) // 2)
            if isinstance(error, TimedOut) or end - since <= MINUTE:
                raise
            return since
        progress = Progress(self._source, since, end)
        await asyncio.to_thread(self._store.see, found, progress)
        self._seconds = min(_MOST_SECONDS, 2 * self._seconds)
        return end

    async def _firings(self, since: int, until: int) -> list[Firing]:
        again = since - _REREAD_SECONDS
        context = again - CONTEXT_SECONDS
        matrix = await self._client.query(promql.raw(self._selector(), until - context), until)
        active = activations(matrix, self._config.replica_labels)
        stored = await asyncio.to_thread(self._store.firing)
        known = Known(await self._marked_gone(active, until), (), until)
        if last := firings.undecided(active, stored, known):
            alive = await self._alive(max(context, min(last)), until)
            known = Known(known.gone, alive, until)
        return list(firings.firings(active, stored, known, again))

    def _selector(self) -> str:
        of_state = promql.one_of("alertstate", ["", "firing"])
        return promql.selector((ALERTS, FOR_STATE), of_state, *self._config.selector)

    async def _marked_gone(self, active: Collection[Activation], until: float) -> frozenset[tuple[Labels, float]]:
        """Prometheus marks a series at the first evaluation that does not have it: then an instant query has it not,
        while it has a series whose samples only stopped."""
        ended = [a for a in active if a.told_at <= until]
        self._gone &= {(a.series, a.last) for a in ended}
        asked = [a for a in ended if (a.series, a.last) not in self._gone]
        moments = sorted({a.told_at for a in asked})
        there = {at: await self._there(at) for at in moments[-_MOST_MOMENTS:]}
        self._gone |= {(a.series, a.last) for a in asked if a.series not in there.get(a.told_at, ())}
        return self._gone

    async def _there(self, at: float) -> frozenset[Labels]:
        return frozenset(identity(series.labels) for series in await self._client.query(self._selector(), at))

    async def _alive(self, since: float, until: float) -> list[int]:
        """Ends of the minutes within which Prometheus has anything."""
        expression = promql.samples(_SIGNS_OF_LIFE, MINUTE, *self._config.selector)
        first = math.floor(since / MINUTE) * MINUTE
        return _moments(await self._client.query_range(expression, first, until, MINUTE))


def _moments(series: Iterable[Points]) -> list[int]:
    return sorted({round(at) for one in series for at, count in one.points if count > 0})
