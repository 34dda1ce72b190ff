"""Follows a Prometheus: reads the history's minutes from it, the oldest that are missing first, then each as it comes.

It is read once it is all there, `prometheus.delay` after its end by Prometheus' own clock, and again for some minutes,
since samples may come late. Windows are stored with the mark how far that goes, so that whoever comes next goes on from
there; what was read without its mark is read again, and is the same.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from monitor.config import PrometheusSection
from monitor.excerpts import Excerpts, Piece
from monitor.history.database import HistoryError
from monitor.history.minutes import WINDOW_SECONDS
from monitor.history.reread import Found
from monitor.history.store import Store
from monitor.history.upsert import Progress
from monitor.pace import Pace, halves
from monitor.progress import ProgressLine, moment
from monitor.sources import SourceError
from monitor.sources.prometheus.answers import Busy, TimedOut, TooMuch
from monitor.sources.prometheus.client import Client, source_key
from monitor.sources.prometheus.readings import Target
from monitor.trouble import Trouble

log = logging.getLogger(__name__)

REREAD_SECONDS = 300
"""Samples that come later than this after the end of their minute are not seen any more."""
_BEHIND_SECONDS = 600
"""From here on it counts as catching up, and how far it has come is told."""
_HOUR_SECONDS, _DAY_SECONDS = 3600, 86_400
_TRIES, _TRIES_WHEN_BUSY = 3, 8
_LONGEST_PAUSE_SECONDS = 60.0
_RETRY_SECONDS = 600.0


class HistoryGone(Exception):
    """The database is another one than before: what was read is not there any more."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Windows of a target that could not be read, while those of others could."""

    since: int
    until: int
    why: str


@dataclass(frozen=True, slots=True)
class Span:
    """Windows that were read: those from `since` to `until`, but for holes."""

    since: int
    until: int


