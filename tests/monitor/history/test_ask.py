import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import Engine

from exporters.histogram import Histogram
from exporters.observation import Observation, Series
from exporters.schema import TTFT
from monitor.history.ask import Answer, History
from monitor.history.question import InvalidParameter, QuestionError, UnknownLabel, UnknownMetric
from monitor.history.recording import Recording
from monitor.history.store import Store
from tests.monitor.observations import observation, series

RUNNING, TOKENS = "llm_requests_running", "llm_generation_tokens_total"
INTERVAL = 15.0
Record = Callable[[Sequence[Observation]], None]


@pytest.fixture
def record(store: Store) -> Record:
    def all_of(observations: Sequence[Observation]) -> None:
        recording = Recording(store, INTERVAL)
        for each in observations:
            recording.record([each], each.at)
        recording.flush()

    return all_of


def every_15_s(since: float, until: float, **more: Any) -> list[float]:
    return [since + 15.0 * n for n in range(1, int((until - since) // 15) + 1)]


def points(answers: list[Answer]) -> list[Any]:
    """(start, value) of the only group."""
    assert len(answers) <= 1
    return [(p.start, p.value) for answer in answers for p in answer.points]


def by_label(answers: list[Answer]) -> dict[str, list[tuple[int, float]]]:
    return {",".join(a.labels.values()): [(p.start, p.value) for p in a.points] for a in answers}


def of_server(server: str, at: float, values: dict[str, float], **labels: str) -> Observation:
    user = tuple(sorted((k, v) for k, v in labels.items() if k not in ("framework", "model", "engine")))
    named = {series(metric, server=server, **labels): value for metric, value in values.items()}
    return observation(at, named, server=server, user_labels=user)


def test_a_gauge_is_averaged_over_its_readings_and_gaps_have_no_point(history: History, record: Record) -> None:
    record(
        [observation(at, {series(RUNNING): v}) for at, v in [(15, 2), (30, 4), (45, 6), (60, 8), (150, 3), (180, 5)]]
    )
    assert points(history.ask(RUNNING, None, 0, 240, 60)) == [(0, 5), (120, 4)]
    assert points(history.ask(RUNNING, None, 0, 240, 240)) == [(0, 28 / 6)]


def test_the_maximum_is_the_highest_reading_of_any_server(history: History, record: Record) -> None:
    record([of_server(s, at, {RUNNING: v}) for s, at, v in [("a", 15, 2), ("a", 30, 9), ("b", 15, 7)]])
    assert points(history.ask(RUNNING, None, 0, 60, 60, aggregation="max")) == [(0, 9)]


def test_what_adds_up_beyond_all_numbers_has_no_point(history: History, record: Record) -> None:
    """In the first minute over two servers, in the second over two readings of one: the other is known there."""
    record([of_server(s, at, {RUNNING: 1e308}) for s, at in (("a", 30), ("b", 30), ("a", 75), ("a", 90))])
    record([of_server(s, at, {RUNNING: 4}) for s, at in (("b", 90), ("a", 150), ("b", 150))])
    assert points(history.ask(RUNNING, None, 0, 180, 60)) == [(60, 4), (120, 8)]
    assert points(history.ask(RUNNING, None, 0, 60, 60, aggregation="max")) == [(0, 1e308)]


def test_increases_beyond_all_numbers_have_no_point(history: History, record: Record) -> None:
    record([of_server(s, at, {TOKENS: v}) for s in "ab" for at, v in ((15, 0), (60, 1e308), (120, 1e308))])
    assert points(history.ask(TOKENS, None, 0, 120, 60)) == [(60, 0)]
    assert points(history.ask(TOKENS, None, 0, 120, 60, aggregation="sum")) == [(60, 0)]


def test_a_window_in_which_most_servers_are_gone_counts_those_that_are_there(history: History, record: Record) -> None:
    record([of_server(s, at, {RUNNING: 1}) for s in "abcdef" for at in every_15_s(0, 120 if s in "ef" else 60)])
    told = history.ask(RUNNING, None, 60, 120, 60, group_by=["server"])
    assert {a.labels["server"]: [(p.value, p.series, p.covered_seconds) for p in a.points] for a in told} == {
        "e": [(1, 1, 60)], "f": [(1, 1, 60)],
    }  # fmt: skip
    assert [(p.value, p.series, p.covered_seconds) for p in history.ask(RUNNING, None, 60, 120, 60)[0].points] == [
        (2, 2, 60)
    ]


def test_running_requests_of_servers_add_up_and_utilisation_does_not(history: History, record: Record) -> None:
    utilization = "llm_kv_cache_utilization_ratio"
    record([of_server(s, 30, {RUNNING: v, utilization: 0.4}) for s, v in (("a", 8), ("b", 1))])
    assert points(history.ask(RUNNING, None, 0, 60, 60)) == [(0, 9)]
    assert points(history.ask(utilization, None, 0, 60, 60)) == [(0, pytest.approx(0.4))]


def test_utilisation_is_weighted_by_capacity_where_it_is_known_of_all(history: History, record: Record) -> None:
    utilization, capacity = "llm_kv_cache_utilization_ratio", "llm_kv_cache_capacity_tokens"
    record(
        [of_server("a", 30, {utilization: 0.9, capacity: 3000}), of_server("b", 30, {utilization: 0.1, capacity: 1000})]
    )
    assert points(history.ask(utilization, None, 0, 60, 60)) == [(0, pytest.approx(0.7))]
    record([of_server("c", 30, {utilization: 0.2})])
    assert points(history.ask(utilization, None, 0, 60, 60)) == [(0, pytest.approx(0.4))]


def test_a_counter_is_asked_as_rate_or_as_sum(history: History, record: Record) -> None:
    record([observation(at, {series(TOKENS): at * 10}) for at in every_15_s(0, 180)])
    assert points(history.ask(TOKENS, None, 0, 180, 60)) == [(0, 10), (60, 10), (120, 10)]
    assert points(history.ask(TOKENS, None, 0, 180, 60, aggregation="sum")) == [(0, 450), (60, 600), (120, 600)]
    assert points(history.ask(TOKENS, None, 0, 180, 180, aggregation="sum")) == [(0, 1650)]


def test_rates_of_servers_add_up(history: History, record: Record) -> None:
    record([of_server("a", at, {TOKENS: at * 10}) for at in every_15_s(0, 120)])
    record([of_server("b", at, {TOKENS: at * 3}) for at in every_15_s(0, 120)])
    assert points(history.ask(TOKENS, None, 0, 120, 120)) == [(0, pytest.approx(13))]


def test_a_server_that_joins_late_does_not_raise_the_rate_of_the_whole_step(history: History, record: Record) -> None:
    record([of_server("a", at, {TOKENS: at * 10}) for at in every_15_s(0, 240)])
    record([of_server("b", at, {TOKENS: at * 100}) for at in every_15_s(165, 240)])
    [(_, rate)] = points(history.ask(TOKENS, None, 0, 240, 240))
    assert rate == pytest.approx((45 * 10 + 3 * 60 * 10 + 60 * 100) / 225), (
        "increases by the time they were observed in"
    )


def test_the_rate_over_a_gap_is_the_mean_over_the_gap(history: History, record: Record) -> None:
    record([observation(at, {series(TOKENS): v}) for at, v in [(45, 0), (60, 150), (300, 2550)]])
    assert points(history.ask(TOKENS, None, 0, 300, 300)) == [(0, 10)]


def test_the_hit_ratio_is_hits_by_queries_and_never_a_mean_of_ratios(history: History, record: Record) -> None:
    hits, queries, ratio = (f"llm_prefix_cache_{n}" for n in ("hit_tokens_total", "query_tokens_total", "hit_ratio"))
    for server, hit, query in (("a", 90, 100), ("b", 0, 900)):
        record(
            [
                of_server(server, 15, {hits: 0, queries: 0}),
                of_server(server, 30, {hits: hit, queries: query, ratio: 0.5}),
            ]
        )
    assert points(history.ask(ratio, None, 0, 60, 60)) == [(0, pytest.approx(0.09))]


def test_a_hit_ratio_without_look_ups_has_no_point(history: History, record: Record) -> None:
    hits, queries = "llm_prefix_cache_hit_tokens_total", "llm_prefix_cache_query_tokens_total"
    record([observation(at, {series(hits): 5, series(queries): 9}) for at in (15, 30)])
    assert points(history.ask("llm_prefix_cache_hit_ratio", None, 0, 60, 60)) == []


def test_a_hit_ratio_that_is_only_a_gauge_is_given_as_the_gauge(history: History, record: Record) -> None:
    record([observation(at, {series("llm_prefix_cache_hit_ratio"): v}) for at, v in [(15, 0.5), (30, 0.7)]])
    assert points(history.ask("llm_prefix_cache_hit_ratio", None, 0, 60, 60)) == [(0, pytest.approx(0.6))]


def test_finished_requests_are_summed_over_reasons_or_kept_apart(history: History, record: Record) -> None:
    finished = "llm_requests_finished_total"

    def reading(at: float, **counts: float) -> Observation:
        return observation(at, {series(finished, reason=reason): n for reason, n in counts.items()})

    record([reading(15, stop=1, length=1), reading(30, stop=4, length=2)])
    ask = history.ask
    assert points(ask(finished, None, 0, 60, 60, aggregation="sum")) == [(0, 4)]
    assert by_label(ask(finished, None, 0, 60, 60, ["reason"], aggregation="sum")) == {
        "stop": [(0, 3)],
        "length": [(0, 1)],
    }
    assert points(ask(finished, None, 0, 60, 60, (), {"reason": "stop"}, aggregation="sum")) == [(0, 3)]


def test_reasons_that_are_not_known_beforehand_are_kept_too(history: History, record: Record) -> None:
    rejected = "llm_requests_rejected_total"
    record([observation(at, {series(rejected, reason="queue_full"): n}) for at, n in [(15, 2), (30, 9)]])
    answers = history.ask(rejected, None, 0, 60, 60, ["reason"], aggregation="sum")
    assert by_label(answers) == {"queue_full": [(0, 7)]}


def test_answers_are_grouped_and_filtered_by_identity_and_user_labels(history: History, record: Record) -> None:
    record(
        [
            of_server("a", 30, {RUNNING: 1}, framework="vllm", team="search"),
            of_server("b", 30, {RUNNING: 2}, framework="sglang", team="search"),
            of_server("c", 30, {RUNNING: 4}, framework="vllm"),
        ]
    )
    ask = history.ask
    assert by_label(ask(RUNNING, None, 0, 60, 60, ["framework"])) == {"sglang": [(0, 2)], "vllm": [(0, 5)]}
    assert by_label(ask(RUNNING, None, 0, 60, 60, ["team"])) == {"": [(0, 4)], "search": [(0, 3)]}
    assert by_label(ask(RUNNING, None, 0, 60, 60, ["server"], {"team": "search"})) == {"a": [(0, 1)], "b": [(0, 2)]}
    assert ask(RUNNING, None, 0, 60, 60, (), {"team": "nobody"}) == []


def latency(at: float, server: str, bounds: tuple[float, ...], counts: tuple[float, ...]) -> Observation:
    of: Series = series(TTFT.metric, server=server)
    return observation(at, {}, {of: Histogram(bounds, counts)}, server=server)


def test_quantiles_are_merged_from_histograms_with_different_bounds(history: History, record: Record) -> None:
    record([latency(15, "a", (0.1, 1.0), (0, 0, 0)), latency(30, "a", (0.1, 1.0), (98, 98, 98))])
    record([latency(15, "b", (0.25, 2.5), (0, 0, 0)), latency(30, "b", (0.25, 2.5), (0, 2, 2))])
    [answer] = history.ask(TTFT.metric, 0.99, 0, 60, 60)
    [point] = answer.points
    assert (point.lower, point.upper) == (0.25, 2.5), "an average of two P99 would be near 1"
    assert 0.25 <= point.value <= 2.5
    assert by_label(history.ask(TTFT.metric, 0.5, 0, 60, 60, ["server"])).keys() == {"a", "b"}
    assert point.series == 2


def test_a_quantile_in_the_overflow_has_no_upper_bound(history: History, record: Record) -> None:
    record([latency(15, "a", (60.0,), (0, 0)), latency(30, "a", (60.0,), (20, 100))])
    [answer] = history.ask(TTFT.metric, 0.99, 0, 60, 60)
    assert (answer.points[0].lower, answer.points[0].upper) == (60, math.inf)


def test_a_quantile_of_no_requests_has_no_point(history: History, record: Record) -> None:
    record([latency(15, "a", (60.0,), (3, 3)), latency(30, "a", (60.0,), (3, 3))])
    assert history.ask(TTFT.metric, 0.99, 0, 60, 60) == []


def test_up_is_the_share_of_readings_also_of_a_server_that_is_down(history: History, record: Record) -> None:
    record([observation(at, up=up, available=up) for at, up in [(15, True), (30, False), (45, False), (60, True)]])
    assert points(history.ask("llm_up", None, 0, 60, 60)) == [(0, 0.5)]


def test_covered_seconds_tell_what_was_really_observed(history: History, record: Record) -> None:
    record([observation(at, {series(RUNNING): 1}) for at in every_15_s(0, 120)])
    [answer] = history.ask(RUNNING, None, 0, 120, 60)
    assert [p.covered_seconds for p in answer.points] == [45, 60]
    assert [p.seconds for p in answer.points] == [60, 60]


def test_since_is_rounded_down_to_the_step(history: History, record: Record) -> None:
    record([observation(at, {series(RUNNING): 1}) for at in every_15_s(0, 600)])
    assert [start for start, _ in points(history.ask(RUNNING, None, 299, 600, 120))] == [240, 360, 480]


@pytest.mark.parametrize(
    ("change", "error", "message", "allowed"),
    [
        ({"metric": "requests_runing"}, UnknownMetric, "did you mean 'llm_requests_running'", RUNNING),
        ({"metric": "gpu_info"}, UnknownMetric, "gpu_info has no history: it is kept with the series", RUNNING),
        ({"metric": "llm_latency_quantile_seconds"}, UnknownMetric, "quantiles do not merge", TTFT.metric),
        ({"metric": "inferwatch_unmapped_families"}, UnknownMetric, "scrape /metrics", RUNNING),
        ({"group_by": ["modle"]}, UnknownLabel, "has no label 'modle'; did you mean 'model'?", "model"),
        ({"where": {"teem": "x"}}, UnknownLabel, "has no label 'teem'; did you mean 'team'?", "team"),
        ({"aggregation": "sum"}, InvalidParameter, "'sum' cannot be asked of llm_requests_running, a gauge", "avg"),
        ({"metric": TOKENS, "aggregation": "avg"}, InvalidParameter, "a counter", "rate"),
        ({"metric": TTFT.metric}, InvalidParameter, "q: missing", "0 to 1"),
        ({"metric": TTFT.metric, "q": 99}, InvalidParameter, "q: 99 is no quantile", "0 to 1"),
        ({"q": 0.5}, InvalidParameter, "only histograms have quantiles", "none"),
        ({"step": 90}, InvalidParameter, "90 is not a number of whole minutes", "60, 120"),
        ({"step": 0}, InvalidParameter, "0 is not a number of whole minutes", "60, 120"),
        (
            {"since": 86_460, "until": 90},
            InvalidParameter,
            "1970-01-01T00:01:30Z is not after since=1970-01-02T00:01:00Z",
            "a moment after",
        ),
        ({"until": math.nan}, InvalidParameter, "nan is not after", "a moment after"),
        ({"until": 60 * 11_001}, InvalidParameter, "more than 11000 points", "120 or more"),
    ],
)
def test_a_question_that_cannot_be_answered_says_what_is_allowed(
    history: History, record: Record, change: dict[str, Any], error: type[QuestionError], message: str, allowed: str
) -> None:
    record([of_server("a", 30, {RUNNING: 1}, team="search")])
    asked: dict[str, Any] = {"metric": RUNNING, "q": None, "since": 0, "until": 60, "step": 60} | change
    with pytest.raises(error) as caught:
        history.ask(**asked)
    assert message in str(caught.value)
    assert any(text.startswith(allowed) for text in caught.value.allowed)


def test_a_closed_database_reads_like_any_other(database: Engine, record: Record) -> None:
    record([observation(30, {series(RUNNING): 1})])
    database.dispose()
    assert points(History(database).ask(RUNNING, None, 0, 60, 60)) == [(0, 1)]
