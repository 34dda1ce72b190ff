"""Adds up tens of thousands of encoded histograms at once: all are decoded side by side, part by part.

`encoding` says how they are packed, and its `decode` tells the same of each by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.history.encoding import FLOAT_SUM, MORE, WHOLE_SUM

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_FLOAT = 8
"""Bytes."""


@dataclass(frozen=True, slots=True)
class _Buckets:
    """In parallel: to which cell they belong, the bounds they lie between, and what is in them. Some may be empty."""

    cell: Ints
    bounds_id: Ints
    bucket: Ints
    count: Floats


@dataclass(frozen=True, slots=True)
class Merged:
    """Histograms of the same bounds, one for each of some cells: a row of cumulative counts each."""

    bounds: tuple[float, ...]
    cells: Ints
    counts: Floats


def add_up(values: Sequence[bytes], cells: Ints, bounds: Mapping[int, tuple[float, ...]]) -> list[Merged]:
    """The histograms of each cell; a cell without requests is left out.

    `cells` says of each of the values, in numbers from 0, where it belongs; `bounds` are by id.
    """
    found = _buckets(values, cells)
    # Ids are the database's own: what is told must not hang on their order.
    ids = sorted(np.flatnonzero(np.bincount(found.bounds_id)).tolist(), key=lambda of: bounds[of])
    return [_added(found, found.bounds_id == of, bounds[of]) for of in ids]


def _added(found: _Buckets, chosen: NDArray[np.bool_], bounds: tuple[float, ...]) -> Merged:
    width = len(bounds) + 1
    flat = np.bincount(found.cell[chosen] * width + found.bucket[chosen], found.count[chosen])
    counts = np.cumsum(np.pad(flat, (0, -len(flat) % width)).reshape(-1, width), axis=1)
    cells = np.flatnonzero(counts[:, -1])
    return Merged(bounds, cells, counts[cells].astype(np.float64))


def _buckets(values: Sequence[bytes], cells: Ints) -> _Buckets:
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    end = np.cumsum(lengths)
    at, cell = end - lengths, cells
    reader = _Reader(b"".join(values))
    parts: list[tuple[Ints, Ints, Ints, Floats]] = []
    while len(at):
        at, end, cell = (each[at < end] for each in (at, end, cell))
        parts += reader.parts(at, cell)
    if not parts:
        nothing = np.zeros(0, np.int64)
        return _Buckets(nothing, nothing, nothing, np.zeros(0))
    columns = zip(*parts, strict=True)
    return _Buckets(*(np.concatenate(column) for column in columns))


class _Reader:
    """What takes `at` moves it behind what was read."""

    def __init__(self, data: bytes) -> None:
        self._bytes = np.frombuffer(data, np.uint8)
        self._last = np.flatnonzero(self._bytes < MORE)
        """Bytes that end a varint, if they are in one."""

    def parts(self, at: Ints, cells: Ints) -> Iterator[tuple[Ints, Ints, Ints, Floats]]:
        """The buckets of one part of each value."""
        head, length = self._varints(at), self._varints(at)
        filled = np.flatnonzero(length)
        begin, head, length = at[filled], head[filled], length[filled]
        first = self._varints(begin)
        for read, of in ((self._whole, length & 1 == 0), (self._floats, length & 1 == 1)):
            if of.any():
                many, of_kind = length[of] >> 1, begin[of]
                counts = read(of_kind, many)
                begin[of] = of_kind
                bucket = np.repeat(first[of], many) + _within(many)
                yield np.repeat(cells[filled][of], many), np.repeat(head[of] >> 2, many), bucket, counts
        at[filled] = self._behind_sums(begin, head & 3)

    def _whole(self, at: Ints, many: Ints) -> Floats:
        """So many varints from each place on."""
        number = np.searchsorted(self._last, at)
        which = np.repeat(number, many) + _within(many)
        last = self._last[which]
        start = self._last[which - 1] + 1
        start[np.cumsum(many) - many] = at
        at[:] = self._last[number + many - 1] + 1
        return self._numbers(start, last).astype(np.float64)

    def _floats(self, at: Ints, many: Ints) -> Floats:
        """So many floats from each place on."""
        start = np.repeat(at, many) + _within(many) * _FLOAT
        at += many * _FLOAT
        read: Floats = self._bytes[start[:, None] + np.arange(_FLOAT)].view("<f8")[:, 0].astype(np.float64)
        return read

    def _behind_sums(self, at: Ints, written: Ints) -> Ints:
        behind = np.where(written == FLOAT_SUM, at + _FLOAT, at)
        whole = written == WHOLE_SUM
        behind[whole] = self._last[np.searchsorted(self._last, at[whole])] + 1
        return behind

    def _varints(self, at: Ints) -> Ints:
        """One from each place on."""
        last = self._last[np.searchsorted(self._last, at)]
        read = self._numbers(at, last)
        at[:] = last + 1
        return read

    def _numbers(self, start: Ints, last: Ints) -> Ints:
        number = (self._bytes[start] & (MORE - 1)).astype(np.int64)
        more, shift = np.flatnonzero(start < last), 7
        while len(more):
            byte = self._bytes[start[more] + shift // 7]
            number[more] |= (byte & (MORE - 1)).astype(np.int64) << shift
            more, shift = more[byte >= MORE], shift + 7
        return number


def _within(many: Ints) -> Ints:
    """0, 1, … for each of these: what repeats is counted."""
    return np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
