"""Histograms of a minute as a few bytes.

A value is a sequence of parts, one for each set of native bounds that occurred in the minute. A part is

    varint  id of the bounds << 2 | has sum << 1 | counts are floats
    varint  number of non-empty buckets
    for each non-empty bucket: varint buckets skipped before it, then its count (varint or 8-byte float)
    8 bytes sum, where there is one

with counts per bucket (not cumulative), floats little-endian. An idle minute is a part without buckets: observed, and
nothing happened. NULL is "not observed".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise

from exporters.histogram import Histogram

_FLOAT = struct.Struct("<d")
_HAS_SUM, _FLOATS = 2, 1


def encode(parts: Iterable[tuple[int, Histogram]]) -> bytes:
    """Each part with the id of its bounds."""
    out = bytearray()
    for bounds_id, histogram in parts:
        _encode_part(out, bounds_id, histogram)
    return bytes(out)


def _encode_part(out: bytearray, bounds_id: int, histogram: Histogram) -> None:
    per_bucket = [b - a for a, b in pairwise((0.0, *histogram.counts))]
    _put_part(out, bounds_id, [(i, count) for i, count in enumerate(per_bucket) if count], histogram.sum)


def _put_part(out: bytearray, bounds_id: int, filled: Sequence[tuple[int, float]], total: float | None) -> None:
    """`filled` has index and count of each bucket that is not empty, in their order."""
    floats = not all(float(count).is_integer() for _, count in filled)
    has_sum = bool(filled) and total is not None
    _put_varint(out, bounds_id << 2 | has_sum * _HAS_SUM | floats * _FLOATS)
    _put_varint(out, len(filled))
    next_index = 0
    for i, count in filled:
        _put_varint(out, i - next_index)
        if floats:
            out += _FLOAT.pack(count)
        else:
            _put_varint(out, int(count))
        next_index = i + 1
    if has_sum:
        out += _FLOAT.pack(total)


def decode(data: bytes, bounds: Mapping[int, tuple[float, ...]]) -> list[Histogram]:
    """`bounds` by id. The sum of an empty part is 0."""
    return list(_decode_parts(data, bounds))


def _decode_parts(data: bytes, bounds: Mapping[int, tuple[float, ...]]) -> Iterator[Histogram]:
    for bounds_id, filled, total in _parts(data):
        native = bounds[bounds_id]
        per_bucket = [0.0] * (len(native) + 1)
        for index, count in filled:
            per_bucket[index] = count
        yield Histogram(native, tuple(map(float, accumulate(per_bucket))), total)


def merge(values: Iterable[bytes]) -> bytes:
    """What several windows added, as one value: exact, and without knowing the bounds.

    Each set of bounds keeps its own part, in order of first sight. A sum that is not known of one is not known of all.
    """
    counts: dict[int, dict[int, float]] = {}
    sums: dict[int, list[float | None]] = {}
    for bounds_id, filled, total in chain.from_iterable(map(_parts, values)):
        of_bounds = counts.setdefault(bounds_id, {})
        for index, count in filled:
            of_bounds[index] = of_bounds.get(index, 0) + count
        sums.setdefault(bounds_id, []).append(total)
    out = bytearray()
    for bounds_id, of_bounds in counts.items():
        known = [total for total in sums[bounds_id] if total is not None]
        total = math.fsum(known) if len(known) == len(sums[bounds_id]) else None
        _put_part(out, bounds_id, sorted(of_bounds.items()), total)
    return bytes(out)


def _parts(data: bytes) -> Iterator[tuple[int, list[tuple[int, float]], float | None]]:
    """Of each: the id of its bounds, index and count of its buckets that are not empty, and its sum."""
    at = 0
    while at < len(data):
        head, at = _varint(data, at)
        length, at = _varint(data, at)
        filled: list[tuple[int, float]] = []
        index = -1
        for _ in range(length):
            skipped, at = _varint(data, at)
            index += skipped + 1
            count: float
            if head & _FLOATS:
                count, at = _FLOAT.unpack_from(data, at)[0], at + 8
            else:
                count, at = _varint(data, at)
            filled.append((index, count))
        total: float | None = None if length else 0.0
        if head & _HAS_SUM:
            total, at = _FLOAT.unpack_from(data, at)[0], at + 8
        yield head >> 2, filled, total


def _put_varint(out: bytearray, number: int) -> None:
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
