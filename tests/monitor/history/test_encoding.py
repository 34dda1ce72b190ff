import math
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.histogram import Histogram, add_up
from exporters.schema import E2E
from monitor.history.encoding import decode, encode, merge

counts = st.one_of(st.integers(0, 10**12).map(float), st.floats(0, 1e9))
sums = st.one_of(st.none(), st.floats(0, 1e12))


@st.composite
def histograms(draw: st.DrawFn) -> Histogram:
    bounds = draw(st.lists(st.floats(-1e6, 1e6), unique=True, max_size=40).map(sorted))
    per_bucket = draw(st.lists(st.integers(0, 2**40), min_size=len(bounds) + 1, max_size=len(bounds) + 1))
    return Histogram(tuple(bounds), tuple(float(c) for c in accumulate(per_bucket)), draw(sums))


@given(st.lists(histograms(), max_size=3))
def test_what_was_packed_comes_out_again(parts: list[Histogram]) -> None:
    data = encode(enumerate(parts, start=1))
    found = decode(data, {i: h.bounds for i, h in enumerate(parts, start=1)})
    assert [(h.bounds, h.counts) for h in found] == [(h.bounds, h.counts) for h in parts]
    assert [h.sum for h in found] == [h.sum if h.count else 0 for h in parts]


@given(st.lists(st.floats(0, 1e6), min_size=3, max_size=3))
def test_counts_that_are_no_whole_numbers_survive(per_bucket: list[float]) -> None:
    histogram = Histogram((0.1, 1.0), tuple(accumulate(per_bucket)))
    [found] = decode(encode([(7, histogram)]), {7: (0.1, 1.0)})
    assert found.counts == pytest.approx(histogram.counts)


def test_an_idle_minute_takes_two_bytes() -> None:
    data = encode([(3, Histogram(E2E.grid, (0.0,) * (len(E2E.grid) + 1), 0.0))])
    assert len(data) == 2
    assert decode(data, {3: E2E.grid})[0].counts == (0.0,) * (len(E2E.grid) + 1)


def test_a_usual_minute_takes_about_twenty_bytes() -> None:
    counts = [0, 0, 3, 40, 90, 90, 120, 121] + [121] * (len(E2E.grid) - 7)
    data = encode([(3, Histogram(E2E.grid, tuple(map(float, counts)), 812.5))])
    assert len(data) <= 18


@given(st.lists(st.one_of(st.integers(0, 300).map(float), st.just(0.0), st.floats(0, 1e6)), min_size=3, max_size=3))
def test_a_whole_sum_takes_few_bytes_and_every_sum_comes_out_again(totals: list[float]) -> None:
    for total in totals:
        data = encode([(1, Histogram((1.0,), (1.0, 1.0), total))])
        assert decode(data, {1: (1.0,)})[0].sum == total
        assert len(data) <= 6 if total.is_integer() and total <= 300 else len(data) <= 12


@pytest.mark.parametrize("counts", [(1e300, 2e300), (math.inf, math.inf), (2.0**60, 2.0**60 + 4096), (5.0, 3.0)])
def test_counts_that_no_server_should_tell_stop_nothing(counts: tuple[float, float]) -> None:
    [found] = decode(encode([(1, Histogram((1.0,), counts, math.inf))]), {1: (1.0,)})
    assert found.sum == math.inf
    assert len(found.counts) == 2
    assert all(a == b or math.isnan(a) for a, b in zip(found.counts, counts, strict=True))


def test_the_overflow_is_kept() -> None:
    [found] = decode(encode([(1, Histogram((1.0,), (2.0, 5.0), 99.0))]), {1: (1.0,)})
    assert found.overflow == 3
    assert math.isclose(found.sum or 0, 99)


@given(st.lists(st.lists(histograms(), max_size=3), max_size=4))
def test_values_merge_undecoded_to_what_their_histograms_add_up_to(minutes: list[list[Histogram]]) -> None:
    everything = [histogram for parts in minutes for histogram in parts]
    ids = {bounds: i for i, bounds in enumerate(dict.fromkeys(h.bounds for h in everything), start=1)}
    data = [encode((ids[h.bounds], h) for h in parts) for parts in minutes]
    found = decode(merge(data), {i: bounds for bounds, i in ids.items()})
    expected = add_up(everything)
    assert [(h.bounds, h.counts) for h in found] == [(h.bounds, h.counts) for h in expected]


def test_a_sum_that_one_value_lacks_is_not_known_of_the_merged_one_unless_that_one_is_empty() -> None:
    summed, bare, idle = (
        encode([(1, Histogram((1.0,), counts, total))])
        for counts, total in (((2.0, 5.0), 9.5), ((1.0, 1.0), None), ((0.0, 0.0), None))
    )
    bounds = {1: (1.0,)}
    assert decode(merge([summed, summed, idle]), bounds) == [Histogram((1.0,), (4.0, 10.0), 19.0)]
    assert decode(merge([summed, bare]), bounds) == [Histogram((1.0,), (3.0, 6.0), None)]


def test_merged_sums_are_rounded_once() -> None:
    tenth = encode([(1, Histogram((1.0,), (1.0, 1.0), 0.1))])
    [merged] = decode(merge([tenth] * 10), {1: (1.0,)})
    assert merged.sum == 1.0
