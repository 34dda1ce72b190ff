"""What fires now by the history alone: the alerts that the rules would raise in a Prometheus, with the same labels."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from alerts.conditions.condition import Condition
from alerts.conditions.hit import SERVERS
from alerts.conditions.holding import Firing
from alerts.rules.burn import NAMES, burn_alert
from alerts.rules.scope import Scope
from exporters.observation import Labels, labels
from monitor.evaluate.status import Status

_PERCENTAGE, _LABEL = re.compile(r"\{\{ \$value \| humanizePercentage \}\}"), re.compile(r"\{\{ \$labels\.(\w+) \}\}")


@dataclass(frozen=True, slots=True)
class Raised:
    """`labels` with name and severity. Moments are unix seconds; it was last seen to fire at `seen`."""

    labels: Labels
    since: float
    seen: float
    annotations: Mapping[str, str] = field(default_factory=dict)
    end: float | None = None


def of_condition(
    condition: Condition, firing: Firing, known: Mapping[Labels, Raised], earliest: float, servers: Collection[str]
) -> Raised:
    """`known` are those of before; one that is not among them did not begin before `earliest`. `servers` are those that
    were last on its GPU."""
    of = labels({**dict(firing.labels), "alertname": condition.name, "severity": condition.severity})
    before = known.get(of)
    goes_on = before is not None and firing.start <= before.since
    since = before.since if before and goes_on else max(float(firing.start), earliest)
    texts = _texts(condition, firing, before.annotations if before else {}, servers)
    return Raised(of, since, max(since, firing.seen), texts, firing.end)


def _texts(
    condition: Condition, firing: Firing, before: Mapping[str, str], servers: Collection[str]
) -> Mapping[str, str]:
    """As `before` where no value is known, as after a restart, and with its servers where nothing tells of them."""
    if before and math.isnan(firing.value):
        return before
    texts = condition.told(dict(firing.labels), firing.value, servers)
    return texts if servers or SERVERS not in before else {**texts, SERVERS: before[SERVERS]}


def without_name(of: Labels) -> Labels:
    """As the condition has them."""
    return tuple((k, v) for k, v in of if k not in ("alertname", "severity"))


def burning(statuses: Iterable[Status], firing: Mapping[Labels, Raised]) -> Iterator[Raised]:
    """`firing` are those of before."""
    for status in statuses:
        for of, texts in _burns(status):
            yield Raised(of, firing[of].since if of in firing else status.at, status.at, texts)


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
