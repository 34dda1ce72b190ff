"""An example of Alertmanager's configuration: who is told of which alert, and which alerts are held back by others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from alerts.conditions.gpus import LOST
from alerts.conditions.ourselves import UNMAPPED, WATCHDOG
from alerts.conditions.servers import (
    DOWN,
    FIRST_TOKEN,
    IMBALANCE,
    INTER_TOKEN,
    KV_SATURATED,
    METRICS_MISSING,
    PREEMPTIONS,
    QUEUE_GROWING,
    SERVERS,
    TARGET,
)
from alerts.conditions.stuck import STILL, STUCK
from alerts.rules.burn import NAMES
from exporters.schema import IDENTITY, Scope

SLO_GROUPS = IDENTITY[Scope.ENGINE]
"""Labels that objectives may be grouped by, besides those that a fleet gives its servers."""
MONITOR, ONCALL, TICKETS, DEAD_MAN = "inferwatch", "oncall", "tickets", "dead-man-switch"
_INTRO = """\
# An example to start from: receivers, URLs and the label `team` are yours to change. Written by `make generate`.
# Labels of your own that objectives are grouped by belong beside `team`: into the route's `group_by`, and into `equal`
# of the first rule of inhibition. Without them the page of one group holds back the tickets of others.
# To try it: `amtool check-config FILE`, `amtool config routes test --config.file=FILE severity=page team=search`.
"""


def configuration(teams: Sequence[str], user_labels: Sequence[str]) -> str:
    """`teams` are values of the user label `team` with a receiver of their own."""
    content = {
        "route": _route(teams, user_labels),
        "inhibit_rules": inhibitions(user_labels),
        "receivers": [
            {"name": MONITOR, "webhook_configs": [{
                "url": "http://monitor:9840/alertmanager",
                "max_alerts": 1000,
                "http_config": {"authorization": {"credentials_file": "/etc/alertmanager/inferwatch-token"}},
            }]},
            _receiver(ONCALL), _receiver(TICKETS), *(_receiver(f"{ONCALL}-{team}") for team in teams),
            *(_receiver(f"{TICKETS}-{team}") for team in teams), _receiver(DEAD_MAN),
        ],
    }  # fmt: skip
    return _INTRO + yaml.safe_dump(content, sort_keys=False, width=120)


def _route(teams: Sequence[str], user_labels: Sequence[str]) -> dict[str, Any]:
    """The monitor hears of everything; the dead man's switch of its own alert, often; people by severity and team.

    Whatever is no page ends in tickets: the root's receiver hears of nothing that the monitor's route took.
    """
    return {
        "receiver": TICKETS,
        "group_by": ["alertname", "node", "model", "slo", *user_labels],
        "group_wait": "30s",
        "group_interval": "5m",
        "repeat_interval": "1d",
        "routes": [
            {"receiver": MONITOR, "continue": True, "group_wait": "10s", "group_interval": "1m"},
            {"receiver": DEAD_MAN, "matchers": [f"alertname={WATCHDOG.name}"], "group_wait": "0s",
             "repeat_interval": "5m"},
            {"receiver": ONCALL, "matchers": ["severity=page"], "repeat_interval": "4h",
             "routes": [_of_team(ONCALL, team) for team in teams]},
            {"receiver": TICKETS, "repeat_interval": "7d",
             "routes": [_of_team(TICKETS, team) for team in teams]},
        ],
    }  # fmt: skip


def _of_team(receiver: str, team: str) -> dict[str, Any]:
    return {"receiver": f"{receiver}-{team}", "matchers": [f"team={team}"]}


def _receiver(name: str) -> dict[str, Any]:
    return {"name": name, "webhook_configs": [{"url": f"http://localhost:9/{name}"}]}


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While `cause` fires nobody is told of the others, where both agree in the labels `equal`."""

    cause: str
    held: tuple[str, ...]
    equal: tuple[str, ...]
    why: str


_OBJECTIVES = (NAMES["page"], NAMES["ticket"])
_OF_ONE = tuple(c.name for c in (*SERVERS, *STILL, UNMAPPED) if c not in (DOWN, IMBALANCE))
"""What is said of one server alone."""
_BLIND = (METRICS_MISSING.name, UNMAPPED.name, STUCK.name)
"""Of these a server that makes no tokens is not the reason."""
_AT_MODEL = (*TARGET, "model")
INHIBITIONS = (
    Inhibition(NAMES["page"], (NAMES["ticket"],), ("slo", *SLO_GROUPS), "the page says the same, and more urgently"),
    Inhibition(
        LOST.name, (DOWN.name, STUCK.name), ("node",),
        "servers end, or hang, with their GPU; which uses which is not always known, so it is the whole node",
    ),
    Inhibition(DOWN.name, (*_OBJECTIVES, *_OF_ONE), TARGET, "it is no news of a server that is down"),
    Inhibition(
        STUCK.name, (*_OBJECTIVES, *(name for name in _OF_ONE if name not in _BLIND)), TARGET,
        "requests pile up, and are late, where no tokens are made",
    ),
    Inhibition(
        KV_SATURATED.name, (PREEMPTIONS.name, QUEUE_GROWING.name, FIRST_TOKEN.name, INTER_TOKEN.name), _AT_MODEL,
        "without memory requests wait, or are thrown out and worked on again",
    ),
    Inhibition(QUEUE_GROWING.name, (FIRST_TOKEN.name,), _AT_MODEL, "who waits longer has the first token later"),
)  # fmt: skip


def inhibitions(user_labels: Sequence[str] = ()) -> list[dict[str, Any]]:
    """A label that neither alert carries counts as equal: every source but an objective's page carries all of its own.

    An objective's page and ticket have the same groups, whichever these are. Down and stuck are also told instead of
    the objectives of a single server; those of a model or a team are always told.
    """
    return [_rule(each, user_labels if each.cause == NAMES["page"] else ()) for each in INHIBITIONS]


def _rule(of: Inhibition, more: Sequence[str]) -> dict[str, Any]:
    held = f"={of.held[0]}" if len(of.held) == 1 else f"=~{'|'.join(of.held)}"
    return {
        "source_matchers": [f"alertname={of.cause}"],
        "target_matchers": [f"alertname{held}"],
        "equal": [*of.equal, *more],
    }
