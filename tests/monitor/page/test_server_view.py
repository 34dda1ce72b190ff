import math
from collections.abc import Mapping

from exporters.histogram import Histogram
from exporters.observation import Observation, Series
from exporters.schema import TTFT
from monitor.page.server_view import FieldLine, ServerView, server_view
from tests.monitor.observations import observation, series
from tests.monitor.page.rows import row, status


def view(values: Mapping[Series, float], histograms: Mapping[Series, Histogram] | None = None) -> ServerView:
    return server_view(row(), observation(0, values, histograms))


def line(view: ServerView, field: str) -> FieldLine:
    [found] = [each for each in view.fields if each.field == field]
    return found


def texts(line: FieldLine) -> list[str]:
    return [", ".join(f"{e.label} {e.text}".strip() for e in entries) for entries in line.values]


def quantiles(phase: str, q: str, **bounds: float) -> dict[Series, float]:
    return {
        series("llm_latency_quantile_seconds", phase=phase, q=q, bound=bound): value for bound, value in bounds.items()
    }


def test_engines_stand_side_by_side() -> None:
    told = view({series("llm_requests_running", engine="0"): 5, series("llm_requests_running", engine="1"): 2})
    assert told.engines == ("engine 0", "engine 1")
    assert texts(line(told, "llm_requests_running")) == ["5", "2"]


def test_an_engine_without_a_value_has_an_empty_place() -> None:
    told = view({series("llm_requests_running", engine="0"): 5, series("llm_requests_waiting", engine="1"): 2})
    assert texts(line(told, "llm_requests_running")) == ["5", ""]


def test_columns_of_several_models_are_told_apart() -> None:
    told = view({series("llm_requests_running"): 5, series("llm_requests_running", model="m-b"): 2})
    assert told.engines == ("engine 0 m-a", "engine 0 m-b")


def test_what_is_of_no_engine_stands_behind_the_engines() -> None:
    told = view(
        {
            series("llm_requests_rejected_total", engine="", reason="too_long"): 4,
            series("llm_requests_running", engine="1"): 2,
        }
    )
    assert told.engines == ("engine 1",)
    assert told.columns == ("engine 1", "server")
    assert texts(line(told, "llm_requests_rejected_total")) == ["", "too_long 4"]
    assert len(told.phases[0].quantiles) == 1


def test_a_field_shows_unit_quality_source_and_reason() -> None:
    fields = [status("llm_requests_unfinished", "approximate", "running ones make it too small", "a - b")]
    told = server_view(row(fields=fields), observation(0, {series("llm_requests_unfinished"): 1}))
    found = line(told, "llm_requests_unfinished")
    assert (found.unit, found.quality) == ("requests", "approximate")
    assert (found.source, found.reason) == ("a - b", "running ones make it too small")


def test_a_field_that_is_missing_says_why() -> None:
    fields = [status("llm_preemptions_total", "unavailable", "since release 0.3")]
    told = server_view(row(fields=fields), observation(0, {series("llm_requests_running"): 1}))
    assert not line(told, "llm_preemptions_total").known
    assert line(told, "llm_preemptions_total").reason == "since release 0.3"
    assert line(told, "llm_probe_success").reason == "not measured for this server"


def test_where_only_fields_that_are_not_exact_are_known_the_others_are_exact() -> None:
    fields = [status("llm_requests_unfinished", "approximate")]
    values = {series("llm_requests_running"): 3, series("llm_requests_unfinished"): 1, series("llm_probe_success"): 1}
    told = server_view(row(fields=fields), observation(0, values))
    qualities = [line(told, name.metric).quality for name in values]
    assert qualities == ["exact", "approximate", "exact"]
    assert line(told, "llm_preemptions_total").reason == "nothing measured yet"


def test_where_no_quality_is_known_none_is_said() -> None:
    told = view({series("llm_requests_running"): 3})
    assert line(told, "llm_requests_running").quality == ""
    assert line(told, "llm_preemptions_total").reason == "not told here"


def test_values_stand_in_the_base_unit_of_the_schema() -> None:
    told = view(
        {
            series("llm_kv_cache_utilization_ratio"): 0.42,
            series("llm_generation_tokens_total"): 1_240_811,
            series("llm_prefix_cache_hit_tokens_total"): 4_021_893.25,
            series("llm_process_start_time_seconds"): 1_796_031_695,
        }
    )
    assert texts(line(told, "llm_kv_cache_utilization_ratio")) == ["0.42"]
    assert texts(line(told, "llm_generation_tokens_total")) == ["1,240,811"]
    assert texts(line(told, "llm_prefix_cache_hit_tokens_total")) == ["4,021,893"]
    assert texts(line(told, "llm_process_start_time_seconds")) == ["2026-11-30 09:41:35 UTC"]


def test_a_value_of_the_whole_target_spans_the_columns() -> None:
    told = view({series("llm_probe_success"): 1, series("llm_requests_running"): 1})
    assert line(told, "llm_probe_success").whole
    assert texts(line(told, "llm_probe_success")) == ["1"]


def test_a_histogram_tells_its_count_its_mean_and_what_it_could_not_measure() -> None:
    told = view({}, {series(TTFT.metric): Histogram((1.0, 60.0), (6, 8, 10), 25.0)})
    assert texts(line(told, TTFT.metric)) == ["10 observed, mean 2.5, beyond 60 2"]


def test_a_histogram_without_observations_has_no_mean() -> None:
    told = view({}, {series(TTFT.metric): Histogram((1.0,), (0, 0), 0.0)})
    assert texts(line(told, TTFT.metric)) == ["0 observed, beyond 1 0"]


def test_latencies_show_both_quantiles_with_their_bounds() -> None:
    told = view(
        {
            **quantiles("ttft", "0.5", estimate=0.31, lower=0.25, upper=0.5),
            **quantiles("ttft", "0.99", estimate=60, lower=60, upper=math.inf),
        }
    )
    [ttft] = [phase for phase in told.phases if phase.phase == "ttft"]
    assert [(f.text, f.aside) for f in ttft.quantiles[0]] == [("310 ms", "(250–500)"), ("at least 60 s", "")]
    [queue] = [phase for phase in told.phases if phase.phase == "queue"]
    assert [(f.text, f.note) for f in queue.quantiles[0]] == [(None, "nothing observed in the last 5 minutes")] * 2
    assert (ttft.why, queue.why) == (None, "nothing observed in the last 5 minutes")


def test_engines_stand_in_the_order_of_their_numbers_and_no_more_than_fit() -> None:
    told = view({series("llm_requests_running", engine=str(n)): n for n in range(40)})
    assert told.engines == tuple(f"engine {n}" for n in range(32))
    assert told.hidden == 8
    assert texts(line(told, "llm_requests_running")) == [str(n) for n in range(32)]


def test_facts_of_engines_that_differ_stand_side_by_side() -> None:
    told = view(
        {
            series("llm_server_info", engine="0", version="0.32.0", dtype="bfloat16"): 1,
            series("llm_server_info", engine="1", version="0.32.0", dtype="float16"): 1,
        }
    )
    assert dict(told.facts) == {"version": "0.32.0", "dtype": "bfloat16, float16"}


def test_of_a_server_that_cannot_be_read_no_old_value_is_shown() -> None:
    old: Observation = observation(0, {series("llm_requests_running"): 5})
    for told in (server_view(row(up=False, available=False), old), server_view(row(), None)):
        assert not (told.fields or told.phases or told.facts or told.engines)
