"""What all rules of one objective share: its selection, its groups, and the names that it records under."""

from __future__ import annotations

from dataclasses import dataclass, replace

from alerts import promql
from alerts.burn import MINUTE, SLICE
from alerts.rules.model import Recording
from alerts.slo.spec import Slo
from exporters import schema

RECENT = "5m"
"""Counts over the last five minutes, anew each minute."""
PIECE = "slice"
"""The same, once in five minutes: pieces that touch and do not overlap, which long windows add up."""
EACH_MINUTE = "minute"
HELD_SECONDS = 2 * SLICE
"""How long what is recorded once in five minutes is looked for: an evaluation may be late."""
SETTLED_SECONDS = 30
"""Samples are dated at the start of their scrape, and come at its end: those that are older than the longest scrape
are all there. A piece must end where the next begins, whatever comes later."""


@dataclass(frozen=True, slots=True)
class Scope:
    slo: Slo
    user_labels: tuple[str, ...] = ()
    span: str = RECENT
    """What is counted: the last five minutes, or a piece."""

    @property
    def of_pieces(self) -> Scope:
        return replace(self, span=PIECE)

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

    @property
    def replica(self) -> tuple[str, ...]:
        """What engines of one server have in common."""
        return tuple(label for label in self.engine if label != "engine")

    def metric(self, name: str, *more: promql.Matcher) -> str:
        return promql.series(name, *(promql.one_of(k, v) for k, v in self.slo.select.items()), *more)

    def samples(self, of: str, seconds: int = SLICE, ago: int = 0) -> str:
        """Those of its last five minutes, or of so many `seconds` that ended so long `ago`."""
        return promql.offset(promql.raw(of, seconds), ago + self._late)

    @property
    def _late(self) -> int:
        return SETTLED_SECONDS if self.span == PIECE else 0

    def sum(self, of: str) -> str:
        return promql.aggregate("sum", self.groups, of)

    def recorded(self, kind: str, window: str) -> str:
        return promql.series(f"inferwatch:slo_{kind}:{window}", promql.equals("slo", self.slo.name))

    def counts(self, kind: str) -> str:
        """As a rule before recorded them."""
        return self.recorded(kind, self.span)

    def none(self) -> str:
        """0 wherever anything was counted."""
        return promql.binary(self.counts("total"), "*", "0")

    def minus(self, left: str, right: str) -> str:
        return promql.binary(left, "-", right, on=self.groups)

    def plus(self, left: str, right: str) -> str:
        return promql.binary(left, "+", right, on=self.groups)

    def or_none(self, of: str) -> str:
        return promql.first_of(of, self.none(), on=self.groups)

    def rule(self, kind: str, window: str, expr: str) -> Recording:
        return Recording(f"inferwatch:slo_{kind}:{window}", expr, {"slo": self.slo.name})

    def counted(self, kind: str, expr: str) -> Recording:
        """Counts of five minutes, none while maintenance is among them."""
        return self.rule(kind, self.span, self.outside_maintenance(expr, SLICE, self._late))

    def outside_maintenance(self, expr: str, seconds: int = MINUTE, ago: int = 0) -> str:
        """`seconds` is how far the expression looks back, from so long `ago`."""
        for m in self.slo.maintenance:
            expr = promql.unless_between(expr, m.start.timestamp() + ago, m.end.timestamp() + seconds + ago)
        return expr


def within(seconds: int) -> float:
    """A second less: a sample at a window's very start belongs to the one before, in Prometheus 2 as in 3."""
    return seconds - 1
