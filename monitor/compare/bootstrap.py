"""Intervals by resampling blocks of minutes that follow each other. Pure, and the same for the same rows.

Minutes that follow each other are alike: a request lasts for longer than one, and load comes and goes. So blocks of
them are drawn instead of single ones (a moving-block bootstrap, in a circle so that none is drawn less than others),
and everything is worked out anew from what was drawn: ratios of sums, and percentiles of merged histograms. What
several servers did at one time is alike too, and is drawn together.

- A block is a tenth of the time or more, so that there are at most `MOST_BLOCKS`: with ten to thirty of them their
  number costs little, and their length buys what is alike over a long time (Schmeiser, 1982, on batch means). Of a
  short time it is as many minutes as the cube root of their number (Hall, Horowitz and Jing, 1995). It is not shorter
  than the longest requests (P99), which tie minutes together.
- Blocks that follow each other are still a little alike, the more so the shorter they are. How much follows from how
  alike neighbours are, as if each minute were drawn towards the one before (an autoregression of the first order):
  fewer blocks are drawn, in the ratio in which those there are vary too little.
- Few blocks vary too little among themselves: the percentiles that are read are moved outwards by what Student's
  distribution has beyond the normal one (the expanded percentile interval of Hesterberg, 2015). Blocks that are alike
  say as much of how they vary as so many fewer that are not: its degrees of freedom are those of the blocks that are
  drawn.
- With fewer than `LEAST_BLOCKS` there is no interval.
- What is drawn never exceeds the largest that was measured. So the interval of a percentile reaches at least as far as
  the ranks that so many independent requests allow: of fewer than 381 nobody knows how high the P99 is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.compare.model import CONFIDENCE
from monitor.history.packed import Floats, Ints

REPLICATES = 1000
LEAST_BLOCKS, MOST_BLOCKS = 5, 10
MOST_ALIKE = 0.97
"""More cannot be told from a few minutes."""
_LEAST_DEGREES = 2.0
"""With fewer the interval reaches from the lowest to the highest replicate anyway."""
_NORMAL = NormalDist()
_ROUNDING = 1e-9
"""So that the cube root of 27 is 3."""


@dataclass(frozen=True, slots=True)
class Together:
    """Rows of the same time, in order of time."""

    order: Ints
    begins: Ints

    @classmethod
    def at(cls, time: Ints) -> Together:
        """Of the time of each row, in whatever unit."""
        order = np.argsort(time, kind="stable")
        return cls(order, np.flatnonzero(np.diff(time[order], prepend=-1)))

    def __len__(self) -> int:
        return len(self.begins)

    def sums(self, columns: NDArray[np.floating[Any]]) -> Floats:
        found: Floats = np.add.reduceat(columns[self.order], self.begins, axis=0, dtype=np.float64)
        return found


@dataclass(frozen=True, slots=True)
class Draws:
    """Which blocks make each replicate: a line of first rows for each. There are `blocks` in the rows, which are worth
    as much as so many that are not alike."""

    rows: int
    length: int
    blocks: int
    worth: float
    first: Ints

    def sums(self, columns: NDArray[np.floating[Any]]) -> Floats:
        """Of each column over the rows that were drawn, a line for each replicate. A column may not hold NaN."""
        around = np.concatenate([columns, columns[: self.length]])
        total = np.concatenate([np.zeros((1, columns.shape[1])), np.cumsum(around, axis=0, dtype=np.float64)])
        blocks = total[self.length : self.length + self.rows] - total[: self.rows]
        drawn = np.zeros((len(self.first), columns.shape[1]))
        for place in self.first.T:
            drawn += blocks[place]
        return drawn

    def interval(self, low: Floats, high: Floats) -> tuple[float, float] | None:
        """Of replicates of a lower and an upper bound, which may be the same; None where some of them have none."""
        if np.isnan(low).any() or np.isnan(high).any():
            return None
        tail = tail_of(self.blocks, self.worth)
        return float(np.quantile(low, tail, method="lower")), float(np.quantile(high, 1 - tail, method="higher"))


def draws(rows: int, least_minutes: float, seed: int, of_row: float = 1.0, alike: float = 0.0) -> Draws | None:
    """Of rows of `of_row` minutes on average, which are so much `alike`. None where there are too few blocks."""
    length = block_rows(rows, least_minutes, of_row)
    blocks = rows // length
    if blocks < LEAST_BLOCKS:
        return None
    worth = blocks / _lacking(blocks, length, alike)
    drawn = max(1, math.floor(worth + _ROUNDING))
    return Draws(rows, length, blocks, worth, np.random.default_rng(seed).integers(rows, size=(REPLICATES, drawn)))


def block_rows(rows: int, least_minutes: float, of_row: float = 1.0) -> int:
    """How many rows a block is long."""
    minutes = rows * of_row
    length: int = math.ceil(max(minutes ** (1 / 3), least_minutes, minutes / MOST_BLOCKS) / of_row - _ROUNDING)
    return length


def likeness(values: Floats) -> float:
    """The correlation of neighbours, 0 or more; what is not known is left out.

    That of a few values is too small on average: by (1 + 3ρ) / n (Kendall, 1954).
    """
    known = values[~np.isnan(values)]
    apart = known - known.mean() if len(known) else known
    varies = float(apart @ apart)
    if varies <= _ROUNDING * float(known @ known):
        return 0.0
    found = float(apart[1:] @ apart[:-1]) / varies
    return min(max(0.0, found + (1 + 3 * found) / len(known)), MOST_ALIKE)


def _lacking(blocks: int, length: int, alike: float) -> float:
    """The variance of the mean of all rows by that which blocks show, as the means of these differ among themselves."""
    whole, one = (_variance(rows, alike) for rows in (blocks * length, length))
    return whole * (blocks - 1) / (one - whole)


def _variance(rows: int, alike: float) -> float:
    """Of the mean of so many, by that of a single one."""
    apart = np.arange(1, rows)
    return float(1 + 2 * ((1 - apart / rows) * alike**apart).sum()) / rows


def tail_of(blocks: int, worth: float) -> float:
    """Which share of the replicates lies beyond each end of the interval."""
    return _NORMAL.cdf(-math.sqrt(blocks / (blocks - 1)) * _student(max(worth - 1, _LEAST_DEGREES)))


def ranks(q: float, many: float) -> tuple[float, float]:
    """Between which quantiles of so many requests the true one lies, by the binomial distribution (its normal
    approximation); 0 and 1 are all that was measured and beyond."""
    reach = _NORMAL.inv_cdf((1 + CONFIDENCE) / 2) * math.sqrt(q * (1 - q) / many)
    return max(0.0, q - reach), min(1.0, q + reach)


def _student(degrees: float) -> float:
    """The quantile of Student's distribution that leaves half of what `CONFIDENCE` leaves above it: its expansion
    round the normal one, within 0.3 % from 4 degrees of freedom on, and 3 % from 2."""
    z = _NORMAL.inv_cdf((1 + CONFIDENCE) / 2)
    return sum((
        z,
        (z**3 + z) / (4 * degrees),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3),
    ))  # fmt: skip


def enclosed(parts: Sequence[tuple[tuple[float, ...], Floats]], q: float) -> tuple[Floats, Floats]:
    """Between which bounds the quantile lies, for each line of all parts: bounds and counts in buckets.

    As `exporters.histogram.quantile` tells them; NaN of a line without any.
    """
    edges = np.array(sorted({bound for bounds, _ in parts for bound in bounds}))
    total = np.sum([counts.sum(axis=1) for _, counts in parts], axis=0)
    at_least, at_most = (sum(_below(edges, *part, side=side) for part in parts) for side in ("right", "left"))
    first = np.floor(q * (total - 1)) + 1
    upper = np.append(edges, np.inf)[np.count_nonzero(at_least < np.minimum(first + 1, total)[:, None], axis=1)]
    lower = np.insert(edges, 0, 0.0)[np.count_nonzero(at_most < first[:, None], axis=1)]
    return np.where(total > 0, np.minimum(lower, upper), np.nan), np.where(total > 0, upper, np.nan)


def _below(edges: Floats, bounds: tuple[float, ...], counts: Floats, *, side: str) -> Floats:
    """How many are certainly (right) or possibly (left) not above each edge."""
    up_to = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(counts, axis=1)], axis=1)
    own = np.array(bounds)
    if side == "right":
        return up_to[:, np.searchsorted(own, edges, "right")]
    return up_to[:, np.searchsorted(own, edges, "left") + 1]
