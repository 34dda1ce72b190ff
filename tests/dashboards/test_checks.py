"""What the generator refuses to write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboards import DASHBOARDS
from dashboards.checks import RefusedError, check, wrong
from dashboards.files import files
from dashboards.model import Column, Dashboard, Link, Query, Row, Stat, Table, Unit, Variable
from dashboards.ratios import added_ratios

GOOD = Stat(title="a", description="b", unit=Unit.NUMBER, queries=(Query("sum by () (llm_requests_running)"),))
SERVER = Variable("server", "Server", "label_values(llm_up, server)")


def of(*panels: Stat | Table, variables: tuple[Variable, ...] = ()) -> Dashboard:
    return Dashboard("x", "X", "Y", (Row("r", panels),), variables)


def told(*panels: Stat | Table, variables: tuple[Variable, ...] = (SERVER,)) -> list[str]:
    return wrong(of(*panels, variables=variables), {"x"})


def asking(expr: str, legend: str = "") -> list[str]:
    return told(replace(GOOD, queries=(Query(expr, legend),)))


def test_a_good_panel_is_written() -> None:
    assert told(GOOD) == []
    assert (
        asking('sum by (server) (rate(llm_prompt_tokens_total{server=~"$server"}[$__rate_interval]))', "{{server}}")
        == []
    )


def test_a_panel_without_words_is_refused() -> None:
    assert told(replace(GOOD, title=" ")) == ["x: r:  : a panel needs a title"]
    assert told(replace(GOOD, description=" ")) == ["x: r: a: a panel needs a description"]


def test_a_panel_without_unit_or_query_is_refused() -> None:
    assert told(replace(GOOD, unit=None)) == ["x: r: a: a panel needs a unit"]
    assert told(replace(GOOD, queries=())) == ["x: r: a: a panel needs a query"]


def test_a_number_in_a_table_without_unit_is_refused() -> None:
    table = Table(title="t", description="d", queries=GOOD.queries, columns=(Column("A", "Running"),))
    assert told(table) == ["x: r: t: column Running: a number needs a unit"]


def test_a_metric_that_the_schema_does_not_have_is_refused_with_the_one_that_was_meant() -> None:
    assert asking("sum by () (llm_request_running)") == [
        "x: a: llm_request_running: no metric of the schema; did you mean `llm_requests_running`?"
    ]


def test_a_metric_that_a_rule_records_is_known() -> None:
    assert asking("inferwatch:slo_bad_ratio:1h") == []
    (line,) = asking("inferwatch:slo_bad_ratio:1w")
    assert "inferwatch:slo_bad_ratio:1w: no metric of the schema" in line


def test_a_label_that_the_metric_does_not_have_is_refused() -> None:
    (line,) = asking('llm_requests_running{sever="x"}')
    assert line == "x: a: llm_requests_running: no label `sever` of the schema; did you mean `server`?"
    assert asking("sum by (server) (llm_up)", "{{model}}") == ["x: r: a: no label `model` for the legend"]


def test_a_variable_that_does_not_stand_above_the_dashboard_is_refused() -> None:
    assert asking('llm_requests_running{model=~"$model"}') == ["x: r: a: no variable $model above this dashboard"]


def test_the_query_of_a_variable_is_held_to_the_schema_too() -> None:
    (line,) = told(GOOD, variables=(replace(SERVER, query="label_values(llm_upp, server)"),))
    assert line.startswith("x: $server: llm_upp: no metric of the schema")


@pytest.mark.parametrize("over", ["5m", "$__interval", "$__range"])
def test_a_rate_over_any_other_interval_is_refused(over: str) -> None:
    assert asking(f"rate(llm_prompt_tokens_total[{over}])") == [
        f"x: r: a: rate over [{over}]: allowed: $__rate_interval"
    ]


def test_an_increase_may_also_be_over_the_time_that_is_shown() -> None:
    assert asking("increase(llm_prompt_tokens_total[$__range])") == []
    assert len(asking("increase(llm_prompt_tokens_total[1h])")) == 1


def test_two_panels_of_a_row_with_one_title_are_refused() -> None:
    assert told(GOOD, GOOD) == ["x: r: a: another panel of its row has this title"]


def test_a_panel_wider_than_the_dashboard_is_refused() -> None:
    assert told(replace(GOOD, width=25)) == ["x: r: a: allowed: 1 to 24 columns, 1 row or more"]


def test_a_link_to_a_dashboard_that_does_not_exist_is_refused() -> None:
    assert told(replace(GOOD, links=(Link("there", "y"),))) == ["x: a: no dashboard y to link to"]


def test_nothing_is_written_where_anything_is_wrong() -> None:
    with pytest.raises(RefusedError, match="needs a unit"):
        files([*DASHBOARDS, of(replace(GOOD, unit=None))])


def test_the_dashboards_are_as_they_must_be() -> None:
    check(DASHBOARDS)


KV, WEIGHT = "llm_kv_cache_utilization_ratio", "llm_kv_cache_capacity_tokens"


@pytest.mark.parametrize(
    "expr",
    [
        f"sum({KV})", f"avg by (model) ({KV}{{server=~\"a|b\"}})", f"sum(max by (server) ({KV}))",
        f"avg without (engine) (avg_over_time({KV}[5m]))", f"sum({KV} * 100)", f"sum({KV} or llm_up)",
        f"sum({KV} > 0.5)", f'sum(label_replace({KV}, "a", "b", "", ""))', f"sum((({KV})))", f"sum({KV} + {KV})",
        "avg(rate(llm_prompt_tokens_total[5m]) / rate(llm_generation_tokens_total[5m]))",
        "avg(histogram_quantile(0.99, sum by (le) (llm_time_to_first_token_seconds_bucket)))",
        "sum_over_time(inferwatch:slo_bad_ratio:5m[1h])", f"max(sum by (model) ({KV}))", f"sum(topk(3, {KV}))",
    ],
)  # fmt: skip
def test_a_ratio_is_not_added_up_or_averaged_without_weights(expr: str) -> None:
    assert added_ratios(expr)


@pytest.mark.parametrize(
    "expr",
    [
        f"sum({KV} * {WEIGHT}) / sum({WEIGHT})", f"sum by (model) ({KV} * on (server) group_left (n) {WEIGHT})",
        f"max({KV})", f"quantile by (model) (0.5, {KV})", f"count({KV} > 0.9)", f"sum({KV} > bool 0.9)",
        f"avg_over_time({KV}[5m])", f"sum({WEIGHT} and {KV})", "sum(rate(llm_prompt_tokens_total[5m])) / sum(llm_up)",
        "sum(inferwatch:slo_bad:5m / 300)",
    ],
)  # fmt: skip
def test_a_ratio_may_be_weighted_picked_and_counted(expr: str) -> None:
    assert added_ratios(expr) == []


def test_a_sum_of_ratios_is_refused() -> None:
    (line,) = asking(f"sum by () ({KV})")
    assert line == f"x: r: a: a ratio is added up without weights: sum of {KV}"
