import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporters.histogram import Histogram
from exporters.schema import Scope
from monitor.history.columns import COLUMNS, Column, CounterColumn, GaugeColumns, HistogramColumn
from monitor.history.encoding import decode, encode
from monitor.history.merge import Rows, merged, quantiles

Row = dict[str, Any]
BOUNDS = {1: (0.1, 1.0), 2: (0.25, 0.5, 2.0), 3: (10.0,)}
values = st.one_of(st.integers(0, 10**9).map(float), st.floats(0, 1e9))


def as_columns(rows: Sequence[Row]) -> Rows:
    return {name: [row[name] for row in rows] for name in rows[0]}


@st.composite
def encoded(draw: st.DrawFn) -> bytes:
    """With the bounds of one or two releases in a minute, and idle minutes."""
    parts = []
    for of in draw(st.lists(st.sampled_from(sorted(BOUNDS)), unique=True, max_size=2)):
        counts = draw(st.lists(st.integers(0, 1000), min_size=len(BOUNDS[of]) + 1, max_size=len(BOUNDS[of]) + 1))
        cumulative = tuple(float(sum(counts[: i + 1])) for i in range(len(counts)))
        parts.append((of, Histogram(BOUNDS[of], cumulative, draw(st.one_of(st.none(), st.floats(0, 1e6))))))
    return encode(parts)


def cell(draw: st.DrawFn, column: Column, samples: int) -> tuple[Any, ...]:
    if draw(st.booleans()) or samples == 0:
        return (None,) * len(column.names)
    if isinstance(column, GaugeColumns):
        mean, above = draw(values), draw(values)
        return mean, mean + above, draw(st.one_of(st.none(), st.integers(1, samples)))
    if isinstance(column, CounterColumn):
        return (draw(values),)
    if isinstance(column, HistogramColumn):
        return (draw(encoded()),)
    return (draw(st.dictionaries(st.sampled_from("abc"), values)),)


@st.composite
def minute(draw: st.DrawFn, scope: Scope) -> Row:
    row: Row = {"samples": draw(st.integers(0, 60)), "covered_seconds": draw(st.floats(0, 60))}
    if scope is not Scope.TARGET:
        row["increase_seconds"] = draw(st.floats(0, 300))
    for column in COLUMNS[scope]:
        row.update(zip(column.names, cell(draw, column, row["samples"]), strict=True))
    return row


def read_back(scope: Scope, row: Row) -> Row:
    """As a later roll-up reads it from its table."""
    parsed = {k: json.loads(v) if isinstance(v, str) else v for k, v in row.items()}
    assert list(parsed) == ["samples", "covered_seconds", *(["increase_seconds"] * (scope is not Scope.TARGET)),
                            *(name for column in COLUMNS[scope] for name in column.names)]  # fmt: skip
    return parsed


def comparable(row: Row) -> Row:
    return {
        k: [(h.bounds, h.counts, pytest.approx(h.sum)) for h in decode(v, BOUNDS)] if isinstance(v, bytes) else v
        for k, v in row.items()
    }


def rounded(row: Row) -> Row:
    """Whole numbers must be the same exactly; others up to the rounding of their last digits."""
    return {k: pytest.approx(v, rel=1e-12, abs=1e-12) if isinstance(v, float | dict) else v for k, v in row.items()}


@pytest.mark.parametrize("scope", list(COLUMNS))
@settings(max_examples=40)
@given(data=st.data())
def test_a_day_of_hours_is_the_day_of_all_their_minutes(scope: Scope, data: st.DataObject) -> None:
    hours = data.draw(st.lists(st.lists(minute(scope), min_size=1, max_size=3), min_size=1, max_size=3))
    by_hours = merged(scope, as_columns([read_back(scope, merged(scope, as_columns(hour))) for hour in hours]))
    directly = merged(scope, as_columns([row for hour in hours for row in hour]))
    found = comparable(read_back(scope, by_hours))
    assert found == rounded(comparable(read_back(scope, directly)))


def row_of(**known: Any) -> Row:
    empty = {name: None for column in COLUMNS[Scope.ENGINE] for name in column.names}
    return {"samples": 4, "covered_seconds": 60.0, "increase_seconds": 60.0, **empty, **known}


def test_means_are_weighed_by_the_readings_of_their_own_gauge() -> None:
    rows = [
        row_of(requests_running_avg=10.0, requests_running_max=12.0),
        row_of(requests_running_avg=40.0, requests_running_max=40.0, requests_running_readings=1),
        row_of(),
        row_of(samples=0, covered_seconds=0.0),
    ]
    found = merged(Scope.ENGINE, as_columns(rows))
    assert found["requests_running_avg"] == 16.0  # (4 x 10 + 1 x 40) / 5
    assert (found["requests_running_max"], found["requests_running_readings"]) == (40.0, 5)
    assert (found["samples"], found["covered_seconds"], found["increase_seconds"]) == (12, 180.0, 240.0)


