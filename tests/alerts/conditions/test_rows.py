from __future__ import annotations

import pytest

from alerts.conditions.expression import Merged, Now, Over, Rise
from alerts.conditions.rows import Minute, MinuteRows, Reading, SeriesRows, key
from exporters.observation import labels

A = labels({"server": "a"})
WAITING, TOKENS = key("llm_requests_waiting"), key("llm_generation_tokens_total")
HOUR = Minute(0, covered=3600, gauges={WAITING: Reading(6, 40)}, counters={TOKENS: 3600}, seconds=3600)
MINUTES = [
    Minute(3600, covered=30, gauges={WAITING: Reading(2, 3)}, counters={TOKENS: 60}),
    Minute(3660, covered=60, gauges={WAITING: Reading(8, 9)}),
    Minute(3780, covered=30, gauges={WAITING: Reading(1, 1)}, counters={TOKENS: 30}),
]
ROWS = MinuteRows([SeriesRows(A, [*MINUTES, HOUR])])


def test_an_hour_stands_for_its_minutes() -> None:
    assert Rise("llm_generation_tokens_total", 3660).at(ROWS, 3660) == {A: 3660}
    assert Now("llm_requests_waiting").at(ROWS, 1800) == {A: 6}
    assert Over("max", "llm_requests_waiting", 3600, ago=60).at(ROWS, 3660) == {A: 40}


def test_what_is_only_partly_in_the_window_is_not_in_it() -> None:
    assert Rise("llm_generation_tokens_total", 3600).at(ROWS, 3660) == {A: 60}


def test_a_mean_weighs_the_time_that_was_read() -> None:
    assert Over("avg", "llm_requests_waiting", 120).at(ROWS, 3720) == {A: 6}


def test_a_lone_reading_counts_where_it_is_the_only_one_and_hardly_beside_others() -> None:
    lone, whole = Minute(0, covered=0, gauges={WAITING: Reading(9, 9)}), Minute(60, gauges={WAITING: Reading(3, 3)})
    mean = Over("avg", "llm_requests_waiting", 120)
    assert mean.at(MinuteRows([SeriesRows(A, [lone])]), 120) == {A: 9}
    assert mean.at(MinuteRows([SeriesRows(A, [lone, whole])]), 120) == {A: pytest.approx((9 + 60 * 3) / 61)}


def test_what_was_not_observed_is_missing_and_not_zero() -> None:
    assert Now("llm_requests_waiting").at(ROWS, 3780) == {}
    assert Rise("llm_generation_tokens_total", 60).at(ROWS, 3720) == {}
    assert Over("avg", "llm_requests_running", 600).at(ROWS, 3720) == {}


def test_the_last_is_the_newest_within_the_window() -> None:
    assert Over("last", "llm_requests_waiting", 600).at(ROWS, 3780) == {A: 8}


@pytest.mark.parametrize(("tokens", "found"), [(0, {}), (5, {A: float("inf")})])
def test_nothing_by_nothing_is_no_ratio_and_something_by_nothing_is_above_any(
    tokens: float, found: dict[object, float]
) -> None:
    counters = {TOKENS: tokens, key("llm_preemptions_total"): 0.0}
    rows = MinuteRows([SeriesRows(A, [Minute(0, counters=counters)])])
    per = Rise("llm_generation_tokens_total", 60).per(Rise("llm_preemptions_total", 60))
    assert per.above(3).at(rows, 60) == found


def test_an_own_label_can_be_merged_away() -> None:
    of = {key("llm_requests_finished_total", reason=reason): n for reason, n in (("stop", 3.0), ("length", 4.0))}
    rows = MinuteRows([SeriesRows(A, [Minute(0, counters=of)])])
    assert Merged("sum", Rise("llm_requests_finished_total", 60), without=("reason",)).at(rows, 60) == {A: 7}


def test_how_far_back_is_looked_is_told() -> None:
    recent, past = Rise("a", 1800), Rise("a", 86400, ago=1800)
    assert recent.above(past.times(2)).reach == 88200
