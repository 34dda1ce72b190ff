"""Asks a Prometheus for what the history's windows are worked out from."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from alerts import promql
from alerts.promql import Matcher
from monitor.config import PrometheusSection
from monitor.history.asked import COUNTERS, FALLING, GAUGES, PRESENCE
from monitor.history.minutes import LOOKBACK_SECONDS, WINDOW_SECONDS
from monitor.history.reread import AHEAD_SECONDS, CONTEXT_SECONDS, MEMORY_SECONDS, Excerpt, Found, Reread, spans
from monitor.history.steps import STEP_SECONDS, Copies
from monitor.sources.prometheus import readings
from monitor.sources.prometheus.answers import Points
from monitor.sources.prometheus.client import Client
from monitor.sources.prometheus.readings import Target

_RESETS_SECONDS = LOOKBACK_SECONDS + WINDOW_SECONDS
_MAX_QUESTION = 12_000
"""Characters; VictoriaMetrics refuses more than 16 KiB."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Windows of some targets that are worked out together: those that start at `since` or later and before `until`."""

    targets: tuple[Target, ...]
    since: int
    until: int

    @property
    def windows(self) -> int:
        return (self.until - self.since) // WINDOW_SECONDS


class Excerpts:
    def __init__(self, client: Client, config: PrometheusSection) -> None:
        self._client = client
        self._selector = config.selector
        self._dropped = readings.dropped_labels(config.replica_labels)

    async def targets(self, since: int, until: int) -> list[Target]:
        """Those that have windows in that time, be they gaps. Raises SourceError."""
        up = promql.selector(PRESENCE[:1], *self._selector)
        series = await self._client.query(promql.over_time("count", up, until - since + MEMORY_SECONDS), until)
        found = {(one.labels.get("node", ""), one.labels.get("server", "")) for one in series}
        return sorted((node, server) for node, server in found if node and server)

    async def found(self, piece: Piece, now: float) -> Found:
        """Windows and events; `now` is the server's. Raises SourceError."""
        reread = await asyncio.to_thread(self._reread, piece, *await self._asked(piece, now))
        raw, memory = await self._raw(reread), await self._memory(piece, reread)
        return await asyncio.to_thread(_all_found, reread, raw, memory)

    async def _asked(self, piece: Piece, now: float) -> tuple[list[Points], list[Points], set[tuple[Target, int]]]:
        """Raw gauges, counters at the ends of minutes, and windows with resets."""
        who, since, until = self._who(piece.targets), piece.since, piece.until
        begin, end = since - CONTEXT_SECONDS, min(until + AHEAD_SECONDS, now)
        gauges = await self._client.query(promql.raw(promql.selector(GAUGES, *who), end - begin), end)
        steps = promql.over_time("last", promql.selector(COUNTERS, *who), STEP_SECONDS)
        first = since + WINDOW_SECONDS - int(LOOKBACK_SECONDS)
        minutes = await self._client.query_range(steps, first, until, WINDOW_SECONDS)
        return gauges, minutes, await self._resets(who, since, until)

    async def _resets(self, who: Sequence[Matcher], since: int, until: int) -> set[tuple[Target, int]]:
        found: set[tuple[Target, int]] = set()
        for question in _questions(FALLING, who):
            for one in await self._client.query_range(question, since + WINDOW_SECONDS, until, WINDOW_SECONDS):
                of = one.labels.get("node", ""), one.labels.get("server", "")
                found |= {(of, round(at) - WINDOW_SECONDS) for at, _ in one.points}
        return found

    def _reread(
        self, piece: Piece, gauges: Iterable[Points], minutes: Iterable[Points], resets: Collection[tuple[Target, int]]
    ) -> dict[Target, Reread]:
        of_gauges, of_minutes = readings.servers(gauges, self._dropped), readings.servers(minutes, self._dropped)
        with_resets: defaultdict[Target, set[int]] = defaultdict(set)
        for of, start in resets:
            with_resets[of].add(start)
        excerpts = (Excerpt(of, of_gauges.get(of, {}), of_minutes.get(of, {}), with_resets[of]) for of in piece.targets)
        return {each.target: Reread(each, piece.since, piece.until) for each in excerpts}

    async def _raw(self, reread: Mapping[Target, Reread]) -> Mapping[Target, Copies]:
        """Counters of unsteady windows: asked for together where they are the same, as after a start."""
        wanted: defaultdict[tuple[int, int], list[Target]] = defaultdict(list)
        for of, each in reread.items():
            for span in spans(each.unsteady):
                wanted[span].append(of)
        series: list[Points] = []
        for (after, until), targets in wanted.items():
            counters = promql.selector(COUNTERS, *self._who(targets))
            series += await self._client.query(promql.raw(counters, until - after), until)
        return await asyncio.to_thread(readings.servers, series, self._dropped)

    async def _memory(self, piece: Piece, reread: Mapping[Target, Reread]) -> Mapping[Target, Copies]:
        """What targets were before the context, where that tells nothing."""
        targets = [of for of, each in reread.items() if each.wants_memory]
        if not targets:
            return {}
        before = promql.raw(promql.selector(PRESENCE, *self._who(targets)), MEMORY_SECONDS - CONTEXT_SECONDS)
        series = await self._client.query(before, piece.since - CONTEXT_SECONDS)
        return await asyncio.to_thread(readings.servers, series, self._dropped)

    def _who(self, targets: Collection[Target]) -> tuple[Matcher, ...]:
        """Of several nodes it may be more than these."""
        nodes, servers = zip(*targets, strict=True)
        return promql.one_of("node", nodes), promql.one_of("server", servers), *self._selector


def _questions(names: Sequence[str], who: Sequence[Matcher]) -> Iterator[str]:
    """As few as may be."""
    question = promql.resets(names, ("node", "server"), _RESETS_SECONDS, *who)
    if len(question) <= _MAX_QUESTION or len(names) == 1:
        yield question
    else:
        half = len(names) // 2
        yield from chain(_questions(names[:half], who), _questions(names[half:], who))


def _all_found(reread: Mapping[Target, Reread], raw: Mapping[Target, Copies], memory: Mapping[Target, Copies]) -> Found:
    found = [each.found(raw.get(of, {}), memory.get(of, {})) for of, each in reread.items()]
    return Found(list(chain(*(f.windows for f in found))), list(chain(*(f.events for f in found))))
