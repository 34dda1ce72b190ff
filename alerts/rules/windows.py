"""From counts of five minutes to ratios of each window."""

from __future__ import annotations

from collections.abc import Iterable

from alerts import promql
from alerts.burn import HOUR, MINUTE, SLICE, BurnWindow, duration
from alerts.rules.model import Recording
from alerts.rules.scope import HELD_SECONDS, PIECE, RECENT, Scope, within


def lengths(found: Iterable[BurnWindow]) -> list[int]:
    return sorted({length for w in found for length in (w.long, w.short)})


def sum_rules(scope: Scope, kinds: Iterable[str], found: Iterable[int]) -> list[Recording]:
    """Counts of whole windows: sums of pieces, so that each request weighs the same. Belong into a group of their own.

    Evaluated once in five minutes, together: each sum holds exactly as many pieces as the window is long.
    """
    kinds, found = list(kinds), list(found)
    pieces = [scope.rule(kind, PIECE, scope.recorded(kind, RECENT)) for kind in kinds]
    sums = [
        scope.rule(kind, duration(seconds), promql.over_time("sum", scope.recorded(kind, PIECE), within(seconds)))
        for kind in kinds
        for seconds in found
        if seconds > SLICE
    ]
    return [*pieces, *sums]


def ratio_rule(scope: Scope, kind: str, seconds: int) -> Recording:
    """The share of what is bad; minutes of an outage weigh like average ones. Absent where nothing was judged."""
    requests = promql.binary(count_over(scope, "total", seconds), ">", "0")
    ratio = promql.binary(count_over(scope, kind, seconds), "/", requests)
    expr = _with_outage(ratio, outage_over(scope, seconds)) if scope.slo.counts_outage else ratio
    return scope.rule(f"{kind}_ratio", duration(seconds), expr)


def count_over(scope: Scope, kind: str, seconds: int) -> str:
    """Sums of windows may be five minutes old: short ones are at least what the last five minutes add up to."""
    if seconds > HOUR:
        return held(scope, kind, seconds)
    recent = scope.recorded(kind, RECENT)
    return recent if seconds == SLICE else promql.larger(held(scope, kind, seconds), recent)


def held(scope: Scope, kind: str, seconds: int) -> str:
    return promql.over_time("last", scope.recorded(kind, duration(seconds)), HELD_SECONDS)


def outage_over(scope: Scope, seconds: int) -> str:
    return promql.binary(count_over(scope, "outage", seconds), "/", promql.number(seconds // MINUTE))


def _with_outage(ratio: str, out: str) -> str:
    served = promql.binary(ratio, "*", promql.binary("1", "-", out))
    return promql.first_of(promql.binary(served, "+", out), ratio, out)
