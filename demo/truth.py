"""What really happened: exact numbers of all requests, to which everything shown can be held.

A window holds what happened after its start, up to and including its end. A percentile is by nearest rank: the
smallest value that at least this share of all values do not exceed.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, get_args

from demo.model import Reason, Request
from demo.observers import Silent

Measure = Literal["time_to_first_token", "duration", "queue", "per_output_token", "between_tokens"]
"""By the moment of: the first token, the end, being scheduled, the end, the later token.

Duration and time per output token are of requests that were answered; an answer of one token has none of the latter."""
ANSWERED: Collection[Reason] = ("stop", "length")
_REASONS: tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True, slots=True)
class Window:
    start: float = -math.inf
    end: float = math.inf


ALWAYS = Window()


class Column:
    """Rows of numbers, in order of their moments. They come nearly in order."""

    def __init__(self, width: int) -> None:
        self._moments = array("d")
        self._values = tuple(array("d") for _ in range(width))

    def add(self, now: float, *values: float) -> None:
        moments = self._moments
        place = len(moments) if not moments or moments[-1] <= now else bisect_right(moments, now)
        moments.insert(place, now)
        for column, value in zip(self._values, values, strict=True):
            column.insert(place, value)

    def _within(self, window: Window) -> slice:
        return slice(bisect_right(self._moments, window.start), bisect_right(self._moments, window.end))

    def rows(self, window: Window) -> Iterator[tuple[float, ...]]:
        within = self._within(window)
        return zip(*(column[within] for column in self._values), strict=True)

    def count(self, window: Window) -> int:
        return bisect_right(self._moments, window.end) - bisect_right(self._moments, window.start)

    def forget(self, before: float) -> None:
        rows = bisect_right(self._moments, before)
        for column in (self._moments, *self._values):
            del column[:rows]


class Witness(Silent):
    """Of one engine."""

    def __init__(self) -> None:
        self.arrivals, self.rejections, self.losses, self.preemptions = (Column(0) for _ in range(4))
        self.schedules = Column(3)
        """Seconds in the queue, tokens of the prompt, those of them that were cached."""
        self.first_tokens = Column(1)
        """Seconds since arrival."""
        self.tokens = Column(2)
        """Seconds since the last token, count."""
        self.ends = Column(5)
        """Seconds since arrival and since the first token, prompt tokens, generated tokens, place of the reason."""
        self.halts: list[Window] = []
        """In which it hung."""

    @property
    def columns(self) -> tuple[Column, ...]:
        events = (self.arrivals, self.rejections, self.losses, self.preemptions)
        return (*events, self.schedules, self.first_tokens, self.tokens, self.ends)

    def arrived(self, request: Request, now: float) -> None:
        if not request.is_prefilled:
            self.arrivals.add(now)

    def rejected(self, _request: Request, now: float, /) -> None:
        self.rejections.add(now)

    def scheduled(self, request: Request, now: float) -> None:
        if not request.is_prefilled:
            self.schedules.add(now, now - request.arrived, request.prompt_tokens, request.cached_tokens)

    def first_token(self, request: Request, now: float) -> None:
        self.first_tokens.add(now, now - request.arrived)

    def gaps(self, seconds: float, count: int, now: float) -> None:
        self.tokens.add(now, seconds, count)

    def preempted(self, _request: Request, now: float, /) -> None:
        self.preemptions.add(now)

    def finished(self, request: Request, now: float) -> None:
        since_first = math.nan if request.first_token is None else now - request.first_token
        reason = _REASONS.index(request.reason or "error")
        lengths = request.prompt_tokens, request.generated_tokens
        self.ends.add(now, now - request.arrived, since_first, *lengths, reason)

    def stood_still(self, since: float, until: float) -> None:
        self.halts.append(Window(since, until))

    def ended(self, now: float) -> None:
        """Its process, that no longer hangs either."""
        self.halts = [Window(halt.start, min(halt.end, now)) for halt in self.halts if halt.start < now]

    def lost(self, requests: Iterable[Request], now: float) -> None:
        """What `Engine.crash` says was lost."""
        for _ in requests:
            self.losses.add(now)


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds; None without any value."""

    count: int
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """`finished` counts by reason. Tokens count when scheduled or generated, whatever becomes of them. `hung_seconds`
    are those of all engines together."""

    arrived: int
    rejected: int
    lost: int
    preempted: int
    finished: dict[str, int]
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    hit_ratio: float | None
    hung_seconds: float
    latency: dict[str, Latency]


