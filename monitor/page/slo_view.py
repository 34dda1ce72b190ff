"""Cards of objectives, ready to be put into HTML."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from alerts.budget import State
from alerts.burn import DAY, MINUTE, duration
from alerts.rules.burn import least
from alerts.slo.spec import Slo
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
_USUAL = ("role", "unified")
"""Not told here, as it is not of the fleet: prefill and decode are."""
_TROUBLE = (State.EXHAUSTED, State.BURNING)
_SMALL_PART = 0.1
"""Of its window: what was observed for no longer is told by how long it was."""
_TIMED = {
    "ttft": "first tokens",
    "itl": "gaps between tokens",
    "tpot": "times per output token",
    "e2e": "requests",
}


@dataclass(frozen=True, slots=True)
class BurnLine:
    severity: str
    window: str
    rate: str | None
    limit: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Card:
    key: str
    """Of this card alone, while the page is refreshed."""
    is_in_trouble: bool
    labels: dict[str, str]
    whole: str
    """What it is of where no label says it; else empty."""
    condition: Condition
    budget: str | None
    of_budget: str
    """What the figure is: of the budget, left or spent, and what it may be where buckets blur it."""
    share: float
    """Of the bar, from 0 to 1."""
    lasts: str | None
    burns: tuple[BurnLine, ...]
    notes: tuple[str, ...]
    blurs: tuple[str, ...]
    """What the numbers rest on where that is not the threshold."""


@dataclass(frozen=True, slots=True)
class Objective:
    name: str
    description: str
    asked: str
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    states: tuple[tuple[Condition, int], ...]
    """How many groups are in each, the worst first."""
    in_trouble: int

    @property
    def title(self) -> str:
        """For the browser's tab, so that trouble shows where the page is not in front."""
        trouble = f"{self.in_trouble} in trouble · " if self.in_trouble else ""
        return f"{trouble}Objectives · inferwatch"


def summary(told: Told) -> Summary:
    count = Counter(status.state for status in told.statuses)
    states = tuple((CONDITIONS[state], count[state]) for state in _WORST_FIRST if count[state])
    return Summary(states, sum(count[state] for state in _TROUBLE))


def objectives(told: Told) -> list[Objective]:
    """Those with a group in trouble first, else in the order of their files."""
    made = [
        Objective(slo.name, slo.description, _asked(slo), tuple(_cards(s for s in told.statuses if s.slo == slo)))
        for slo in told.slos
    ]
    return sorted(made, key=lambda objective: not any(card.is_in_trouble for card in objective.cards))


def _cards(statuses: Iterable[Status]) -> list[Card]:
    ordered = sorted(statuses, key=lambda s: (_WORST_FIRST.index(s.state), s.group))
    return [card(each) for each in ordered]


def _asked(slo: Slo) -> str:
    latency, slices = slo.indicator.latency, slo.indicator.slices
    share = f"{float(slo.objective * 100):g} % of"
    if latency:
        what = f"{_TIMED[latency.phase]} within {quantities.bound(latency.below)}"
    elif slices:
        way = slices.condition.replace("_", " ")
        what = f"minutes with {slices.metric} ({slices.across}) {way} {slices.value:g}"
    else:
        what = "requests end well"
    return f"{share} {what}, over {slo.days} days"


def card(of: Status) -> Card:
    budget, of_budget = _budget(of)
    labels = {name: value for name, value in of.labels.items() if value and (name, value) != _USUAL}
    return Card(
        key="/".join((of.slo.name, *of.group)),
        is_in_trouble=of.state in _TROUBLE,
        labels=labels,
        whole="" if labels else _whole(of.slo),
        condition=CONDITIONS[of.state],
        budget=budget,
        of_budget=of_budget,
        share=min(1.0, max(0.0, of.left or 0.0)),
        lasts=None if of.exhausted_in is None or of.state is State.EXHAUSTED else quantities.duration(of.exhausted_in),
        burns=tuple(_burn(burn) for burn in of.burns),
        notes=tuple(_notes(of)),
        blurs=tuple(blur.text for blur in of.blurs),
    )


def _whole(slo: Slo) -> str:
    unknown = [name for name in slo.groups if name != _USUAL[0]]
    return f"{' and '.join(unknown)} not known" if unknown else "all"


def _budget(of: Status) -> tuple[str | None, str]:
    """What is left, or how much is spent where nothing is."""
    if of.left is None:
        return None, "of the budget left"
    is_left = of.left > 0
    what, bound = ("left", "at most") if is_left else ("spent", "at least")
    estimate, certain = (
        None if left is None else quantities.percent(left if is_left else 1 - left)
        for left in (of.left, of.left_certain)
    )
    blurred = "" if certain in (None, estimate) else f", {bound} {certain}"
    return estimate, f"of the budget {what}{blurred}"


def _burn(of: Burn) -> BurnLine:
    window = of.window
    return BurnLine(
        window.severity,
        f"{duration(window.long)} / {duration(window.short)}",
        None if of.long is None or of.short is None else f"{_times(of.long)} / {_times(of.short)}",
        f"{window.factor}",
        of.holds,
    )


def _times(rate: float) -> str:
    """About three digits; a trickle is not 0."""
    if 0 < rate < 0.005:
        return "< 0.01"
    return f"{rate:,.0f}" if rate >= 99.95 else f"{rate:.3g}"


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
    if counts.minutes_outage >= 1:
        yield f"{quantities.duration(counts.minutes_outage * MINUTE)} with no server up"
    if counts.minutes_unknown >= 1:
        yield _observed(of)
    if counts.minutes_excluded >= 1:
        yield f"{quantities.duration(counts.minutes_excluded * MINUTE)} of maintenance left out"
    if of.state is State.EXHAUSTED and of.burns and not any(burn.holds for burn in of.burns):
        yield _why_silent(of)


def _observed(of: Status) -> str:
    unknown = of.counts.minutes_unknown
    seen = of.counts.minutes - unknown
    if seen > _SMALL_PART * of.counts.minutes:
        return f"{quantities.duration(unknown * MINUTE)} not observed"
    return f"observed for {quantities.duration(seen * MINUTE)} of {quantities.duration(of.slo.days * DAY)}"


def _why_silent(of: Status) -> str:
    """Of one that burns over both windows and does not hold there is too little to say so."""
    short_of = [burn.window for burn in of.burns if burn.lasting > float(burn.window.factor)]
    if not short_of:
        return "no alert fires: over none of their windows does it burn fast enough now"
    needed = " or ".join(f"{math.ceil(least(of.slo, w))} in {quantities.duration(w.long)}" for w in short_of)
    return f"no alert fires: too few {_unit(of.slo)} for one yet, which needs {needed}"
