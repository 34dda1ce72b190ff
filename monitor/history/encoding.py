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
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import sub

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
    per_bucket = map(sub, histogram.counts, (0.0, *histogram.counts))
    _put_part(out, bounds_id, [each for each in enumerate(per_bucket) if each[1]], histogram.sum)


def _put_part(out: bytearray, bounds_id: int, filled: Sequence[tuple[int, float]], total: float | None) -> None:
    """`filled` has index and count of each bucket that is not empty, in their order."""
    floats = any([count % 1 for _, count in filled])  # noqa: C419 (a generator takes twice as long)
    has_sum = bool(filled) and total is not None
    _put_varint(out, bounds_id << 2 | has_sum * _HAS_SUM | floats * _FLOATS)
    _put_varint(out, len(filled))
    (_put_floats if floats else _put_whole)(out, filled)
    if has_sum:
        out += _FLOAT.pack(total)


def _put_floats(out: bytearray, filled: Iterable[tuple[int, float]]) -> None:
    next_index = 0
    for i, count in filled:
        _put_varint(out, i - next_index)
        out += _FLOAT.pack(count)
        next_index = i + 1


def _put_whole(out: bytearray, filled: Iterable[tuple[int, float]]) -> None:
    """Writing spends its time here: a number of one byte, as most are, costs no call of ours."""
    append = out.append
    next_index = 0
    for i, count in filled:
        skipped, whole = i - next_index, int(count)
        next_index = i + 1
        if skipped < 0x80:
            append(skipped)
        else:
            _put_varint(out, skipped)
        if whole < 0x80:
            append(whole)
        else:
            _put_varint(out, whole)


def decode(data: bytes, bounds: Mapping[int, tuple[float, ...]]) -> list[Histogram]:
    """`bounds` by id. The sum of an empty part is 0."""
    return list(_decode_parts(data, bounds))


def _decode_parts(data: bytes, bounds: Mapping[int, tuple[float, ...]]) -> Iterator[Histogram]:
    at = 0
    while at < len(data):
        head, at = _varint(data, at)
        counts: dict[int, float] = {}
        total, at = _add_part(data, at, head, counts)
        native = bounds[head >> 2]
        per_bucket = (counts.get(index, 0) for index in range(len(native) + 1))
        yield Histogram(native, tuple(map(float, accumulate(per_bucket))), total)


def merge(values: Iterable[bytes]) -> bytes:
    """What several windows added, as one value: exact, and without knowing the bounds.

    Each set of bounds keeps its own part, in order of first sight. A sum that is not known of one is not known of all.
    """
    counts: defaultdict[int, dict[int, float]] = defaultdict(dict)
    sums: defaultdict[int, list[float | None]] = defaultdict(list)
    for data in values:
        at = 0
        while at < len(data):
            head, at = _varint(data, at)
            total, at = _add_part(data, at, head, counts[head >> 2])
            sums[head >> 2].append(total)
    out = bytearray()
    for bounds_id, of_bounds in counts.items():
        known = [total for total in sums[bounds_id] if total is not None]
        total = known_sum(known) if len(known) == len(sums[bounds_id]) else None
        _put_part(out, bounds_id, sorted(of_bounds.items()), total)
    return bytes(out)


def known_sum(values: Iterable[float]) -> float | None:
    """None where it is beyond all numbers."""
    try:
        total = math.fsum(values)
    except (OverflowError, ValueError):  # too large on the way; or infinities of both signs
        return None
    return total if math.isfinite(total) else None


def _add_part(data: bytes, at: int, head: int, counts: dict[int, float]) -> tuple[float | None, int]:
    """Adds up by bucket; returns the part's sum, and where it ends."""
    length, at = _varint(data, at)
    at = (_add_floats if head & _FLOATS else _add_whole)(data, at, length, counts)
    if head & _HAS_SUM:
        return _FLOAT.unpack_from(data, at)[0], at + 8
    return None if length else 0.0, at


def _add_floats(data: bytes, at: int, length: int, counts: dict[int, float]) -> int:
    index = -1
    for _ in range(length):
        skipped, at = _varint(data, at)
        index += skipped + 1
        counts[index] = counts.get(index, 0) + _FLOAT.unpack_from(data, at)[0]
        at += 8
    return at


def _add_whole(data: bytes, at: int, length: int, counts: dict[int, float]) -> int:
    """Roll-ups spend their time here: a number of one byte, as most are, costs no call."""
    index = -1
    for _ in range(length):
        skipped = data[at]
        at += 1
        if skipped >= 0x80:
            skipped, at = _varint(data, at - 1)
        count = data[at]
        at += 1
        if count >= 0x80:
            count, at = _varint(data, at - 1)
        index += skipped + 1
        counts[index] = counts.get(index, 0) + count
    return at


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
