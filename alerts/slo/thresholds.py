"""Where a latency threshold can be judged: on the grid always, and how well by each framework's own bounds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from exporters.exposition import format_bound
from exporters.schema import DEFAULT_BOUNDS, PHASES
from exporters.tables import FRONTENDS

REACH = 10
"""How many times the threshold a server's own bound may be away to tell what is certainly slower. Each bound that is
looked at costs Prometheus an increase per engine and minute, and one further off says little."""


def on_grid(phase: str, threshold: float) -> float:
    """The threshold. Raises ValueError, naming the neighbours on the grid."""
    grid = PHASES[phase].grid
    if threshold in grid:
        return threshold
    if threshold > grid[-1]:
        raise ValueError(f"at most {format_bound(grid[-1])} s, the largest bound of the grid of {phase}")
    low, high = neighbours(grid, threshold)
    told = format_bound(high) if low == 0 else f"{format_bound(low)} or {format_bound(high)}"
    raise ValueError(f"a bound of the grid of {phase}: {told}")


def neighbours(bounds: tuple[float, ...], threshold: float) -> tuple[float, float]:
    """The bounds next to it; below the first there is 0, beyond the last nothing is known."""
    high = bisect_left(bounds, threshold)
    return bounds[high - 1] if high else 0.0, bounds[high] if high < len(bounds) else inf


@dataclass(frozen=True, slots=True)
class Blur:
    """A threshold that is no bound of its own of `who`, which tells requests apart at `low` and at `high` alone."""

    who: str
    phase: str
    threshold: float
    low: float
    high: float

    @property
    def text(self) -> str:
        at = format_bound(self.threshold)
        if self.high == inf:
            return (
                f"{self.who}: {at} s is beyond its largest bound of {self.phase}, {format_bound(self.low)} s: "
                f"slower requests are counted and not timed, so none is certainly bad and nothing pages"
            )
        sure = f"only those above {format_bound(self.high)} s page"
        if self.high > self.threshold * REACH:
            sure = f"none is certainly slower, so nothing pages: that is more than {REACH} times the threshold"
        return (
            f"{self.who}: {at} s is none of its own bounds of {self.phase}: requests between {format_bound(self.low)} "
            f"and {format_bound(self.high)} s are interpolated, tickets and budgets are off by up to that share, and "
            f"{sure}"
        )


def defaults(phase: str, frameworks: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Default bounds by frontend, of these frameworks."""
    wanted = set(frameworks)
    return {f: bounds for f, bounds in DEFAULT_BOUNDS[phase].items() if FRONTENDS[f].framework in wanted}


def blurs(phase: str, threshold: float, bounds: Mapping[str, tuple[float, ...]]) -> list[Blur]:
    return [Blur(who, phase, threshold, *neighbours(b, threshold)) for who, b in bounds.items() if threshold not in b]


def unmeasured(phase: str, frameworks: Iterable[str]) -> list[str]:
    """Frontends of these frameworks that never measure it."""
    wanted = set(frameworks)
    return [f.name for f in FRONTENDS.values() if f.framework in wanted and f.name not in DEFAULT_BOUNDS[phase]]
