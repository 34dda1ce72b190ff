"""By how much the counters and gauges of each engine rose within five minutes.

Recent counts overlap: they take `increase`, which does not see what comes before the first sample of its window. Pieces
are added up: each begins with the very sample that the one before ended with.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts import promql
from alerts.burn import SLICE
from alerts.rules.scope import PIECE, Scope


def increase(
    scope: Scope, name: str, *more: promql.Matcher, witness: str, by: Sequence[str] = (), begins_at_zero: bool = False
) -> str:
    """Of each engine, and of what else is named. `witness` is the counter that tells whether the engine counted on.

    With `begins_at_zero` what an engine that counted on did not show before stood at zero.
    """
    keys, of = (*scope.engine, *by), scope.metric(name, *more)
    rise = _of_copies(keys, promql.call("increase", scope.samples(of)))
    if scope.span != PIECE:
        return rise
    last, first = (_of_copies(keys, _last(scope, of, ago)) for ago in (0, SLICE))
    if begins_at_zero:
        first = promql.first_of(first, promql.binary(last, "*", "0"))
    added = promql.binary(promql.binary(last, "-", first), ">=", "0")
    seen = promql.first_of(promql.binary(added, "and", _counts_on(scope, witness), on=scope.engine), rise)
    return _of_copies(keys, promql.first_of(seen, promql.labelled(_of_new(scope, keys, of), "__new", "1")))


def change(scope: Scope, name: str, *, witness: str) -> str:
    """Of a gauge of each engine. Across a restart nothing is known of it."""
    of = scope.metric(name)
    change = _of_copies(scope.engine, promql.call("delta", scope.samples(of)))
    restarted = promql.binary(_resets(scope, witness), ">", "0")
    within = promql.binary(change, "unless", restarted, on=scope.engine)
    if scope.span != PIECE:
        return within
    last, first = (_of_copies(scope.engine, _last(scope, of, ago)) for ago in (0, SLICE))
    whole = promql.binary(promql.binary(last, "-", first), "and", _counts_on(scope, witness), on=scope.engine)
    return promql.first_of(whole, within)


def _last(scope: Scope, of: str, ago: int) -> str:
    return promql.call("last_over_time", scope.samples(of, ago=ago))


def _of_new(scope: Scope, keys: Sequence[str], of: str) -> str:
    """Of series that the piece before lacks: an engine that was replaced may count from zero under another address,
    while what the old one had counted is larger."""
    rise = promql.call("increase", scope.samples(of))
    return _of_copies(keys, promql.binary(rise, "unless", _last(scope, of, SLICE)))


def _of_copies(keys: Sequence[str], of: str) -> str:
    """That which was read last has the most."""
    return promql.aggregate("max", keys, of)


def _counts_on(scope: Scope, witness: str) -> str:
    """Engines that were there before the piece, and did not fall since the sample that it begins with.

    Falls of the piece and the one before together are those of the one before alone.
    """
    return promql.binary(_resets(scope, witness, 2 * SLICE), "==", _resets(scope, witness, SLICE, ago=SLICE))


def _resets(scope: Scope, witness: str, seconds: int = SLICE, ago: int = 0) -> str:
    of = promql.call("resets", scope.samples(scope.metric(witness), seconds, ago))
    return promql.aggregate("sum", scope.engine, of)
