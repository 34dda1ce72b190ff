"""The list of alerts, ready to be put into HTML: what fires, by name, and what fired."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from alerts.conditions import CONDITIONS
from alerts.conditions.hit import SERVERS
from alerts.conditions.ourselves import WATCHDOG
from alerts.holding_back import Holding
from monitor.alert_history.alert import Alert, State
from monitor.page import quantities
from monitor.page.condition import Condition
from monitor.page.runbooks import runbook

_LOOKS = {
    "bad": ("page", "critical", "error"),
    "warning": ("ticket", "warning"),
    "quiet": ("none", "info"),
}
_ICONS = {"bad": "cross", "warning": "warning", "quiet": "info"}
_LOOK = {severity: look for look, severities in _LOOKS.items() for severity in severities}
"""The severities of inferwatch, and those that are usual elsewhere; others are taken for warnings."""
_HIDDEN = ("alertname", "severity")


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    condition: Condition
    labels: dict[str, str]
    summary: str
    description: str
    """Of alerts that say more than what all of their name mean."""
    servers: str
    """Those that were last on the GPU that it is of; empty where it is of none."""
    starts_at: float
    ends_at: float | None
    lasted: str
    state: str
    delivered: bool | None
    held_by: str = ""
    """The name of an alert that fires, and for which nobody is told of this one."""

    @property
    def is_held(self) -> bool:
        """Who was told of it before has it on the list all the same."""
        return bool(self.held_by) and not self.delivered


@dataclass(frozen=True, slots=True)
class Firing:
    """All that fires of one name."""

    name: str
    condition: Condition
    meaning: str
    first: str
    """What to do first."""
    runbook: Markup | None
    """None for alerts of others."""
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class AlertView:
    loud: tuple[Firing, ...]
    """Pages first."""
    quiet: tuple[Firing, ...]
    """Those that nobody is to act on."""
    is_watched: bool
    """Whether the alert that always fires does, without which silence says nothing."""
    over: tuple[Line, ...]

    @property
    def firing(self) -> int:
        return sum(len(firing.lines) for firing in (*self.loud, *self.quiet))

    @property
    def title(self) -> str:
        """For the browser's tab."""
        loud = sum(len(firing.lines) for firing in self.loud)
        if not loud:
            return "Alerts · inferwatch"
        return f"{loud} alert{'' if loud == 1 else 's'} firing · inferwatch"


def alert_view(firing: Iterable[Alert], over: Iterable[Alert], now: float, *, was_told: bool) -> AlertView:
    by_name: defaultdict[str, list[Alert]] = defaultdict(list)
    for alert in firing:
        by_name[alert.name].append(alert)
    holding = Holding(alert.labels for of in by_name.values() for alert in of)
    found = [_firing(name, of, now, holding, was_told=was_told) for name, of in sorted(by_name.items())]
    loud = sorted((f for f in found if f.condition.look != "quiet"), key=lambda f: _rank(f.condition))
    return AlertView(
        loud=tuple(loud),
        quiet=tuple(f for f in found if f.condition.look == "quiet"),
        is_watched=any(alert.state(now) is State.FIRING for alert in by_name[WATCHDOG.name]),
        over=tuple(_line(alert, now, was_told=was_told) for alert in over),
    )


def _of_severity(severity: str) -> Condition:
    look = _LOOK.get(severity.lower(), "warning")
    return Condition(severity or "no severity", _ICONS[look], look)


def _rank(condition: Condition) -> int:
    return list(_LOOKS).index(condition.look)


def _firing(name: str, alerts: Sequence[Alert], now: float, holding: Holding, *, was_told: bool) -> Firing:
    lines = tuple(_line(alert, now, holding.back(alert.labels), was_told=was_told) for alert in alerts)
    worst = min((line.condition for line in lines), key=_rank)
    condition = CONDITIONS.get(name)
    meaning, first = (condition.meaning, condition.first) if condition else ("", "")
    return Firing(name, worst, meaning, first, runbook(name), lines)


def _line(alert: Alert, now: float, held_by: str = "", *, was_told: bool) -> Line:
    ended = alert.ends_at if alert.ends_at is not None else alert.resolved_at
    return Line(
        name=alert.name,
        condition=_of_severity(alert.labels.get("severity", "")),
        labels={k: v for k, v in sorted(alert.labels.items()) if k not in _HIDDEN},
        summary=alert.annotations.get("summary", ""),
        description="" if alert.name in CONDITIONS else alert.annotations.get("description", ""),
        servers=alert.annotations.get(SERVERS, ""),
        starts_at=alert.starts_at,
        ends_at=ended,
        lasted=quantities.duration(max(0.0, (ended or now) - alert.starts_at)),
        state=alert.state(now).value,
        delivered=alert.was_delivered(now) if was_told else None,
        held_by=held_by,
    )
