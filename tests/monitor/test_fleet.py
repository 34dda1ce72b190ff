import math
from dataclasses import replace

import pytest

from exporters.findings import finding
from exporters.histogram import Histogram
from exporters.observation import FieldStatus, Observation, Series
from exporters.schema import E2E, TTFT
from monitor.fleet import Fleet, ServerRow
from tests.monitor.observations import empty_page, in_part, observation, series

RUNNING, WAITING = "llm_requests_running", "llm_requests_waiting"
UTILIZATION, CAPACITY = "llm_kv_cache_utilization_ratio", "llm_kv_cache_capacity_tokens"
PROMPT, GENERATION = "llm_prompt_tokens_total", "llm_generation_tokens_total"


def names(fleet: Fleet, now: float = 0) -> list[str]:
    return [row.server for row in fleet.rows(now)]


def test_a_server_that_its_source_has_no_more_is_dropped_at_once() -> None:
    fleet = Fleet()
    a, b = observation(0, server="a"), observation(0, server="b")
    fleet.update([a, b], "one")
    fleet.update([observation(15, server="b")], "one")
    assert names(fleet) == ["b"]
    fleet.update([], "one")
    assert names(fleet) == []


def test_a_server_that_another_source_still_has_stays() -> None:
    fleet = Fleet()
    fleet.update([observation(0, server="a")], "one")
    fleet.update([observation(0, server="a"), observation(0, server="b")], "two")
    fleet.update([], "one")
    assert names(fleet) == ["a", "b"]
    fleet.update([observation(15, server="b")], "two")
    assert names(fleet) == ["b"]


def test_figures_are_worked_out_once_for_each_observation() -> None:
    fleet = Fleet()
    fleet.update([observation(0, {series(RUNNING): 5})])
    [once], [again] = fleet.rows(0), fleet.rows(60)
    assert once is again
    [silent] = fleet.rows(91)
    assert (silent.running, silent.up, silent.findings[0].reason) == (None, False, "no_observation")
    fleet.update([observation(100, {series(RUNNING): 6})])
    assert fleet.rows(100)[0].running == 6


def test_a_figure_beyond_all_numbers_is_not_known() -> None:
    engines = {series(RUNNING, engine=number): 1e308 for number in "01"}
    assert row_of(observation(0, engines | {series(WAITING): 3})).running is None


def row_of(*observations: Observation, now: float | None = None) -> ServerRow:
    fleet = Fleet()
    for each in observations:
        fleet.update([each])
    [row] = fleet.rows(observations[-1].at if now is None else now)
    return row


def exported(phase: str, **values: float) -> dict[Series, float]:
    return {
        series("llm_latency_quantile_seconds", phase=phase, q="0.99", bound=bound): value
        for bound, value in values.items()
    }


def test_additive_values_of_data_parallel_engines_add_up_and_ratios_are_averaged() -> None:
    row = row_of(
        observation(
            0,
            {
                series(RUNNING, engine="0"): 8,
                series(RUNNING, engine="1"): 1,
                series(WAITING, engine="0"): 40,
                series(WAITING, engine="1"): 0,
                series(UTILIZATION, engine="0"): 0.95,
                series(UTILIZATION, engine="1"): 0.12,
                # Counted for both together, so it carries no engine.
                series("llm_requests_rejected_total", engine="", reason="max_num_queued_reqs"): 3,
            },
        )
    )
    assert (row.running, row.waiting, row.engines) == (9, 40, 2)
    assert row.kv_utilization == pytest.approx(0.535)
    assert row.kv_utilization_max == 0.95


def test_utilization_is_weighted_by_capacity_where_all_capacities_are_known() -> None:
    values = {
        series(UTILIZATION, engine="0"): 0.9,
        series(UTILIZATION, engine="1"): 0.1,
        series(CAPACITY, engine="0"): 3000.0,
    }
    assert row_of(observation(0, values)).kv_utilization == pytest.approx(0.5)
    row = row_of(observation(0, {**values, series(CAPACITY, engine="1"): 1000.0}))
    assert row.kv_utilization == pytest.approx(0.7)
    assert row.kv_capacity_tokens == 4000


