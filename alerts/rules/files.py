"""Expressions of files: of Prometheus' rules, of the operator's PrometheusRule, of Grafana's dashboards."""

from __future__ import annotations

import re
from collections.abc import Iterator

from alerts import promql
from alerts.rules.known import Expression

_LABEL_VALUES = re.compile(r"label_values\((.*), *(\w+)\)")
_QUERY_RESULT = re.compile(r"query_result\((.*)\)")


def expressions(name: str, content: object) -> list[Expression]:
    """Raises ValueError where the content is none of these."""
    if isinstance(content, dict) and isinstance(groups := content.get("groups", _spec(content)), list):
        return list(_of_groups(name, groups))
    if isinstance(content, dict) and "panels" in content:
        return list(_of_panels(name, content))
    raise ValueError(f"{name}: allowed: rules (`groups`), a PrometheusRule (`spec.groups`) or a dashboard (`panels`)")


def _spec(content: dict[object, object]) -> object:
    spec = content.get("spec")
    return spec.get("groups") if isinstance(spec, dict) else None


def _of_groups(name: str, groups: list[object]) -> Iterator[Expression]:
    for group in groups:
        if not isinstance(group, dict) or not isinstance(rules := group.get("rules"), list):
            raise ValueError(f"{name}: allowed: groups with `name` and `rules`")
        for i, rule in enumerate(rules):
            if not isinstance(rule, dict) or not isinstance(rule.get("expr"), str | int | float):
                raise ValueError(f"{name}: group {group.get('name')}: rule {i + 1}: allowed: a rule with `expr`")
            record, labels = str(rule.get("record") or ""), rule.get("labels")
            what = record or rule.get("alert")
            place = f"{name}: {group.get('name')}: {what}"
            yield Expression(place, str(rule["expr"]), record, tuple(labels) if isinstance(labels, dict) else ())


def _of_panels(name: str, content: object, path: str = "") -> Iterator[Expression]:
    if isinstance(content, dict):
        if isinstance(expression := content.get("expr"), str):
            yield Expression(f"{name}: {path}", expression)
        if isinstance(query := content.get("query"), str) and (expression := asked_by_variable(query)):
            yield Expression(f"{name}: {path}", expression)
        for key, value in content.items():
            yield from _of_panels(name, value, f"{path}.{key}" if path else str(key))
    elif isinstance(content, list):
        for i, value in enumerate(content):
            yield from _of_panels(name, value, f"{path}[{i}]")


def asked_by_variable(query: str) -> str:
    """What Grafana's `label_values` or `query_result` asks, as PromQL; empty where it is neither."""
    if match := _LABEL_VALUES.fullmatch(query):
        return promql.aggregate("group", (match[2],), match[1])
    return match[1] if (match := _QUERY_RESULT.fullmatch(query)) else ""
