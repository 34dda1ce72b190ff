"""What fires now by the history alone: the alerts that the rules would raise in a Prometheus, with the same labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from alerts.burn import MINUTE
from alerts.conditions import CONDITIONS
from alerts.conditions.condition import Condition
from alerts.conditions.holding import Holder
from alerts.conditions.rows import MinuteRows
from alerts.rules.burn import NAMES, burn_alert
from alerts.rules.scope import Scope
from exporters.observation import Labels, labels
from monitor.evaluate.condition_rows import can_be_judged, longest
from monitor.evaluate.status import Status

JUDGED = tuple(c for c in CONDITIONS.values() if can_be_judged(c))
_WARM_UP = 30 * MINUTE
"""As long as the longest `for` but one (`GpuIdle`): what began while nobody judged is seen from its beginning."""
REACH = longest(JUDGED) + _WARM_UP
_PERCENTAGE, _LABEL = re.compile(r"\{\{ \$value \| humanizePercentage \}\}"), re.compile(r"\{\{ \$labels\.(\w+) \}\}")


@dataclass(frozen=True, slots=True)
class Raised:
    """`labels` with name and severity. `since` is when it began to fire, unix seconds."""

    labels: Labels
    since: float
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)


class Causes:
    """Conditions, evaluated minute by minute."""

    def __init__(self, firing: Iterable[tuple[Labels, float]]) -> None:
        """`firing` are the alerts that fired when they were last judged, and since when."""
        self._holders = {c.name: c.holder() for c in JUDGED}
        self._at: int | None = None
        for of, since in firing:
            name = dict(of).get("alertname", "")
            if name in self._holders:
                self._holders[name].resume(_without(of), round(since))

    def judge(self, rows: MinuteRows, at: int) -> list[Raised]:
        """At the end of every minute that was not judged yet, up to `at`."""
        first = at - _WARM_UP if self._at is None else max(self._at + MINUTE, at - _WARM_UP)
        for moment in range(first, at + 1, MINUTE):
            for condition in JUDGED:
                self._holders[condition.name].take(moment, condition.expression.at(rows, moment))
        self._at = max(at, self._at or at)
        return [raised for c in JUDGED for raised in _raised(c, self._holders[c.name])]


def _raised(condition: Condition, holder: Holder) -> Iterator[Raised]:
    for firing in holder.firing():
        of = dict(firing.labels)
        texts = {"summary": condition.told(of, firing.value), "runbook": condition.runbook}
        named = {**of, "alertname": condition.name, "severity": condition.severity}
        yield Raised(labels(named), firing.start, texts)


def _without(of: Labels) -> Labels:
    return tuple((k, v) for k, v in of if k not in ("alertname", "severity"))


def burning(statuses: Iterable[Status], firing: Mapping[Labels, float]) -> list[Raised]:
    """`firing` are those of before, and since when."""
    found = [(of, texts, status.at) for status in statuses for of, texts in _burns(status)]
    return [Raised(of, firing.get(of, at), texts) for of, texts, at in found]


def _burns(status: Status) -> Iterator[tuple[Labels, Mapping[str, str]]]:
    for severity in NAMES:
        burn = status.firing(severity)
        if burn is None:
            continue
        windows = [b.window for b in status.burns if b.window.severity == severity]
        alert = burn_alert(Scope(status.slo), severity, windows)
        of = labels({**status.labels, **alert.labels, "alertname": alert.alert})
        yield of, {name: _written(text, of, burn.ratio or 0.0) for name, text in alert.annotations.items()}


def _written(text: str, of: Labels, value: float) -> str:
    """As Prometheus fills in what the rules say."""
    text = _PERCENTAGE.sub(f"{value * 100:.4g}%", text)
    return _LABEL.sub(lambda match: dict(of).get(match[1], ""), text)
