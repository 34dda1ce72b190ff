"""Counts of requests that ended well, ended badly, or vanished."""

from __future__ import annotations

from alerts import promql
from alerts.rules import rises
from alerts.rules.model import Recording
from alerts.rules.scope import Scope

_FINISHED, _REJECTED, _UNFINISHED = (
    "llm_requests_finished_total", "llm_requests_rejected_total", "llm_requests_unfinished",
)  # fmt: skip
GOOD, BAD, UNKNOWN = ("stop", "length"), ("error",), ("unknown",)
"""Reasons; `abort` is on neither side: the client went away."""


def availability_rules(scope: Scope) -> list[Recording]:
    rejected = _ended(scope, _REJECTED)
    known = [_finished(scope, *GOOD, *BAD), rejected]
    bad = _added(scope, [_finished(scope, *BAD), rejected])
    unknown = [_finished(scope, *UNKNOWN), _vanished(scope)]
    unknown_rule = scope.counted("unknown", _added(scope, unknown))
    if scope.slo.unknown == "exclude":
        total = scope.counted("total", _added(scope, known))
        return [total, scope.counted("bad", scope.or_none(bad)), unknown_rule]
    of_unknown = scope.or_none(scope.counts("unknown"))
    return [
        scope.counted("total", _added(scope, [*known, *unknown])),
        unknown_rule,
        scope.counted("bad", scope.plus(scope.or_none(bad), of_unknown)),
    ]


def _finished(scope: Scope, *reasons: str) -> str:
    return _ended(scope, _FINISHED, promql.one_of("reason", reasons))


def _ended(scope: Scope, name: str, *more: promql.Matcher) -> str:
    """Some servers show a reason once it has occurred."""
    return rises.increase(scope, name, *more, witness=_FINISHED, by=("reason",), begins_at_zero=True)


def _vanished(scope: Scope) -> str:
    """May fall: what still waits for its first token makes it too small for a while, and later sums even that out."""
    return rises.change(scope, _UNFINISHED, witness=_FINISHED)


def _added(scope: Scope, parts: list[str]) -> str:
    """The sum of those that there are: a counter that was never born is no error."""
    return scope.sum(promql.first_of(*(promql.labelled(part, "__part", str(i)) for i, part in enumerate(parts))))
