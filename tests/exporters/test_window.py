from __future__ import annotations

import pytest

from exporters.histogram import Histogram
from exporters.observation import Series, labels
from exporters.window import Recent

WHO = labels({"engine": "0", "server": "s"})
QUERIES = Series("llm_prefix_cache_query_tokens_total", WHO)
HITS = Series("llm_prefix_cache_hit_tokens_total", WHO)
RATIO = Series("llm_prefix_cache_hit_ratio", WHO)
TTFT = Series("llm_time_to_first_token_seconds", WHO)


def p99(found: dict[Series, float]) -> dict[str, float]:
    return {s.label("bound"): v for s, v in found.items() if s.label("q") == "0.99" and s.label("phase") == "ttft"}


def test_the_hit_ratio_is_hits_by_queries_of_the_window() -> None:
    recent = Recent()
    assert recent.advance(0, {QUERIES: 100_000, HITS: 40_000}, {}) == {}
    assert recent.advance(60, {QUERIES: 110_000, HITS: 46_200}, {}) == {RATIO: pytest.approx(0.62)}


def test_without_queries_there_is_no_hit_ratio() -> None:
    recent = Recent()
    recent.advance(0, {QUERIES: 5, HITS: 1}, {})
    assert recent.advance(15, {QUERIES: 5, HITS: 1}, {}) == {}


def test_more_hits_than_queries_are_no_ratio() -> None:
    recent = Recent()
    recent.advance(0, {QUERIES: 0, HITS: 0}, {})
    assert recent.advance(15, {QUERIES: 960, HITS: 1280}, {}) == {}


def test_what_is_older_than_the_window_no_longer_counts() -> None:
    recent = Recent(window=300)
    recent.advance(0, {QUERIES: 0, HITS: 0}, {})
    recent.advance(60, {QUERIES: 1000, HITS: 1000}, {})
    assert recent.advance(299, {QUERIES: 2000, HITS: 1000}, {}) == {RATIO: 0.5}
    assert recent.advance(420, {QUERIES: 3000, HITS: 1000}, {}) == {RATIO: 0.0}


def test_an_idle_server_has_no_percentile() -> None:
    recent = Recent(window=300)
    slow = Histogram((1.0, 2.0), (0, 4, 4), 6.0)
    recent.advance(0, {}, {})
    assert p99(recent.advance(10, {}, {TTFT: slow})) == {"estimate": pytest.approx(1.99), "lower": 1.0, "upper": 2.0}
    assert recent.advance(400, {}, {TTFT: slow}) == {}


def test_the_first_reading_of_an_old_process_is_only_a_base_line() -> None:
    many = Histogram((1.0, 2.0), (900, 900, 900), 6.0)
    recent = Recent(window=300)
    assert recent.advance(1000, {}, {TTFT: many}, start_time=10) == {}
    young = Recent(window=300)
    assert p99(young.advance(1000, {}, {TTFT: many}, start_time=900))["upper"] == 1.0


def test_bounds_that_change_inside_the_window_are_merged_and_not_lost() -> None:
    recent = Recent(window=300)
    recent.advance(0, {}, {}, start_time=1)
    recent.advance(2, {}, {TTFT: Histogram((1.0, 2.0), (99, 99, 99))}, start_time=1)
    found = recent.advance(4, {}, {TTFT: Histogram((1.0, 4.0), (0, 99, 99))}, start_time=3)
    assert p99(found)["upper"] == 4.0
    assert sum(h.count for h in recent.histograms()[TTFT]) == 198


def test_scrapes_close_together_keep_every_count() -> None:
    recent = Recent(window=300)
    for second in range(50):
        recent.advance(second, {QUERIES: 10 * second, HITS: 5 * second}, {TTFT: Histogram((1.0,), (second, second))})
    assert recent.histograms()[TTFT][0].count == 49
