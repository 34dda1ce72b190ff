"""A cause alert: what it compares, for how long, and what it tells whom."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from alerts.conditions.expression import Expression
from alerts.conditions.holding import Firing, Holder
from alerts.conditions.rows import MinuteRows
from alerts.rules.model import Alert, runbook

Severity = Literal["page", "ticket", "none"]

STEP = 60
"""Seconds between two evaluations."""
_FIELD = re.compile(r"\{(\w+)\}")
_TEMPLATES = {
    "number": '{{ printf "%.0f" $value }}',
    "ratio": "{{ $value | humanizePercentage }}",
    "seconds": '{{ printf "%.3g" $value }} s',
}


def duration(seconds: float) -> str:
    lengths = ((86400, "d"), (3600, "h"), (60, "min"))
    length, name = next(((n, name) for n, name in lengths if seconds % n == 0), (1, "s"))
    return f"{seconds / length:g} {name}"


@dataclass(frozen=True, slots=True)
class Limit:
    """A threshold or a time, and why it is that one."""

    what: str
    value: float
    unit: Literal["", "seconds", "ratio", "tokens"]
    why: str

    @property
    def seconds(self) -> int:
        return int(self.value)

    @property
    def shown(self) -> str:
        if self.unit == "ratio":
            return f"{self.value * 100:g} %"
        if self.unit != "seconds":
            return f"{self.value:g} {self.unit}".strip()
        return duration(self.value)


@dataclass(frozen=True, slots=True)
class Condition:
    """`summary` names labels and `{value}` in braces. `limits` are those of the expression, without hold and keep.

    `after` is how many seconds after a sudden fault it fires, read every 30 seconds and judged every minute.
    """

    name: str
    severity: Severity
    meaning: str
    summary: str
    expression: Expression
    after: int
    limits: tuple[Limit, ...] = ()
    hold: Limit | None = None
    keep: Limit | None = None
    value: Literal["number", "ratio", "seconds"] = "number"

    @property
    def for_seconds(self) -> int:
        return self.hold.seconds if self.hold else 0

    @property
    def keep_firing_for_seconds(self) -> int:
        return self.keep.seconds if self.keep else 0

    @property
    def all_limits(self) -> tuple[Limit, ...]:
        return (*self.limits, *(each for each in (self.hold, self.keep) if each))

    @property
    def runbook(self) -> str:
        return runbook(self.name)

    def promql(self) -> str:
        return self.expression.promql()

    def alert(self) -> Alert:
        return Alert(
            self.name,
            self.promql(),
            {"severity": self.severity},
            {"summary": _FIELD.sub(self._template, self.summary), "runbook": self.runbook},
            self.for_seconds,
            self.keep_firing_for_seconds,
        )

    def told(self, labels: Mapping[str, str], value: float) -> str:
        """The summary of one firing, as Prometheus writes it from the rule."""
        return _FIELD.sub(lambda m: self._shown(value) if m[1] == "value" else labels.get(m[1], ""), self.summary)

    def holder(self) -> Holder:
        return Holder(self.for_seconds, self.keep_firing_for_seconds)

    def judge(self, rows: MinuteRows, since: int | None = None, until: int | None = None) -> list[Firing]:
        """Its firings by evaluations at the end of every minute from `since` to `until`; without, of all rows."""
        ends = rows.ends()
        if not ends:
            return []
        holder, over = self.holder(), list[Firing]()
        first, last = (ends[0] if since is None else since), (ends[-1] if until is None else until)
        for at in range(first, last + 1, STEP):
            over += holder.take(at, self.expression.at(rows, at))
        return sorted([*over, *holder.firing()], key=lambda f: (f.start, f.labels))

    def _template(self, field: re.Match[str]) -> str:
        return _TEMPLATES[self.value] if field[1] == "value" else f"{{{{ $labels.{field[1]} }}}}"

    def _shown(self, value: float) -> str:
        if self.value == "ratio":
            return f"{value * 100:.4g}%"
        return f"{value:.3g} s" if self.value == "seconds" else f"{value:.0f}"
