"""The drawing is 120 wide and 28 high, with 2 above and below: a share s of the scale lies at y = 26 - 24 s."""

import math

import pytest

from monitor.page.sparkline import Point, Shade, Sparkline, draw, nice_top, shade

HOUR = 3600.0


def minutes(*values: float | None, beyond: bool = False) -> list[Point]:
    """One point a minute from 0 on; None leaves the minute out."""
    return [Point(60.0 * i, 60.0, value, beyond) for i, value in enumerate(values) if value is not None]


def drawn(points: list[Point], *, until: float = HOUR, top: float | None = None) -> Sparkline:
    line = draw(points, 0, until, top=top)
    assert line is not None
    return line


def test_points_lie_in_the_middle_of_their_minute() -> None:
    # middles 30, 90, 150 of 240 s: x = 15, 45, 75; the scale ends at 10: y = 26, 14, 2
    line = drawn(minutes(0, 5, 10), until=240)
    assert line.path == "M15 26L45 14L75 2"
    assert line.top == 10


def test_a_missing_minute_breaks_the_line() -> None:
    # middles 30, 90 and 210, 270 of 300 s: x = 12, 36 and 84, 108
    line = drawn(minutes(1, 1, None, 1, 1), until=300, top=2)
    assert line.path == "M12 14L36 14M84 14L108 14"
    assert line.gaps == 1


def test_a_lone_minute_between_gaps_is_a_dot() -> None:
    line = drawn(minutes(1, 1, None, 2, None, 1, 1), until=420, top=2)
    # x: 30/420*120 = 8.6, 25.7, then 210/420*120 = 60, then 94.3, 111.4
    assert line.path == "M8.6 14L25.7 14M94.3 14L111.4 14"
    assert line.dots == "M60 2h0"
    assert line.gaps == 2


def test_a_single_point_is_visible() -> None:
    line = drawn([Point(1770, 60, 3)], top=6)
    assert (line.path, line.dots) == ("", "M60 14h0")


def test_windows_of_other_lengths_join_where_they_touch() -> None:
    points = [Point(0, 120, 1), Point(120, 60, 1), Point(180, 60, 1)]
    assert drawn(points, until=240, top=1).path == "M30 2L75 2L105 2"


def test_only_zeros_lie_on_the_base_line() -> None:
    line = drawn(minutes(0, 0), until=120)
    assert line.path == "M30 26L90 26"
    assert line.top == 1


def test_values_outside_the_scale_stay_inside_the_drawing() -> None:
    assert drawn(minutes(3, -1), until=120, top=1).path == "M30 2L90 26"


def test_values_known_only_to_be_at_least_that_carry_a_tick() -> None:
    line = drawn(minutes(60, beyond=True), until=120, top=60)
    assert line.marks == "M30 2v-2"
    assert drawn(minutes(60), until=120).marks == ""


def test_what_lies_outside_the_time_range_is_not_drawn() -> None:
    points = [Point(-60, 60, 9), *minutes(1, 1), Point(HOUR, 60, 9)]
    line = drawn(points, top=1)
    assert line.path == "M1 2L3 2"
    assert (line.lowest, line.highest, line.latest) == (1, 1, 1)


def test_without_points_there_is_no_line() -> None:
    assert draw([], 0, HOUR) is None
    assert draw([Point(-600, 60, 1)], 0, HOUR) is None


@pytest.mark.parametrize(
    ("highest", "top"),
    [(0, 1), (0.3, 0.5), (0.011, 0.02), (1, 1), (1.01, 2), (4.2, 5), (5.1, 10), (99, 100), (1250, 2000)],
)
def test_the_scale_ends_at_the_next_1_2_or_5(highest: float, top: float) -> None:
    assert nice_top(highest) == pytest.approx(top)


@pytest.mark.parametrize("highest", [5e-324, 1.7e308])
def test_the_scale_is_a_number_whatever_there_is(highest: float) -> None:
    line = drawn(minutes(highest), until=60)
    assert 0 < line.top < math.inf


def shaded(points: list[Point], until: float = 600, patience: float = 0) -> Shade:
    return shade(points, 0, until, patience)


def test_what_could_not_be_read_is_an_area_of_the_whole_height() -> None:
    """600 s are 120 wide: a minute is 12."""
    found = shaded([p for p in minutes(*[1.0] * 10) if p.start not in (120, 180, 540)])
    assert found == Shade("M24 0H48V28H24zM108 0H120V28H108z", 180)


def test_what_was_not_there_yet_is_no_data_either() -> None:
    assert shaded(minutes(None, None, *[1.0] * 8)) == Shade("M0 0H24V28H0z", 120)


def test_the_newest_minute_may_be_on_its_way() -> None:
    assert shaded(minutes(*[1.0] * 8), patience=120) == Shade("", 0)
    assert shaded(minutes(*[1.0] * 7), patience=120).seconds == 180


def test_without_any_reading_all_is_shaded() -> None:
    assert shaded([], patience=600) == Shade("M0 0H120V28H0z", 600)
