"""When a server stood still with work to do: what its gauges say meanwhile is no load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from alerts.burn import MINUTE
from alerts.conditions.condition import Limit
from monitor.advise.model import Asked
from monitor.advise.world import (
    FINISHED,
    GENERATED,
    PROMPTED,
    QUEUED_HIGHEST,
    REJECTED,
    RUNNING_HIGHEST,
    WAITING,
    Steps,
    runs,
)

OF_MINUTES = (GENERATED, PROMPTED, FINISHED, RUNNING_HIGHEST, QUEUED_HIGHEST)
_WORK = (RUNNING_HIGHEST, QUEUED_HIGHEST)
REQUESTED = (*_WORK, FINISHED, REJECTED)
"""Those that failed and those that were refused as well."""
_PROGRESS = ((GENERATED, PROMPTED), (FINISHED,))
"""Tokens, where they are counted: some servers count what they refuse among what finished."""
STOOD = Limit(
    "a server stands still: no token computed although requests run or wait, for", 3 * MINUTE, "seconds",
    "the prefill of the longest prompts shows no token for a minute or two",
)  # fmt: skip
STOOD_LONG = Limit(
    "or, where tokens are counted when a request ends, for", 10 * MINUTE, "seconds",
    "no usual generation takes longer",
)  # fmt: skip


def suspicious(server: Steps) -> list[int]:
    """Steps in which requests wait or are refused: who stands still is soon asked for more than it does."""
    waiting = (start for start, point in server.of(WAITING).items() if point.value > 1)
    refusing = (start for start, point in server.of(REJECTED).items() if point.value > 0)
    return sorted({*waiting, *refusing})


def around(server: Steps, shorter_than: int) -> list[list[int]]:
    """The minutes of suspicious steps and of those beside them, in stretches: a queue comes later than what made it."""
    lengths = ((start, server.lengths[start]) for start in suspicious(server))
    near = (range(start - step, start + 2 * step, MINUTE) for start, step in lengths if step < shorter_than)
    return runs(set(chain.from_iterable(near)), MINUTE)


def still(steps: Steps, work: Iterable[Asked] = _WORK) -> set[int]:
    """Those in which nothing was computed, from their beginning to their end, though there was work."""
    told = next((each for each in _PROGRESS if any(map(steps.has, each))), ())
    known = {start for asked in told for start in steps.of(asked)}
    moves = {start for asked in told for start, point in steps.of(asked).items() if point.value > 0}
    return {start for start in known - moves if any((steps.at(asked, start) or 0.0) > 0 for asked in work)}


def stretches(minutes: Steps, longer_than: float) -> Iterator[list[int]]:
    """`minutes` is what is known of single ones."""
    single = (start for start in still(minutes) if minutes.lengths[start] == MINUTE)
    return (run for run in runs(single, MINUTE) if len(run) * MINUTE >= longer_than)


def touched(found: Iterable[list[int]], lengths: Mapping[int, int]) -> frozenset[int]:
    """The steps of these lengths that minutes lie in."""
    minutes = {minute for run in found for minute in run}
    starts = {(minute // step * step, step) for minute in minutes for step in {*lengths.values()}}
    return frozenset(start for start, step in starts if lengths.get(start) == step)
