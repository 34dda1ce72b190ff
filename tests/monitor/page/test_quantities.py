import math

import pytest

from monitor.page import quantities


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7"),
        (0.5, "0.50"),
        (0.125, "0.13"),
        (1.005, "1.01"),
        (99_999.5, "100 k"),
        (1e300, f"{1e288:,.0f} T"),
        (math.inf, "inf T"),
        (12.34, "12.3"),
        (256, "256"),
        (1280, "1,280"),
        (9999, "9,999"),
        (12_345, "12.3 k"),
        (99_960, "100 k"),
        (999_600, "1.00 M"),
        (1_234_567, "1.23 M"),
        (2_500_000_000, "2.50 G"),
        (3e12, "3.00 T"),
        (-42, "-42"),
    ],
)
def test_counts_read_in_full_and_then_with_a_prefix(value: float, text: str) -> None:
    assert quantities.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.01, "< 0.1"),
        (0.4, "0.4"),
        (9.94, "9.9"),
        (9.96, "10"),
        (0.25, "0.3"),
        (12.5, "13"),
        (1234.4, "1,234"),
        (23_456, "23.5 k"),
    ],
)
def test_a_rate_that_is_not_zero_never_reads_as_zero(value: float, text: str) -> None:
    assert quantities.rate(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0, "0 %"),
        (0.0004, "< 0.1 %"),
        (0.005, "0.5 %"),
        (0.0994, "9.9 %"),
        (0.42, "42 %"),
        (0.535, "54 %"),
        ((0.95 + 0.12) / 2, "54 %"),
        (0.525, "53 %"),
        (0.0125, "1.3 %"),
        (0.904, "90 %"),
        (0.995, "99.5 %"),
        (0.99999, "> 99.9 %"),
        (1, "100 %"),
    ],
)
def test_a_share_reads_as_none_or_all_only_if_it_is_exactly_that(ratio: float, text: str) -> None:
    assert quantities.percent(ratio) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.000_05, "50 µs"),
        (0.0012, "1.2 ms"),
        (0.085, "85 ms"),
        (0.24, "240 ms"),
        (0.9996, "1.0 s"),
        (1.24, "1.2 s"),
        (12.4, "12 s"),
        (99.4, "99 s"),
        (99.6, "1 min 40 s"),
        (120, "2 min"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (172_800, "2 d"),
        (187_200, "2 d 4 h"),
    ],
)
def test_durations_take_the_unit_that_fits(seconds: float, text: str) -> None:
    assert quantities.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.001, "1 ms"), (0.0025, "2.5 ms"), (0.075, "75 ms"), (2.5, "2.5 s"), (60, "60 s"), (7680, "7680 s")],
)
def test_a_bucket_bound_is_not_rounded(seconds: float, text: str) -> None:
    assert quantities.bound(seconds) == text


@pytest.mark.parametrize(
    ("estimate", "lower", "upper", "text"),
    [
        (1.21, 1.0, 2.5, "1.2 s (1.0–2.5)"),
        (12.4, 10, 25, "12 s (10–25)"),
        (9.8, 7.5, 10, "9.8 s (7.5–10.0)"),
        (10, 7.5, 10, "10 s (7.5–10)"),
        (0.083, 0.075, 0.1, "83 ms (75–100)"),
        (0.0021, 0.001, 0.0025, "2.1 ms (1.0–2.5)"),
        (0.92, 0.75, 1.0, "920 ms (750–1000)"),
        (1.0, 0.75, 1.0, "1.0 s (0.75–1.0)"),
    ],
)
def test_a_quantile_shows_its_bounds_in_the_unit_of_the_estimate(
    estimate: float, lower: float, upper: float, text: str
) -> None:
    assert " ".join(quantities.quantile(estimate, lower, upper)) == text


@pytest.mark.parametrize("upper", [None, math.inf])
def test_a_quantile_in_the_overflow_reads_at_least(upper: float | None) -> None:
    assert quantities.quantile(60, 60, upper) == ("at least 60 s", "")


def test_a_quantile_in_the_first_bucket_reads_at_most() -> None:
    assert quantities.quantile(0.00099, 0, 0.001) == ("at most 1 ms", "")


def test_a_moment_carries_its_zone() -> None:
    assert quantities.moment(1_796_031_695) == "2026-11-30 09:41:35 UTC"
    assert quantities.clock(1_796_031_695) == "09:41:35 UTC"
    assert quantities.iso(1_796_031_695) == "2026-11-30T09:41:35Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "now"),
        (1.9, "now"),
        (45, "45 s ago"),
        (119, "119 s ago"),
        (120, "2 min ago"),
        (7199, "119 min ago"),
        (7200, "2 h ago"),
        (172_800, "2 d ago"),
    ],
)
def test_ages_are_told_coarsely(seconds: float, text: str) -> None:
    assert quantities.age(seconds) == text
