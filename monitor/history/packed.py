"""Adds up tens of thousands of encoded histograms at once: all are decoded side by side, field by field.

`encoding` says how they are packed, and its `decode` tells the same of each by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_HAS_SUM, _FLOATS = 2, 1
_LONGEST = 8
"""Bytes that a field is read by at once: those of a float."""


@dataclass(frozen=True, slots=True)
class _Buckets:
    """Non-empty buckets, in parallel: to which cell they belong, the bounds they lie between, and what is in them."""

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
    ends = np.cumsum(lengths)
    reader = _Reader(b"".join(values))
    parts = []
    at, end, cell = ends - lengths, ends, cells
    while len(at):
        at, end, cell = (each[at < end] for each in (at, end, cell))
        at, order, of_parts = reader.parts(at, cell)
        end, cell = end[order], cell[order]
        parts += of_parts
    if not parts:
        nothing = np.zeros(0, np.int64)
        return _Buckets(nothing, nothing, nothing, np.zeros(0))
    columns = zip(*parts, strict=True)
    return _Buckets(*(np.concatenate(column) for column in columns))


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._bytes = np.frombuffer(data + bytes(_LONGEST), np.uint8)

    def parts(self, at: Ints, cells: Ints) -> tuple[Ints, Ints, list[tuple[Ints, Ints, Ints, Floats]]]:
        """One part of each value: where the next begins, in which order, and the buckets that are filled."""
        head, filled = self._varints(at), self._varints(at)
        # Those with most buckets first, so that whoever still has some are the first ones.
        order = np.argsort(-filled, kind="stable")
        at, cells, head, filled = at[order], cells[order], head[order], filled[order]
        index = np.full(len(at), -1)
        found = []
        for n in range(int(filled[0]) if len(filled) else 0):
            some = slice(0, int(np.searchsorted(-filled, -n, side="left")))
            index[some] += self._varints(at[some]) + 1
            count = self._counts(at[some], head[some] & _FLOATS != 0)
            found.append((cells[some], head[some] >> 2, index[some].copy(), count))
        at += np.where(head & _HAS_SUM, _LONGEST, 0)
        return at, order, found

    def _counts(self, at: Ints, as_floats: NDArray[np.bool_]) -> Floats:
        if not as_floats.any():
            return self._varints(at).astype(np.float64)
        counts, whole = np.empty(len(at)), ~as_floats
        of_whole, of_floats = at[whole], at[as_floats]
        counts[whole], counts[as_floats] = self._varints(of_whole), self._floats(of_floats)
        at[whole], at[as_floats] = of_whole, of_floats
        return counts

    def _floats(self, at: Ints) -> Floats:
        """Moves `at` behind them."""
        read: Floats = self._bytes[at[:, None] + np.arange(_LONGEST)].view("<f8")[:, 0].astype(np.float64)
        at += _LONGEST
        return read

    def _varints(self, at: Ints) -> Ints:
        """Moves `at` behind them."""
        byte = self._bytes[at]
        at += 1
        number = (byte & 0x7F).astype(np.int64)
        more, shift = np.flatnonzero(byte & 0x80), 7
        while len(more):
            byte = self._bytes[at[more]]
            at[more] += 1
            number[more] |= (byte & 0x7F).astype(np.int64) << shift
            more, shift = more[byte & 0x80 != 0], shift + 7
        return number
