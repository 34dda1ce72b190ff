"""Minutes of GPUs read anew, as `reread` does those of servers: all of them reading by reading, as counters of GPUs are
few. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from exporters.exposition import Sample
from exporters.gpu.gathered import Gathered
from exporters.gpu.observation import GpuObservation
from exporters.observation import Series
from monitor.history.copies import chosen
from monitor.history.gpu_minutes import advance, facts_of, identity_of, increase_since
from monitor.history.minutes import LOOKBACK_SECONDS, WINDOW_SECONDS, Base, Minute, State, Window
from monitor.history.placed import Placed
from monitor.history.placement import Placement, placements
from monitor.history.reread import AHEAD_SECONDS, CONTEXT_SECONDS, MEMORY_SECONDS, Found, max_step
from monitor.history.told import Said, Told
from monitor.readings import counters, own_labels
from monitor.sources.prometheus import readings
from monitor.sources.prometheus.readings import Copy, Scrape

Copies = Mapping[Copy, Sequence[Scrape[Sample]]]


@dataclass(frozen=True, slots=True)
class _Reading:
    """`base` is what its increase counts from."""

    gpu: GpuObservation
    base: Base | None

    @property
    def at(self) -> float:
        return self.gpu.at


class GpuReread:
    """The windows of the GPUs of one node that start at `since` or later and before `until`. `scrapes` reach from
    CONTEXT_SECONDS before the first to AHEAD_SECONDS after the last."""

    def __init__(self, node: str, scrapes: Copies, since: int, until: int) -> None:
        self._node = node
        self._starts = range(since, until, WINDOW_SECONDS)
        self._gathered = _gathered(node, scrapes)
        self._readings = _readings(node, scrapes, self._gathered)

    @property
    def wants_memory(self) -> bool:
        """Whether something is to be known of before the context."""
        told = [Told(map(_said, (reading.gpu for reading in of))) for of in self._readings.values()]
        return not told or not all(each.last(s - CONTEXT_SECONDS, s) for each in told for s in self._starts)

    def found(self, memory: Copies) -> Found:
        """`memory` is what the GPUs were from MEMORY_SECONDS before the first window on, if that is wanted."""
        found = Found()
        before: defaultdict[str, list[GpuObservation]] = defaultdict(list)
        for _, gathered in _gathered(self._node, memory):
            for gpu in gathered.gpus:
                before[gpu.uuid].append(gpu)
        for uuid in sorted({*before, *self._readings}):
            self._read(self._readings.get(uuid, []), before[uuid], found)
        return found

    def placed(self, memory: Copies) -> dict[str, Placed]:
        """By server of the node."""
        of_servers: defaultdict[str, list[tuple[float, Placement]]] = defaultdict(list)
        for _, gathered in (*_gathered(self._node, memory), *self._gathered):
            for server, placement in placements(gathered.gpus).items():
                of_servers[server].append((gathered.at, placement))
        return {server: Placed(told) for server, told in of_servers.items()}

    def _read(self, of: Sequence[_Reading], before: Iterable[GpuObservation], found: Found) -> None:
        told = Told(map(_said, (*before, *(reading.gpu for reading in of))))
        moments = [reading.at for reading in of]
        for start in self._starts:
            first, last = (bisect_right(moments, at) for at in (start, start + WINDOW_SECONDS))
            known = told.last(start - MEMORY_SECONDS, start)
            if first < last:
                context = start - CONTEXT_SECONDS, start
                facts = told.facts(*context) or told.facts(start - MEMORY_SECONDS, start)
                _read_window(of, slice(first, last), State(facts=facts), start, found)
            elif known is not None:
                found.windows.append(Window(start, {known: Minute()}))


def _read_window(of: Sequence[_Reading], inside: slice, state: State, start: int, found: Found) -> None:
    recent = [reading.at for reading in of[: inside.stop] if reading.at > start - LOOKBACK_SECONDS]
    step = max_step(recent)
    for reading in of[max(inside.start - 1, 0) : inside.start]:
        if reading.at > start - CONTEXT_SECONDS:
            advance(state, reading.gpu, step, counted=False)
    state.base = of[inside.start].base
    for reading in of[inside]:
        found.events += advance(state, reading.gpu, step).events
    window = state.window
    for reading in of[inside.stop : inside.stop + 1]:
        if reading.at <= start + WINDOW_SECONDS + AHEAD_SECONDS:
            window = advance(state, reading.gpu, step, counted=False).finished
    if window is not None:
        found.windows.append(window)


def _said(gpu: GpuObservation) -> Said:
    return Said(gpu.at, identity_of(gpu), facts_of(gpu))


def _gathered(node: str, scrapes: Copies) -> list[tuple[Copy, Gathered]]:
    return [(copy, readings.gathered(node, scrape)) for copy, scrape in chosen(scrapes)]


def _readings(node: str, scrapes: Copies, gathered: Iterable[tuple[Copy, Gathered]]) -> dict[str, list[_Reading]]:
    """By uuid."""
    own: defaultdict[tuple[Copy, str], list[GpuObservation]] = defaultdict(list)
    if len(scrapes) > 1:
        for copy, of in scrapes.items():
            for scrape in of:
                for gpu in readings.gathered(node, scrape).gpus:
                    own[copy, gpu.uuid].append(gpu)
    found: defaultdict[str, list[_Reading]] = defaultdict(list)
    bases: dict[str, Base | None] = {}
    for copy, of_node in gathered:
        for gpu in of_node.gpus:
            base = bases.get(gpu.uuid)
            told = _aligned(base, gpu, own[copy, gpu.uuid])
            found[gpu.uuid].append(_Reading(told, base))
            bases[gpu.uuid] = increase_since(base, told)[1] if counters(told.values) else base
    return dict(found)


def _aligned(base: Base | None, gpu: GpuObservation, own: Sequence[GpuObservation]) -> GpuObservation:
    """Where a copy lies behind another that told before, nothing was added, and nothing was reset."""
    before = {} if base is None else base.values
    behind = {s: before[key] for s, v in counters(gpu.values).items() if v < before.get(key := _key(s), v)}
    since, until = (bisect_right(own, at, key=lambda each: each.at) for at in (base.at if base else 0.0, gpu.at))
    if not behind or not since or _shows_reset(own[since - 1 : until]):
        return gpu
    return replace(gpu, values={**gpu.values, **behind})


def _shows_reset(own: Iterable[GpuObservation]) -> bool:
    told = ({_key(s): v for s, v in counters(gpu.values).items()} for gpu in own)
    return any(v < before.get(key, v) for before, now in pairwise(told) for key, v in now.items())


def _key(series: Series) -> Series:
    return Series(series.metric, own_labels(series))
