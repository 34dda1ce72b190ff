"""When a server stood still with work to do: what its gauges say meanwhile is no load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from alerts.burn import MINUTE
from alerts.conditions.condition import Limit
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


def stretches(minutes: Steps, longer_than: float) -> Iterator[list[int]]:
    """`minutes` is what is known of single ones."""
    told = next((each for each in _PROGRESS if any(map(minutes.has, each))), ())
    known = {start for asked in told for start, point in minutes.of(asked).items() if point.seconds == MINUTE}
    moves = {start for asked in told for start, point in minutes.of(asked).items() if point.value > 0}
    still = (start for start in known - moves if any((minutes.at(asked, start) or 0.0) > 0 for asked in _WORK))
    return (run for run in runs(still, MINUTE) if len(run) * MINUTE >= longer_than)


def steps_of(found: Iterable[list[int]], step: int) -> frozenset[int]:
    return frozenset(minute // step * step for run in found for minute in run)
