from __future__ import annotations

import pytest
import yaml

from alerts.rules.files import expressions
from alerts.rules.known import Expression, of_schema, problems
from alerts.rules.names import named
from alerts.rules.slo import slo_groups
from alerts.rules.text import prometheus_rule, rule_file
from alerts.slo.published import DEFAULT
from alerts.slo.spec import read


def told(expression: str, *user_labels: str) -> list[str]:
    return problems([Expression("here", expression)], of_schema(user_labels))


@pytest.mark.parametrize(
    ("expression", "metrics", "grouped"),
    [
        ('sum by (model) (rate(llm_a{node=~"x|y"}[5m])) / on (model) llm_b', {"llm_a", "llm_b"}, ["model", "model"]),
        (
            "sum(llm_a) without (engine) > bool 0 and ignoring (le) llm_b offset 5m",
            {"llm_a", "llm_b"},
            ["engine", "le"],
        ),
        ('count({__name__=~"llm_a|llm_b", node="x"})', {"llm_a", "llm_b"}, []),
        ('llm_a{reason="by (x) llm_no"} # llm_no\n or llm_b', {"llm_a", "llm_b"}, []),
        ('rate(llm_a{node=~"$node"}[$__rate_interval]) * $scale', {"llm_a"}, []),
        ('label_replace(llm_a, "part", "1", "", "") or vector(1)', {"llm_a"}, []),
        ("quantile by (node) (0.9, a:b:c) == inf", {"a:b:c"}, ["node"]),
    ],
)
def test_metrics_and_labels_are_told_from_functions_words_and_texts(
    expression: str, metrics: set[str], grouped: list[str]
) -> None:
    found = named(expression)
    assert {metric for metric, _ in found.selected} == metrics
    assert found.grouped == grouped


def test_labels_that_an_expression_makes_itself_may_be_grouped_by() -> None:
    assert told('count_values by (node) ("version_count", llm_up)') == []
    assert told('llm_up * on () group_left (n) count_values("n", count(llm_up))') == []
    assert told("llm_up * on () group_left (n) count(llm_up)") == ["here: no label `n` of the schema"]


def test_alerts_carry_the_labels_that_their_rules_give_them() -> None:
    assert told('ALERTS{alertstate="firing",server=~"a|b",severity="page"}') == []
    assert told('ALERTS{sever="a"}') == ["here: ALERTS: no label `sever` of the schema; did you mean `server`?"]


def test_labels_of_a_selector_belong_to_its_metric() -> None:
    assert ("llm_a", "node") in named('llm_a{node="x",reason!~"y"}').selected
    assert ("llm_b", "node") in named('{__name__="llm_b",node="x"}').selected


def test_a_metric_that_is_not_there_is_told_with_the_one_that_was_meant() -> None:
    assert told("avg(llm_kv_cache_utilisation_ratio)") == [
        "here: llm_kv_cache_utilisation_ratio: no metric of the schema; did you mean `llm_kv_cache_utilization_ratio`?"
    ]
    assert told("rate(llm_time_to_first_token_seconds_bukket[5m])") == [
        "here: llm_time_to_first_token_seconds_bukket: no metric of the schema; "
        "did you mean `llm_time_to_first_token_seconds_bucket`?"
    ]


def test_a_label_that_is_not_there_is_told_with_the_one_that_was_meant() -> None:
    assert told('llm_requests_running{modle="x"}') == [
        "here: llm_requests_running: no label `modle` of the schema; did you mean `model`?"
    ]
    assert told("sum by (modell) (llm_requests_running)") == [
        "here: no label `modell` of the schema; did you mean `model`?"
    ]
    assert told('llm_up{phase="x"}') == ["here: llm_up: no label `phase` of the schema"]


def test_labels_of_ones_own_have_to_be_named() -> None:
    assert told('sum by (team) (llm_up{team="a"})') != []
    assert told('sum by (team) (llm_up{team="a"})', "team") == []


def test_what_scraping_and_prometheus_add_is_known() -> None:
    assert told('up{job="x"} and on (instance) llm_up and ALERTS{alertstate="firing"}') == []


def test_every_default_rule_names_what_there_is() -> None:
    groups = slo_groups(read(DEFAULT))
    for text in (rule_file(groups), prometheus_rule(groups, "x")):
        found = expressions("rules.yml", yaml.safe_load(text))
        assert len(found) > 100
        assert problems(found, of_schema()) == []


def test_a_recorded_series_is_known_where_a_rule_of_the_files_makes_it() -> None:
    rules = {
        "groups": [{"name": "g", "rules": [{"record": "a:b", "expr": "llm_up"}, {"alert": "A", "expr": "a:c > 0"}]}]
    }
    assert problems(expressions("f", rules), of_schema()) == [
        "f: g: A: a:c: no metric of the schema; did you mean `a:b`?"
    ]


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("label_values(llm_upp, server)", "llm_upp: no metric of the schema; did you mean `llm_up`?"),
        ("label_values(llm_up, sever)", "no label `sever` of the schema; did you mean `server`?"),
        ("query_result(group by (node) (llm_upp))", "llm_upp: no metric of the schema; did you mean `llm_up`?"),
    ],
)
def test_variables_of_dashboards_are_read_too(query: str, line: str) -> None:
    board = {
        "panels": [],
        "templating": {"list": [{"type": "query", "query": query}, {"type": "datasource", "query": "prometheus"}]},
    }
    assert problems(expressions("board.json", board), of_schema()) == [f"board.json: templating.list[0]: {line}"]


def test_panels_of_dashboards_are_read_wherever_they_are_nested() -> None:
    board = {"panels": [{"panels": [{"targets": [{"expr": "llm_nothing_at_all_like_this"}]}]}]}
    (line,) = problems(expressions("board.json", board), of_schema())
    assert line.startswith("board.json: panels[0].panels[0].targets[0]: llm_nothing_at_all_like_this: no metric")


@pytest.mark.parametrize("content", [None, [], {}, {"groups": [1]}, {"groups": [{"name": "g", "rules": [{}]}]}])
def test_a_file_of_something_else_is_refused(content: object) -> None:
    with pytest.raises(ValueError, match="allowed: "):
        expressions("f", content)
