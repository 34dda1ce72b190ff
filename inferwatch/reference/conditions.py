from __future__ import annotations

from alerts.conditions import GROUPS
from alerts.conditions.condition import Condition
from inferwatch.reference.markdown import page, table

_TITLES = {
    "inferwatch-servers": "Servers", "inferwatch-gpus": "GPUs", "inferwatch-itself": "inferwatch itself",
}  # fmt: skip


def conditions_page() -> str:
    blocks = (f"## {_TITLES[name]}\n\n{_table(group)}" for name, group in GROUPS.items())
    return page(
        "Conditions",
        "Alerts of causes, beside those of objectives. Each is a rule of Prometheus (2.42 or newer) in "
        "`alerts/generated/`, and the same definition judges minute rows where there is no Prometheus. A *page* wakes "
        "somebody, a *ticket* waits for the morning. Each alert carries the identity labels of what it is about, so "
        "that one can hold back another: see `alerts/generated/alertmanager.yml`. The names lead to the runbooks.",
        *blocks,
    )


def _table(group: tuple[Condition, ...]) -> str:
    return table(("name", "severity", "meaning", "thresholds, and why"), map(_row, group))


def _row(condition: Condition) -> tuple[str, ...]:
    limits = "<br>".join(f"{each.what} **{each.shown}**: {each.why}" for each in condition.all_limits)
    name = f"[{condition.name}](../{condition.runbook})"
    return name, condition.severity, condition.meaning, limits or "none"