def test_readings_are_left_out_where_every_reading_of_the_row_had_the_gauge() -> None:
    found = merged(Scope.ENGINE, as_columns([row_of(requests_waiting_avg=1.0, requests_waiting_max=1.0)] * 3))
    assert (found["samples"], found["requests_waiting_readings"]) == (12, None)


def test_a_mean_of_equal_means_is_not_above_the_maximum() -> None:
    rows = [row_of(samples=n, requests_running_avg=0.1, requests_running_max=0.1) for n in (3, 7, 11)]
    found = merged(Scope.ENGINE, as_columns(rows))
    maximum = found["requests_running_max"]
    assert found["requests_running_avg"] <= (found["requests_running_avg"] if maximum is None else maximum) <= 0.1


def test_a_maximum_that_is_the_mean_is_left_out_and_understood() -> None:
    steady, moved = row_of(requests_running_avg=3.0), row_of(requests_running_avg=1.0, requests_running_max=2.0)
    assert merged(Scope.ENGINE, as_columns([steady, steady]))["requests_running_max"] is None
    found = merged(Scope.ENGINE, as_columns([steady, moved]))
    assert (found["requests_running_avg"], found["requests_running_max"]) == (2.0, 3.0)


def test_open_counters_add_up_by_label_and_others_as_numbers() -> None:
    rows = [
        row_of(requests_rejected={"queue_full": 2.0}, prompt_tokens=7.0),
        row_of(),
        row_of(requests_rejected={"queue_full": 1.0, "too_long": 5.0}, prompt_tokens=0.0),
    ]
    found = merged(Scope.ENGINE, as_columns(rows))
    assert json.loads(found["requests_rejected"]) == {"queue_full": 3.0, "too_long": 5.0}
    assert found["prompt_tokens"] == 7.0
    assert found["generation_tokens"] is None, "never observed is not zero"


def test_what_adds_up_beyond_all_numbers_is_not_known() -> None:
    huge = {"requests_running_avg": 1e308, "requests_running_max": 1e308, "prompt_tokens": 1e308}
    timed = encode([(3, Histogram(BOUNDS[3], (1, 1), 1e308))])
    rows = [row_of(**huge, requests_rejected={"a": 1e308, "b": 1.0}, ttft_histogram=timed)] * 2
    found = merged(Scope.ENGINE, as_columns(rows))
    assert found["prompt_tokens"] is None
    assert (found["requests_running_avg"], found["requests_running_max"]) == (None, None)
    assert json.loads(found["requests_rejected"]) == {"b": 2.0}
    assert [(h.counts, h.sum) for h in decode(found["ttft_histogram"], BOUNDS)] == [((2, 2), None)]


def test_an_infinite_mean_is_not_known() -> None:
    rows = [
        row_of(requests_running_avg=math.inf, requests_running_max=math.inf),
        row_of(requests_running_avg=2.0, requests_running_max=3.0),
    ]
    found = merged(Scope.ENGINE, as_columns(rows))
    assert (found["requests_running_avg"], found["requests_running_max"]) == (2.0, 3.0)


def test_a_change_of_bounds_keeps_both() -> None:
    old, new = (encode([(of, Histogram(BOUNDS[of], counts))]) for of, counts in ((1, (1, 2, 3)), (3, (4, 4))))
    found = merged(Scope.ENGINE, as_columns([row_of(ttft_histogram=data) for data in (old, old, new)]))
    merged_parts = decode(found["ttft_histogram"], BOUNDS)
    assert [(h.bounds, h.counts) for h in merged_parts] == [(BOUNDS[1], (2, 4, 6)), (BOUNDS[3], (8 / 2, 4))]


def test_quantiles_of_a_server_come_from_all_its_histograms() -> None:
    """90 requests below 0.1 s on one engine, 10 on the other beyond its largest bound."""
    fast, slow = Histogram((0.1, 1.0), (90.0, 90.0, 90.0)), Histogram((0.1, 1.0), (0.0, 0.0, 10.0))
    found = quantiles({"ttft": [fast, slow]})
    assert (found["ttft_p50_lower"], found["ttft_p50_upper"]) == (0.0, 0.1)
    assert found["ttft_p50"] == pytest.approx(0.1 * 50 / 90)
    assert (found["ttft_p99"], found["ttft_p99_lower"], found["ttft_p99_upper"]) == (1.0, 1.0, None)
    assert (found["e2e_p99"], found["e2e_p99_lower"], found["e2e_p99_upper"]) == (None, None, None)
