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

import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, pairwise

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
    filled = [(i, count) for i, count in enumerate(per_bucket) if count]
    floats = not all(float(count).is_integer() for _, count in filled)
    has_sum = bool(filled) and histogram.sum is not None
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
    if has_sum and histogram.sum is not None:
        out += _FLOAT.pack(histogram.sum)


def decode(data: bytes, bounds: Mapping[int, tuple[float, ...]]) -> list[Histogram]:
    """`bounds` by id. The sum of an empty part is 0."""
    return list(_decode_parts(data, bounds))


def _decode_parts(data: bytes, bounds: Mapping[int, tuple[float, ...]]) -> Iterator[Histogram]:
    at = 0
    while at < len(data):
        head, at = _varint(data, at)
        filled, at = _varint(data, at)
        native = bounds[head >> 2]
        per_bucket = [0.0] * (len(native) + 1)
        index = -1
        for _ in range(filled):
            skipped, at = _varint(data, at)
            index += skipped + 1
            if head & _FLOATS:
                per_bucket[index], at = _FLOAT.unpack_from(data, at)[0], at + 8
            else:
                per_bucket[index], at = _varint(data, at)
        total: float | None = None if filled else 0.0
        if head & _HAS_SUM:
            total, at = _FLOAT.unpack_from(data, at)[0], at + 8
        yield Histogram(native, tuple(map(float, accumulate(per_bucket))), total)


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
