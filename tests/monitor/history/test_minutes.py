from collections.abc import Iterable
from dataclasses import replace

import pytest

from exporters.findings import finding
from exporters.histogram import Histogram
from exporters.observation import FieldStatus, Observation
from exporters.schema import TTFT
from monitor.history.minutes import Event, Minute, State, Window, advance, window_of
from tests.monitor.observations import ENGINE_0, TARGET, empty_page, in_part, observation, series

RUNNING, TOKENS = series("llm_requests_running"), series("llm_generation_tokens_total")
LATENCY = series(TTFT.metric)
MAX_STEP = 30.0


def windows_of(observations: Iterable[Observation]) -> dict[int, Window]:
    """Those finished and the open one, by start."""
    state = State()
    finished = [advance(state, o, MAX_STEP).finished for o in observations]
    return {w.start: w for w in (*finished, state.window) if w is not None}


def engine_minutes(observations: Iterable[Observation]) -> dict[int, Minute]:
    return {start: w.rows[ENGINE_0] for start, w in windows_of(observations).items() if ENGINE_0 in w.rows}


def events_of(observations: Iterable[Observation]) -> list[Event]:
    state = State()
    return [event for o in observations for event in advance(state, o, MAX_STEP).events]


@pytest.mark.parametrize(("at", "start"), [(60, 0), (60.001, 60), (119.9, 60), (120, 60), (1764495600, 1764495540)])
def test_a_reading_on_the_boundary_belongs_to_the_window_that_ends_there(at: float, start: int) -> None:
    assert window_of(at) == start


def test_a_gauge_is_kept_as_mean_and_maximum_of_its_readings() -> None:
    minute = engine_minutes(observation(at, {RUNNING: v}) for at, v in [(15, 2), (30, 6), (45, 1), (60, 3)])[0]
    mean = minute.gauges["llm_requests_running", ""]
    assert (mean.average, mean.maximum, minute.samples) == (3, 6, 4)


def test_increases_of_adjacent_windows_add_up_to_the_whole_increase() -> None:
    readings = [(50, 100), (65, 130), (80, 150), (110, 170), (125, 220)]
    minutes = engine_minutes(observation(at, {TOKENS: v}) for at, v in readings)
    added = {start: m.counters.get(("llm_generation_tokens_total", "")) for start, m in minutes.items()}
    assert added == {0: None, 60: 70, 120: 50}, "the first reading is a base line: nothing is known of before"
    assert minutes[60].increase_seconds == 60, "from 50 to 110"


def test_an_engine_born_inside_the_window_counts_from_zero() -> None:
    minute = engine_minutes([observation(45, {TOKENS: 90}, start_time=15.0)])[0]
    assert minute.counters["llm_generation_tokens_total", ""] == 90
    assert minute.increase_seconds == 30


def test_what_follows_an_empty_page_of_a_known_server_counts_in_full() -> None:
    """40 tokens and 3 requests came within the 15 seconds."""
    first = observation(30, {TOKENS: 40}, {LATENCY: Histogram((0.1, 1.0), (1, 2, 3), 4.0)})
    minute = engine_minutes([empty_page(15), first, observation(45, {TOKENS: 42})])[0]
    assert minute.counters["llm_generation_tokens_total", ""] == 42
    assert minute.histograms["ttft"] == [Histogram((0.1, 1.0), (1, 2, 3), 4.0)]
    assert minute.increase_seconds == 30


FINISHED = series("llm_requests_finished_total", reason="unknown")


def counted(observations: Iterable[Observation]) -> dict[str, float]:
    """In the first minute, by metric."""
    return {metric: value for (metric, _), value in engine_minutes(observations)[0].counters.items()}


def test_counters_of_a_document_that_comes_late_begin_with_a_base_line() -> None:
    """9000 requests of a long life come to light with the third reading, and 2 more until the fourth."""
    known = {FINISHED: 9000.0, TOKENS: 130.0}
    readings = [in_part(10, {TOKENS: 100}), in_part(20, {TOKENS: 110}), observation(30, known)]
    assert counted(readings) == {TOKENS.metric: 10 + 20}
    assert counted([*readings, observation(40, known | {FINISHED: 9002})]) == {TOKENS.metric: 30, FINISHED.metric: 2}


def test_counters_of_a_document_that_was_away_go_on() -> None:
    away = [in_part(20, {TOKENS: 110}), in_part(30, {TOKENS: 120})]
    readings = [
        observation(10, {TOKENS: 100, FINISHED: 9000}),
        *away,
        observation(40, {TOKENS: 130, FINISHED: 9005}),
    ]
    assert counted(readings) == {TOKENS.metric: 30, FINISHED.metric: 5}


