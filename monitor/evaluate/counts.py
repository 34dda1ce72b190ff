"""Counts of objectives from the history, by group, over any window: the numbers that the rules count in a Prometheus.

Hours are read where they come to the same as their minutes, and minutes elsewhere: at the ends of a window, in hours
that are not rolled up yet, and where a server was down, restarted or had requests waiting before its clock. Of hours
whose minutes are gone these things are told as well as an hour can. Hours that are over are remembered, and looked up
again in case something came late and nobody saw its mark: the older, the seldomer, since a server at which requests
always wait makes every hour one of minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from sqlalchemy import Engine

from alerts.budget import Counts
from alerts.burn import HOUR, MINUTE
from alerts.slo.spec import Slo
from monitor.evaluate.blurred import Blurred, blurred
from monitor.evaluate.members import Group
from monitor.evaluate.once import Once
from monitor.evaluate.reader import Reader
from monitor.evaluate.tally import Tally, nothing
from monitor.history.database import reading
from monitor.history.packed import Ints
from monitor.history.rollup import stale
from monitor.history.tables import Tier

_REMEMBERED_SECONDS = HOUR
"""At least."""
_SHARE_OF_AGE = 1 / 24


@dataclass(slots=True)
class _Kept:
    """What was counted of hours that are over, some by their minutes."""

    tally: Tally
    at: dict[int, float] = field(default_factory=dict)
    """When each hour was counted."""

    def drop(self, hours: Collection[int]) -> None:
        gone = np.isin(_hours(self.tally.cells.start), np.fromiter(hours, np.int64, len(hours)))
        self.tally = self.tally.where(~gone)
        self.at = {hour: at for hour, at in self.at.items() if hour not in hours}

    def fine(self) -> set[int]:
        return set(_hours(self.tally.cells.start[self.tally.cells.length == MINUTE]).tolist())


class Counter:
    """Of one database. Not to be asked from several threads at once."""

    def __init__(self, engine: Engine, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._clock = clock
        self._kept: dict[str, _Kept] = {}
        self._together: Once | None = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is asked for within is read of one moment, and once for all objectives that need it."""
        with reading(self._engine) as connection:
            self._together = Once(connection)
            try:
                yield
            finally:
                self._together = None

    def windows(self, slo: Slo, until: int, lengths: Iterable[int]) -> dict[Group, dict[int, Counts]]:
        """Of windows that end at `until`, a whole minute, by their length in seconds. Raises ReadError."""
        lengths = sorted(set(lengths), reverse=True)
        tally = self.tally(slo, [*(until - length for length in lengths), until])
        sums = {length: tally.over(until - length, until) for length in lengths}
        return {g: {length: _whole(sums[length][g], length) for length in lengths} for g in tally.groups}

    def blurred(self, slo: Slo, until: int) -> Blurred:
        """Where servers do not tell what the objective asks. Raises ReadError."""
        with self._moment() as once:
            return blurred(once, slo, until)

    def tally(self, slo: Slo, edges: Sequence[int], *, fine: bool = False) -> Tally:
        """From the first edge to the last; no cell reaches over an edge, and with `fine` each is a minute.

        An edge is a whole minute. Raises ReadError.
        """
        with self._moment() as once:
            asked = Reader(once, slo)
            since, until = edges[0], edges[-1]
            due = stale(once.connection, Tier.HOUR, _hour(since), until)
            kept = self._still_kept(asked, due, until)
            wanted = set(range(_hour(since), until, HOUR))
            cut = {_hour(edge) for edge in edges if edge % HOUR} & wanted
            by_minutes = (wanted if fine else cut | due) & wanted
            kept.drop({h for h in by_minutes - kept.fine() if h in kept.at})
            missing = sorted(wanted - kept.at.keys())
            counted = asked.count(missing, by_minutes, until)
            self._keep(kept, counted, set(missing) - due - {_hour(until)})
            whole = kept.tally | counted.where(~np.isin(counted.cells.start, kept.tally.cells.start))
            return whole.where((whole.cells.start >= since) & (whole.cells.end <= until))

    def _still_kept(self, asked: Reader, due: Collection[int], until: int) -> _Kept:
        key = asked.slo.model_dump_json(include=set(_COUNTED))
        groups = asked.members.groups
        kept = self._kept.get(key)
        if kept is None or kept.tally.groups != groups:
            kept = self._kept[key] = _Kept(nothing(groups))
        now = self._clock()
        late = {
            hour for hour, at in kept.at.items() if now - at > max(_REMEMBERED_SECONDS, (until - hour) * _SHARE_OF_AGE)
        }
        kept.drop(late | {hour for hour in kept.at if hour in due})
        return kept

    def _keep(self, kept: _Kept, counted: Tally, hours: Collection[int]) -> None:
        chosen = np.isin(_hours(counted.cells.start), np.fromiter(hours, np.int64, len(hours)))
        kept.tally |= counted.where(chosen)
        kept.at |= dict.fromkeys(hours, self._clock())

    @contextmanager
    def _moment(self) -> Iterator[Once]:
        if self._together is not None:
            yield self._together
            return
        with reading(self._engine) as connection:
            yield Once(connection)


def _whole(counts: Counts, length: int) -> Counts:
    """With minutes that no row could be read of: of hours that reach over an end of the window.

    If fewer are unfinished at its end than at its beginning, none vanished.
    """
    missing = length / MINUTE - counts.minutes - counts.minutes_excluded
    minutes, unknown = counts.minutes + missing, counts.minutes_unknown + missing
    return replace(counts, unknown=max(0.0, counts.unknown), minutes=minutes, minutes_unknown=unknown)


_COUNTED = ("indicator", "select", "group_by", "maintenance")
"""What of an objective its counts depend on."""


def _hour(moment: int) -> int:
    return moment // HOUR * HOUR


def _hours(starts: Ints) -> Ints:
    return starts // HOUR * HOUR
