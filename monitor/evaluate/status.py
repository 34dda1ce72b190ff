"""How objectives stand: state, budget, burn per window, and how long the budget lasts. Alerts hold as in the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from alerts.budget import Counts, State, bad_ratio, burn, certain_ratio, remaining, seconds_to_exhaustion, state
from alerts.burn import DAY, MINUTE, SLICE, BurnWindow, Severity
from alerts.rules.burn import least
from alerts.slo.spec import Slo
from alerts.slo.thresholds import Blur
from monitor.evaluate.counts import Counter
from monitor.evaluate.members import Group

Windows = Mapping[int, Counts]
"""Counts by length in seconds, all to the same end."""


@dataclass(frozen=True, slots=True)
class Burn:
    """Rates over both windows, None where nothing was judged; `ratio` is what an alert over the long one rests on."""

    window: BurnWindow
    long: float | None
    short: float | None
    ratio: float | None
    holds: bool

    @property
    def lasting(self) -> float:
        """What still goes on of it."""
        return min(self.long or 0.0, self.short or 0.0)


@dataclass(frozen=True, slots=True)
class Status:
    """Of one group at `at`, unix seconds. `left` is the share of the budget that is left, below 0 if overspent.

    `left_certain` is the same of what is certainly bad: the most that can be left. `exhausted_in` is in seconds, None
    where the budget lasts.
    """

    slo: Slo
    group: Group
    at: int
    state: State
    counts: Counts
    left: float | None
    left_certain: float | None
    burns: tuple[Burn, ...]
    exhausted_in: float | None
    blurs: tuple[Blur, ...] = ()
    """Of servers whose own bounds do not tell the threshold of a latency."""

    @property
    def labels(self) -> dict[str, str]:
        return dict(zip(self.slo.groups, self.group, strict=True))

    def firing(self, severity: Severity) -> Burn | None:
        return next((b for b in self.burns if b.holds and b.window.severity == severity), None)


def lengths(slo: Slo) -> list[int]:
    """Of the windows that a status needs."""
    kept, left_out = slo.burn_windows()
    return sorted({MINUTE, SLICE, slo.days * DAY, *(n for w in (*kept, *left_out) for n in (w.long, w.short))})


def statuses(counter: Counter, specs: Iterable[Slo], at: int) -> list[Status]:
    """By objective in their order, and by group. Raises ReadError."""
    with counter.together():
        found = [(slo, counter.windows(slo, at, lengths(slo)), counter.blurred(slo, at)) for slo in specs]
    return [
        replace(status(slo, group, windows, at), blurs=blurs.get(group, ()))
        for slo, groups, blurs in found
        for group, windows in groups.items()
    ]


def status(slo: Slo, group: Group, windows: Windows, at: int) -> Status:
    judged = {length: judged_of(slo, counts) for length, counts in windows.items()}
    whole = judged[slo.days * DAY]
    nobody = nobody_is_up(windows[MINUTE])
    burns = tuple(burn_of(slo, w, judged, nobody=nobody) for w in slo.burn_windows()[0])
    of_whole, certainly = bad_ratio(whole, slo.unknown), certain_ratio(whole, slo.unknown)
    left = None if of_whole is None else remaining(of_whole, slo.objective)
    found = state(
        whole, slo.objective, burning=any(b.holds for b in burns), minimum=slo.minimum, unknown=slo.unknown
    )  # fmt: skip
    return Status(
        slo,
        group,
        at,
        found,
        windows[slo.days * DAY],
        left,
        None if certainly is None else remaining(certainly, slo.objective),
        burns,
        None if left is None else _exhausted_in(slo, left, burns),
    )


def judged_of(slo: Slo, counts: Counts) -> Counts:
    """What the objective is judged by."""
    return counts if slo.counts_outage else replace(counts, minutes_outage=0.0)


def nobody_is_up(last_minute: Counts) -> bool:
    """Whether or not the objective counts outages as bad."""
    return last_minute.minutes_outage >= 1


def burn_of(slo: Slo, window: BurnWindow, judged: Windows, *, nobody: bool) -> Burn:
    """As `alerts.rules.burn` has it: over both windows, with enough requests; a bad hour is not over by nobody's being
    up."""
    of = certain_ratio if window.severity == "page" and slo.indicator.latency else bad_ratio
    limit = float(window.factor * slo.budget)
    long, short = (of(judged[n], slo.unknown) for n in (window.long, window.short))
    burns = long is not None and long > limit
    goes_on = nobody or (short is not None and short > limit)
    long_rate, short_rate = (None if r is None else burn(r, slo.objective) for r in (long, short))
    return Burn(window, long_rate, short_rate, long, burns and goes_on and _enough(slo, window, judged, limit))


def _enough(slo: Slo, window: BurnWindow, judged: Windows, limit: float) -> bool:
    needed = float(least(slo, window))
    if any(_total(slo, judged[n]) >= needed for n in (window.long, SLICE)):
        return True
    counts = judged[window.long]
    return counts.minutes > 0 and counts.minutes_outage / counts.minutes > limit


def _total(slo: Slo, counts: Counts) -> float:
    return counts.good + counts.bad + (counts.unknown if slo.unknown == "bad" else 0.0)


def _exhausted_in(slo: Slo, left: float, burns: Sequence[Burn]) -> float | None:
    """At the fastest rate that still goes on."""
    rate = max((b.lasting for b in burns), default=0.0)
    return seconds_to_exhaustion(left, rate, slo.days * DAY)