def test_what_the_server_does_not_tell_is_none_and_not_zero() -> None:
    row = row_of(observation(0, {series(RUNNING): 2}))
    figures = row.model_dump(include={"waiting", "kv_utilization", "hit_ratio", "preemptions_5m", "unfinished"})
    assert set(figures.values()) == {None}


def test_tokens_per_second_come_from_the_counters_of_the_last_minute() -> None:
    readings = [(0, 0), (60, 6000), (90, 6300), (120, 6600)]
    row = row_of(*(observation(at, {series(GENERATION): tokens}) for at, tokens in readings))
    assert row.generation_tokens_per_second == pytest.approx(10)
    assert row.prompt_tokens_per_second is None


def test_a_single_reading_has_no_rate() -> None:
    assert row_of(observation(0, {series(GENERATION): 5})).generation_tokens_per_second is None


def test_what_follows_an_empty_page_of_a_known_server_counts_in_full() -> None:
    """150 tokens and 100 requests, 2 of them slow, came within the 15 seconds."""
    values: dict[Series, float] = {series(GENERATION, engine=e): n for e, n in [("0", 60), ("1", 90)]}
    latency = {series(E2E.metric): Histogram((1.0, 10.0), (98, 100, 100), 110.0)}
    row = row_of(empty_page(0), observation(15, values, latency))
    assert row.generation_tokens_per_second == pytest.approx(10)
    assert row.e2e_p99 is not None
    assert (row.e2e_p99.lower, row.e2e_p99.upper) == (1.0, 10.0)


def test_counters_whose_series_come_after_the_gauges_count_in_full() -> None:
    row = row_of(observation(0, {series(RUNNING): 0}), observation(15, {series(GENERATION): 150}))
    assert row.generation_tokens_per_second == pytest.approx(10)


def test_counters_of_a_document_that_comes_late_begin_with_a_base_line() -> None:
    """9000 tokens of a long life come to light with the third reading, and 150 more in the 15 seconds after it."""
    running = {series(RUNNING): 1}
    readings = [in_part(0, running), in_part(15, running), observation(30, {**running, series(GENERATION): 9000})]
    assert row_of(*readings).generation_tokens_per_second is None
    after = observation(45, {**running, series(GENERATION): 9150})
    assert row_of(*readings, after).generation_tokens_per_second == pytest.approx(10)


def test_counters_of_a_document_that_was_away_go_on() -> None:
    """450 tokens in the 45 seconds."""
    before, after = observation(0, {series(GENERATION): 9000}), observation(45, {series(GENERATION): 9450})
    assert row_of(before, in_part(15), in_part(30), after).generation_tokens_per_second == pytest.approx(10)


def test_what_follows_statistics_without_a_record_counts_in_full() -> None:
    fresh = replace(empty_page(0), findings=(finding("no_records_yet"),))
    assert row_of(fresh, observation(15, {series(GENERATION): 150})).generation_tokens_per_second == pytest.approx(10)


def test_what_follows_a_page_that_did_not_come_is_a_base_line() -> None:
    unread = observation(0, up=False, available=False, findings=(finding("timeout"),))
    assert row_of(unread, observation(15, {series(GENERATION): 150})).generation_tokens_per_second is None


def test_a_restart_counts_from_zero() -> None:
    row = row_of(observation(0, {series(GENERATION): 9000}), observation(30, {series(GENERATION): 300}))
    assert row.generation_tokens_per_second == pytest.approx(10)


def test_preemptions_are_counted_over_five_minutes() -> None:
    counts = {0: 0, 15: 7, 200: 9, 320: 12}
    row = row_of(*(observation(at, {series("llm_preemptions_total"): n}) for at, n in counts.items()))
    assert row.preemptions_5m == 5, "the step that ended 305 seconds ago is over"


def test_an_exported_quantile_of_one_engine_is_taken_as_it_is() -> None:
    values = {series(RUNNING): 1, **exported("ttft", estimate=0.4, lower=0.25, upper=0.5)}
    found = row_of(observation(0, values)).ttft_p99
    assert found is not None
    assert (found.estimate, found.lower, found.upper, found.at_least) == (0.4, 0.25, 0.5, False)
    assert found.window_seconds == 300


