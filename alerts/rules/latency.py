"""Counts of requests below a latency, estimated for tickets and budgets, certain for pages."""

from __future__ import annotations

from collections.abc import Sequence

from alerts import promql
from alerts.rules import rises
from alerts.rules.model import Recording
from alerts.rules.scope import HELD_SECONDS, Scope
from alerts.slo.spec import LatencyBelow
from alerts.slo.thresholds import REACH
from exporters.schema import PHASES

QUEUED_BEFORE_THE_CLOCK = {"ttft": "lmdeploy", "e2e": "lmdeploy"}
"""By phase: whose clock starts after its API process's queue, so that nothing is known while requests wait there."""


def latency_rules(scope: Scope, indicator: LatencyBelow) -> list[Recording]:
    count = _count(scope, indicator.phase)
    good = _buckets(scope, indicator.phase, promql.at_bound(indicator.below))
    queued = _queued(scope, indicator.phase)
    if queued is None:
        return _rules(scope, count, good, _certain(scope, indicator, count))
    judged_count, judged_good, judged_certain = (
        promql.binary(of, "unless", queued, on=scope.target) for of in (count, good, _certain(scope, indicator, count))
    )
    at_queues = _count(scope, indicator.phase, _queueing(indicator.phase))
    unknown = scope.sum(promql.binary(at_queues, "and", queued, on=scope.target))
    if scope.slo.unknown == "exclude":
        return [*_rules(scope, judged_count, judged_good, judged_certain), scope.counted("unknown", unknown)]
    return _with_unknown_as_bad(scope, count, judged_good, judged_certain, unknown)


def _count(scope: Scope, phase: str, *more: promql.Matcher) -> str:
    name = f"{PHASES[phase].metric}_count"
    return rises.increase(scope, name, *more, witness=name)


def _buckets(scope: Scope, phase: str, *more: promql.Matcher, by: Sequence[str] = ()) -> str:
    metric = PHASES[phase].metric
    return rises.increase(scope, f"{metric}_bucket", *more, witness=f"{metric}_count", by=by)


def _rules(scope: Scope, count: str, good: str, certain: str) -> list[Recording]:
    known = promql.call("clamp_min", scope.sum(certain), "0")
    return [
        scope.counted("total", scope.sum(count)),
        scope.counted("bad", scope.minus(scope.counts("total"), scope.sum(good))),
        scope.counted("certain", scope.or_none(known)),
    ]


def _with_unknown_as_bad(scope: Scope, count: str, good: str, certain: str, unknown: str) -> list[Recording]:
    known = promql.call("clamp_min", scope.sum(certain), "0")
    of_unknown = scope.or_none(scope.counts("unknown"))
    return [
        scope.counted("total", scope.sum(count)),
        scope.counted("unknown", unknown),
        scope.counted("bad", scope.minus(scope.counts("total"), scope.or_none(scope.sum(good)))),
        scope.counted("certain", scope.plus(scope.or_none(known), of_unknown)),
    ]


def _queued(scope: Scope, phase: str) -> str | None:
    """Servers at which requests waited before the clock, if the objective may be about any such."""
    framework = QUEUED_BEFORE_THE_CLOCK.get(phase)
    if framework is None or framework not in scope.slo.select.get("framework", (framework,)):
        return None
    waiting = scope.metric("llm_requests_waiting_api", _queueing(phase))
    return promql.binary(promql.call("max_over_time", scope.samples(waiting)), ">", "0")


def _queueing(phase: str) -> promql.Matcher:
    return promql.equals("framework", QUEUED_BEFORE_THE_CLOCK[phase])


def _certain(scope: Scope, indicator: LatencyBelow, count: str) -> str:
    """Of each engine: what lies beyond its first own bound at or above the threshold, and within reach of it.

    What lies beyond its largest bound is among it if that bound reaches the threshold. Where the bounds changed within
    the window two bounds are found; what lies beyond the larger is certain for both.
    """
    phase = PHASES[indicator.phase]
    bounds = [b for b in phase.grid if indicator.below <= b <= indicator.below * REACH]
    buckets = _buckets(scope, phase.name, promql.among_bounds(bounds), by=("le",))
    keys = (*scope.engine, "le")
    at_own = promql.binary(promql.canonical_bound(buckets), "and", _own_bound(scope, phase.name, bounds), on=keys)
    return promql.aggregate("min", scope.engine, promql.binary(count, "-", at_own, on=scope.engine, group="right"))


def _own_bound(scope: Scope, phase: str, bounds: list[float]) -> str:
    """Servers that went away count as long as their requests do."""
    info = scope.metric("llm_latency_native_bounds_info", promql.equals("phase", phase))
    return promql.first_listed(promql.over_time("last", info, HELD_SECONDS), "le", "bounds", bounds)
