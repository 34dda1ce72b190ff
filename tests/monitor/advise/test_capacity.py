"""Curves whose crossing is known by hand, and intervals against what the truth is."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from monitor.advise.capacity import Capacity, Measured, lacking, limits_of

MINUTES = 600
Rates = np.ndarray[tuple[int], np.dtype[np.float64]]


def measured(rate: Rates, share: Rates) -> Measured:
    requests = np.round(rate * 60)
    return Measured(requests, requests * share, np.full(len(rate), 60.0))


def rising(least: float = 1.0, most: float = 11.0) -> Rates:
    return np.linspace(least, most, MINUTES)


def test_the_capacity_is_where_the_share_of_slow_requests_passes_the_budget() -> None:
    """The share rises by 0.01 for each request a second beyond 2: it passes 0.05 at 7."""
    rate = rising()
    limits, curve = limits_of(measured(rate, np.clip(0.01 * (rate - 2), 0, 1)), 0.05)
    assert limits.value == pytest.approx(7.0, abs=0.05)
    assert limits.low <= 7.0 <= limits.high
    assert not limits.extrapolated
    assert [p.share for p in curve] == sorted(p.share for p in curve)
    assert sum(p.requests for p in curve) == pytest.approx(np.round(rate * 60).sum())


def test_a_threshold_that_was_never_approached_gives_no_number() -> None:
    rate = rising()
    limits, curve = limits_of(measured(rate, np.full(MINUTES, 0.001)), 0.05)
    assert limits.value == math.inf
    assert limits.seen == pytest.approx(curve[-1].rate)
    assert 10 < limits.seen < 11


def test_a_line_is_drawn_on_a_little_and_no_further() -> None:
    """The share is 0.004 at 10 requests a second and grows by 0.01 each; with 0.05 the crossing lies at 11."""
    rate = rising(1.0, 10.5)
    share = np.clip(0.01 * (rate - 6), 0, 1)
    near, _ = limits_of(measured(rate, share), 0.05)
    assert near.extrapolated
    assert near.value == pytest.approx(11.0, abs=0.2)
    far, _ = limits_of(measured(rate, share), 0.08)
    assert (far.value, far.extrapolated) == (math.inf, False)


def test_what_is_over_the_budget_at_the_least_load_is_told_as_too_much() -> None:
    rate = rising(5.0, 6.0)
    limits, curve = limits_of(measured(rate, np.full(MINUTES, 0.1)), 0.05)
    assert limits.value == pytest.approx(curve[0].rate / 2)


def test_a_bad_night_at_little_load_does_not_make_the_curve_fall() -> None:
    rate = rising()
    share = np.where(rate < 1.5, 0.03, np.clip(0.01 * (rate - 2), 0, 1))
    limits, curve = limits_of(measured(rate, share), 0.05)
    assert [p.share for p in curve] == sorted(p.share for p in curve)
    assert limits.value == pytest.approx(7.0, abs=0.1)


def straight(rate: Rates) -> Rates:
    return 0.01 * (rate - 2)


def knee(rate: Rates) -> Rates:
    """As of a queue that fills up at 9."""
    return 0.3 / (1 + np.exp(-2 * (rate - 9)))


def rising_ever_faster(rate: Rates) -> Rates:
    return 0.001 * np.exp(0.8 * (rate - 2))


@pytest.mark.parametrize(
    ("share", "passes", "minutes"),
    [
        (straight, 7.0, 600),
        (knee, 9 - math.log(0.3 / 0.05 - 1) / 2, 120),
        (rising_ever_faster, 2 + math.log(50) / 0.8, 300),
    ],
)
def test_the_interval_holds_the_truth_at_least_as_often_as_it_says(
    share: Callable[[Rates], Rates], passes: float, minutes: int
) -> None:
    """40 fleets by chance; the truth passes the budget of 0.05 where the curve's formula says."""
    held = 0
    for seed in range(40):
        limits, _ = limits_of(by_chance(share, minutes, seed), 0.05)
        held += limits.low <= passes <= limits.high
        assert limits.high - limits.low < 0.6 * passes, "an interval of everything would be no news"
    assert held >= 38


def by_chance(share: Callable[[Rates], Rates], minutes: int, seed: int) -> Measured:
    chance = np.random.default_rng(seed)
    requests = chance.poisson(chance.uniform(1, 11, minutes) * 60)
    slow = chance.binomial(requests, np.clip(share(requests / 60), 0, 1))
    return Measured(requests.astype(np.float64), slow.astype(np.float64), np.full(minutes, 60.0))


def test_an_hour_of_minutes_and_a_thousand_requests_are_needed() -> None:
    few = measured(np.full(59, 1.0), np.zeros(59))
    assert lacking(few) == "60 minutes or hours with requests; there are 59"
    thin = measured(np.full(60, 0.1), np.zeros(60))
    assert lacking(thin) == "1000 requests; there are 360"
    assert lacking(measured(np.full(60, 1.0), np.zeros(60))) == ""


def test_what_more_is_allowed_is_told_from_now() -> None:
    rate = rising()
    limits, curve = limits_of(measured(rate, np.clip(0.01 * (rate - 2), 0, 1)), 0.05)
    of = Capacity("fast", {}, 0, 36_000, 60, 4.0, 0.05, curve, limits)
    assert of.more[0] == pytest.approx(3.0, abs=0.05)
    assert of.more[1] <= of.more[0] <= of.more[2]
