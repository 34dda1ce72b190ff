from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.burn import DAY, HOUR, MINUTE, SLICE, WINDOWS_30D, BurnWindow, duration, reachable, windows


def told(found: tuple[BurnWindow, ...]) -> list[str]:
    return [f"{w.factor}x {duration(w.long)}/{duration(w.short)} {w.severity}" for w in found]


def test_thirty_days_have_the_workbooks_numbers() -> None:
    assert told(windows(30)) == ["14.4x 1h/5m page", "6x 6h/30m page", "3x 1d/2h ticket", "1x 3d/6h ticket"]
    assert [w.share(30) for w in WINDOWS_30D] == [Decimal(s) for s in ("0.02", "0.05", "0.1", "0.1")]


def test_a_week_has_shorter_windows_that_spend_the_same_shares() -> None:
    # 14, 84, 336 and 1008 minutes scale to 15 m, 1 h, 6 h, 18 h: 2 % of 10,080 minutes in 15 is 13.44.
    # 10 % in 18 h would be 0.93.
    assert told(windows(7)) == ["13.44x 15m/5m page", "8.4x 1h/5m page", "2.8x 6h/30m ticket", "1x 18h/1h ticket"]


def test_ninety_days_have_longer_ones() -> None:
    assert told(windows(90)) == ["14.4x 3h/15m page", "6x 18h/1h page", "3x 3d/6h ticket", "1x 9d/18h ticket"]


@given(st.integers(7, 90))
def test_windows_are_made_of_whole_slices_and_spend_their_share_or_run_at_factor_one(days: int) -> None:
    for original, rewritten in zip(WINDOWS_30D, windows(days), strict=True):
        assert rewritten.long % SLICE == rewritten.short % SLICE == 0
        assert rewritten.short < rewritten.long
        assert rewritten.severity == original.severity
        same_share = abs(rewritten.share(days) - original.share(30)) < Decimal("0.001")
        assert same_share or rewritten.factor == 1


def test_a_window_that_can_never_fire_is_told_apart() -> None:
    # 14.4 x 10 % = 144 % of the requests; 6 x 10 % = 60 %.
    kept, left_out = reachable(WINDOWS_30D, Decimal("0.1"))
    assert [w.factor for w in left_out] == [Decimal("14.4")]
    assert [w.factor for w in kept] == [6, 3, 1]
    # Exactly all requests is not more than all requests.
    assert reachable([BurnWindow(Decimal(2), HOUR, MINUTE, "page")], Decimal("0.5"))[0] == []


@pytest.mark.parametrize(("seconds", "text"), [(300, "5m"), (HOUR, "1h"), (5400, "90m"), (3 * DAY, "3d"), (90, "90s")])
def test_lengths_are_written_as_people_do(seconds: int, text: str) -> None:
    assert duration(seconds) == text
