"""Cards of objectives, ready to be put into HTML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from alerts.budget import State
from alerts.burn import duration
from alerts.slo.spec import Slo
from exporters.exposition import format_bound
from monitor.evaluate.status import Burn, Status
from monitor.evaluate.watch import Told
from monitor.page import quantities
from monitor.page.condition import Condition

CONDITIONS = {
    State.OK: Condition("ok", "check", "good"),
    State.BURNING: Condition("burning", "warning", "warning"),
    State.EXHAUSTED: Condition("exhausted", "cross", "bad"),
    State.IDLE: Condition("idle", "moon", "quiet"),
    State.INSUFFICIENT: Condition("too few requests", "info", "quiet"),
    State.UNKNOWN: Condition("unknown", "question", "warning"),
}
_WORST_FIRST = (State.EXHAUSTED, State.BURNING, State.UNKNOWN, State.OK, State.INSUFFICIENT, State.IDLE)


@dataclass(frozen=True, slots=True)
class BurnLine:
    severity: str
    window: str
    rate: str | None
    limit: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Card:
    labels: dict[str, str]
    condition: Condition
    left: str | None
    at_most: str | None
    """What may be left at most, where buckets blur it."""
    share: float
    """Of the bar, from 0 to 1."""
    lasts: str | None
    burns: tuple[BurnLine, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Objective:
    name: str
    description: str
    asked: str
    cards: tuple[Card, ...]


def objectives(told: Told) -> list[Objective]:
    return [
        Objective(slo.name, slo.description, _asked(slo), tuple(_cards(s for s in told.statuses if s.slo == slo)))
        for slo in told.slos
    ]


def _cards(statuses: Iterable[Status]) -> list[Card]:
    ordered = sorted(statuses, key=lambda s: (_WORST_FIRST.index(s.state), s.group))
    return [_card(each) for each in ordered]


def _asked(slo: Slo) -> str:
    latency, slices = slo.indicator.latency, slo.indicator.slices
    share = f"{float(slo.objective * 100):g} % of"
    if latency:
        what = f"{latency.phase} within {format_bound(latency.below)} s"
    elif slices:
        way = slices.condition.replace("_", " ")
        what = f"minutes with {slices.metric} ({slices.across}) {way} {slices.value:g}"
    else:
        what = "requests end well"
    return f"{share} {what}, over {slo.days} days"


def _card(of: Status) -> Card:
    left = None if of.left is None else _percent(of.left)
    at_most = None if of.left_certain is None else _percent(of.left_certain)
    return Card(
        labels={name: value for name, value in of.labels.items() if value},
        condition=CONDITIONS[of.state],
        left=left,
        at_most=None if at_most == left else at_most,
        share=min(1.0, max(0.0, of.left or 0.0)),
        lasts=None if of.exhausted_in is None or of.state is State.EXHAUSTED else quantities.duration(of.exhausted_in),
        burns=tuple(_burn(burn) for burn in of.burns),
        notes=tuple(_notes(of)),
    )


def _percent(left: float) -> str:
    return f"{left * 100:,.1f} %"


def _burn(of: Burn) -> BurnLine:
    window = of.window
    return BurnLine(
        window.severity,
        f"{duration(window.long)} / {duration(window.short)}",
        None if of.long is None or of.short is None else f"{of.long:.2f} / {of.short:.2f}",
        f"{window.factor}",
        of.holds,
    )


def _unit(slo: Slo) -> str:
    if slo.indicator.slices:
        return "minutes"
    return "gaps between tokens" if slo.indicator.latency and slo.indicator.latency.phase == "itl" else "requests"


def _notes(of: Status) -> Iterable[str]:
    counts = of.counts
    unit = _unit(of.slo)
    yield f"{quantities.count(counts.bad)} of {quantities.count(counts.good + counts.bad)} {unit} bad"
    if counts.unknown >= 1:
        yield f"{quantities.count(counts.unknown)} {unit} cannot be judged"
    for minutes, told in (
        (counts.minutes_outage, "with no server up"),
        (counts.minutes_unknown, "not observed"),
        (counts.minutes_excluded, "of maintenance left out"),
    ):
        if minutes >= 1:
            yield f"{quantities.duration(minutes * 60)} {told}"
