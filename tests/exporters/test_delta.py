from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporters.delta import Deltas, subtract
from exporters.histogram import Histogram
from exporters.observation import Series

A, B = (
    Series("llm_generation_tokens_total", (("engine", "0"),)),
    Series("llm_generation_tokens_total", (("engine", "1"),)),
)


def h(*counts: float, bounds: tuple[float, ...] = (1.0, 2.0)) -> Histogram:
    return Histogram(bounds, counts, None)


def test_the_first_sight_is_only_a_base_line() -> None:
    deltas = Deltas()
    assert deltas.advance(0, {A: 100}, {}).values == {}
    assert deltas.advance(15, {A: 130}, {}).values == {A: 30}


def test_a_process_that_started_inside_the_window_counts_from_zero() -> None:
    started_inside = Deltas().advance(100, {A: 7}, {A: h(1, 2, 3)}, start_time=70, window_start=60)
    assert started_inside.values == {A: 7}
    assert started_inside.histograms == {A: h(1, 2, 3)}
    started_before = Deltas().advance(100, {A: 7}, {A: h(1, 2, 3)}, start_time=50, window_start=60)
    assert (started_before.values, started_before.histograms) == ({}, {})


def test_a_series_that_was_absent_from_the_same_process_counts_from_zero() -> None:
    deltas = Deltas()
    deltas.advance(0, {A: 5}, {}, start_time=1)
    assert deltas.advance(15, {A: 5, B: 3}, {}, start_time=1).values == {A: 0, B: 3}


def test_what_follows_a_reading_of_nothing_counts_from_zero() -> None:
    deltas = Deltas()
    deltas.advance(0, {}, {})
    added = deltas.advance(15, {A: 7}, {A: h(1, 2, 3)})
    assert (added.values, added.histograms, added.seconds) == ({A: 7}, {A: h(1, 2, 3)}, 15)


PART = {"proves_absence": False}


def test_what_is_new_counts_in_full_between_two_readings_that_prove_absence_alone() -> None:
    whole: dict[str, bool] = {}
    for first, second, added in [
        (whole, whole, {A: 5, B: 900}),
        (PART, whole, {A: 5}),
        (whole, PART, {A: 5}),
        (PART, PART, {A: 5}),
    ]:
        deltas = Deltas()
        deltas.advance(0, {A: 100}, {}, **first)
        assert deltas.advance(15, {A: 105, B: 900}, {}, **second).values == added
        assert deltas.advance(30, {A: 105, B: 903}, {}).values == {A: 0, B: 3}


def test_an_earlier_proof_outlasts_readings_of_a_part() -> None:
    deltas = Deltas()
    deltas.advance(0, {A: 100}, {})
    deltas.advance(15, {A: 100}, {}, **PART)
    assert deltas.advance(30, {A: 100, B: 7}, {A: h(1, 2, 3)}).values == {A: 0, B: 7}


def test_a_restart_seen_by_a_reading_of_a_part_counts_what_was_known_before() -> None:
    """B is new in it, so it may be A's count under other labels."""
    deltas = Deltas()
    deltas.advance(0, {A: 100}, {}, start_time=-500)
    found = deltas.advance(30, {A: 130, B: 40}, {}, start_time=20, **PART)
    assert (found.values, found.restarted) == ({A: 130}, True)
    assert deltas.advance(45, {A: 131, B: 42}, {B: h(1, 2, 3)}, start_time=20).histograms == {B: h(1, 2, 3)}


def test_what_a_young_process_shows_of_itself_in_part_is_a_base_line() -> None:
    deltas = Deltas()
    assert deltas.advance(100, {A: 7}, {}, start_time=70, window_start=60, **PART).values == {}
    assert deltas.advance(115, {A: 9, B: 4}, {}, start_time=70, window_start=60).values == {A: 2, B: 4}


def test_a_reading_that_tells_no_start_time_hides_no_restart() -> None:
    deltas = Deltas()
    deltas.advance(0, {A: 100}, {}, start_time=-500)
    deltas.advance(15, {}, {})
    added = deltas.advance(30, {A: 150}, {}, start_time=20)
    assert (added.values, added.restarted) == ({A: 150}, True)


def test_a_falling_counter_is_a_reset_of_that_series_alone() -> None:
    deltas = Deltas()
    deltas.advance(0, {A: 100, B: 50}, {})
    found = deltas.advance(15, {A: 4, B: 60}, {})
    assert (found.values, found.fallen, found.restarted) == ({A: 4.0, B: 10.0}, frozenset({A.metric}), True)


def test_another_start_time_is_a_restart_even_where_counters_have_grown_past_their_old_values() -> None:
    deltas = Deltas()
    deltas.advance(0, {A: 100}, {A: h(1, 1, 1)}, start_time=10)
    found = deltas.advance(60, {A: 130}, {A: h(2, 2, 2)}, start_time=40)
    assert found.values == {A: 130}
    assert found.histograms == {A: h(2, 2, 2)}
    assert found.restarted


def test_a_start_time_that_wobbles_by_rounding_is_no_restart() -> None:
    deltas = Deltas()
    deltas.advance(0, {A: 100}, {}, start_time=10.00)
    assert deltas.advance(15, {A: 110}, {}, start_time=10.01).values == {A: 10}


def test_a_series_that_was_away_for_a_scrape_keeps_its_base_line() -> None:
    deltas = Deltas()
    deltas.advance(0, {A: 100, B: 1}, {})
    deltas.advance(15, {A: 110}, {})
    assert deltas.advance(30, {A: 120, B: 5}, {}).values == {A: 10, B: 4}


def test_a_reading_out_of_order_adds_nothing() -> None:
    deltas = Deltas()
    deltas.advance(30, {A: 100}, {})
    assert deltas.advance(30, {A: 150}, {}).values == {}
    assert deltas.advance(20, {A: 50}, {}).values == {}
    assert deltas.advance(45, {A: 160}, {}).values == {A: 60}


def test_other_bounds_or_a_falling_bucket_are_a_reset() -> None:
    assert subtract(h(3, 4, 5), h(1, 2, 3)) == h(2, 2, 2)
    assert subtract(h(0, 4, 5), h(1, 2, 3)) is None
    assert subtract(h(3, 4, 5, bounds=(1.0, 4.0)), h(1, 2, 3)) is None
    # The second bucket went from 5 to 1 observations although no cumulative count fell.
    assert subtract(h(6, 7, 9), h(1, 6, 8)) is None


@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6), min_size=1, max_size=5))
def test_increases_add_up_to_everything_that_happened_after_the_base_line(lives: list[list[int]]) -> None:
    """`lives` are processes, each a sequence of increments; every new process is known by its start time."""
    deltas, at, seen = Deltas(), 0.0, 0.0
    happened = sum(sum(life) for life in lives) - lives[0][0]
    for number, life in enumerate(lives):
        value = 0.0
        for step in life:
            value += step
            at += 1
            seen += deltas.advance(at, {A: value}, {}, start_time=1000.0 * (number + 1)).values.get(A, 0.0)
    assert seen == happened
