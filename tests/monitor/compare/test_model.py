from __future__ import annotations

import math

import pytest

from monitor.compare.model import Band, Cell, Estimate, Group, Measure, Verdict, band_of, verdict

GROUP = Group("vllm", "llama")


def cell(measure: Measure, estimate: Estimate) -> Cell:
    return Cell(GROUP, Band(16), 60, 16.0, {measure: estimate})


@pytest.mark.parametrize(
    ("requests", "at_once"), [(0.71, 1), (1.0, 1), (1.42, 2), (16, 16), (22.6, 16), (22.7, 32), (64, 64), (128, 128)]
)
def test_bands_are_powers_of_two_and_reach_to_the_root_of_two(requests: float, at_once: int) -> None:
    band = band_of(requests)
    assert band == Band(at_once)
    assert Band(at_once).low <= requests < Band(at_once).high


def test_bands_meet_where_one_ends() -> None:
    assert Band(16).high == pytest.approx(Band(32).low)
    assert band_of(Band(32).low) == Band(32)


@pytest.mark.parametrize("requests", [0.0, 0.1, 0.7])
def test_a_server_that_is_as_good_as_idle_is_in_no_band(requests: float) -> None:
    assert band_of(requests) is None


def test_more_tokens_and_less_latency_are_better() -> None:
    more, less = Estimate(110, 105, 115), Estimate(90, 85, 95)
    for measure, better in ((Measure.TOKENS, Verdict.BETTER), (Measure.TTFT_P99, Verdict.WORSE)):
        assert verdict(cell(measure, more), cell(measure, less), measure) is better


def test_no_difference_is_shown_where_intervals_overlap() -> None:
    a, b = Estimate(100, 95, 105), Estimate(108, 105, 111)
    assert verdict(cell(Measure.TOKENS, a), cell(Measure.TOKENS, b), Measure.TOKENS) is Verdict.NO_DIFFERENCE


def test_at_least_so_long_overlaps_with_all_that_is_longer() -> None:
    open_ended, long = Estimate(60, 60, math.inf, 60, math.inf), Estimate(80, 70, 90, 75, 85)
    short = Estimate(5, 4, 6, 4, 6)
    measure = Measure.E2E_P99
    assert verdict(cell(measure, open_ended), cell(measure, long), measure) is Verdict.NO_DIFFERENCE
    assert verdict(cell(measure, open_ended), cell(measure, short), measure) is Verdict.WORSE


def test_without_an_interval_nothing_is_said_of_a_difference() -> None:
    known, alone = cell(Measure.TOKENS, Estimate(100, 95, 105)), cell(Measure.TOKENS, Estimate(200))
    assert verdict(known, alone, Measure.TOKENS) is Verdict.UNKNOWN
    assert verdict(known, Cell(GROUP, Band(16), 3, 16.0), Measure.TOKENS) is Verdict.UNKNOWN
