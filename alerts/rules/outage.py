"""Minutes in which none of the servers that served a group was up."""

from __future__ import annotations

from alerts import promql
from alerts.burn import HOUR, MINUTE, SLICE
from alerts.rules.model import Recording
from alerts.rules.scope import EACH_MINUTE, RECENT, Scope, within

SIGHT_SECONDS = 5 * MINUTE
"""How long a server that was up is not taken to be down by nothing's being seen of it: one page of its sidecar that is
missed is no outage, though all others are down. As far back as Prometheus itself looks."""


def outage_rules(scope: Scope) -> list[Recording]:
    """A server that is down does not say what it serves: that is remembered as long as it is configured.

    One whose sidecar is gone too, or that is configured no more, is neither up nor down once it is out of sight.
    """
    labels = tuple(dict.fromkeys((*scope.target, *scope.groups)))
    now = promql.aggregate("group", labels, scope.metric("llm_server_info"))
    configured = promql.binary(_before(scope), "and", _last_seen(), on=scope.target)
    served = promql.first_of(now, configured, on=scope.target)
    known = promql.binary(scope.recorded("server", EACH_MINUTE), "*", _up(scope), on=scope.target, group="left")
    down = promql.binary("1", "-", promql.aggregate("max", scope.groups, known))
    return [
        scope.rule("server", EACH_MINUTE, served),
        scope.rule("outage", EACH_MINUTE, scope.outside_maintenance(down)),
        scope.rule("outage", RECENT, _minutes(scope)),
    ]


def _up(scope: Scope) -> str:
    """Of servers that were seen within the minute, or that were up when they were seen last."""
    seen = promql.aggregate("max", scope.target, promql.over_time("max", promql.series("llm_up"), within(MINUTE)))
    unseen = promql.binary(promql.aggregate("max", scope.target, _last_seen()), ">", "0")
    return promql.first_of(seen, unseen, on=scope.target)


def _last_seen() -> str:
    return promql.over_time("last", promql.series("llm_up"), within(SIGHT_SECONDS))


def _before(scope: Scope) -> str:
    """As it was a minute ago. Further back only after a pause of the evaluation: it may have served others then."""
    recorded = scope.recorded("server", EACH_MINUTE)
    return promql.first_of(recorded, promql.over_time("last", recorded, HOUR), on=scope.target)


def _minutes(scope: Scope) -> str:
    """By their average, as an evaluation may be missed."""
    average = promql.over_time("avg", scope.recorded("outage", EACH_MINUTE), within(SLICE))
    return promql.binary(average, "*", promql.number(SLICE // MINUTE))
