"""How old a gauge may be, in words."""

from __future__ import annotations

from math import inf

import pytest

from exporters.rhythm import Refresh


@pytest.mark.parametrize(
    ("refresh", "told"),
    [
        (Refresh((), seconds=10.0), "refreshed every 10 s"),
        (Refresh((), seconds=0.5, flag="--period"), "refreshed every 0.5 s (--period)"),
        (
            Refresh((), on="at a prefill", steps=40, flag="--steps", idle_seconds=30.0, releases="2.0 and later"),
            "refreshed at a prefill or every 40 decode steps (--steps); once idle, within 30 s (2.0 and later)",
        ),
        (
            Refresh((), on="at an output", idle_seconds=inf),
            "refreshed at an output; keeps its value when the server falls idle",
        ),
    ],
)
def test_a_refresh_is_said_in_words(refresh: Refresh, told: str) -> None:
    assert refresh.told == told
