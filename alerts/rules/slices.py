"""Counts of minutes in which a condition on a gauge held."""

from __future__ import annotations

from alerts import promql
from alerts.burn import MINUTE, SLICE
from alerts.rules.model import Recording
from alerts.rules.scope import EACH_MINUTE, RECENT, Scope, within
from alerts.slo.spec import TimeSlices
from alerts.slo.sticking import WORK, always

OPERATORS = {"below": "<", "at_most": "<=", "above": ">", "at_least": ">="}


def slice_rules(scope: Scope, indicator: TimeSlices) -> list[Recording]:
    average = promql.over_time("avg", scope.metric(indicator.metric), within(MINUTE))
    of_engines = _of_working(scope, indicator.metric, promql.aggregate("max", scope.engine, average))
    value = promql.aggregate(indicator.across, scope.groups, of_engines)
    held = promql.binary(value, f"{OPERATORS[indicator.condition]} bool", promql.number(indicator.value))
    minutes = scope.recorded("good", EACH_MINUTE)
    good = promql.over_time("sum", minutes, within(SLICE))
    return [
        scope.rule("good", EACH_MINUTE, scope.outside_maintenance(held)),
        scope.rule("total", RECENT, promql.over_time("count", minutes, within(SLICE))),
        scope.rule("bad", RECENT, scope.minus(scope.recorded("total", RECENT), good)),
    ]


def _of_working(scope: Scope, metric: str, of: str) -> str:
    """Without servers at which the gauge sticks while they are idle, where they showed no work within the minute."""
    allowed = scope.slo.select.get("framework")
    sticking = [f for f in always(metric) if allowed is None or f.framework in allowed]
    if not sticking:
        return of
    info = scope.metric("llm_server_info", promql.one_of("frontend", [f.name for f in sticking]))
    stuck = promql.aggregate("group", scope.replica, promql.over_time("last", info, within(MINUTE)))
    frameworks = promql.one_of("framework", {f.framework for f in sticking})
    work = promql.first_of(*(_moved(scope, scope.metric(counter, frameworks)) for counter in WORK))
    idle = promql.binary(stuck, "unless", work, on=scope.replica)
    return promql.binary(of, "unless", idle, on=scope.replica)


def _moved(scope: Scope, counter: str) -> str:
    """Some servers do not count it apart for each of their engines."""
    now, before = (
        promql.aggregate("sum", scope.replica, promql.call("last_over_time", scope.samples(counter, ago=ago)))
        for ago in (0, MINUTE)
    )
    return promql.binary(now, "!=", before)
