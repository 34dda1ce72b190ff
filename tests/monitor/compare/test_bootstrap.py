from __future__ import annotations

import math

import numpy as np
import pytest

from exporters.histogram import Histogram, quantile
from monitor.compare.bootstrap import LEAST_BLOCKS, MOST_BLOCKS, draws, enclosed, tail_of

GRID = (0.1, 0.5, 1.0, 2.0, 5.0)


@pytest.mark.parametrize(("rows", "length"), [(15, 3), (27, 3), (1000, 10), (8000, 80), (1_000_000, 10_000)])
def test_a_block_is_the_cube_root_of_the_rows_and_there_are_a_hundred_at_most(rows: int, length: int) -> None:
    drawn = draws(rows, 1, 0)
    assert drawn is not None
    assert drawn.length == length
    assert LEAST_BLOCKS <= drawn.first.shape[1] <= MOST_BLOCKS


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
    assert tail_of(5) < tail_of(20) < tail_of(1000) < 0.025
    assert tail_of(100_000) == pytest.approx(0.025, rel=1e-3)
    # Student's 2.776 with 4 degrees of freedom, times sqrt(5/4): 3.104, beyond which the normal has 0.00096.
    assert tail_of(5) == pytest.approx(0.00096, rel=0.03)


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


def test_intervals_hold_the_true_mean_of_minutes_that_are_alike() -> None:
    """Minutes each half like the one before: of 300 intervals about 95 in 100 hold the mean of all, which is 100."""
    held = 0
    for seed in range(300):
        noise = np.random.default_rng(seed).normal(0, 10, 200)
        values = np.zeros(200)
        for i in range(1, 200):
            values[i] = 0.5 * values[i - 1] + noise[i]
        drawn = draws(120, 1, 7)
        assert drawn is not None
        sums = drawn.sums(np.stack([100 + values[80:], np.ones(120)], axis=1))
        interval = drawn.interval(sums[:, 0] / sums[:, 1], sums[:, 0] / sums[:, 1])
        assert interval is not None
        held += interval[0] <= 100 <= interval[1]
    assert held >= 0.9 * 300
