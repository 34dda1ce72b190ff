"""Counters as they were read last within each minute: enough for the increase of a steady window. Pure.

A window is steady if nothing happened that only single readings tell. Then its increase is the value at its end minus
that at its start, which is what reading by reading adds up to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from exporters.delta import is_another_process
from exporters.observation import Observation
from monitor.history.copies import base_of, chosen, fell
from monitor.history.minutes import LOOKBACK_SECONDS, WINDOW_SECONDS, Base
from monitor.readings import engines, identity
from monitor.sources.prometheus import readings
from monitor.sources.prometheus.readings import Copy, Scrape, ServerSample, Target
from monitor.sources.rebuild import Part

STEP_SECONDS = 59.999
"""How far back a step looks: the minute without its left edge, which some servers take in and others leave out."""
_LEFT_OUT_MS = 1
"""After the edge: there the latter leave out a sample that belongs to the minute."""

Copies = Mapping[Copy, Sequence[Scrape[ServerSample]]]


@dataclass(frozen=True, slots=True)
class Reading:
    """Without counters."""

    copy: Copy
    scrape: Scrape[ServerSample]
    observation: Observation

    @property
    def at(self) -> float:
        return self.scrape.at


@dataclass(frozen=True, slots=True)
class Counted:
    """What the increase of a window counts from, and readings with their counters, by moment."""

    base: Base | None
    whole: Mapping[float, Observation] = field(default_factory=dict)
    silent: Observation | None = None
    """Holds engines that have counters alone, which the other readings do not show."""

    def shown(self, reading: Reading) -> Observation:
        if reading.at in self.whole:
            return self.whole[reading.at]
        if self.silent is None or not reading.observation.available:
            return reading.observation
        values = {**self.silent.values, **reading.observation.values}
        return replace(reading.observation, values=values, histograms=self.silent.histograms)


def observed(of: Target, copies: Copies) -> list[Reading]:
    return [Reading(copy, scrape, readings.observation(of, scrape)) for copy, scrape in chosen(copies)]


class Steps:
    """Of one target. `minutes` are dated by the end of the minute; `resets` are windows in or shortly before which a
    counter fell."""

    def __init__(self, of: Target, minutes: Copies, resets: Collection[int]) -> None:
        self._of = of
        self._minutes = {(copy, round(s.at)): s.samples for copy, scrapes in minutes.items() for s in scrapes}
        self._resets = resets
        self._made: dict[tuple[Copy, float, int], Observation] = {}

    def counted(self, start: int, recent: Sequence[Reading]) -> Counted | None:
        """`recent` are the readings of the window and of its context. None where it is not steady."""
        complete = [reading for reading in recent if reading.observation.is_complete]
        first = next((n for n, reading in enumerate(complete) if reading.at > start), 0)
        run = complete[max(first - 1, 0) :]
        if first == 0 or start in self._resets or not (_is_one_copy(recent, start) and _is_one_process(complete)):
            return None
        return self._between(start, run[0], run[-1]) if _is_one_run(run) else None

    def _between(self, start: int, base: Reading, last: Reading) -> Counted | None:
        at_end = self._at(last, start + WINDOW_SECONDS)
        now = base_of(at_end)
        before = base_of(self._at(base, start))
        if not _has_all(before, now):  # what was away at the start may have been there shortly before
            before = base_of(self._within(base, start))
        if not _has_all(before, now) or fell(before, now):
            return None
        return Counted(before, {last.at: at_end}, silent(at_end, last.observation))

    def _at(self, reading: Reading, minute: int) -> Observation:
        """The end of a window is mostly the start of the next."""
        key = reading.copy, reading.at, minute
        if key not in self._made:
            self._made[key] = self._whole(reading, self._minutes.get((reading.copy, minute), ()))
        return self._made[key]

    def _within(self, reading: Reading, minute: int) -> Observation:
        counters: dict[Part, float] = {}
        for each in range(minute + WINDOW_SECONDS - int(LOOKBACK_SECONDS), minute + 1, WINDOW_SECONDS):
            counters.update(self._minutes.get((reading.copy, each), ()))
        return self._whole(reading, counters.items())

    def _whole(self, reading: Reading, counters: Iterable[ServerSample]) -> Observation:
        return readings.observation(self._of, Scrape(reading.at, [*counters, *reading.scrape.samples]))


def _has_all(before: Base, now: Base) -> bool:
    return now.values.keys() <= before.values.keys() and now.histograms.keys() <= before.histograms.keys()


def silent(whole: Observation, gauges: Observation) -> Observation | None:
    """Some servers count for all of their engines together, under no number: taken as there all along."""
    of = set(engines(whole)) - set(engines(gauges))
    if not of:
        return None
    values = {series: value for series, value in whole.values.items() if identity(series) in of}
    return replace(whole, values=values, histograms={s: h for s, h in whole.histograms.items() if identity(s) in of})


def _is_one_copy(recent: Sequence[Reading], start: int) -> bool:
    """Of which each step tells all."""
    moments = (round(reading.at * 1000) for reading in recent if reading.at > start - LOOKBACK_SECONDS)
    is_told = all(moment % (WINDOW_SECONDS * 1000) != _LEFT_OUT_MS for moment in moments)
    return is_told and len({reading.copy for reading in recent}) == 1


def _is_one_process(complete: Sequence[Reading]) -> bool:
    starts = [start for reading in complete if (start := reading.observation.start_time) is not None]
    return not starts or not is_another_process(min(starts), max(starts))


def _is_one_run(readings: Sequence[Reading]) -> bool:
    """The same engines all along, and never too long a silence."""
    seen = {tuple(engines(r.observation)) if r.observation.available else None for r in readings}
    return len(seen) == 1 and None not in seen and readings[-1].at - readings[0].at <= LOOKBACK_SECONDS
