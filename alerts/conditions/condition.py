"""A cause alert: what it compares, for how long, and what it tells whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from alerts.conditions import hit
from alerts.conditions.expression import Expression
from alerts.conditions.holding import Firing, Holder
from alerts.conditions.rows import MinuteRows
from alerts.conditions.sentence import Sentence
from alerts.rules.model import Alert, runbook

Severity = Literal["page", "ticket", "none"]

STEP = 60
"""Seconds between two evaluations."""


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
    """`summary` is true in every phase: while the alert is kept firing, its value is that of when it held last.

    `first` is what to do first, as an order. `limits` are those of the expression, without hold and keep. `after` is
    how many seconds after a sudden fault it fires, read every 30 seconds and judged every minute. `hits_servers`: it
    is of a GPU, and names the servers on it.
    """

    name: str
    severity: Severity
    meaning: str
    summary: Sentence
    first: str
    expression: Expression
    after: int
    limits: tuple[Limit, ...] = ()
    hold: Limit | None = None
    keep: Limit | None = None
    hits_servers: bool = False

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
            self._annotations(self.summary.template, hit.template()),
            self.for_seconds,
            self.keep_firing_for_seconds,
        )

    def told(self, labels: Mapping[str, str], value: float, servers: Iterable[str] = ()) -> dict[str, str]:
        """The annotations of one firing, as Prometheus writes them from the rule; `servers` ran on its GPU last."""
        return self._annotations(self.summary.filled(labels, value), hit.told(servers))

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

    def _annotations(self, summary: str, servers: str) -> dict[str, str]:
        hits = {hit.SERVERS: servers} if self.hits_servers else {}
        description = f"{self.meaning} First: {self.first}"
        return {"summary": summary, "description": description, **hits, "runbook": self.runbook}
