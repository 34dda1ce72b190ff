"""Which minutes may be compared, and in what pieces. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from exporters.histogram import Histogram, quantile
from exporters.rhythm import Rhythm, TokenTiming
from exporters.schema import E2E
from exporters.tables import FRONTENDS
from exporters.wire import parse_version
from monitor.compare.model import Band, Estimate
from monitor.compare.rows import MINUTE, Counts, Flags, Number, Rows
from monitor.history.packed import Floats, Ints

DURATIONS = 3
"""Of requests, by their P99: so long is a window of a server whose tokens count when a request finishes. What began
before it is then as good as made up for by what ends after it."""
LONGEST_BY_MEAN = 3
"""The P99 of durations by their mean, where only the mean is known."""


def steady_bands(rows: Rows) -> tuple[Ints, Flags]:
    """The band of each minute, and whether it is one: together with the minutes beside it it is in the same.

    A gauge that is read a few times in a minute may miss what most of it was like; and where the load jumps, latencies
    are those of requests that began before.
    """
    band = band_numbers(rows.at_once)
    return band, band == band_numbers(_with_those_beside(rows))


def _with_those_beside(rows: Rows) -> Floats:
    """Mean requests at once of each minute, the one before and the one after, as far as they are there."""
    at_once = rows.at_once
    total, many = at_once.copy(), np.ones(len(rows))
    follows = (np.diff(rows.start) == MINUTE) & (np.diff(rows.server) == 0)
    for one, other in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
        there = follows & ~np.isnan(at_once[other])
        total[one] += np.where(there, at_once[other], 0.0)
        many[one] += there
    found: Floats = total / many
    return found


def band_numbers(at_once: Floats) -> Ints:
    """The exponent of each band; -1 of a server that is as good as idle."""
    busy = at_once >= Band(1).low
    found: Ints = np.where(busy, np.floor(np.log2(np.where(busy, at_once, 1.0)) + 0.5), -1).astype(np.int64)
    return found


def counts_live(frontend: str, version: str) -> bool:
    """Whether tokens are counted while requests run, as far as is known."""
    rhythm = FRONTENDS[frontend].rhythm if frontend in FRONTENDS else Rhythm()
    if rhythm.token_timing is not TokenTiming.LIVE:
        return False
    return not (rhythm.live_since and version) or parse_version(version) >= parse_version(rhythm.live_since)


def longest(rows: Rows) -> Estimate:
    """The P99 of the duration of these requests, in seconds; 0 where nothing tells it.

    Where durations are not measured, by Little's law: so many ran at once, and so many ended in a second.
    """
    told = quantile(histograms(rows.phases["e2e"]), 0.99, E2E.grid)
    if told is not None:
        return Estimate(told.estimate, lower=told.lower, upper=told.estimate if told.at_least else told.upper)
    ended = np.nansum(rows.number(Number.FINISHED))
    at_once = np.nansum(rows.number(Number.AT_ONCE)) * MINUTE
    by_mean = float(LONGEST_BY_MEAN * at_once / ended) if ended > 0 else 0.0
    return Estimate(by_mean, lower=0.0, upper=by_mean)


def histograms(parts: Sequence[Counts]) -> list[Histogram]:
    """Of all rows together."""
    cumulative = [(part.bounds, np.cumsum(part.counts.sum(axis=0, dtype=np.float64))) for part in parts]
    return [Histogram(bounds, tuple(counts.tolist())) for bounds, counts in cumulative if counts[-1] > 0]


def runs(rows: Rows, band: Ints, label: Ints) -> Ints:
    """Where minutes begin that do not just go on: of the same server, in the same band and under the same label."""
    if not len(rows):
        return np.zeros(0, np.int64)
    goes_on = np.diff(rows.start) == MINUTE
    for each in (rows.server, band, label):
        goes_on &= np.diff(each) == 0
    return np.concatenate([[0], np.flatnonzero(~goes_on) + 1])


def steady(rows: Rows, band: Ints, label: Ints, least: Ints) -> tuple[Flags, Ints]:
    """Which minutes lie in a run of at least so many, and of those where windows of at least so many begin.

    `least` is by row; of a server whose tokens count live it is 1, and each minute a window.
    """
    first = runs(rows, band, label)
    length = np.diff(np.append(first, len(rows)))
    wanted = least[first] if len(rows) else least
    kept = length >= wanted
    begins = np.zeros(len(rows), bool)
    for start, many, size in zip(first[kept].tolist(), length[kept].tolist(), wanted[kept].tolist(), strict=True):
        begins[start : start + many - size + 1 : size] = True
    inside = np.repeat(kept, length)
    return inside, np.flatnonzero(begins[inside])


def window_minutes(p99: Estimate) -> int:
    """At its most."""
    return max(1, math.ceil(DURATIONS * (p99.upper or 0.0) / MINUTE))
