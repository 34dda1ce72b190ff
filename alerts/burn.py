"""Multi-window, multi-burn-rate alerting: the numbers of the Google SRE Workbook, chapter 5, and their rewriting.

A burn rate of 1 spends the budget exactly within the objective's window. An alert needs its burn rate over the long
window and over the short one: the long one says that it matters, the short one that it still goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

Severity = Literal["page", "ticket"]

MINUTE, HOUR, DAY = 60, 3600, 86400
SLICE = 5 * MINUTE
"""Long windows are sums of counts over this long: no window is shorter."""
LONGEST_DAYS = 90
SHORTEST_DAYS = 7
_REFERENCE_DAYS = 30
_LENGTHS = (
    *(m * MINUTE for m in (5, 10, 15, 20, 30, 45)),
    *(h * HOUR for h in (1, 2, 3, 4, 6, 8, 12, 18)),
    *(d * DAY for d in range(1, 10)),
)
"""Lengths that people read at a glance."""


@dataclass(frozen=True, slots=True)
class BurnWindow:
    """`long` and `short` in seconds."""

    factor: Decimal
    long: int
    short: int
    severity: Severity

    def share(self, days: int) -> Decimal:
        """Of the budget of `days`, spent when the factor holds for the whole long window."""
        return self.factor * self.long / (days * DAY)


WINDOWS_30D = (
    BurnWindow(Decimal("14.4"), HOUR, 5 * MINUTE, "page"),
    BurnWindow(Decimal(6), 6 * HOUR, 30 * MINUTE, "page"),
    BurnWindow(Decimal(3), DAY, 2 * HOUR, "ticket"),
    BurnWindow(Decimal(1), 3 * DAY, 6 * HOUR, "ticket"),
)
"""They spend 2, 5, 10 and 10 % of a budget of 30 days."""


def windows(days: int) -> tuple[BurnWindow, ...]:
    """For an objective over `days`: each spends the same share of the budget as its original does of 30 days.

    Lengths are scaled by days / 30 to the nearest readable one; then factor = share x days / long. A factor below 1
    would alert where the budget holds, so it is never less than 1.
    """
    return WINDOWS_30D if days == _REFERENCE_DAYS else tuple(_rewritten(w, days) for w in WINDOWS_30D)


def _rewritten(window: BurnWindow, days: int) -> BurnWindow:
    long, short = _scaled(window.long, days), _scaled(window.short, days)
    factor = window.share(_REFERENCE_DAYS) * days * DAY / long
    return BurnWindow(max(Decimal(1), round(factor, 2).normalize()), long, short, window.severity)


def _scaled(seconds: int, days: int) -> int:
    return min(_LENGTHS, key=lambda length: abs(length - seconds * days / _REFERENCE_DAYS))


def reachable(found: Sequence[BurnWindow], budget: Decimal) -> tuple[list[BurnWindow], list[BurnWindow]]:
    """Those that can fire, and those that cannot: not even all requests being bad burns that fast."""
    kept = [w for w in found if w.factor * budget < 1]
    return kept, [w for w in found if w not in kept]


def duration(seconds: int) -> str:
    """`1h`, `30m`: as people and rule files write it."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m")):
        if seconds % unit == 0:
            return f"{seconds // unit}{name}"
    return f"{seconds}s"
