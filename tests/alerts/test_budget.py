from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.budget import (
    Counts,
    State,
    bad_ratio,
    burn,
    certain_ratio,
    remaining,
    seconds_to_exhaustion,
    state,
    total,
)

NINES = Decimal("0.99")
DAY = 86400.0
COUNT = st.floats(0, 1e9)


def test_a_burst_weighs_as_much_as_its_requests() -> None:
    slices = [Counts(good=10)] * 11 + [Counts(good=9500, bad=500)]
    # 500 of 10,110; the mean of the twelve ratios would be 0.42 %.
    assert bad_ratio(total(slices)) == pytest.approx(500 / 10110)
    assert f"{bad_ratio(total(slices)):.4f}" == "0.0495"
    assert burn(500 / 10110, NINES) == pytest.approx(4.9456, abs=1e-4)


def test_no_errors_are_a_ratio_of_zero_and_no_requests_are_none() -> None:
    assert bad_ratio(Counts(good=5000)) == 0
    assert bad_ratio(Counts(minutes=60)) is None


def test_unknown_requests_are_left_out_or_bad_as_the_objective_says() -> None:
    counts = Counts(good=80, bad=10, unknown=10)
    assert bad_ratio(counts, "exclude") == pytest.approx(10 / 90)
    assert bad_ratio(counts, "bad") == pytest.approx(20 / 100)


def test_a_page_counts_what_is_certainly_bad_alone() -> None:
    assert certain_ratio(Counts(good=90, bad=10, certainly_bad=4)) == pytest.approx(0.04)


def test_minutes_of_an_outage_weigh_like_average_minutes() -> None:
    # 54 minutes with 100 requests each, 1 % of them bad; 6 minutes that would have had 600, all bad.
    counts = Counts(good=5346, bad=54, minutes=60, minutes_outage=6)
    assert bad_ratio(counts) == pytest.approx((54 + 600) / 6000)


def test_an_outage_without_any_request_spends_the_budget_too() -> None:
    assert bad_ratio(Counts(minutes=60, minutes_outage=15)) == pytest.approx(0.25)


def test_what_is_left_and_how_long_it_lasts() -> None:
    left = remaining(0.004, NINES)
    assert left == pytest.approx(0.6)
    # 60 % of 30 days' budget at six times the even pace: 3 days.
    assert seconds_to_exhaustion(left, 6.0, 30 * DAY) == pytest.approx(3 * DAY)
    assert seconds_to_exhaustion(left, 0.0, 30 * DAY) is None
    assert seconds_to_exhaustion(left, 0.5, 30 * DAY) is None
    assert seconds_to_exhaustion(-0.1, 6.0, 30 * DAY) == 0


@pytest.mark.parametrize(
    ("counts", "burning", "expected"),
    [
        (Counts(good=1000, minutes=60), False, State.OK),
        (Counts(good=995, bad=5, minutes=60), True, State.BURNING),
        (Counts(good=990, bad=10, minutes=60), True, State.EXHAUSTED),
        (Counts(good=2, bad=1, minutes=60), False, State.INSUFFICIENT),
        (Counts(good=2, bad=1, minutes=60, minutes_outage=30), True, State.EXHAUSTED),
        (Counts(minutes=60), False, State.IDLE),
        (Counts(minutes=60, minutes_unknown=60), False, State.UNKNOWN),
        (Counts(unknown=50, minutes=60), False, State.UNKNOWN),
    ],
)
def test_a_state(counts: Counts, burning: bool, expected: State) -> None:
    assert state(counts, NINES, burning=burning, minimum=100) is expected


@given(COUNT, COUNT, COUNT, st.floats(0, 1))
def test_ratios_stay_between_none_and_all_and_certain_never_exceeds_estimated(
    good: float, bad: float, unknown: float, certain: float
) -> None:
    counts = Counts(good, bad, unknown, bad * certain, minutes=60, minutes_outage=6)
    for choice in ("exclude", "bad"):
        ratio, sure = bad_ratio(counts, choice), certain_ratio(counts, choice)
        assert ratio is not None
        assert sure is not None
        assert 0.1 <= sure <= ratio + 1e-12 <= 1 + 1e-9


@given(st.lists(st.tuples(COUNT, COUNT), min_size=1, max_size=20))
def test_the_ratio_of_a_sum_lies_between_those_of_its_parts(parts: list[tuple[float, float]]) -> None:
    each = [Counts(good=g, bad=b) for g, b in parts]
    whole = bad_ratio(total(each))
    ratios = [r for c in each if (r := bad_ratio(c)) is not None]
    assert (whole is None) == (not ratios)
    if whole is not None:
        assert min(ratios) - 1e-9 <= whole <= max(ratios) + 1e-9