def test_what_was_left_out_as_unusable_is_not_known_to_be_new() -> None:
    for reason in ("dropped_samples", "several_models", "many_engines"):
        first = observation(15, {TOKENS: 10}, findings=(finding(reason),))
        assert counted([first, observation(30, {TOKENS: 12, FINISHED: 9000})]) == {TOKENS.metric: 2}


def test_what_follows_statistics_without_a_record_counts_in_full() -> None:
    fresh = replace(empty_page(15), findings=(finding("no_records_yet"),))
    waiting = replace(fresh, findings=(finding("documents_unread"),))
    empty_in_part = replace(fresh, findings=(finding("empty_body"), finding("documents_unread")))
    assert counted([fresh, observation(30, {TOKENS: 40}), observation(45, {TOKENS: 42})]) == {TOKENS.metric: 42}
    for before in (waiting, empty_in_part):
        assert counted([before, observation(30, {TOKENS: 40}), observation(45, {TOKENS: 42})]) == {TOKENS.metric: 2}


def test_an_empty_page_is_no_base_line_any_more_after_the_look_back() -> None:
    minutes = engine_minutes([empty_page(15), observation(316, {TOKENS: 40}), observation(331, {TOKENS: 42})])
    assert minutes[300].counters["llm_generation_tokens_total", ""] == 2


@pytest.mark.parametrize(
    "unread",
    [
        observation(15, up=False, available=False, findings=(finding("timeout"),)),
        observation(15, available=False, findings=(finding("empty_body"),)),
        replace(empty_page(15), findings=(finding("not_found"),)),
        replace(empty_page(15), findings=(finding("stats_disabled"),)),
    ],
    ids=["time-out", "empty page of nobody", "404", "statistics switched off"],
)
def test_what_follows_anything_else_without_metrics_is_a_base_line(unread: Observation) -> None:
    readings = [unread, observation(30, {TOKENS: 40}), observation(45, {TOKENS: 42})]
    assert engine_minutes(readings)[0].counters["llm_generation_tokens_total", ""] == 2


def test_counters_whose_series_come_after_the_gauges_count_in_full() -> None:
    readings = [observation(15, {RUNNING: 0}), observation(30, {RUNNING: 2, TOKENS: 40})]
    assert engine_minutes(readings)[0].counters["llm_generation_tokens_total", ""] == 40


@pytest.mark.parametrize("tokens", [7, 1500], ids=["fewer than before", "more than before"])
def test_an_empty_page_between_two_processes_hides_no_restart(tokens: float) -> None:
    readings = [
        observation(15, {TOKENS: 1000}, start_time=-500.0),
        empty_page(30),
        observation(45, {TOKENS: tokens}, start_time=25.0),
    ]
    assert engine_minutes(readings)[0].counters["llm_generation_tokens_total", ""] == tokens
    assert events_of(readings) == [Event(TARGET, 45, "restart")]


def test_an_empty_page_takes_nothing_back_of_what_was_counted() -> None:
    """Without a start time it may come from a proxy: the 1000 are not counted again."""
    readings = [observation(15, {TOKENS: 1000}), empty_page(30), observation(45, {TOKENS: 1010})]
    assert engine_minutes(readings)[0].counters["llm_generation_tokens_total", ""] == 10
    assert events_of(readings) == []


def test_an_empty_page_changes_no_fact() -> None:
    awake = {series("llm_server_state", state="awake"): 1.0, RUNNING: 1.0}
    assert events_of([observation(15, awake), empty_page(30), observation(45, awake)]) == []


def test_increases_by_reason_stay_apart() -> None:
    def reading(at: float, stop: float, length: float) -> Observation:
        finished = "llm_requests_finished_total"
        return observation(at, {series(finished, reason="stop"): stop, series(finished, reason="length"): length})

    minute = engine_minutes([reading(10, 5, 5), reading(20, 6, 9)])[0]
    assert minute.counters["llm_requests_finished_total", "stop"] == 1
    assert minute.counters["llm_requests_finished_total", "length"] == 4


def test_a_restart_adds_what_the_new_process_counted_and_is_an_event() -> None:
    observations = [
        observation(10, {TOKENS: 1000}, start_time=-500.0),
        observation(25, {TOKENS: 1010}, start_time=-500.0),
        observation(40, {TOKENS: 7}, start_time=30.0),
        observation(55, {TOKENS: 9}, start_time=30.0),
    ]
    assert engine_minutes(observations)[0].counters["llm_generation_tokens_total", ""] == 10 + 7 + 2
    assert events_of(observations) == [Event(TARGET, 40, "restart")]


