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
from monitor.history import gpu_reread
from monitor.history.asked import COUNTERS, EVERY_SCRAPE, FALLING, GAUGES, GPU_ALL, GPU_PRESENCE, PRESENCE
from monitor.history.gpu_reread import GpuReread
from monitor.history.minutes import LOOKBACK_SECONDS, WINDOW_SECONDS
from monitor.history.placed import NOWHERE
from monitor.history.reread import AHEAD_SECONDS, CONTEXT_SECONDS, MEMORY_SECONDS, Excerpt, Found, Reread, spans
from monitor.history.steps import STEP_SECONDS, Copies
from monitor.sources.prometheus import readings
from monitor.sources.prometheus.answers import Points
from monitor.sources.prometheus.client import Client
from monitor.sources.prometheus.readings import Target

GpuScrapes = Mapping[str, gpu_reread.Copies]
"""By node."""

_RESETS_SECONDS = LOOKBACK_SECONDS + WINDOW_SECONDS
_MAX_QUESTION = 12_000
"""Characters; VictoriaMetrics refuses more than 16 KiB."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Windows of some targets that are worked out together: those that start at `since` or later and before `until`.

    A target without a server stands for the GPUs of its node.
    """

    targets: tuple[Target, ...]
    since: int
    until: int

    @property
    def servers(self) -> tuple[Target, ...]:
        return tuple(target for target in self.targets if target[1])

    @property
    def nodes(self) -> list[str]:
        return sorted({node for node, _ in self.targets})

    @property
    def gpu_nodes(self) -> list[str]:
        return [node for node, server in self.targets if not server]


@dataclass(frozen=True, slots=True)
class _Begun:
    """What is known of a piece before it is asked for what that leaves open."""

    servers: Mapping[Target, Reread]
    gpus: Mapping[str, GpuReread]

    @property
    def servers_without_memory(self) -> list[Target]:
        return [of for of, each in self.servers.items() if each.wants_memory]

    @property
    def nodes_without_memory(self) -> list[str]:
        of_servers = {node for node, _ in self.servers_without_memory}
        return [node for node, each in self.gpus.items() if node in of_servers or each.wants_memory]


