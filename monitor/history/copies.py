"""Several copies of one target, as several jobs or replicas scraped it: which one tells a window, and what follows when
it is another one than before. Pure.

The increase of a window counts from the last reading before it, whichever copy that is of: so what two copies both saw
counts once. Clocks may differ, so a copy may lie behind the one before: then nothing was added, and nothing was reset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from exporters.delta import is_another_process, subtract
from exporters.observation import Observation
from monitor.history.minutes import LOOKBACK_SECONDS, Base, increase_since, window_of
from monitor.sources.prometheus.readings import Copy, Scrape

S = TypeVar("S")


def chosen(copies: Mapping[Copy, Sequence[Scrape[S]]]) -> list[tuple[Copy, Scrape[S]]]:
    """In order of time: of each window the copy that has the most readings in it."""
    if len(copies) == 1:
        return [(copy, scrape) for copy, scrapes in copies.items() for scrape in scrapes]
    windows: defaultdict[int, defaultdict[Copy, list[Scrape[S]]]] = defaultdict(lambda: defaultdict(list))
    for copy, scrapes in copies.items():
        for scrape in scrapes:
            windows[window_of(scrape.at)][copy].append(scrape)
    return [(copy, scrape) for _, of in sorted(windows.items()) for copy, most in [_most(of)] for scrape in most]


def _most(copies: Mapping[Copy, list[S]]) -> tuple[Copy, list[S]]:
    return min(copies.items(), key=lambda item: (-len(item[1]), item[0]))


def base_of(reading: Observation) -> Base:
    return increase_since(None, reading, reading.at)[1]


def aligned(base: Base | None, reading: Observation, own: Sequence[Observation]) -> Observation:
    """The reading, or if it lies behind `base` one that says the same as `base`.

    `own` are the complete readings of its copy, in order of time, this one among them.
    """
    if base is None or reading.at - base.at > LOOKBACK_SECONDS:
        return reading
    now = base_of(reading)
    if not fell(base, now) or not _is_behind(base, now, own):
        return reading
    values = {s: base.values.get(s) if s in now.values else v for s, v in reading.values.items()}
    return replace(
        reading,
        values={series: value for series, value in values.items() if value is not None},
        histograms={series: base.histograms[series] for series in now.histograms if series in base.histograms},
        start_time=base.start_time,
    )


def _is_behind(base: Base, now: Base, own: Sequence[Observation]) -> bool:
    """Whether it is older news of the same process, or news of an older one."""
    before, after = base.start_time, now.start_time
    if before is not None and after is not None and is_another_process(before, after):
        return after < before
    since, until = (bisect_right(own, moment, key=lambda reading: reading.at) for moment in (base.at, now.at))
    is_same_process = before is not None and after is not None
    # A copy that was not there before shows no reset, whatever happened: one more is likelier a pod that is new.
    return (is_same_process or since > 0) and not _shows_reset(own[max(since - 1, 0) : until])


def _shows_reset(readings: Iterable[Observation]) -> bool:
    return any(fell(base_of(earlier), base_of(later)) for earlier, later in pairwise(readings))


def fell(base: Base, now: Base) -> bool:
    if is_another_process(base.start_time, now.start_time):
        return True
    known = (h for h in now.histograms.items() if h[0] in base.histograms)
    return any(value < base.values.get(series, value) for series, value in now.values.items()) or any(
        subtract(histogram, base.histograms[series]) is None for series, histogram in known
    )