def test_a_quantile_beyond_the_largest_bound_reads_at_least() -> None:
    values = {series(RUNNING): 1, **exported("e2e", estimate=60, lower=60, upper=math.inf)}
    found = row_of(observation(0, values)).e2e_p99
    assert found is not None
    assert (found.lower, found.upper, found.at_least) == (60, None, True)


def test_quantiles_of_several_engines_are_merged_from_their_counts() -> None:
    def reading(at: float, fast: float, slow: float) -> Observation:
        return observation(
            at,
            histograms={
                series(TTFT.metric, engine="0"): Histogram((0.1, 1.0), (fast, fast, fast)),
                series(TTFT.metric, engine="1"): Histogram((0.1, 1.0), (0, slow, slow)),
            },
        )

    found = row_of(reading(0, 50, 50), reading(20, 50 + 98, 50 + 2)).ttft_p99
    assert found is not None
    assert (found.lower, found.upper) == (0.1, 1.0), "an average of two percentiles would be below 0.1"
    assert found.window_seconds == 20


def test_the_merged_hit_ratio_is_hits_by_queries() -> None:
    def reading(at: float, hits: tuple[float, float], queries: tuple[float, float]) -> Observation:
        return observation(
            at,
            {series("llm_prefix_cache_hit_tokens_total", engine=str(e)): v for e, v in enumerate(hits)}
            | {series("llm_prefix_cache_query_tokens_total", engine=str(e)): v for e, v in enumerate(queries)}
            | {series("llm_prefix_cache_hit_ratio", engine=str(e)): 0.5 for e in range(2)},
        )

    row = row_of(reading(0, (0, 0), (0, 0)), reading(15, (90, 0), (100, 900)))
    assert row.hit_ratio == pytest.approx(0.09)


def test_a_server_that_is_down_keeps_its_name_and_loses_its_figures() -> None:
    info = series("llm_server_info", version="0.32.0", frontend="vllm", wire_model="org/m-a")
    row = row_of(
        observation(0, {info: 1, series(RUNNING): 3}),
        observation(15, up=False, available=False, findings=(finding("connection_refused"),)),
    )
    assert (row.framework, row.version, row.model, row.role) == ("vllm", "0.32.0", "m-a", "unified")
    assert (row.up, row.running, row.last_seen) == (False, None, 0)
    assert row.findings[0].reason == "connection_refused"
    assert row.findings[0].remedy


def test_a_server_nothing_is_heard_of_is_not_called_up() -> None:
    row = row_of(observation(0, {series(RUNNING): 3}), now=91)
    assert (row.up, row.available, row.running) == (False, False, None)
    assert row.findings[0].reason == "no_observation"


def test_a_server_nothing_was_heard_of_for_an_hour_is_forgotten() -> None:
    fleet = Fleet()
    fleet.update([observation(0)])
    assert fleet.rows(3601) == []


def test_an_older_observation_does_not_replace_a_newer_one() -> None:
    row = row_of(observation(30, {series(RUNNING): 3}), observation(15, {series(RUNNING): 9}), now=30)
    assert row.running == 3


def test_rows_are_sorted_by_node_and_server() -> None:
    fleet = Fleet()
    fleet.update([observation(0, server="b"), observation(0, server="a"), observation(0, node="n0", server="z")])
    assert [(r.node, r.server) for r in fleet.rows(0)] == [("n0", "z"), ("n1", "a"), ("n1", "b")]


def test_fields_user_labels_and_the_mark_of_the_simulated_are_passed_on() -> None:
    row = row_of(
        observation(
            0,
            fields=(FieldStatus("llm_requests_waiting", "", "unavailable", "too old"),),
            user_labels=(("source", "simulated"), ("team", "search")),
        )
    )
    assert row.fields[0].reason == "too old"
    assert row.labels == {"source": "simulated", "team": "search"}
    assert row.simulated == "simulated"


def test_an_exported_quantile_is_left_out_when_one_of_its_bounds_is_missing() -> None:
    values = {series(RUNNING): 1, **exported("ttft", estimate=0.4, lower=0.25)}
    assert row_of(observation(0, values)).ttft_p99 is None


def test_phases_are_not_mixed_up() -> None:
    values = {series(RUNNING): 1, **exported(E2E.name, estimate=4, lower=2, upper=5)}
    row = row_of(observation(0, values))
    assert row.ttft_p99 is None
    assert row.e2e_p99 is not None