@pytest.mark.parametrize(("start", "told"), [(880.0, [Event(TARGET, 900, "restart")]), (-500.0, []), (None, [])])
def test_a_server_that_was_away_for_long_and_is_another_process_was_restarted(
    start: float | None, told: list[Event]
) -> None:
    """What it counted meanwhile is not known; that it is another process is."""
    away = [observation(at, up=False) for at in range(30, 900, 15)]
    observations = [
        observation(15, {TOKENS: 10}, start_time=-500.0),
        *away,
        observation(900, {TOKENS: 50}, start_time=start),
    ]
    assert events_of(observations) == told


def test_histograms_keep_their_native_bounds_even_when_they_change_inside_the_minute() -> None:
    def reading(at: float, histogram: Histogram, start: float) -> Observation:
        return observation(at, histograms={LATENCY: histogram}, start_time=start)

    old, new = (0.1, 1.0), (0.5,)
    minute = engine_minutes(
        [
            reading(5, Histogram(old, (1, 2, 3), 4.0), -500.0),
            reading(20, Histogram(old, (2, 4, 6), 9.0), -500.0),
            reading(35, Histogram(new, (7, 8), 3.0), 30.0),
        ]
    )[0]
    assert minute.histograms["ttft"] == [Histogram(old, (1, 2, 3), 5.0), Histogram(new, (7, 8), 3.0)]


def test_covered_seconds_are_cut_at_the_minute() -> None:
    minutes = engine_minutes(observation(at, {RUNNING: 1}) for at in (50, 70, 90, 110, 130))
    assert {start: m.covered_seconds for start, m in minutes.items()} == {0: 10, 60: 60, 120: 10}


def test_a_step_that_is_too_long_covers_nothing() -> None:
    minutes = engine_minutes(observation(at, {RUNNING: 1}) for at in (5, 20, 51, 60))
    assert minutes[0].covered_seconds == 15 + 9


def test_a_failed_reading_covers_the_target_and_not_its_engine() -> None:
    def failed(at: float) -> Observation:
        return observation(at, up=False, available=False)

    window = windows_of([observation(0.5, {RUNNING: 1}), failed(15), observation(30, {RUNNING: 1}), failed(45)])[0]
    assert window.rows[ENGINE_0].covered_seconds == 0
    assert window.rows[TARGET].covered_seconds == 44.5
    assert window.rows[TARGET].gauges["llm_up", ""].average == 0.5
    assert window.rows[TARGET].last_seen == 30


def test_increases_are_counted_over_a_short_gap_and_the_time_they_took_is_kept() -> None:
    readings = [
        observation(55, {TOKENS: 0}),
        observation(200, up=False, available=False),
        observation(290, {TOKENS: 940}),
    ]
    minute = engine_minutes(readings)[240]
    assert minute.counters["llm_generation_tokens_total", ""] == 940
    assert (minute.increase_seconds, minute.covered_seconds) == (235, 0)


def test_what_passed_in_a_gap_longer_than_the_look_back_is_lost() -> None:
    minutes = engine_minutes(observation(at, {TOKENS: v}) for at, v in [(0.5, 5), (301, 900), (316, 905)])
    assert minutes[300].counters["llm_generation_tokens_total", ""] == 5


def test_readings_whose_counters_are_not_known_leave_the_base_where_it_is() -> None:
    state, info = State(), series("llm_server_info", version="1")
    advance(state, observation(60, {TOKENS: 5, RUNNING: 2, info: 1}), MAX_STEP)
    for at in (75, 90):
        advance(state, observation(at, {RUNNING: 4, info: 1}), MAX_STEP, counted=False)
    changed = observation(105, {RUNNING: 4, series("llm_server_info", version="2"): 1})
    assert [e.kind for e in advance(state, changed, MAX_STEP, counted=False).events] == ["version"]
    advance(state, observation(120, {RUNNING: 6, TOKENS: 12}), MAX_STEP)
    assert state.window is not None
    minute = state.window.rows[ENGINE_0]
    assert minute.counters == {("llm_generation_tokens_total", ""): 7}
    assert (minute.increase_seconds, minute.covered_seconds, minute.samples) == (60, 60, 4)


def test_a_minute_without_observations_has_no_row() -> None:
    assert list(windows_of(observation(at, {RUNNING: 1}) for at in (30, 150))) == [0, 120]


def test_a_gauge_that_is_absent_does_not_pull_the_mean_to_zero() -> None:
    readings = [
        observation(15, {RUNNING: 4, TOKENS: 1}),
        observation(30, {TOKENS: 1}),
        observation(45, {RUNNING: 6, TOKENS: 1}),
    ]
    assert engine_minutes(readings)[0].gauges["llm_requests_running", ""].average == 5