class Follower:
    def __init__(
        self,
        client: Client,
        store: Store,
        config: PrometheusSection,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        shown: ProgressLine | None = None,
    ) -> None:
        self._client = client
        self._store = store
        self._source = source_key(config)
        self._excerpts = Excerpts(client, config)
        self._delay, self._backfill = config.delay, config.backfill
        self._clock = clock
        self._sleep = sleep
        self._shown = shown or ProgressLine(clock)
        self._begun = clock()
        self._ahead = 0.0
        self._span: Span | None = None
        self._oldest = 0
        self._is_quiet = True
        self._pace = Pace()
        self._holes: dict[Target, Hole] = {}
        self._retry_at = 0.0
        self._trouble = Trouble(log, "history")
        self._losses = len(store.losses)

    def lag(self) -> float:
        """Seconds since the end of the newest window that is stored, by Prometheus' clock; while it is not known what
        is, since this process began."""
        now = self._clock()
        return max(now - self._begun if self._span is None else now + self._ahead - self._span.until, 0.0)

    def problems(self) -> list[str]:
        """What keeps it from reading all there is."""
        holes = (
            f"minutes of {server or 'the GPUs'} on {node} from {moment(hole.since)} to {moment(hole.until)} could "
            f"not be read, and are tried again: {hole.why}"
            for (node, server), hole in self._holes.items()
        )
        return [*([self._trouble.text] if self._trouble.text else []), *holes]

    async def run(self) -> None:
        """Until it is cancelled; what is being written then is written to its end."""
        while True:
            worked = await self._patiently(self.step)
            if not worked:
                await self._sleep(self._until_next())

    async def step(self) -> bool:
        """Reads what is next, and says whether there was anything. Raises SourceError and HistoryError."""
        now = await self._client.now()
        self._ahead = now - self._clock()
        due = _full_minute(now - self._delay)
        if self._span is None:
            self._span = await self._begin(now)
        if self._span.until < due:
            await self._read_newer(self._span, due, now)
            self._tell(due)
            return True
        if self._span.since > self._oldest:
            await self._read_older(self._span, now)
            return True
        return await self._fill(now)

    async def _begin(self, now: float) -> Span:
        self._oldest = _full_hour(now - self._backfill)
        known = await asyncio.to_thread(self._store.progress, self._source)
        if known is None or known.until < self._oldest:
            span = Span(self._oldest, self._oldest)
            await self._write(Found(), self._mark(span))  # so that nobody deletes what is read from there on
            return span
        until = min(known.until, _full_minute(now))
        if until < known.until:
            log.warning("history: Prometheus' clock was ahead when it was read last, or is behind now")
        self._oldest = min(self._oldest, _full_hour(known.since))
        return Span(min(known.since, until), until)

    async def _read_newer(self, span: Span, due: int, now: float) -> None:
        since = max(span.since, span.until - REREAD_SECONDS)
        until = min(span.until + self._pace.seconds, due)
        day = min(span.until + _DAY_SECONDS, due)
        until = day if self._is_quiet and await self._is_empty(since, day) else until
        targets = await self._targets(since, until)
        self._is_quiet = not targets
        await self._read(targets, since, until, now, Span(span.since, until))

    async def _read_older(self, span: Span, now: float) -> None:
        """What a longer `backfill` than before wants as well, from newer to older, so that one mark is enough.

        By whole hours, of which retention keeps the one before the mark: so none is rolled up in parts, of which each
        is deleted before the next comes. The hour in which what was read before begins is read again.
        """
        day = max(_full_hour(span.since) - _DAY_SECONDS, self._oldest)
        if await self._is_empty(day, span.since):
            await self._read((), day, span.since, now, Span(day, span.until))
            return
        hour = _full_hour(span.since - 1)
        end = min(hour + _HOUR_SECONDS, span.until)
        for since in range(hour, end, self._pace.seconds):
            until = min(since + self._pace.seconds, end)
            after = Span(hour, span.until) if until == end else span
            await self._read(await self._targets(since, until), since, until, now, after)

    async def _targets(self, since: int, until: int) -> list[Target]:
        try:
            return await self._excerpts.targets(since, until)
        except TooMuch:
            self._pace.was_too_much(Piece((), since, until))
            raise

    async def _is_empty(self, since: int, until: int) -> bool:
        with suppress(TooMuch):
            return not await self._excerpts.targets(since, until)
        return False

    async def _fill(self, now: float) -> bool:
        """Tries a hole again, now and then."""
        if not self._holes or self._clock() < self._retry_at or self._span is None:
            return False
        self._retry_at = self._clock() + _RETRY_SECONDS
        target, hole = min(self._holes.items(), key=lambda item: item[1].since)
        until = min(hole.since + self._pace.seconds, hole.until)
        if await self._tried(Piece((target,), hole.since, until), now, None) is None:
            del self._holes[target]
            if until < hole.until:
                self._holes[target] = replace(hole, since=until)
            self._retry_at = 0.0
            await self._write(Found(), self._mark(self._span))
        return True

    async def _read(self, targets: Iterable[Target], since: int, until: int, now: float, after: Span) -> None:
        """All of these targets, and then `after` is what has been read."""
        troubled = [target for target in targets if target in self._holes]
        others = self._pace.pieces([target for target in targets if target not in self._holes], since, until)
        waiting = deque([*others, *(Piece((target,), since, until) for target in troubled)])
        is_marked = False
        while waiting:
            piece, is_last = waiting.popleft(), not waiting
            error = await self._tried(piece, now, self._mark(after) if is_last else None)
            is_marked = is_last and error is None
            if error is not None:
                smaller = halves(piece, by_time_first=isinstance(error, TooMuch))
                waiting.extendleft(reversed(smaller))
                if not smaller:
                    self._leave(piece, error)
        if not is_marked:
            await self._write(Found(), self._mark(after))
        self._span = after

    async def _tried(self, piece: Piece, now: float, mark: Progress | None) -> Exception | None:
        """None once it is written; an error if it is about this piece, while another might do."""
        for tries, pause in enumerate(_pauses(), 1):
            try:
                await self._write(await self._excerpts.found(piece, now), mark)
            except HistoryGone:
                raise
            except TooMuch as error:
                if not isinstance(error, TimedOut) or halves(piece, by_time_first=True):
                    self._pace.was_too_much(piece)
                    return error
                await self._wait(error, pause)
            except (SourceError, HistoryError) as error:
                enough = _TRIES_WHEN_BUSY if isinstance(error, Busy) else _TRIES
                if (tries >= enough or self._is_troubled(piece)) and await self._works_otherwise(error):
                    return error
                await self._wait(error, pause)
            except Exception as error:
                if not self._is_troubled(piece):
                    log.exception("history: could not work out the minutes of %s", piece)
                return error
            else:
                self._trouble.go()
                self._pace.went_well()
                return None
        return None

    def _is_troubled(self, piece: Piece) -> bool:
        return all(target in self._holes for target in piece.targets)

    async def _works_otherwise(self, error: Exception) -> bool:
        """Whether what failed does something else."""
        with suppress(SourceError, HistoryError):
            if isinstance(error, SourceError):
                await self._client.now()
            else:
                await self._write(Found(), None)
            return True
        return False

    def _leave(self, piece: Piece, error: Exception) -> None:
        (target,) = piece.targets
        known = self._holes.get(target, Hole(piece.since, piece.until, ""))
        why = str(error) or type(error).__name__
        self._holes[target] = Hole(min(known.since, piece.since), max(known.until, piece.until), why)
        self._retry_at = self._clock() + _RETRY_SECONDS
        if not known.why:
            log.error("history: %s", self.problems()[-1])

    def _mark(self, span: Span) -> Progress:
        """As far as there is no hole."""
        until = min([span.until, *(hole.since for hole in self._holes.values())])
        return Progress(self._source, min(span.since, until), until)

    async def _write(self, found: Found, mark: Progress | None) -> None:
        """To its end, even if cancelled meanwhile."""
        writing = asyncio.ensure_future(asyncio.to_thread(self._store_found, found, mark))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            with suppress(HistoryError):
                await writing
            raise

    def _store_found(self, found: Found, mark: Progress | None) -> None:
        if mark is not None:
            self._store.write_windows((), (), None)
            if len(self._store.losses) > self._losses:
                raise HistoryGone
        self._store.write_windows(found.windows, found.events, mark)

    async def _patiently(self, what: Callable[[], Awaitable[bool]]) -> bool:
        for pause in _pauses():
            try:
                worked = await what()
            except (SourceError, HistoryError) as error:
                await self._wait(error, pause)
            except HistoryGone:
                self._losses, self._span = len(self._store.losses), None
                self._holes.clear()
            except Exception as error:
                await self._wait(error, pause)
            else:
                self._trouble.go()
                return worked
        return False

    async def _wait(self, error: Exception, pause: float) -> None:
        self._trouble.come(error)
        told = error.retry_after if isinstance(error, Busy) else None
        await self._sleep(min(max(pause, told or 0.0), _LONGEST_PAUSE_SECONDS))

    def _tell(self, due: int) -> None:
        if self._span is None or due - self._span.until <= _BEHIND_SECONDS:
            self._shown.end()
        else:
            self._shown.tell(self._span.until, due)

    def _until_next(self) -> float:
        """Seconds, until the next window can be read."""
        if self._span is None:
            return 1.0
        ready = self._span.until + WINDOW_SECONDS + self._delay - (self._clock() + self._ahead)
        return min(max(ready, 0.1), WINDOW_SECONDS)


def _full_hour(at: float) -> int:
    return int(at // _HOUR_SECONDS) * _HOUR_SECONDS


def _full_minute(at: float) -> int:
    return int(at // WINDOW_SECONDS) * WINDOW_SECONDS


def _pauses() -> Iterator[float]:
    """1, 2, 4, … seconds, without end."""
    pause = 1.0
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
