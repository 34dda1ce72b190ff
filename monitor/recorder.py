"""Asks all sources again and again, and passes on what they say: to the fleet as it is now, and to the history."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from exporters.gpu.observation import GpuObservation
from exporters.observation import Observation
from monitor.fleet import Fleet
from monitor.follower import Follower
from monitor.history.lease import RENEW_SECONDS
from monitor.history.recording import Recording
from monitor.history.store import Store
from monitor.history.upkeep import TURN_SECONDS, Upkeep
from monitor.sources import Source, TellsGpus
from monitor.trouble import Trouble

log = logging.getLogger(__name__)

_TELL_LOSS_SECONDS = 3600.0
"""As long as the page's small lines reach back: they have a gap then."""


class Recorder:
    """Follows each source by itself, so that one that hangs or fails delays no other."""

    def __init__(
        self,
        sources: Sequence[Source],
        fleet: Fleet,
        store: Store,
        *,
        interval: float,
        follower: Follower | None = None,
        upkeep: Upkeep | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`interval` in seconds. `follower` reads the history of sources that are not recorded; without `upkeep`
        nothing is rolled up or deleted."""
        self.sources = tuple(sources)
        self._fleet = fleet
        self._store = store
        self._stored_until = clock()
        self._recording = Recording(store, interval, self._stored_until)
        self._interval = interval
        self._follower = follower
        self._upkeep = upkeep
        self._clock = clock
        self._troubles: dict[str, Trouble] = {}
        self._asked: set[str] = set()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._lost: list[tuple[float, str]] = []

    def lag(self) -> float:
        """Seconds between the end of the newest stored minute and now; since the start, while nothing is stored.

        Minutes in the future do not count. Where the clock was set back, the lag is counted from there.
        """
        followed = [] if self._follower is None else [self._follower.lag()]
        is_recorded = not followed or any(source.is_recorded for source in self.sources)
        return max([*followed, *([self._recorded_lag()] if is_recorded else [])])

    def _recorded_lag(self) -> float:
        now, newest = self._clock(), self._recording.newest
        if newest is not None and newest <= now:
            self._stored_until = newest
        self._stored_until = min(self._stored_until, now)
        return now - self._stored_until

    def history_problems(self) -> list[str]:
        """What keeps the history from being kept whole now, and what was lost of it within the last hour."""
        self._note_losses()
        since = self._clock() - _TELL_LOSS_SECONDS
        own = (self._troubles[of].text for of in ("history", "lease", "upkeep") if of in self._troubles)
        now = [text for text in (*own, self._recording.standing_by, self._recording.orphans_told) if text]
        now += [] if self._follower is None else self._follower.problems()
        return [*dict.fromkeys(now), *(text for at, text in self._lost if at > since)]

    def history_bytes(self) -> int | None:
        """How large the history is; None while that is not known."""
        return None if self._upkeep is None else self._upkeep.size_bytes

    def source_problems(self) -> dict[str, str]:
        """Why sources cannot be read now, by name."""
        told = ((s.name, self._troubles[s.name].text) for s in self.sources if s.name in self._troubles)
        return {name: text for name, text in told if text}

    def unread(self) -> frozenset[str]:
        """Names of sources of which nothing is known yet."""
        return frozenset(source.name for source in self.sources if source.name not in self._asked)

    async def run(self) -> None:
        """Until it is cancelled; then the open minutes are written as far as they got, and the sources closed."""
        try:
            async with asyncio.TaskGroup() as group:
                for source in self.sources:
                    group.create_task(self._follow(source))
                group.create_task(self._attend())
                if self._upkeep is not None:
                    group.create_task(self._keep_up(self._upkeep))
                if self._follower is not None:
                    group.create_task(self._follower.run())
        finally:
            await asyncio.to_thread(self._end)
            for source in self.sources:
                await source.aclose()

    async def observe(self, source: Source) -> None:
        """Once, and one after the other for each source: what it said before never comes after what it says now.

        Whatever goes wrong is logged and leaves the others alone.
        """
        observations: list[Observation] = []
        gpus: list[GpuObservation] = []
        async with self._turns[source.name]:
            with self._logged(source.name):
                observations = await source.observe()
                await asyncio.to_thread(self._fleet.update, observations, source.name)
                gpus = self._take_gpus(source)
            self._asked.add(source.name)
            if source.is_recorded:
                await self._record(observations, gpus)

    def _take_gpus(self, source: Source) -> list[GpuObservation]:
        told = source.gpus() if isinstance(source, TellsGpus) else {}
        for node, gathered in told.items():
            self._fleet.gpus.update(node, gathered)
        return [gpu for gathered in told.values() if gathered is not None for gpu in gathered.gpus]

    async def _record(self, observations: Sequence[Observation], gpus: Sequence[GpuObservation]) -> None:
        with self._logged("history"):
            await asyncio.to_thread(self._recording.record, observations, self._clock(), gpus)
            self._fleet.not_recorded = frozenset((node, server) for node, server, _ in self._recording.orphans)
        self._note_losses()

    def _note_losses(self) -> None:
        self._lost += [(self._clock(), text) for text in self._store.losses[len(self._lost) :]]

    async def _follow(self, source: Source) -> None:
        while True:
            await self.observe(source)
            await asyncio.sleep(self._interval - self._clock() % self._interval)

    async def _attend(self) -> None:
        while True:
            with self._logged("lease"):
                await asyncio.to_thread(self._recording.attend)
            await asyncio.sleep(RENEW_SECONDS)

    async def _keep_up(self, upkeep: Upkeep) -> None:
        while True:
            with self._logged("upkeep"):
                await asyncio.to_thread(self._store.follow_file)
                await asyncio.to_thread(upkeep.turn, self._clock())
            await asyncio.sleep(TURN_SECONDS)

    def _end(self) -> None:
        if self._upkeep is not None:
            with self._logged("upkeep"):
                self._upkeep.stop()
        self._flush()

    def _flush(self) -> None:
        with self._logged("history"):
            self._recording.flush()

    @contextmanager
    def _logged(self, subject: str) -> Iterator[None]:
        """Keeps errors from going further."""
        trouble = self._troubles.setdefault(subject, Trouble(log, subject))
        try:
            yield
        except Exception as error:
            trouble.come(error)
        else:
            trouble.go()
