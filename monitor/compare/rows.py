"""Minutes of servers side by side, and longer windows made of them. Pure.

Everything in a row adds up: the engines of a server in a minute, minutes in a window, windows in a cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.evaluate.plausible import counted, plausible
from monitor.history.aggregate import Lives
from monitor.history.cells import Columns
from monitor.history.packed import Floats, Ints, add_up
from monitor.history.tables import Tier

MINUTE = Tier.MINUTE.seconds
PHASES = ("ttft", "itl", "e2e")
NEARLY_ALL = 0.9
"""Of a minute that counts, all engines together were observed at least for that share."""
Flags = NDArray[np.bool_]
Bounds = Mapping[int, tuple[float, ...]]
Tallies = NDArray[np.floating[Any]]
"""Of four bytes each, since there are a hundred for each minute; they are added up in eight."""


class Number(IntEnum):
    """Columns of the numbers of a row."""

    @staticmethod
    def _generate_next_value_(_name: str, _start: int, count: int, _last: list[Any]) -> int:
        return count

    MINUTES = auto()
    AT_ONCE = auto()
    """Requests that ran or waited, times minutes."""
    SECONDS = auto()
    """In which the counters below were added."""
    PROMPT = auto()
    GENERATION = auto()
    FINISHED = auto()
    ABORTED = auto()
    QUERIED = auto()
    HIT = auto()
    JOULES = auto()
    GPU_SECONDS = auto()


_COUNTERS = {
    Number.PROMPT: "prompt_tokens",
    Number.GENERATION: "generation_tokens",
    Number.ABORTED: "requests_finished_abort",
    Number.QUERIED: "prefix_cache_query_tokens",
    Number.HIT: "prefix_cache_hit_tokens",
}
_FINISHED = tuple(f"requests_finished_{reason}" for reason in ("stop", "length", "abort", "error", "unknown"))
COLUMNS = (
    "covered_seconds", "increase_seconds", "requests_running_avg", "requests_waiting_avg",
    *dict.fromkeys((*_COUNTERS.values(), *_FINISHED)), *(f"{phase}_histogram" for phase in PHASES),
)  # fmt: skip
"""Of engines, to be read."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one phase at the same native bounds: how many fell into each bucket, a line for each row."""

    bounds: tuple[float, ...]
    counts: Tallies

    def of(self, chosen: Ints | Flags) -> Counts:
        return Counts(self.bounds, self.counts[chosen])


@dataclass(frozen=True, slots=True)
class Rows:
    """In order of server and time, in parallel. A NaN among `numbers` is not known."""

    server: Ints
    start: Ints
    numbers: Floats
    """A column for each Number."""
    phases: Mapping[str, tuple[Counts, ...]]

    def __len__(self) -> int:
        return len(self.start)

    def number(self, column: Number) -> Floats:
        found: Floats = self.numbers[:, column]
        return found

    @property
    def at_once(self) -> Floats:
        """Requests, on average."""
        return self.number(Number.AT_ONCE) / self.number(Number.MINUTES)

    @property
    def end(self) -> Ints:
        return self.start + self.number(Number.MINUTES).astype(np.int64) * MINUTE

    def of(self, chosen: Ints | Flags) -> Rows:
        phases = {name: tuple(each.of(chosen) for each in parts) for name, parts in self.phases.items()}
        return Rows(self.server[chosen], self.start[chosen], self.numbers[chosen], phases)

    def merged(self, first: Ints) -> Rows:
        """Windows that begin at these rows and go on to the next of them."""
        phases = {
            name: tuple(Counts(each.bounds, np.add.reduceat(each.counts, first, axis=0)) for each in parts)
            for name, parts in self.phases.items()
        }
        return Rows(self.server[first], self.start[first], np.add.reduceat(self.numbers, first, axis=0), phases)


@dataclass(frozen=True, slots=True)
class Folded:
    """Minutes of servers, and which of them the servers were not observed all through."""

    rows: Rows
    partial: Flags


@dataclass(frozen=True, slots=True)
class Members:
    """Series of engines, by their number: whose they are, when they lived, and which are of no engine of its own but
    tell what is counted for all engines of a server together."""

    server: Ints
    lives: Lives
    of_all: Flags


