"""The bulk decoder against the plain one."""

from collections import defaultdict
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.histogram import Histogram, add_up, quantile
from exporters.schema import TTFT
from monitor.history import packed
from monitor.history.encoding import decode, encode
from monitor.history.quantiles import quantiles

BOUNDS = {7: (0.1, 1.0), 300: (0.25, 0.5, 2.5, 10.0), 2: (), 5: (-1.0, 0.0, 3.0)}

whole = st.integers(0, 2**40).map(float)
part_of = st.floats(0, 1e6, allow_subnormal=False)


@st.composite
def parts(draw: st.DrawFn) -> list[tuple[int, Histogram]]:
    """As they stand in a row: one for each of some sets of bounds."""
    found = []
    for of in draw(st.lists(st.sampled_from(sorted(BOUNDS)), unique=True, max_size=3)):
        counts = draw(st.one_of(st.just(whole), st.just(part_of)))
        width = len(BOUNDS[of]) + 1
        per_bucket = draw(st.lists(st.one_of(st.just(0.0), counts), min_size=width, max_size=width))
        total = draw(st.one_of(st.none(), st.floats(0, 1e9)))
        found.append((of, Histogram(BOUNDS[of], tuple(accumulate(per_bucket)), total)))
    return found


rows = st.lists(st.tuples(st.integers(0, 4), parts()), max_size=20)


def plain(given_rows: list[tuple[int, bytes]]) -> dict[int, list[Histogram]]:
    by_cell: defaultdict[int, list[Histogram]] = defaultdict(list)
    for cell, value in given_rows:
        by_cell[cell] += [Histogram(h.bounds, h.counts) for h in decode(value, BOUNDS) if h.count > 0]
    return {cell: sorted(add_up(found), key=lambda h: h.bounds) for cell, found in by_cell.items() if found}


def bulk(given_rows: list[tuple[int, bytes]]) -> list[packed.Merged]:
    cells = np.array([cell for cell, _ in given_rows], np.int64)
    return packed.add_up([value for _, value in given_rows], cells, BOUNDS)


@given(rows)
def test_histograms_add_up_as_one_by_one(given_rows: list[tuple[int, list[tuple[int, Histogram]]]]) -> None:
    encoded = [(cell, encode(of_row)) for cell, of_row in given_rows]
    found: defaultdict[int, list[Histogram]] = defaultdict(list)
    for merged in bulk(encoded):
        for cell, counts in zip(merged.cells.tolist(), merged.counts.tolist(), strict=True):
            found[cell].append(Histogram(merged.bounds, tuple(counts)))
    expected = plain(encoded)
    assert found.keys() == expected.keys()
    for cell, histograms in expected.items():
        assert [h.bounds for h in found[cell]] == [h.bounds for h in histograms]
        for ours, theirs in zip(found[cell], histograms, strict=True):
            assert ours.counts == pytest.approx(theirs.counts, rel=1e-12)


@given(rows, st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_those_of_the_histograms_one_by_one(
    given_rows: list[tuple[int, list[tuple[int, Histogram]]]], q: float
) -> None:
    whole_rows = [(cell, encode(of_row)) for cell, of_row in given_rows if all(_whole(h) for _, h in of_row)]
    estimate, lower, upper = quantiles(bulk(whole_rows), q, TTFT.grid, 5)
    expected = {cell: quantile(histograms, q, TTFT.grid) for cell, histograms in plain(whole_rows).items()}
    for cell in range(5):
        of_cell = expected.get(cell)
        if of_cell is None:
            assert np.isnan([estimate[cell], lower[cell], upper[cell]]).all()
        else:
            assert (estimate[cell], lower[cell], upper[cell]) == (of_cell.estimate, of_cell.lower, of_cell.upper)


def _whole(histogram: Histogram) -> bool:
    return all(count.is_integer() for count in histogram.counts)


def test_nothing_adds_up_to_nothing() -> None:
    assert packed.add_up([], np.zeros(0, np.int64), BOUNDS) == []
    assert packed.add_up([b"", b""], np.zeros(2, np.int64), BOUNDS) == []
