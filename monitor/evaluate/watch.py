"""Judges the objectives each minute, for page and API."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Engine

from alerts.burn import MINUTE
from alerts.slo.spec import Slo
from monitor.evaluate.counts import Counter
from monitor.evaluate.embedded import Embedded
from monitor.evaluate.objectives import Objectives
from monitor.evaluate.status import Status, statuses
from monitor.history.database import HistoryError
from monitor.history.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Told:
    """As of `at`, the end of the newest minute that was judged; None while there is none."""

    at: int | None = None
    slos: tuple[Slo, ...] = ()
    statuses: tuple[Status, ...] = ()


class Watch:
    def __init__(
        self,
        database: Engine,
        objectives: Objectives,
        *,
        delay: float,
        embedded: Embedded | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`delay` in seconds: minutes are complete that long after their end. `embedded` raises alerts."""
        self.told = Told(slos=tuple(objectives.slos))
        self._counter = Counter(database)
        self._store = Store(database)
        self._objectives = objectives
        self._embedded = embedded
        self._delay = delay
        self._clock = clock
        self._problems: dict[str, str] = {}

    def history_problems(self) -> list[str]:
        """What keeps objectives from being judged as their files say."""
        found = [self._objectives.problem] if self._objectives.problem else []
        told = dict.fromkeys(self._problems.values())
        return [*found, *told, *(self._embedded.problems() if self._embedded else [])]

    @property
    def failures(self) -> int | None:
        """How often an Alertmanager could not be told so far; None where none is."""
        return None if self._embedded is None else self._embedded.failures

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                await asyncio.to_thread(self.turn)
                if self._embedded is not None:
                    await self._embedded.tell(self._clock())
                await asyncio.sleep(MINUTE - (self._clock() - self._delay) % MINUTE)
        finally:
            if self._embedded is not None:
                await self._embedded.aclose()

    def turn(self) -> None:
        """Once. What goes wrong is logged, and the last judgement stays."""
        is_judged = self._tried("objectives", self._judge)
        if self._embedded is not None:
            at = self.told.at if is_judged else None
            self._tried("alerts", partial(self._embedded.judge, self.told.statuses, at))

    def _tried(self, what: str, judge: Callable[[], None]) -> bool:
        try:
            judge()
        except HistoryError as error:
            self._fail(what, str(error))
        except Exception as error:
            _log.exception("%s could not be judged", what)
            self._fail(what, f"{what} could not be judged: {error}")
        else:
            self._problems.pop(what, None)
            return True
        return False

    def _fail(self, what: str, problem: str) -> None:
        if problem not in self._problems.values():
            _log.error("%s", problem)
        self._problems[what] = problem

    def _judge(self) -> None:
        self._objectives.refresh()
        slos = tuple(self._objectives.slos)
        at = self._newest()
        self.told = Told(at, slos, () if at is None else tuple(statuses(self._counter, slos, at)))

    def _newest(self) -> int | None:
        """End of the newest minute that is complete."""
        newest = self._store.newest(self._clock() - self._delay)
        return None if newest is None else int(newest) // MINUTE * MINUTE
