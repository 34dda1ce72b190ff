"""The list of alerts, ready to be put into HTML: what fires, by name, and what fired."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from alerts.conditions import CONDITIONS
from monitor.alert_history.alert import Alert, State
from monitor.page import quantities
from monitor.page.condition import Condition
from monitor.page.runbooks import runbook

_OF_SEVERITY = {
    "page": Condition("page", "cross", "bad"),
    "ticket": Condition("ticket", "warning", "warning"),
    "none": Condition("none", "info", "quiet"),
}
_OTHER = Condition("firing", "warning", "warning")
_HIDDEN = ("alertname", "severity")


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    condition: Condition
    labels: dict[str, str]
    summary: str
    starts_at: float
    ends_at: float | None
    lasted: str
    state: str
    delivered: bool | None


@dataclass(frozen=True, slots=True)
class Firing:
    """All that fires of one name."""

    name: str
    condition: Condition
    meaning: str
    runbook: Markup | None
    lines: tuple[Line, ...]


def firing(alerts: Sequence[Alert], now: float, *, was_told: bool) -> list[Firing]:
    """Pages first."""
    by_name: defaultdict[str, list[Alert]] = defaultdict(list)
    for alert in alerts:
        if alert.state(now) is not State.RESOLVED:
            by_name[alert.name].append(alert)
    found = [_firing(name, of, now, was_told=was_told) for name, of in sorted(by_name.items())]
    return sorted(found, key=lambda f: (_rank(f.condition), f.name))


def _rank(condition: Condition) -> int:
    return ("bad", "warning", "quiet").index(condition.look)


def _firing(name: str, alerts: Sequence[Alert], now: float, *, was_told: bool) -> Firing:
    lines = tuple(_line(alert, now, was_told=was_told) for alert in alerts)
    worst = min((line.condition for line in lines), key=_rank)
    condition = CONDITIONS.get(name)
    return Firing(name, worst, condition.meaning if condition else "", runbook(name), lines)


def over(alerts: Iterable[Alert], now: float, *, was_told: bool) -> list[Line]:
    return [_line(a, now, was_told=was_told) for a in alerts if a.state(now) is State.RESOLVED]


def _line(alert: Alert, now: float, *, was_told: bool) -> Line:
    ended = alert.ends_at if alert.ends_at is not None else alert.resolved_at
    return Line(
        name=alert.name,
        condition=_OF_SEVERITY.get(alert.labels.get("severity", ""), _OTHER),
        labels={k: v for k, v in sorted(alert.labels.items()) if k not in _HIDDEN},
        summary=alert.annotations.get("summary", ""),
        starts_at=alert.starts_at,
        ends_at=ended,
        lasted=quantities.duration(max(0.0, (ended or now) - alert.starts_at)),
        state=alert.state(now).value,
        delivered=alert.was_delivered(now) if was_told else None,
    )
