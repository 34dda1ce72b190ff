from __future__ import annotations

from itertools import pairwise
from math import ceil, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.histogram import Histogram, Projection, add, add_up, on_grid, quantile
from exporters.schema import PHASES

GRID = PHASES["ttft"].grid
values = st.floats(min_value=0, max_value=3000, allow_nan=False)
bound_sets = st.sets(st.floats(min_value=0.001, max_value=1000), min_size=1, max_size=12).map(
    lambda found: tuple(sorted(found))
)


def observed(xs: list[float], bounds: tuple[float, ...]) -> Histogram:
    return Histogram(bounds, (*(float(sum(x <= b for x in xs)) for b in bounds), float(len(xs))), sum(xs))


def test_projection_interpolates_inside_native_buckets() -> None:
    # Native: 10 observations <= 1, 30 <= 3, 34 in all. By hand: 0.5 -> 5, 2 -> 20, 3 -> 30, beyond 3 -> all.
    counts = Projection((1.0, 3.0), (0.5, 1.0, 2.0, 3.0, 4.0, 8.0)).apply((10, 30, 34))
    assert counts == [5, 10, 20, 30, 34, 34]


@given(st.lists(values, max_size=60), bound_sets)
def test_grid_counts_rise_with_le_and_keep_native_counts(xs: list[float], bounds: tuple[float, ...]) -> None:
    grid = tuple(sorted({*GRID, *bounds[::2]}))
    h = on_grid(observed(xs, bounds), grid)
    assert h.is_monotone()
    for b in bounds[::2]:
        assert h.counts[grid.index(b)] == sum(x <= b for x in xs)


@given(st.lists(values, max_size=40), st.lists(values, max_size=40), bound_sets)
def test_grid_counts_never_fall_with_time(xs: list[float], later: list[float], bounds: tuple[float, ...]) -> None:
    before, after = on_grid(observed(xs, bounds), GRID), on_grid(observed(xs + later, bounds), GRID)
    assert all(a <= b for a, b in zip(before.counts, after.counts, strict=True))


@given(
    st.lists(st.tuples(st.lists(values, max_size=40), bound_sets), min_size=1, max_size=4),
    st.floats(min_value=0, max_value=1),
)
def test_the_true_quantile_of_a_merged_fleet_lies_inside_the_bounds(
    servers: list[tuple[list[float], tuple[float, ...]]], q: float
) -> None:
    everything = sorted(x for xs, _ in servers for x in xs)
    result = quantile([observed(xs, bounds) for xs, bounds in servers], q, GRID)
    if not everything:
        assert result is None
        return
    assert result is not None
    assert result.lower <= everything[max(ceil(q * len(everything)), 1) - 1] <= result.upper
    low, high = np.quantile(everything, q, method="lower"), np.quantile(everything, q, method="higher")
    assert result.lower <= low
    assert high <= result.upper
    assert result.lower <= result.estimate <= result.upper


def test_the_estimate_is_that_of_histogram_quantile() -> None:
    # PromQL: rank 0.9 * 20 = 18 falls into (1, 3] holding 10..20: 1 + 2 * (18 - 10) / 10.
    result = quantile([Histogram((1.0, 3.0), (10, 20, 20))], 0.9, GRID)
    assert result is not None
    assert result.estimate == pytest.approx(2.6)
    assert (result.lower, result.upper) == (1.0, 3.0)


def test_a_rank_in_the_first_bucket_reads_at_most() -> None:
    result = quantile([Histogram((0.01, 1.0), (5, 5, 5))], 0.5, GRID)
    assert result is not None
    assert (result.lower, result.upper) == (0.0, 0.01)


def test_a_rank_in_the_overflow_reads_at_least() -> None:
    result = quantile([Histogram((1.0, 2.0), (0, 0, 4))], 0.5, GRID)
    assert result is not None
    assert (result.estimate, result.lower, result.upper, result.at_least) == (2.0, 2.0, inf, True)


def test_a_merged_rank_is_as_certain_as_the_coarsest_part_allows() -> None:
    # Fine: 10 in (1, 2]. Coarse: 10 in (0, 4]. The median may lie anywhere up to 2, the coarse ones being below 1 ...
    fine = Histogram((1.0, 2.0, 4.0), (0, 10, 10, 10))
    coarse = Histogram((4.0,), (10, 10))
    result = quantile([fine, coarse], 0.5, (1.0, 2.0, 4.0))
    assert result is not None
    # ... so rank 10 is known to be <= 4 (both end there), and not known to be > 0.
    assert (result.lower, result.upper) == (0.0, 4.0)


def test_nothing_observed_has_no_quantile() -> None:
    assert quantile([], 0.5, GRID) is None
    assert quantile([Histogram((1.0,), (0, 0))], 0.5, GRID) is None


def test_histograms_of_different_bounds_do_not_add() -> None:
    a, b = Histogram((1.0,), (1, 2), 3.0), Histogram((2.0,), (1, 2), 3.0)
    with pytest.raises(ValueError, match="different bounds"):
        add(a, b)
    assert add_up([a, b, a]) == [Histogram((1.0,), (2, 4), 6.0), b]


def test_an_unknown_sum_stays_unknown() -> None:
    assert add(Histogram((1.0,), (1, 2), 3.0), Histogram((1.0,), (1, 2))).sum is None


@pytest.mark.parametrize("phase", PHASES.values(), ids=lambda p: p.name)
def test_grids_ascend(phase: object) -> None:
    grid = PHASES[phase.name].grid  # type: ignore[attr-defined]
    assert all(a < b for a, b in pairwise(grid))
