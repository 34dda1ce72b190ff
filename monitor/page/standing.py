"""What is judged, in a few lines: what the fleet's page says above its servers of alerts and objectives."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from alerts.budget import State
from monitor.evaluate.status import Status
from monitor.evaluate.watch import Told
from monitor.page.alert_view import AlertView, Firing
from monitor.page.slo_view import Card, card

_MOST = 6
_TROUBLE = (State.EXHAUSTED, State.BURNING)
"""The worst first."""
_WHERE = ("slo", "server", "node", "gpu", "model")
"""Labels that say where it is; the others stand on the page that a line leads to."""
_MOST_LABELS = 4

Place = tuple[str, str]
"""Node and server."""


@dataclass(frozen=True, slots=True)
class Fires:
    """All of one name. What is not held back is somebody's to act on, and is shown before what is."""

    alert: Firing
    where: dict[str, str]
    """Of one of them."""
    lasted: str
    """Of the one that has fired longest."""
    held: tuple[tuple[str, int], ...]
    """What holds them back, and how many."""
    untold: int
    """How many nobody was told of, though nothing holds them back."""


@dataclass(frozen=True, slots=True)
class Troubled:
    """A group of an objective that burns or is exhausted."""

    objective: str
    card: Card


@dataclass(frozen=True, slots=True)
class Standing:
    """The worst come first; `more_` are how many are left out."""

    firing: tuple[Fires, ...]
    more_firing: int
    troubled: tuple[Troubled, ...]
    more_troubled: int
    at: Mapping[Place, tuple[Firing, ...]]
    """Alerts that name a server, pages first."""
    unknown: int
    """Groups of objectives of which nothing can be said."""
    is_watched: bool
    """Whether the alert that always fires does, without which silence says nothing."""

    @property
    def is_calm(self) -> bool:
        return self.is_watched and not self.firing


def standing(alerts: AlertView, told: Told) -> Standing:
    troubled = _troubled(told)
    return Standing(
        firing=tuple(map(_fires, alerts.loud[:_MOST])),
        more_firing=len(alerts.loud[_MOST:]),
        troubled=tuple(Troubled(status.slo.name, card(status)) for status in troubled[:_MOST]),
        more_troubled=len(troubled[_MOST:]),
        at=_at_servers(alerts.loud),
        unknown=sum(status.state is State.UNKNOWN for status in told.statuses),
        is_watched=alerts.is_watched,
    )


def _fires(alert: Firing) -> Fires:
    first = min(alert.lines, key=lambda line: line.is_held)
    oldest = min(alert.lines, key=lambda line: line.starts_at)
    held = Counter(line.held_by for line in alert.lines if line.is_held)
    untold = sum(line.delivered is False and not line.is_held for line in alert.lines)
    return Fires(alert, _where(first.labels), oldest.lasted, tuple(sorted(held.items())), untold)


def _at_servers(firing: Iterable[Firing]) -> Mapping[Place, tuple[Firing, ...]]:
    found: defaultdict[Place, list[Firing]] = defaultdict(list)
    for alert in firing:
        for labels in (line.labels for line in alert.lines):
            if "node" in labels and "server" in labels:
                found[labels["node"], labels["server"]].append(alert)
    return {place: tuple({alert.name: alert for alert in those}.values()) for place, those in found.items()}


def _where(labels: Mapping[str, str]) -> dict[str, str]:
    names = [name for name in _WHERE if name in labels] or list(labels)
    return {name: labels[name] for name in names[:_MOST_LABELS]}


def _troubled(told: Told) -> list[Status]:
    place = {slo.name: number for number, slo in enumerate(told.slos)}
    found = (status for status in told.statuses if status.state in _TROUBLE)
    return sorted(found, key=lambda s: (_TROUBLE.index(s.state), place[s.slo.name], s.group))