def test_changes_of_version_model_and_state_are_events_also_across_an_outage() -> None:
    def reading(at: float, version: str, state: str) -> Observation:
        info = series("llm_server_info", version=version, wire_model="org/m-a")
        return observation(at, {info: 1, series("llm_server_state", state=state): 1})

    found = events_of(
        [
            reading(5, "0.32.0", "awake"),
            reading(20, "0.32.0", "sleeping"),
            observation(35, up=False, available=False),
            reading(50, "0.33.0", "sleeping"),
        ]
    )
    assert [(e.at, e.kind, e.before, e.after) for e in found] == [
        (20, "state", "awake", "sleeping"),
        (50, "version", "0.32.0", "0.33.0"),
    ]


def test_a_state_that_is_not_known_for_once_did_not_change() -> None:
    """Its document comes later than the page after a start of the sidecar."""

    def reading(at: float, *states: str) -> Observation:
        return observation(at, {series("llm_server_state", engine=str(n), state=s): 1 for n, s in enumerate(states)})

    found = events_of(
        [reading(5, "unknown"), reading(20, "awake"), reading(35, "unknown"), reading(50, "awake"),
         reading(65, "awake", "unknown"), reading(80, "sleeping", "sleeping")]
    )  # fmt: skip
    assert [(e.at, e.before, e.after) for e in found] == [(80, "awake", "sleeping")]


def test_a_sum_that_the_sidecar_keeps_begins_anew_with_the_sidecar_and_no_server_was_restarted() -> None:
    statistics = FieldStatus(TOKENS.metric, "iterations: inflightBatchingStats.numGenRequests", "approximate")
    page = FieldStatus(FINISHED.metric, "request_success_total", "exact")

    def reading(at: float, tokens: float, finished: float) -> Observation:
        return observation(at, {TOKENS: tokens, FINISHED: finished}, fields=(statistics, page))

    sidecar, server = reading(30, 3, 52), reading(45, 5, 1)
    assert events_of([reading(15, 900, 50), sidecar, server]) == [Event(TARGET, 45, "restart")]
    counted = engine_minutes([reading(15, 900, 50), sidecar])[0].counters
    assert counted["llm_generation_tokens_total", ""] == 3, "what was added since the new one began"


def test_each_flag_that_changes_is_an_event_of_its_own() -> None:
    def reading(at: float, **flags: str) -> Observation:
        return observation(at, {series("llm_server_info", version="0.32.0", **flags): 1}, start_time=at - 4)

    found = events_of(
        [
            reading(5, max_model_len="8192", prefix_caching="true", tp="2"),
            reading(20, max_model_len="32768", prefix_caching="false"),
            reading(35, max_model_len="32768", prefix_caching="false", tp="2"),
        ]
    )
    assert [(e.at, e.kind, e.before, e.after) for e in found] == [
        (20, "restart", None, None),
        (20, "max_model_len", "8192", "32768"),
        (20, "prefix_caching", "true", "false"),
        (35, "restart", None, None),
    ], "a flag that is not told for once did not change"


def test_what_the_server_says_of_itself_is_kept_with_the_engine() -> None:
    info = series("llm_server_info", version="0.32.0", wire_model="org/m-a", block_size="16")
    minute = engine_minutes([observation(5, {info: 1})])[0]
    assert minute.info == {"version": "0.32.0", "wire_model": "org/m-a", "block_size": "16"}


def test_an_observation_that_is_not_later_is_ignored() -> None:
    readings = [
        observation(30, {TOKENS: 10}),
        observation(30, {TOKENS: 99}),
        observation(20, {TOKENS: 50}),
        observation(40, {TOKENS: 12}),
    ]
    minute = engine_minutes(readings)[0]
    assert (minute.counters["llm_generation_tokens_total", ""], minute.samples) == (2, 2)


def test_a_clock_that_was_set_back_starts_anew() -> None:
    readings = [observation(100_000, {TOKENS: 10}), observation(50, {TOKENS: 20}), observation(60, {TOKENS: 21})]
    assert engine_minutes(readings)[0].counters["llm_generation_tokens_total", ""] == 1


def test_data_parallel_engines_and_user_labels_make_their_own_rows() -> None:
    values = {series("llm_requests_running", engine=e, team="search"): 1.0 for e in ("0", "1")}
    [window] = windows_of([observation(5, values, user_labels=(("team", "search"),))]).values()
    assert sorted(dict(of).get("engine", "target") for of in window.rows) == ["0", "1", "target"]
    assert all(dict(of)["team"] == "search" for of in window.rows)
