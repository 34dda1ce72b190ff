"""Pages of metrics are written as the programs write them that the faces stand for."""

from __future__ import annotations

from math import inf, nan

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from prometheus_client.utils import floatToGoString

from demo.faces.exposition import CPP, ONE_PROCESS, SEVERAL_PROCESSES, Page, plain_number, python_number
from tests.demo.faces import held

BOUNDS = (0.1, 1.0, 1_000_000.0)


@pytest.mark.parametrize(
    "value", [0, 1, -1, 0.1, 1e-05, 0.1 + 0.2, 217362, 1e6, 1234567.5, 1.2e7, -2e9, 1796027188.08, 1e15, 1e16, 1.5e300]
)
def test_numbers_are_written_as_by_prometheus_client(value: float) -> None:
    assert python_number(value) == floatToGoString(value)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("value", [inf, -inf, nan])
def test_what_is_no_finite_number_is_written_as_by_prometheus_client(value: float) -> None:
    assert python_number(value) == floatToGoString(value)  # type: ignore[no-untyped-call]


def test_whole_numbers_have_no_fraction_in_a_c_plus_plus_server() -> None:
    assert [plain_number(v) for v in (0, 2000.0, 41.27, 1e9, inf)] == ["0", "2000", "41.27", "1000000000", "+Inf"]


def test_a_page_is_line_by_line_what_prometheus_client_writes_of_the_same() -> None:
    page = Page(ONE_PROCESS, created=1796027188.25)
    _write(page)
    assert _told(page.text()) == _told(generate_latest(_theirs()).decode())
    assert 'c_created{a="x\\"y\\\\",b="\\n"} 1.79602718825e+09\n' in page.text()


def _told(text: str) -> list[str]:
    """Without what each HELP says, and without the values of times."""
    lines = (line for line in text.splitlines() if not line.startswith("# HELP"))
    return [line.rpartition(" ")[0] if "_created{" in line else line for line in lines]


def _theirs() -> CollectorRegistry:
    registry = CollectorRegistry()
    Gauge("empty", "", ["a"], registry=registry)
    Gauge("g", "", registry=registry).set(2.5)
    Counter("c_total", "", ["b", "a"], registry=registry).labels("\n", 'x"y\\').inc(3)
    histogram = Histogram("h", "", ["a"], buckets=BOUNDS, registry=registry)
    for value in (0.1, 0.10001, 7, 7, 2e6):
        histogram.labels("z").observe(value)
    Summary("s", "", ["a"], registry=registry).labels("z").observe(4)
    return registry


def _write(page: Page) -> None:
    page.gauge("empty")
    page.gauge("g").labelled().set(2.5)
    page.counter("c_total").labelled(b="\n", a='x"y\\').add(3)
    histogram = page.histogram("h", BOUNDS).labelled(a="z")
    for value, count in ((0.1, 1), (0.10001, 1), (7, 2), (2e6, 1)):
        histogram.observe(value, count)
    page.summary("s").labelled(a="z").observe(4)


def test_merged_pages_begin_a_histogram_with_its_sum_and_do_not_show_families_without_samples() -> None:
    page = Page(SEVERAL_PROCESSES)
    _write(page)
    assert "empty" not in page.text()
    assert "_created" not in page.text()
    assert "# TYPE h histogram\nh_sum{" in page.text()


def test_labels_of_a_c_plus_plus_server_stay_in_their_order() -> None:
    page = Page(CPP)
    page.histogram("h", (100, 500)).labelled(version="1", model="m").observe(120)
    assert page.text().splitlines()[2:5] == [
        'h_count{version="1",model="m"} 1',
        'h_sum{version="1",model="m"} 120',
        'h_bucket{version="1",model="m",le="100"} 0',
    ]


def test_what_changed_since_the_last_scrape_is_written_anew() -> None:
    page = Page(ONE_PROCESS)
    _write(page)
    before = page.text()
    _write(other := Page(ONE_PROCESS))
    assert other.text() == before
    counter, histogram = page.counter("later_total").labelled(), page.histogram("later", (1.0,)).labelled()
    page.text()
    counter.add(2)
    histogram.observe(3.0)
    assert held.value(page.text(), "later_total") == 2
    assert held.value(page.text(), "later_bucket", le="+Inf") == 1
    held.consistent(page.text())


def test_removed_series_are_gone() -> None:
    page = Page(ONE_PROCESS)
    gauge = page.gauge("g")
    gauge.labelled(a="1").set(1)
    gauge.labelled(a="2").set(2)
    gauge.remove(a="1")
    assert held.values(page.text(), "g", "a") == {"2": 2}


def test_frozen_gauges_stay_as_they_were_last_shown_while_counters_go_on() -> None:
    page = Page(ONE_PROCESS, created=5.0)
    gauge, counter = page.gauge("g").labelled(), page.counter("c_total").labelled()
    gauge.set(1)
    page.text()
    page.is_frozen = True
    gauge.set(2)
    counter.add()
    assert (held.value(page.text(), "g"), held.value(page.text(), "c_total")) == (1, 1)
    page.is_frozen = False
    assert held.value(page.text(), "g") == 2


def test_families_have_the_names_to_which_they_are_renamed() -> None:
    page = Page(SEVERAL_PROCESSES, renamed={"h": "new_h", "c_total": "new_total"})
    _write(page)
    assert set(held.shapes(page.text())) == {"g", "new", "new_h", "s"}
