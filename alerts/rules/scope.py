"""What all rules of one objective share: its selection, its groups, and the names that it records under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alerts import promql
from alerts.burn import MINUTE, SLICE
from alerts.rules.model import Recording
from alerts.slo.spec import Slo
from exporters import schema

RECENT = "5m"
"""Counts over the last five minutes, anew each minute."""
PIECE = "slice"
"""The same, once in five minutes: pieces that do not overlap, which long windows add up."""
EACH_MINUTE = "minute"
HELD_SECONDS = 2 * SLICE
"""How long what is recorded once in five minutes is looked for: an evaluation may be late."""


@dataclass(frozen=True, slots=True)
class Scope:
    slo: Slo
    user_labels: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[str, ...]:
        return self.slo.groups

    @property
    def target(self) -> tuple[str, ...]:
        """What tells two servers apart."""
        return (*schema.IDENTITY[schema.Scope.TARGET], *self.user_labels)

    @property
    def engine(self) -> tuple[str, ...]:
        """What tells two engines apart. Copies that differ in other labels (two scrapes of one sidecar) are one."""
        return (*schema.IDENTITY[schema.Scope.ENGINE], *self.user_labels)

    def metric(self, name: str, *more: promql.Matcher) -> str:
        return promql.series(name, *(promql.one_of(k, v) for k, v in self.slo.select.items()), *more)

    def increase(self, name: str, *more: promql.Matcher, by: Sequence[str] = ()) -> str:
        """Of each engine, and of what else is named, over the last five minutes."""
        rise = promql.call("increase", promql.raw(self.metric(name, *more), SLICE))
        return promql.aggregate("max", (*self.engine, *by), rise)

    def sum(self, of: str) -> str:
        return promql.aggregate("sum", self.groups, of)

    def recorded(self, kind: str, window: str) -> str:
        return promql.series(f"inferwatch:slo_{kind}:{window}", promql.equals("slo", self.slo.name))

    def none(self) -> str:
        """0 wherever anything was counted."""
        return promql.binary(self.recorded("total", RECENT), "*", "0")

    def minus(self, left: str, right: str) -> str:
        return promql.binary(left, "-", right, on=self.groups)

    def plus(self, left: str, right: str) -> str:
        return promql.binary(left, "+", right, on=self.groups)

    def or_none(self, of: str) -> str:
        return promql.first_of(of, self.none(), on=self.groups)

    def rule(self, kind: str, window: str, expr: str) -> Recording:
        return Recording(f"inferwatch:slo_{kind}:{window}", expr, {"slo": self.slo.name})

    def counted(self, kind: str, expr: str) -> Recording:
        """Counts of the last five minutes, none while maintenance is among them."""
        return self.rule(kind, RECENT, self.outside_maintenance(expr, SLICE))

    def outside_maintenance(self, expr: str, seconds: int = MINUTE) -> str:
        """`seconds` is how far the expression looks back."""
        for m in self.slo.maintenance:
            expr = promql.unless_between(expr, m.start.timestamp(), m.end.timestamp() + seconds)
        return expr


def within(seconds: int) -> float:
    """A second less: a sample at a window's very start belongs to the one before, in Prometheus 2 as in 3."""
    return seconds - 1
