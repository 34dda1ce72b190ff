from __future__ import annotations

import math

import numpy as np
import pytest

from exporters.histogram import Histogram, quantile
from monitor.compare.bootstrap import (
    LEAST_BLOCKS,
    MOST_ALIKE,
    MOST_BLOCKS,
    Together,
    draws,
    enclosed,
    likeness,
    ranks,
    tail_of,
)
from monitor.history.packed import Floats

GRID = (0.1, 0.5, 1.0, 2.0, 5.0)


@pytest.mark.parametrize(("rows", "length"), [(15, 3), (27, 3), (40, 4), (1000, 100), (8000, 800)])
def test_a_block_is_the_cube_root_of_few_rows_and_a_tenth_of_many(rows: int, length: int) -> None:
    drawn = draws(rows, 1, 0)
    assert drawn is not None
    assert drawn.length == length
    assert LEAST_BLOCKS <= drawn.blocks <= MOST_BLOCKS


def test_the_more_alike_rows_are_the_fewer_blocks_are_drawn() -> None:
    """With 0.5 a mean of 6 rows has 0.3906 of the variance of one and that of 60 has 0.0489: blocks differ among
    themselves by 0.3417 where independent ones would have 9 times 0.0489, which is 1.29 times as much: 7.8 blocks."""
    drawn, plain = draws(60, 1, 0, alike=0.5), draws(60, 1, 0)
    assert drawn is not None
    assert plain is not None
    assert (drawn.length, drawn.blocks, drawn.first.shape[1]) == (6, 10, 7)
    assert plain.first.shape[1] == 10


def test_likeness_is_that_of_neighbours() -> None:
    # Deviations are -1 and 1 in turns of two: of 7 pairs 4 are alike and 3 are not, by 8 squares; and (1 + 3/8) / 8.
    assert likeness(np.array([1.0, 1, 3, 3, 1, 1, 3, 3])) == pytest.approx(1 / 8 + (1 + 3 / 8) / 8)
    assert likeness(np.array([1.0, 3, 1, 3, 1, 3])) == 0.0, "the opposite of alike"
    assert likeness(np.full(20, 0.1)) == 0.0
    assert likeness(np.array([math.nan] * 3)) == 0.0
    assert likeness(np.arange(1000.0)) == MOST_ALIKE


def test_rows_of_one_time_are_added_up_in_order_of_time() -> None:
    together = Together.at(np.array([5, 7, 9, 5, 9, 2]))
    assert together.sums(np.array([[1.0], [2], [4], [8], [16], [32]])).tolist() == [[32], [9], [2], [20]]


def test_a_block_is_not_shorter_than_what_ties_rows_together() -> None:
    drawn = draws(100, 20, 0)
    assert drawn is not None
    assert drawn.length == 20


def test_rows_that_are_several_minutes_make_shorter_blocks() -> None:
    drawn = draws(10, 1, 0, 3.0)
    assert drawn is not None
    assert drawn.length == 2, "the cube root of 30 is 3.1 minutes, a row is 3"


def test_there_is_no_interval_of_few_blocks() -> None:
    assert draws(12, 1, 0) is None
    assert draws(99, 20, 0) is None


def test_sums_are_those_of_whole_blocks_that_go_round_in_a_circle() -> None:
    drawn = draws(15, 1, 3)
    assert drawn is not None
    columns = np.stack([np.arange(15.0), np.ones(15)], axis=1)
    sums = drawn.sums(columns)
    for line, first in zip(sums, drawn.first, strict=True):
        expected = sum((f + i) % 15 for f in first.tolist() for i in range(drawn.length))
        assert line.tolist() == [expected, drawn.length * len(first)]


def test_the_same_rows_have_the_same_interval() -> None:
    first, second = draws(40, 2, 5), draws(40, 2, 5)
    assert first is not None
    assert second is not None
    assert (first.first == second.first).all()


def test_few_blocks_have_wider_intervals() -> None:
    assert tail_of(5, 5) < tail_of(20, 20) < tail_of(1000, 1000) < 0.025
    assert tail_of(100_000, 100_000) == pytest.approx(0.025, rel=1e-3)
    # Student's 2.776 with 4 degrees of freedom, times sqrt(5/4): 3.104, beyond which the normal has 0.00096.
    assert tail_of(5, 5) == pytest.approx(0.00096, rel=0.03)


def test_alike_blocks_have_the_interval_of_as_many_fewer() -> None:
    # Student's 2.776 of what five blocks are worth, times sqrt(10/9): 2.926, beyond which the normal has 0.00172.
    assert tail_of(10, 5) == pytest.approx(0.00172, rel=0.03)
    assert tail_of(10, 1.0) == tail_of(10, 3.0), "no fewer degrees of freedom than two"


def test_ranks_are_as_far_from_each_other_as_so_many_requests_allow() -> None:
    # Of 100 requests about 50 lie below the median, give or take 1.96 times 5.
    assert ranks(0.5, 100) == pytest.approx((0.402, 0.598), abs=1e-4)
    assert ranks(0.99, 380)[1] == 1.0, "1.96 times the root of 0.0099 / 380 is 0.01"
    assert ranks(0.99, 381)[1] < 1.0


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_bounds_of_percentiles_are_those_of_merged_histograms(q: float) -> None:
    chance = np.random.default_rng(1)
    bounds = ((0.1, 0.5, 1.0), (0.25, 0.5, 2.0, 5.0), ())
    parts = [(each, chance.integers(0, 5, (50, len(each) + 1)).astype(float)) for each in bounds]
    lower, upper = enclosed(parts, q)
    for line in range(50):
        found = quantile([Histogram(of, tuple(np.cumsum(counts[line]))) for of, counts in parts], q, GRID)
        assert found is not None
        assert (lower[line], upper[line]) == (found.lower, found.upper)


def test_a_line_without_requests_has_no_bounds() -> None:
    lower, upper = enclosed([((1.0,), np.array([[0.0, 0.0], [3.0, 1.0]]))], 0.5)
    assert math.isnan(lower[0])
    assert math.isnan(upper[0])
    assert (lower[1], upper[1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("alike", "minutes"), [(0.0, 20), (0.5, 40), (0.5, 120), (0.8, 60), (0.8, 120), (0.9, 120), (0.9, 300)]
)
def test_intervals_hold_the_true_mean_of_minutes_that_are_alike(alike: float, minutes: int) -> None:
    """Each minute is like the one before by so much. Of 200 intervals 95 in 100 are to hold the mean of all, which is
    100; by chance it may be 3 fewer."""
    held = 0
    for seed in range(200):
        values = wandering(seed, alike, minutes)
        drawn = draws(minutes, 1, 7, alike=likeness(values))
        assert drawn is not None
        sums = drawn.sums(np.stack([values, np.ones(minutes)], axis=1))
        interval = drawn.interval(sums[:, 0] / sums[:, 1], sums[:, 0] / sums[:, 1])
        assert interval is not None
        held += interval[0] <= 100 <= interval[1]
    assert held >= 0.92 * 200


def wandering(seed: int, alike: float, minutes: int) -> Floats:
    """Round 100."""
    noise, values = np.random.default_rng(seed).normal(0, 10, 100 + minutes), np.zeros(100 + minutes)
    for i in range(1, len(values)):
        values[i] = alike * values[i - 1] + noise[i]
    found: Floats = 100 + values[100:]
    return found
