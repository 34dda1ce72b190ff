"""Quantiles of many histograms at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from exporters.histogram import Histogram, quantile
from monitor.history.packed import Floats, Ints, Merged


def quantiles(merged: Sequence[Merged], q: float, grid: tuple[float, ...], cells: int) -> tuple[Floats, Floats, Floats]:
    """Estimate, lower and upper of each cell as `exporters.histogram.quantile` tells them; NaN without any request."""
    found = tuple(np.full(cells, np.nan) for _ in range(3))
    kinds = np.bincount(np.concatenate([np.zeros(0, np.int64), *(each.cells for each in merged)]), minlength=cells)
    mixed: defaultdict[int, list[Histogram]] = defaultdict(list)
    for each in merged:
        alone = kinds[each.cells] == 1
        for told, of_alone in zip(found, _of_one(each.bounds, each.counts[alone], q), strict=True):
            told[each.cells[alone]] = of_alone
        for cell, counts in zip(each.cells[~alone].tolist(), each.counts[~alone].tolist(), strict=True):
            mixed[cell].append(Histogram(each.bounds, tuple(counts)))
    for cell, histograms in mixed.items():
        one = quantile(histograms, q, grid)
        if one is not None:
            for told, number in zip(found, (one.estimate, one.lower, one.upper), strict=True):
                told[cell] = number
    return found[0], found[1], found[2]


def _of_one(bounds: tuple[float, ...], counts: Floats, q: float) -> tuple[Floats, Floats, Floats]:
    """Of histograms with the same bounds, a row each: the same arithmetic as for a single one, to the last bit."""
    total = counts[:, -1]
    first = np.floor(q * (total - 1)) + 1
    edges = np.array([0.0, *bounds, np.inf])
    upper = edges[_below(counts[:, :-1], np.minimum(first + 1, total)) + 1]
    lower = np.minimum(edges[_below(counts[:, :-1], first)], upper)
    return np.clip(_interpolated(bounds, counts, q * total), lower, upper), lower, upper


def _below(counts: Floats, rank: Floats) -> Ints:
    """How many of the counts of each row are smaller."""
    smaller: Ints = np.count_nonzero(counts < rank[:, None], axis=1)
    return smaller


def _interpolated(bounds: tuple[float, ...], counts: Floats, rank: Floats) -> Floats:
    if not bounds:
        return np.zeros(len(counts))
    # The overflow reads as the largest bound, and so does an edge below a first bucket that reaches below 0.
    edges = np.array([min(0.0, bounds[0]), *bounds, bounds[-1]])
    padded = np.hstack([np.zeros((len(counts), 1)), counts])
    bucket, row = _below(counts, rank), np.arange(len(counts))
    low, high = edges[bucket], edges[bucket + 1]
    before, width = padded[row, bucket], padded[row, bucket + 1] - padded[row, bucket]
    share = np.divide((high - low) * (rank - before), width, out=np.zeros(len(counts)), where=width > 0)
    return np.where(width > 0, low + share, high)
