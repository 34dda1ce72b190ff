"""From counts of five minutes to ratios of each window."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from alerts import promql
from alerts.burn import HOUR, MINUTE, SLICE, BurnWindow, duration
from alerts.rules.model import Recording
from alerts.rules.scope import HELD_SECONDS, PIECE, RECENT, Scope, within

_SURE = Decimal("0.9")
"""Of an increase over five minutes: of scrapes every 30 seconds the first and the last are 270 apart at least."""


def lengths(found: Iterable[BurnWindow]) -> list[int]:
    return sorted({length for w in found for length in (w.long, w.short)})


def sum_rules(scope: Scope, kinds: Iterable[str], found: Iterable[int]) -> list[Recording]:
    """Counts of whole windows: sums of pieces, so that each request weighs the same. Belong into the group of these.

    Evaluated once in five minutes, together: each sum holds exactly as many pieces as the window is long.
    """
    lengths = [seconds for seconds in found if seconds > SLICE]
    return [
        scope.rule(kind, duration(seconds), promql.over_time("sum", scope.recorded(kind, PIECE), within(seconds)))
        for kind in kinds
        for seconds in lengths
    ]


def ratio_rule(scope: Scope, kind: str, seconds: int) -> Recording:
    """The share of what is bad; minutes of an outage weigh like average ones. Absent where nothing was judged."""
    ratio = _ratio(scope, kind, seconds)
    expr = _with_outage(ratio, outage_over(scope, seconds)) if scope.slo.counts_outage else ratio
    return scope.rule(f"{kind}_ratio", duration(seconds), expr)


def _ratio(scope: Scope, kind: str, seconds: int) -> str:
    """Sums of windows may be five minutes old: short ones are at least what is bad of the last five minutes.

    That is held against all requests of the window, the pieces before included: five busy minutes after a quiet hour
    are not the hour.
    """
    if seconds == SLICE:
        return _share(scope.counts(kind), scope.counts("total"))
    settled = _share(held(scope, kind, seconds), held(scope, "total", seconds))
    if seconds > HOUR:
        return settled
    recent = _surely(scope, "total")
    before = promql.over_time("sum", scope.recorded("total", PIECE), seconds - SLICE)
    total = promql.first_of(promql.binary(recent, "+", before), recent)
    return promql.larger(settled, _share(_surely(scope, kind), total))


def _share(bad: str, total: str) -> str:
    return promql.binary(bad, "/", promql.binary(total, ">", "0"))


def _surely(scope: Scope, kind: str) -> str:
    """Minutes are counted, and requests reckoned up to the ends of their window: a burst may come out too large."""
    recent = scope.recorded(kind, RECENT)
    return recent if scope.slo.indicator.slices else promql.binary(recent, "*", promql.number(_SURE))


def held(scope: Scope, kind: str, seconds: int) -> str:
    return promql.over_time("last", scope.recorded(kind, duration(seconds)), HELD_SECONDS)


def outage_over(scope: Scope, seconds: int) -> str:
    recent, summed = scope.recorded("outage", RECENT), held(scope, "outage", seconds)
    minutes = recent if seconds == SLICE else summed if seconds > HOUR else promql.larger(summed, recent)
    return promql.binary(minutes, "/", promql.number(seconds // MINUTE))


def _with_outage(ratio: str, out: str) -> str:
    served = promql.binary(ratio, "*", promql.binary("1", "-", out))
    return promql.first_of(promql.binary(served, "+", out), ratio, out)