class Truth:
    """Of all engines, by their names."""

    def __init__(self) -> None:
        self._witnesses: dict[str, Witness] = {}

    def observer(self, engine: str) -> Witness:
        """The same for each time that this engine is started."""
        return self._witnesses.setdefault(engine, Witness())

    def forget(self, before: float) -> None:
        for witness in self._witnesses.values():
            for column in witness.columns:
                column.forget(before)
            witness.halts = [halt for halt in witness.halts if halt.end > before]

    def values(
        self, measure: Measure, window: Window = ALWAYS, engines: Collection[str] | None = None
    ) -> list[tuple[float, int]]:
        """Each with how many times it was measured, the smallest first."""
        found = chain.from_iterable(_measured(witness, measure, window) for witness in self._chosen(engines))
        return sorted(found)

    def percentile(
        self, measure: Measure, share: float, window: Window = ALWAYS, engines: Collection[str] | None = None
    ) -> float | None:
        return percentile(self.values(measure, window, engines), share)

    def within(
        self, measure: Measure, seconds: float, window: Window = ALWAYS, engines: Collection[str] | None = None
    ) -> tuple[int, int]:
        """So many values are at most that long, of so many: what a budget is spent by."""
        values = self.values(measure, window, engines)
        return sum(count for value, count in values if value <= seconds), sum(count for _, count in values)

    def tokens_per_second(self, window: Window, engines: Collection[str] | None = None) -> float:
        """Prompt and output tokens of the requests that ended, as benchmarks count."""
        ended = sum(prompt + output for w in self._chosen(engines) for _, _, prompt, output, _ in w.ends.rows(window))
        return ended / (window.end - window.start)

    def summary(self, window: Window = ALWAYS, engines: Collection[str] | None = None) -> Summary:
        chosen = self._chosen(engines)
        schedules = [row for w in chosen for row in w.schedules.rows(window)]
        prompt, cached = (int(sum(row[place] for row in schedules)) for place in (1, 2))
        ends = Counter(_REASONS[int(row[4])] for w in chosen for row in w.ends.rows(window))
        return Summary(
            arrived=sum(w.arrivals.count(window) for w in chosen),
            rejected=sum(w.rejections.count(window) for w in chosen),
            lost=sum(w.losses.count(window) for w in chosen),
            preempted=sum(w.preemptions.count(window) for w in chosen),
            finished={reason: ends[reason] for reason in _REASONS},
            prompt_tokens=prompt,
            cached_tokens=cached,
            generated_tokens=sum(_generated(w, window) for w in chosen),
            hit_ratio=cached / prompt if prompt else None,
            hung_seconds=sum(_shared(halt, window) for w in chosen for halt in w.halts),
            latency={m: _latency(self.values(m, window, engines)) for m in get_args(Measure)},
        )

    def _chosen(self, engines: Collection[str] | None) -> list[Witness]:
        return [witness for name, witness in self._witnesses.items() if engines is None or name in engines]


def percentile(values: Sequence[tuple[float, int]], share: float) -> float | None:
    """Of sorted values with their counts."""
    rank, seen = share * sum(count for _, count in values), 0
    for value, count in values:
        seen += count
        if seen >= rank:
            return value
    return None


def _measured(witness: Witness, measure: Measure, window: Window) -> Iterator[tuple[float, int]]:
    match measure:
        case "between_tokens":
            return ((seconds, int(count)) for seconds, count in witness.tokens.rows(window))
        case "time_to_first_token":
            return ((seconds, 1) for (seconds,) in witness.first_tokens.rows(window))
        case "queue":
            return ((seconds, 1) for seconds, _, _ in witness.schedules.rows(window))
        case "duration":
            return ((row[0], 1) for row in _answered(witness, window))
        case "per_output_token":
            return ((row[1] / (row[3] - 1), 1) for row in _answered(witness, window) if row[3] > 1)


def _answered(witness: Witness, window: Window) -> Iterator[tuple[float, ...]]:
    return (row for row in witness.ends.rows(window) if _REASONS[int(row[4])] in ANSWERED)


def _generated(witness: Witness, window: Window) -> int:
    return witness.first_tokens.count(window) + int(sum(count for _, count in witness.tokens.rows(window)))


def _shared(one: Window, other: Window) -> float:
    return max(0.0, min(one.end, other.end) - max(one.start, other.start))


def _latency(values: Sequence[tuple[float, int]]) -> Latency:
    count = sum(times for _, times in values)
    mean = sum(value * times for value, times in values) / count if count else None
    return Latency(count, mean, *(percentile(values, share) for share in (0.5, 0.9, 0.99)))
