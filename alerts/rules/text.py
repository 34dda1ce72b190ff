"""Rules as the text of a Prometheus rule file, or of the operator's PrometheusRule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from alerts.burn import duration
from alerts.rules.model import Alert, Recording, RuleGroup

_WIDTH = 120


class _Long(str):
    """Written over several lines."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Has a way to write such texts."""


_Dumper.add_representer(_Long, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style=">"))


def rule_file(groups: Iterable[RuleGroup]) -> str:
    return _yaml({"groups": [_group(g) for g in groups]})


def prometheus_rule(groups: Iterable[RuleGroup], name: str, labels: Mapping[str, str] | None = None) -> str:
    """`labels` are those that the Prometheus of the operator selects rules by."""
    metadata = {"name": name, **({"labels": dict(labels)} if labels else {})}
    spec = {"groups": [_group(g) for g in groups]}
    return _yaml({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": metadata, "spec": spec,
    })  # fmt: skip


def _yaml(value: object) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)


def _group(group: RuleGroup) -> dict[str, Any]:
    rules = [_recording(r) if isinstance(r, Recording) else _alert(r) for r in group.rules]
    return {"name": group.name, "interval": duration(group.interval), "rules": rules}


def _recording(rule: Recording) -> dict[str, Any]:
    return {"record": rule.record, "expr": _Long(rule.expr), **({"labels": dict(rule.labels)} if rule.labels else {})}


def _alert(rule: Alert) -> dict[str, Any]:
    times = {"for": rule.for_seconds, "keep_firing_for": rule.keep_firing_for_seconds}
    return {
        "alert": rule.alert,
        "expr": _Long(rule.expr),
        **{key: duration(seconds) for key, seconds in times.items() if seconds},
        "labels": dict(rule.labels),
        "annotations": dict(rule.annotations),
    }
