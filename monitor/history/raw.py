"""Counters reading by reading, for windows that are not steady. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from exporters.observation import Observation
from monitor.history.copies import aligned
from monitor.history.minutes import Base, increase_since, window_of
from monitor.history.steps import Copies, Counted, Reading, silent
from monitor.sources.prometheus import readings
from monitor.sources.prometheus.readings import Copy, Scrape, Target


class Raw:
    """Of one target. A reading whose counters are not among `counters` has none."""

    def __init__(self, of: Target, gauges: Copies, counters: Copies) -> None:
        self._whole: defaultdict[Copy, dict[float, Observation]] = defaultdict(dict)
        for copy, scrapes in counters.items():
            others = {scrape.at: scrape.samples for scrape in gauges.get(copy, ())}
            for scrape in scrapes:
                samples = [*scrape.samples, *others.get(scrape.at, ())]
                self._whole[copy][scrape.at] = readings.observation(of, Scrape(scrape.at, samples))

    def counted(self, start: int, recent: Sequence[Reading]) -> Counted:
        """`recent` are the readings of the window and of its context."""
        base: Base | None = None
        at_start: Base | None = None
        found: dict[float, Observation] = {}
        several = len({reading.copy for reading in recent}) > 1
        for reading in recent:
            whole = self._whole[reading.copy].get(reading.at, reading.observation)
            if several:
                whole = aligned(base, whole, self._own(reading.copy, recent[0].at))
            if whole.is_complete:
                base = increase_since(base, whole, window_of(whole.at))[1]
            if reading.at <= start:
                at_start = base
            found[reading.at] = whole
        read = [reading for reading in recent if reading.at > start and reading.observation.available]
        return Counted(at_start, found, silent(found[read[-1].at], read[-1].observation) if read else None)

    def _own(self, copy: Copy, since: float) -> list[Observation]:
        return [whole for at, whole in self._whole[copy].items() if at >= since and whole.is_complete]
