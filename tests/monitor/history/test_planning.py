from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.history.planning import Part, Span, plan
from monitor.history.tables import Tier

MINUTE, HOUR, DAY = 60, 3600, 86_400
MONDAY = 20_000 * DAY
NOTHING: dict[Tier, int] = {}


def told(parts: list[Part]) -> list[tuple[str | float, ...]]:
    """Tier, and hours from Monday."""
    return [(s.tier.value, *((edge - MONDAY) / HOUR for edge in (s.since, s.until))) for p in parts for s in p.spans]


def test_a_step_below_an_hour_is_answered_from_minutes() -> None:
    assert told(plan(MONDAY, MONDAY + 3 * HOUR, 5 * MINUTE, {}, NOTHING)) == [("minute", 0, 3)]


def test_steps_of_hours_are_answered_from_hours_and_ragged_ends_from_minutes() -> None:
    assert told(plan(MONDAY, MONDAY + 3 * HOUR + 600, HOUR, {}, NOTHING)) == [("hour", 0, 3), ("minute", 3, 3 + 1 / 6)]


def test_an_hour_that_is_to_be_rolled_up_is_answered_from_its_minutes() -> None:
    due = {Tier.HOUR: {MONDAY + HOUR}, Tier.DAY: {MONDAY}}
    assert told(plan(MONDAY, MONDAY + 3 * HOUR, HOUR, due, NOTHING)) == [
        ("hour", 0, 1),
        ("minute", 1, 2),
        ("hour", 2, 3),
    ]


def test_steps_of_days_are_answered_from_days_and_the_open_one_from_what_is_there_of_it() -> None:
    due = {Tier.HOUR: {MONDAY + 50 * HOUR}, Tier.DAY: {MONDAY + 2 * DAY}}
    assert told(plan(MONDAY, MONDAY + 51 * HOUR, DAY, due, NOTHING)) == [
        ("day", 0, 48),
        ("hour", 48, 50),
        ("minute", 50, 51),
    ]


def test_an_hour_in_which_a_step_ends_is_answered_from_its_minutes() -> None:
    assert told(plan(MONDAY, MONDAY + 3 * HOUR, 90 * MINUTE, {}, NOTHING)) == [
        ("hour", 0, 1),
        ("minute", 1, 2),
        ("hour", 2, 3),
    ]


def test_where_only_hours_are_left_the_steps_are_hours() -> None:
    old, new = plan(MONDAY + 600, MONDAY + 3 * HOUR, 5 * MINUTE, {}, {Tier.MINUTE: MONDAY + 2 * HOUR})
    assert old == Part(MONDAY, MONDAY + 2 * HOUR, HOUR, (Span(Tier.HOUR, MONDAY, MONDAY + 2 * HOUR),))
    assert new == Part(
        MONDAY + 2 * HOUR, MONDAY + 3 * HOUR, 300, (Span(Tier.MINUTE, MONDAY + 2 * HOUR, MONDAY + 3 * HOUR),)
    )
    assert old.tiers == (Tier.HOUR,)


def test_where_only_days_are_left_the_steps_are_days() -> None:
    kept = {Tier.MINUTE: MONDAY + 2 * DAY, Tier.HOUR: MONDAY + DAY}
    parts = plan(MONDAY, MONDAY + 3 * DAY, 7 * HOUR, {}, kept)
    assert [(p.step, p.since - MONDAY, p.until - MONDAY) for p in parts] == [
        (DAY, 0, DAY),
        (7 * HOUR, DAY, 3 * DAY),
    ]
    assert parts[0].tiers == (Tier.DAY,)
    assert parts[1].tiers == (Tier.HOUR,)


def test_minutes_that_came_late_are_read_where_others_are_gone_already() -> None:
    kept = {Tier.MINUTE: MONDAY + DAY}
    parts = plan(MONDAY, MONDAY + 3 * HOUR, 300, {Tier.HOUR: {MONDAY + HOUR}}, kept)
    assert told(parts) == [("hour", 0, 1), ("minute", 1, 2), ("hour", 2, 3)]


def test_steps_are_counted_from_the_start_of_a_part_and_the_first_is_cut_there() -> None:
    part = Part(MONDAY + HOUR, MONDAY + 4 * HOUR, 7 * HOUR, ())
    first, second = part.window(0), part.window(1)
    assert first[0] == MONDAY + HOUR
    assert sum(first) == second[0]
    assert second[1] == 7 * HOUR
    assert part.steps in (1, 2)


windows = st.integers(0, 3 * 24).map(lambda n: MONDAY + n * HOUR)


@given(
    since=st.integers(0, 48 * 60).map(lambda n: MONDAY + n * MINUTE),
    length=st.integers(1, 30 * 60).map(lambda n: n * MINUTE),
    step=st.sampled_from([1, 5, 7, 60, 90, 120, 7 * 60, 24 * 60, 36 * 60]).map(lambda n: n * MINUTE),
    due=st.sets(windows),
)
def test_every_minute_is_answered_by_one_row_and_only_by_one(since: int, length: int, step: int, due: set[int]) -> None:
    since = since // step * step
    until = since + length
    stale = {Tier.HOUR: due, Tier.DAY: {hour // DAY * DAY for hour in due}}
    answered: Counter[int] = Counter()
    for part in plan(since, until, step, stale, NOTHING):
        assert part.step == step
        for span in part.spans:
            assert not {s for s in stale.get(span.tier, ()) if span.since <= s < span.until}
            answered.update(range(span.since, span.until, MINUTE))
    assert answered == Counter(range(since, until, MINUTE))


@given(
    kept=st.integers(0, 48).map(lambda n: MONDAY + n * HOUR),
    step=st.sampled_from([60, 420, 3600, 5400, 7200]),
    most=st.integers(1, 500),
)
def test_pieces_are_whole_steps_and_together_the_whole(kept: int, step: int, most: int) -> None:
    since = MONDAY // step * step
    for part in plan(since, MONDAY + 50 * HOUR, step, {}, {Tier.MINUTE: kept}):
        pieces = list(part.pieces(most))
        assert [p.since for p in pieces[1:]] == [p.until for p in pieces[:-1]]
        assert all(p.until % part.step == 0 for p in pieces[:-1])
        assert sum(s.until - s.since for p in pieces for s in p.spans) == part.until - part.since


@pytest.mark.parametrize("step", [MINUTE, HOUR, DAY])
def test_a_long_time_of_which_nothing_is_left_costs_no_minute_rows(step: int) -> None:
    parts = plan(MONDAY, MONDAY + 900 * DAY, step, {}, {Tier.MINUTE: MONDAY + 900 * DAY, Tier.HOUR: MONDAY + 500 * DAY})
    assert {tier for part in parts for tier in part.tiers} <= {Tier.HOUR, Tier.DAY}
