"""Cause alerts. Pure: each says itself as PromQL, and judges minute rows."""

from __future__ import annotations

from alerts.conditions.condition import STEP, Condition
from alerts.conditions.gpus import GPUS
from alerts.conditions.ourselves import OURSELVES
from alerts.conditions.servers import SERVERS
from alerts.conditions.stuck import STILL
from alerts.rules.model import RuleGroup

GROUPS = {
    "inferwatch-servers": (*SERVERS, *STILL),
    "inferwatch-gpus": GPUS,
    "inferwatch-itself": OURSELVES,
}
CONDITIONS: dict[str, Condition] = {c.name: c for group in GROUPS.values() for c in group}


def condition_groups() -> list[RuleGroup]:
    return [RuleGroup(name, STEP, tuple(c.alert() for c in group)) for name, group in GROUPS.items()]
