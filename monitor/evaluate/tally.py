"""Counts of many groups and stretches of time, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alerts.budget import Counts
from monitor.evaluate.members import Group
from monitor.history.packed import Floats, Ints
from monitor.history.planning import Span

FIELDS = tuple(f.name for f in fields(Counts))


@dataclass(frozen=True, slots=True)
class Cells:
    """Stretches of time in order: (start, start + length], each of one minute or one hour."""

    start: Ints
    length: Ints

    @property
    def many(self) -> int:
        return len(self.start)

    @property
    def end(self) -> Ints:
        return self.start + self.length

    def of(self, starts: Ints) -> Ints:
        """In which cell rows lie that start there; -1 of those in none."""
        if not self.many:
            return np.full(len(starts), -1)
        place = np.searchsorted(self.start, starts, side="right") - 1
        inside = (place >= 0) & (starts < self.end[place])
        return np.where(inside, place, -1)


def cells_of(spans: Sequence[Span]) -> Cells:
    starts = [np.arange(s.since, s.until, s.tier.seconds, dtype=np.int64) for s in spans]
    lengths = [np.full(len(of), s.tier.seconds, np.int64) for s, of in zip(spans, starts, strict=True)]
    start, length = _joined(starts), _joined(lengths)
    order = np.argsort(start, kind="stable")
    return Cells(start[order], length[order])


def _joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


@dataclass(frozen=True, slots=True)
class Tally:
    """`counts` by field (as in `FIELDS`), group and cell."""

    groups: tuple[Group, ...]
    cells: Cells
    counts: Floats

    def over(self, since: int, until: int) -> dict[Group, Counts]:
        """Of the cells that lie in between."""
        first = np.searchsorted(self.cells.start, since)
        last = np.searchsorted(self.cells.end, until, side="right")
        sums = self.counts[:, :, first:last].sum(axis=2)
        return {group: Counts(*sums[:, n].tolist()) for n, group in enumerate(self.groups)}

    def where(self, chosen: NDArray[np.bool_]) -> Tally:
        """Of these cells alone."""
        return replace(
            self, cells=Cells(self.cells.start[chosen], self.cells.length[chosen]), counts=self.counts[:, :, chosen]
        )

    def __or__(self, other: Tally) -> Tally:
        """Both are of the same groups and of different cells."""
        start = np.concatenate([self.cells.start, other.cells.start])
        length = np.concatenate([self.cells.length, other.cells.length])
        order = np.argsort(start, kind="stable")
        counts = np.concatenate([self.counts, other.counts], axis=2)[:, :, order]
        return Tally(self.groups, Cells(start[order], length[order]), counts)


def nothing(groups: tuple[Group, ...]) -> Tally:
    return Tally(groups, cells_of(()), np.zeros((len(FIELDS), len(groups), 0)))
