from __future__ import annotations

from alerts.alertmanager import INHIBITIONS
from alerts.conditions import GROUPS
from alerts.conditions.condition import Condition, duration
from alerts.conditions.findings import TOLD
from inferwatch.reference.hangs import hangs
from inferwatch.reference.markdown import page, table

_TITLES = {
    "inferwatch-servers": "Servers", "inferwatch-gpus": "GPUs", "inferwatch-itself": "inferwatch itself",
}  # fmt: skip

_FOUND = (
    "Each error that a sidecar finds with a server or a GPU is told by an alert, if it lasts; so are an empty page "
    "that was full before, and a synthetic request that fails. Where there are two, a server that answers nothing at "
    "all is down, and a GPU that was known is lost."
)
_HELD = (
    "`alerts/generated/alertmanager.yml` tells of the cause and not of what follows from it, where both are about the "
    "same. Objectives that are grouped by model, role or team are told all the same: they say what users notice. The "
    "monitor's page shows all that fires, pages before tickets, and says of what is held back that it is."
)


def conditions_page() -> str:
    blocks = (f"## {_TITLES[name]}\n\n{_table(group)}" for name, group in GROUPS.items())
    return page(
        "Conditions",
        "Alerts of causes, beside those of objectives. Each is a rule of Prometheus (2.42 or newer) in "
        "`alerts/generated/`, and the same definition judges minute rows where there is no Prometheus. A *page* wakes "
        "somebody, a *ticket* waits for the morning. Each alert carries the identity labels of what it is about, so "
        "that one can hold back another: see `alerts/generated/alertmanager.yml`. The names lead to the runbooks.\n\n"
        "*Told after* is how long it takes from a sudden and lasting fault to the alert, where servers are read every "
        "30 seconds and Prometheus judges every minute; a fault that grows is told once it is large enough. Without a "
        "Prometheus it is a minute or two more: minutes are judged when they are complete. Then Alertmanager waits for "
        "half a minute, in case more of the group comes.\n\n"
        "The annotation `summary` says where it is and what was seen, and is true as well while the alert is kept "
        "firing; `description` says what that means and what to do first; `runbook` has the rest. Alerts of GPUs name "
        "under `servers` those that were on the GPU last, within a day, where [that is known]"
        "(gpus.md#which-server-runs-on-which-gpu). It is an annotation and no label, so that the alert stays the same "
        "one when its servers end with their GPU.",
        *blocks,
        f"## Servers that hang\n\n{hangs()}",
        f"## Findings\n\n{_FOUND}\n\n{_found()}",
        f"## What is held back\n\n{_HELD}\n\n{_held()}",
    )


def _table(group: tuple[Condition, ...]) -> str:
    return table(("name", "severity", "meaning", "told after", "thresholds, and why"), map(_row, group))


def _row(condition: Condition) -> tuple[str, ...]:
    limits = "<br>".join(f"{each.what} **{each.shown}**: {each.why}" for each in condition.all_limits)
    name = f"[{condition.name}](../{condition.runbook})"
    return name, condition.severity, condition.meaning, _after(condition), limits or "none"


def _after(condition: Condition) -> str:
    return duration(condition.after) if condition.after else "at once"


def _found() -> str:
    rows = ((f"`{reason}`", ", ".join(c.name for c in by), ", ".join(map(_after, by))) for reason, by in TOLD.items())
    return table(("finding", "told by", "after"), rows)


def _held() -> str:
    rows = ((each.cause, ", ".join(each.held), ", ".join(each.equal), each.why) for each in INHIBITIONS)
    return table(("while this fires", "these are held back", "of the same", "why"), rows)
