"""Counts of minutes in which a condition on a gauge held."""

from __future__ import annotations

from alerts import promql
from alerts.burn import MINUTE, SLICE
from alerts.rules.model import Recording
from alerts.rules.scope import EACH_MINUTE, RECENT, Scope, within
from alerts.slo.spec import TimeSlices

OPERATORS = {"below": "<", "at_most": "<=", "above": ">", "at_least": ">="}


def slice_rules(scope: Scope, indicator: TimeSlices) -> list[Recording]:
    average = promql.over_time("avg", scope.metric(indicator.metric), within(MINUTE))
    value = promql.aggregate(indicator.across, scope.groups, promql.aggregate("max", scope.engine, average))
    held = promql.binary(value, f"{OPERATORS[indicator.condition]} bool", promql.number(indicator.value))
    minutes = scope.recorded("good", EACH_MINUTE)
    good = promql.over_time("sum", minutes, within(SLICE))
    return [
        scope.rule("good", EACH_MINUTE, scope.outside_maintenance(held)),
        scope.rule("total", RECENT, promql.over_time("count", minutes, within(SLICE))),
        scope.rule("bad", RECENT, scope.minus(scope.recorded("total", RECENT), good)),
    ]