def folded(engines: Columns, members: Members, bounds: Bounds) -> Folded:
    """Adds up the engines of each server."""
    server, minute = members.server[engines["series"]], engines["start"] // MINUTE
    most = int(minute.max(initial=0)) + 1
    keys, cell = np.unique(server * most + minute, return_inverse=True)
    numbers = np.full((len(keys), len(Number)), np.nan)
    numbers[:, Number.MINUTES] = 1.0
    summed = _Sums(cell, members.of_all[engines["series"]], len(keys))
    for column, values in _values(engines).items():
        numbers[:, column] = summed.of(values)
    numbers[:, Number.AT_ONCE] = _at_once(engines, summed, keys // most)
    numbers[:, Number.SECONDS] = _extreme(np.maximum, cell, engines["increase_seconds"], len(keys))
    rows = Rows(keys // most, keys % most * MINUTE, numbers, _phases(engines, cell, len(keys), bounds))
    covered = _extreme(np.minimum, cell, engines["covered_seconds"], len(keys))
    missed = np.bincount(cell, minlength=len(keys)) < _expected(rows, members)
    known = (covered >= NEARLY_ALL * MINUTE) & (rows.number(Number.SECONDS) > 0) & ~np.isnan(rows.at_once)
    return Folded(rows, missed | ~known)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Adds up, by cell: rows of engines, and rows of all engines of a server together."""

    cell: Ints
    of_all: Flags
    cells: int

    def of(self, values: Floats) -> Floats:
        """What is told of all together, else what the engines add up to; not known where one of them does not tell."""
        together, apart = self._sum(values, self.of_all), self._sum(values, ~self.of_all)
        found: Floats = np.where(np.isnan(together), apart, together)
        return found

    def _sum(self, values: Floats, chosen: Flags) -> Floats:
        there = np.bincount(self.cell[chosen], minlength=self.cells) > 0
        found: Floats = np.where(there, np.bincount(self.cell[chosen], values[chosen], self.cells), np.nan)
        return found


def _values(engines: Columns) -> Mapping[Number, Floats]:
    reasons = np.array([counted(engines[name]) for name in _FINISHED])
    finished = np.where(np.isnan(reasons).all(axis=0), np.nan, np.nansum(reasons, axis=0))
    return {Number.FINISHED: finished, **{column: counted(engines[name]) for column, name in _COUNTERS.items()}}


def _at_once(engines: Columns, summed: _Sums, server: Ints) -> Floats:
    """Those that run and those that wait. Of a server that never tells who waits nobody does, as far as is known."""
    running, waiting = (summed.of(plausible(engines[f"requests_{which}_avg"])) for which in ("running", "waiting"))
    never = np.bincount(server, ~np.isnan(waiting))[server] == 0
    return running + np.where(never, 0.0, waiting)


def _extreme(of: np.ufunc, cell: Ints, values: Floats, many: int) -> Floats:
    found = np.full(many, np.inf if of is np.minimum else -np.inf)
    of.at(found, cell, values)
    return found


def _expected(rows: Rows, members: Members) -> Ints:
    """How many engines of its server were alive all through each minute."""
    found = np.zeros(len(rows), np.int64)
    for server, first, last in zip(members.server.tolist(), members.lives.first, members.lives.last, strict=True):
        own = slice(*np.searchsorted(rows.server, [server, server + 1]))
        found[own] += (first <= rows.start[own]) & (last >= rows.start[own] + MINUTE)
    return found


def _phases(engines: Columns, cell: Ints, cells: int, bounds: Bounds) -> dict[str, tuple[Counts, ...]]:
    return {phase: tuple(_counts(engines[f"{phase}_histogram"], cell, cells, bounds)) for phase in PHASES}


def _counts(values: NDArray[Any], cell: Ints, cells: int, bounds: Bounds) -> Sequence[Counts]:
    there = np.flatnonzero([value is not None for value in values])
    found = []
    for each in add_up(values[there].tolist(), cell[there], bounds):
        counts = np.zeros((cells, len(each.bounds) + 1), np.float32)
        counts[each.cells] = np.diff(each.counts, axis=1, prepend=0.0)
        found.append(Counts(each.bounds, counts))
    return found


def known(part: Floats, whole: Floats) -> tuple[Floats, Floats]:
    """Nothing of rows of which one of both is not known."""
    both = ~np.isnan(part) & ~np.isnan(whole)
    return np.where(both, part, 0.0), np.where(both, whole, 0.0)
