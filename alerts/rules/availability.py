"""Counts of requests that ended well, ended badly, or vanished."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from alerts import promql
from alerts.rules import rises
from alerts.rules.model import Recording
from alerts.rules.scope import Scope
from exporters.tables import FRONTENDS

_FINISHED, _REJECTED, _UNFINISHED = (
    "llm_requests_finished_total", "llm_requests_rejected_total", "llm_requests_unfinished",
)  # fmt: skip
GOOD, BAD, UNKNOWN = ("stop", "length"), ("error",), ("unknown",)
"""Reasons; `abort` is on neither side: the client went away."""
SUCCESSES_ALONE: Mapping[str, str] = {"trtllm_serve": r"(0|1\.[0-2])\..*"}
"""Frontends whose releases of these versions (a regular expression) count no request that fails."""


def availability_rules(scope: Scope) -> list[Recording]:
    rejected = _ended(scope, _REJECTED)
    known = [_told(scope, _finished(scope, *GOOD, *BAD)), rejected]
    bad = _added(scope, [_told(scope, _finished(scope, *BAD)), rejected])
    unknown = [_finished(scope, *UNKNOWN), _vanished(scope), *_of_successes_alone(scope)]
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


def _told(scope: Scope, finished: str) -> str:
    """Without servers that count no failures: that all of theirs went well is not known."""
    untelling = _untelling(scope)
    return promql.binary(finished, "unless", untelling, on=scope.replica) if untelling else finished


def _of_successes_alone(scope: Scope) -> Iterator[str]:
    """What such servers count, whatever it is said to be."""
    if untelling := _untelling(scope):
        frameworks = {FRONTENDS[name].framework for name in SUCCESSES_ALONE}
        matchers = promql.one_of("reason", (*GOOD, *BAD)), promql.one_of("framework", frameworks)
        yield promql.binary(_ended(scope, _FINISHED, *matchers), "and", untelling, on=scope.replica)


def _untelling(scope: Scope) -> str:
    """Empty where the objective is about none of their frameworks."""
    allowed = scope.slo.select.get("framework")
    old = {n: v for n, v in SUCCESSES_ALONE.items() if allowed is None or FRONTENDS[n].framework in allowed}
    infos = [
        scope.metric("llm_server_info", promql.equals("frontend", name), promql.matching("version", versions))
        for name, versions in old.items()
    ]
    parts = [promql.call("last_over_time", scope.samples(info)) for info in infos]
    return promql.aggregate("group", scope.replica, promql.first_of(*parts)) if parts else ""


def _ended(scope: Scope, name: str, *more: promql.Matcher) -> str:
    """Some servers show a reason once it has occurred."""
    return rises.increase(scope, name, *more, witness=_FINISHED, by=("reason",), begins_at_zero=True)


def _vanished(scope: Scope) -> str:
    """May fall: what still waits for its first token makes it too small for a while, and later sums even that out."""
    return rises.change(scope, _UNFINISHED, witness=_FINISHED)


def _added(scope: Scope, parts: list[str]) -> str:
    """The sum of those that there are: a counter that was never born is no error."""
    return scope.sum(promql.first_of(*(promql.labelled(part, "__part", str(i)) for i, part in enumerate(parts))))
