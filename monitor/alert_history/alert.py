"""One firing of one alert, from what Prometheus saw and what Alertmanager told. Moments are unix seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

DELIVERED_WITHIN_SECONDS = 600.0
"""Alertmanager waits before a group's first notification (30 s by default) and between two (5 min)."""
SEEN_WITHIN_SECONDS = 600.0
"""Rules are evaluated more often, and samples are read a minute late."""


class State(StrEnum):
    FIRING = "firing"
    RESOLVED = "resolved"
    UNKNOWN = "unknown"
    """It fired when Prometheus was last heard."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """When a receiver was told, and when it was told of the end."""

    delivered_at: float
    resolved_at: float | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """`ends_at` is as Prometheus saw it; as Alertmanager told where Prometheus never showed the alert here."""

    fingerprint: str
    starts_at: float
    labels: Mapping[str, str]
    ends_at: float | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    last_seen: float | None = None
    """The newest sample of Prometheus; None where only Alertmanager told."""
    deliveries: Mapping[str, Delivery] = field(default_factory=dict)
    """By the name of the receiver."""
    generator_url: str | None = None

    @property
    def key(self) -> tuple[str, float]:
        return self.fingerprint, self.starts_at

    @property
    def name(self) -> str:
        return self.labels.get("alertname", "")

    @property
    def delivered_at(self) -> float | None:
        return min((d.delivered_at for d in self.deliveries.values()), default=None)

    @property
    def resolved_at(self) -> float | None:
        return min((d.resolved_at for d in self.deliveries.values() if d.resolved_at is not None), default=None)

    @property
    def known_until(self) -> float:
        """It is known to have fired until here."""
        return self.ends_at if self.ends_at is not None else max(self.starts_at, self.last_seen or self.starts_at)

    def state(self, now: float) -> State:
        if self.ends_at is not None:
            return State.RESOLVED
        if self.resolved_at is not None and (self.last_seen is None or self.last_seen < self.resolved_at):
            return State.RESOLVED
        if self.last_seen is not None and self.last_seen < now - SEEN_WITHIN_SECONDS:
            return State.UNKNOWN
        return State.FIRING

    def was_delivered(self, now: float) -> bool | None:
        """None while it is too early to say, and of what was over too soon."""
        if self.deliveries:
            return True
        fired = (self.ends_at if self.ends_at is not None else now) - self.starts_at
        return False if fired >= DELIVERED_WITHIN_SECONDS else None
