"""Histograms of a minute as a few bytes.

A value is a sequence of parts, one for each set of native bounds that occurred in the minute. A part is

    varint  id of the bounds << 2 | how the sum is written: 0 not at all, 1 as a varint, 2 as a float
    varint  number of buckets << 1 | counts are floats
    where there are buckets: varint empty buckets before them, their counts (varints or floats), the sum

with counts per bucket (not cumulative), from the first to the last that is not empty; floats are little-endian, of 8
bytes. An idle minute is a part without buckets: observed, and nothing happened. NULL is "not observed".
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, repeat
from operator import add, sub

from exporters.histogram import Histogram

NO_SUM, WHOLE_SUM, FLOAT_SUM = range(3)

_FLOAT = struct.Struct("<d")
MORE = 0x80
"""Set in each byte of a varint but the last."""
_LARGEST_WHOLE = 2**53
"""Up to which a float holds every whole number."""


def encode(parts: Iterable[tuple[int, Histogram]]) -> bytes:
    """Each part with the id of its bounds."""
    out = bytearray()
    for bounds_id, histogram in parts:
        counts = histogram.counts
        _put_part(out, bounds_id, list(map(sub, counts, (0.0, *counts))), histogram.sum)
    return bytes(out)


def _put_part(out: bytearray, bounds_id: int, per_bucket: Sequence[float], total: float | None) -> None:
    first, end = _filled(per_bucket)
    if not end:
        _put_varints(out, (bounds_id << 2, 0))
        return
    counts, written = per_bucket[first:end], _written(total)
    head, length, whole = bounds_id << 2 | written, len(counts) << 1, _whole(counts)
    if whole is None:
        _put_varints(out, (head, length | 1, first))
        out += struct.pack(f"<{len(counts)}d", *counts)
    else:
        _put_varints(out, (head, length, first, *whole))
    if written == WHOLE_SUM:
        _put_varints(out, (int(total or 0),))
    elif written == FLOAT_SUM:
        out += _FLOAT.pack(total)


def _filled(per_bucket: Sequence[float]) -> tuple[int, int]:
    """Where the buckets begin that are not empty, and where they end: at 0 if there are none."""
    end = len(per_bucket)
    while end and not per_bucket[end - 1]:
        end -= 1
    first = 0
    while first < end and not per_bucket[first]:
        first += 1
    return first, end


def _written(total: float | None) -> int:
    if total is None:
        return NO_SUM
    return WHOLE_SUM if total % 1 == 0 and 0 <= total <= _LARGEST_WHOLE else FLOAT_SUM


def _whole(counts: Sequence[float]) -> list[int] | None:
    """None of counts that are something else."""
    try:
        whole = list(map(int, counts))
    except (OverflowError, ValueError):
        return None
    return whole if whole == counts and min(whole) >= 0 and max(whole) <= _LARGEST_WHOLE else None


def _put_varints(out: bytearray, numbers: Sequence[int]) -> None:
    """Writing spends its time here: numbers of one byte each, as they mostly are, go at once."""
    if max(numbers) < MORE:
        out += bytes(numbers)
        return
    for each in numbers:
        number = each
        while number >= MORE:
            out.append(number & 0x7F | MORE)
            number >>= 7
        out.append(number)


def decode(data: bytes, bounds: Mapping[int, tuple[float, ...]]) -> list[Histogram]:
    """`bounds` by id. The sum of an empty part is 0."""
    return list(_decode_parts(data, bounds))


def _decode_parts(data: bytes, bounds: Mapping[int, tuple[float, ...]]) -> Iterator[Histogram]:
    for bounds_id, first, counts, total in _parts(data):
        native = bounds[bounds_id]
        behind = len(native) + 1 - first - len(counts)
        per_bucket = (*repeat(0, first), *counts, *repeat(0, behind))
        yield Histogram(native, tuple(map(float, accumulate(per_bucket))), total)


def merge(values: Iterable[bytes]) -> bytes:
    """What several windows added, as one value: exact, and without knowing the bounds.

    Each set of bounds keeps its own part, in order of first sight. A sum that is not known of one is not known of all.
    """
    added: defaultdict[int, list[float]] = defaultdict(list)
    sums: defaultdict[int, list[float | None]] = defaultdict(list)
    for data in values:
        for bounds_id, first, counts, total in _parts(data):
            _add(added[bounds_id], first, counts)
            sums[bounds_id].append(total)
    out = bytearray()
    for bounds_id, per_bucket in added.items():
        known = [total for total in sums[bounds_id] if total is not None]
        total = known_sum(known) if len(known) == len(sums[bounds_id]) else None
        _put_part(out, bounds_id, per_bucket, total)
    return bytes(out)


def _add(added: list[float], first: int, counts: Sequence[float]) -> None:
    end = first + len(counts)
    if end > len(added):
        added += [0] * (end - len(added))
    added[first:end] = map(add, added[first:end], counts)


def known_sum(values: Iterable[float]) -> float | None:
    """None where it is beyond all numbers."""
    try:
        total = math.fsum(values)
    except (OverflowError, ValueError):  # too large on the way; or infinities of both signs
        return None
    return total if math.isfinite(total) else None


def _parts(data: bytes) -> Iterator[tuple[int, int, Sequence[float], float | None]]:
    """Of each part the id of its bounds, the first bucket that is not empty, counts from there on, and the sum."""
    at = 0
    while at < len(data):
        head, at = _varint(data, at)
        length, at = _varint(data, at)
        if not length:
            yield head >> 2, 0, (), 0.0
            continue
        first, at = _varint(data, at)
        counts, at = (_floats if length & 1 else _varints)(data, at, length >> 1)
        total, at = _sum(data, at, head & 3)
        yield head >> 2, first, counts, total


def _floats(data: bytes, at: int, many: int) -> tuple[Sequence[float], int]:
    return struct.unpack_from(f"<{many}d", data, at), at + many * _FLOAT.size


def _varints(data: bytes, at: int, many: int) -> tuple[Sequence[float], int]:
    """Roll-ups spend their time here."""
    found: Sequence[int] = data[at : at + many]
    if max(found) < MORE:
        return found, at + many
    found = []
    for _ in range(many):
        number, at = _varint(data, at)
        found.append(number)
    return found, at


def _sum(data: bytes, at: int, written: int) -> tuple[float | None, int]:
    if written == FLOAT_SUM:
        return _FLOAT.unpack_from(data, at)[0], at + _FLOAT.size
    if written == WHOLE_SUM:
        total, at = _varint(data, at)
        return float(total), at
    return None, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = data[at]
    if number < MORE:  # as mostly
        return number, at + 1
    number, shift = number & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < MORE:
            return number, at + 1
        shift += 7
