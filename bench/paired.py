"""One way of doing something against another, in turn: the pace of a machine changes, so only what ran together
compares."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paired:
    """Medians, in seconds. `ratio` is that of the peer's to ours, pair by pair."""

    ours: float
    peer: float
    ratio: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Paired:
        return cls(
            statistics.median(ours for ours, _ in pairs),
            statistics.median(peer for _, peer in pairs),
            statistics.median(peer / ours for ours, peer in pairs),
        )


def seconds(run: Callable[[], object], times: int = 1) -> float:
    """Of one run."""
    started = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - started) / times
