"""How a server is doing, in one word, and what to look at first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.fleet import ServerRow
from monitor.page import quantities
from monitor.remarks import FindingOut

_SEVERITIES = ("error", "warning", "info")
"""Worst first."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`look` is good, quiet, warning or bad: with the icon and the word it is never colour alone that tells."""

    word: str
    icon: str
    look: str


DOWN = Condition("down", "cross", "bad")
NO_METRICS = Condition("metrics missing", "question", "warning")
_OF_STATE = {
    "awake": Condition("awake", "check", "good"),
    "sleeping": Condition("sleeping", "moon", "quiet"),
    "starting": Condition("starting", "clock", "quiet"),
    "draining": Condition("draining", "arrow", "quiet"),
}
UP = Condition("up", "check", "good")
"""It answers and has metrics; what state it is in it does not tell."""


def condition(row: ServerRow) -> Condition:
    if not row.up:
        return DOWN
    if not row.available:
        return NO_METRICS
    return _OF_STATE.get(row.state or "", UP)


def worst_first(findings: Sequence[FindingOut]) -> list[FindingOut]:
    return sorted(findings, key=lambda f: _SEVERITIES.index(f.severity))


def trouble(row: ServerRow) -> int:
    """0 is worst: down, no metrics, an error, a warning, none."""
    if not row.up:
        return 0
    if not row.available:
        return 1
    severities = {f.severity for f in row.findings}
    return 2 if "error" in severities else 3 if "warning" in severities else 4


@dataclass(frozen=True, slots=True)
class Summary:
    servers: int
    up: int
    """Up and readable."""
    without_metrics: int
    down: int
    in_trouble: int
    """Down, without metrics or with an error."""


def summary(rows: Sequence[ServerRow]) -> Summary:
    return Summary(
        servers=len(rows),
        up=sum(row.up and row.available for row in rows),
        without_metrics=sum(row.up and not row.available for row in rows),
        down=sum(not row.up for row in rows),
        in_trouble=sum(trouble(row) <= 2 for row in rows),
    )


def title(told: Summary) -> str:
    """For the browser's tab, so that trouble shows where the page is not in front."""
    if not told.servers:
        return "no servers · inferwatch"
    return f"{told.in_trouble} in trouble · inferwatch" if told.in_trouble else f"{told.up} up · inferwatch"


def last_answer(row: ServerRow, now: float) -> str:
    if row.last_seen is None:
        return "no answer since the monitor started"
    return f"last answer {quantities.age(now - row.last_seen)}"
