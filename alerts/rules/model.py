"""Rules as data, before they are text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RUNBOOKS = "alerts/runbooks"


def runbook(alert: str) -> str:
    """The file, from the root of the repository."""
    return f"{RUNBOOKS}/{alert}.md"


@dataclass(frozen=True, slots=True)
class Recording:
    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alert:
    alert: str
    expr: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    for_seconds: int = 0
    keep_firing_for_seconds: int = 0


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Evaluated together every `interval` seconds, in order: later rules see what earlier ones recorded."""

    name: str
    interval: int
    rules: tuple[Recording | Alert, ...]