class Excerpts:
    def __init__(self, client: Client, config: PrometheusSection) -> None:
        self._client = client
        self._selector = config.selector
        self._dropped = readings.dropped_labels(config.replica_labels)
        self._gpu_nodes: set[str] = set()

    async def targets(self, since: int, until: int) -> list[Target]:
        """Those that have windows in that time, be they gaps. Raises SourceError."""
        there = promql.selector(EVERY_SCRAPE, *self._selector)
        series = await self._client.query(promql.over_time("count", there, until - since + MEMORY_SECONDS), until)
        found = {(one.labels.get("node", ""), one.labels.get("server", "")) for one in series}
        self._gpu_nodes |= {node for node, server in found if node and not server}
        return sorted((node, server) for node, server in found if node)

    async def found(self, piece: Piece, now: float) -> Found:
        """Windows and events; `now` is the server's. Raises SourceError."""
        scrapes = await self._gpu_scrapes(piece, now)
        asked = await self._asked(piece, now) if piece.servers else ([], [], set())
        begun = await asyncio.to_thread(self._begun, piece, scrapes, *asked)
        raw, before = await self._raw(begun.servers), await self._before(piece, begun.servers_without_memory)
        gpus_before = await self._gpus_before(piece, begun.nodes_without_memory)
        return await asyncio.to_thread(_all_found, piece, begun, raw, before, gpus_before)

    async def _asked(self, piece: Piece, now: float) -> tuple[list[Points], list[Points], set[tuple[Target, int]]]:
        """Raw gauges, counters at the ends of minutes, and windows with resets."""
        who, since, until = self._who(piece.servers), piece.since, piece.until
        gauges = await self._around(piece, now, promql.selector(GAUGES, *who))
        steps = promql.over_time("last", promql.selector(COUNTERS, *who), STEP_SECONDS)
        first = since + WINDOW_SECONDS - int(LOOKBACK_SECONDS)
        minutes = await self._client.query_range(steps, first, until, WINDOW_SECONDS)
        return gauges, minutes, await self._resets(who, since, until)

    async def _gpu_scrapes(self, piece: Piece, now: float) -> GpuScrapes:
        """Of nodes that have GPUs. What is on them is wanted with the servers too, all else only with the GPUs."""
        nodes = [node for node in piece.nodes if node in self._gpu_nodes]
        if not nodes:
            return {}
        names = GPU_ALL if piece.gpu_nodes else GPU_PRESENCE
        of = promql.selector(names, promql.one_of("node", nodes), *self._selector)
        return await asyncio.to_thread(readings.gpus, await self._around(piece, now, of), self._dropped)

    async def _around(self, piece: Piece, now: float, of: str) -> list[Points]:
        """Raw samples of the windows and of what lies around."""
        begin, end = piece.since - CONTEXT_SECONDS, min(piece.until + AHEAD_SECONDS, now)
        return await self._client.query(promql.raw(of, end - begin), end)

    async def _resets(self, who: Sequence[Matcher], since: int, until: int) -> set[tuple[Target, int]]:
        found: set[tuple[Target, int]] = set()
        for question in _questions(FALLING, who):
            for one in await self._client.query_range(question, since + WINDOW_SECONDS, until, WINDOW_SECONDS):
                of = one.labels.get("node", ""), one.labels.get("server", "")
                found |= {(of, round(at) - WINDOW_SECONDS) for at, _ in one.points}
        return found

    def _begun(
        self,
        piece: Piece,
        scrapes: GpuScrapes,
        gauges: Iterable[Points],
        minutes: Iterable[Points],
        resets: Collection[tuple[Target, int]],
    ) -> _Begun:
        of_gauges, of_minutes = readings.servers(gauges, self._dropped), readings.servers(minutes, self._dropped)
        with_resets: defaultdict[Target, set[int]] = defaultdict(set)
        for of, start in resets:
            with_resets[of].add(start)
        excerpts = (Excerpt(of, of_gauges.get(of, {}), of_minutes.get(of, {}), with_resets[of]) for of in piece.servers)
        return _Begun(
            {each.target: Reread(each, piece.since, piece.until) for each in excerpts},
            {
                node: GpuReread(node, scrapes.get(node, {}), piece.since, piece.until)
                for node in {*scrapes, *piece.gpu_nodes}
            },
        )

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

    async def _before(self, piece: Piece, targets: Collection[Target]) -> Mapping[Target, Copies]:
        """What servers were before the context, where that tells nothing."""
        if not targets:
            return {}
        series = await self._remembered(piece, promql.selector(PRESENCE, *self._who(targets)))
        return await asyncio.to_thread(readings.servers, series, self._dropped)

    async def _gpus_before(self, piece: Piece, nodes: Collection[str]) -> GpuScrapes:
        if not nodes:
            return {}
        of = promql.selector(GPU_PRESENCE, promql.one_of("node", nodes), *self._selector)
        return await asyncio.to_thread(readings.gpus, await self._remembered(piece, of), self._dropped)

    async def _remembered(self, piece: Piece, of: str) -> list[Points]:
        return await self._client.query(promql.raw(of, MEMORY_SECONDS - CONTEXT_SECONDS), piece.since - CONTEXT_SECONDS)

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


def _all_found(
    piece: Piece,
    begun: _Begun,
    raw: Mapping[Target, Copies],
    before: Mapping[Target, Copies],
    gpus_before: GpuScrapes,
) -> Found:
    placed = {node: each.placed(gpus_before.get(node, {})) for node, each in begun.gpus.items()}
    found = Found()
    for of, each in begun.servers.items():
        on = placed.get(of[0], {}).get(of[1], NOWHERE)
        found.add(each.found(raw.get(of, {}), before.get(of, {}), on))
    for node in piece.gpu_nodes:
        if node in begun.gpus:
            found.add(begun.gpus[node].found(gpus_before.get(node, {})))
    return found
