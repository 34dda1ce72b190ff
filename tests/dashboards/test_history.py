"""Every panel of the dashboard of the history, asked of real databases that the store wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from dashboards.history import dashboard
from dashboards.model import Panel, SqlQuery, Table, TimeSeries
from monitor.history.database import open_database, sqlite_url, upgrade
from tests.dashboards.panels import JSON, panels
from tests.dashboards.previews import months
from tests.dashboards.previews.grafana_sql import Chosen, answer, dialect, expanded, rows
from tests.dashboards.previews.months import AWAY, DAY, DAYS, HOUR, OUT, SERVERS, START, UNTIL, UPGRADED
from tests.servers.postgres import Postgres

PANELS = {panel.title: panel for panel in dashboard().panels()}
FRAMEWORKS = ("vllm", "sglang", "lmdeploy", "tensorrt_llm")
CHOSEN: Chosen = {
    "step": "day",
    "framework": FRAMEWORKS,
    "model": ("llama",),
    "price": "2.5",
    "slo": ("first-token", "available"),
}
QUERIES = [(title, number) for title, panel in PANELS.items() for number in range(len(panel.queries))]


@pytest.fixture(scope="session")
def month(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Engine]]:
    """SQLite and PostgreSQL."""
    with postgres.new_database() as url:
        engines = [open_database(sqlite_url(tmp_path_factory.mktemp("month") / "history.sqlite")), open_database(url)]
        for engine in engines:
            months.fill(engine)
        yield engines
        for engine in engines:
            engine.dispose()


@pytest.fixture(params=[0, 1], ids=["sqlite", "postgresql"])
def history(request: pytest.FixtureRequest, month: list[Engine]) -> Engine:
    found: Engine = month[request.param]
    return found


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, postgres: Postgres, tmp_path: Path) -> Iterator[Engine]:
    with postgres.new_database() as url:
        made = open_database(url if request.param == "postgresql" else sqlite_url(tmp_path / "empty.sqlite"))
        upgrade(made)
        yield made
        made.dispose()


def sql(panel: Panel, number: int = 0) -> SqlQuery:
    query = panel.queries[number]
    assert isinstance(query, SqlQuery)
    return query


def asked(history: Engine, title: str, number: int = 0, **chosen: str | tuple[str, ...]) -> list[dict[str, Any]]:
    return answer(history, sql(PANELS[title], number), START, UNTIL, {**CHOSEN, **chosen})


def moment(time: object) -> float:
    return time.timestamp() if isinstance(time, datetime) else float(str(time))


def value(found: list[dict[str, Any]], name: str, day: int) -> float:
    [of] = [row["Value"] for row in found if row["metric"] == name and moment(row["time"]) == START + day * DAY]
    return float(of)


@pytest.mark.parametrize("step", ["day", "hour"])
@pytest.mark.parametrize(("title", "number"), QUERIES)
def test_no_panel_is_empty(history: Engine, title: str, number: int, step: str) -> None:
    assert asked(history, title, number, step=step)


@pytest.mark.parametrize(("title", "number"), QUERIES)
def test_both_databases_answer_the_same(month: list[Engine], title: str, number: int) -> None:
    def told(history: Engine) -> list[tuple[object, ...]]:
        found = asked(history, title, number)
        return sorted(tuple(_rounded(name, v) for name, v in row.items()) for row in found)

    assert told(month[0]) == told(month[1])


def _rounded(name: str, value: object) -> str:
    if name == "time":
        return f"{moment(value):.0f}"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("title", [title for title, panel in PANELS.items() if isinstance(panel, TimeSeries)])
def test_a_series_has_a_time_a_name_and_a_number_in_order_of_time(history: Engine, title: str) -> None:
    found = asked(history, title)
    assert set(found[0]) == {"time", "metric", "Value"}
    assert all(isinstance(row["metric"], str) and isinstance(row["Value"], float) for row in found)
    assert [moment(row["time"]) for row in found] == sorted(moment(row["time"]) for row in found)


@pytest.mark.parametrize("title", [title for title, panel in PANELS.items() if isinstance(panel, TimeSeries)])
def test_a_day_without_a_monitor_is_a_gap_and_no_zero(history: Engine, title: str) -> None:
    found = {moment(row["time"]) for row in asked(history, title)}
    assert len(found) == DAYS - 1
    assert START + AWAY * DAY not in found


def test_grafana_ends_a_line_where_a_day_is_missing() -> None:
    """From a day to the one after the next are 48 hours."""
    for panel in PANELS.values():
        if isinstance(panel, TimeSeries) and not panel.bars:
            assert 24 * HOUR < panel.longest_step < 48 * HOUR
    drawn = [p for p in panels(JSON["dashboards/history.json"]) if p["type"] == "timeseries"]
    told = {p["fieldConfig"]["defaults"]["custom"].get("insertNulls") for p in drawn}
    assert told == {None, 36 * HOUR * 1000}


def test_tokens_of_a_day_are_those_of_all_minutes_and_servers_of_a_framework(history: Engine) -> None:
    """8 minutes of 90,000 and 60,000; on a Saturday (the fifth) half of it."""
    found = asked(history, "Generated tokens")
    assert value(found, "vllm", 0) == pytest.approx(8 * 150_000)
    assert value(found, "vllm", 4) == pytest.approx(8 * 75_000)
    assert value(asked(history, "Prompt tokens"), "sglang", 0) == pytest.approx(8 * 480_000)


def test_tokens_of_the_whole_range_are_the_sum_of_its_days(history: Engine) -> None:
    """27 days, of which 8 are of a weekend; 375,000 a minute in all."""
    [found] = asked(history, "Tokens")
    assert found == {"generated": pytest.approx(8 * 375_000 * (19 + 8 / 2))}


def test_the_p99_lies_in_the_bucket_of_the_slowest_requests(history: Engine) -> None:
    """Two of 100 requests took 0.25 to 0.5 s: the 99th lies in the middle. After the upgrade it is five, and twice
    the time: the 99th lies four fifths beyond 0.5 s."""
    found = asked(history, "Time to first token, P99")
    assert value(found, "vllm gpu-1/chat-a", 0) == pytest.approx(0.375)
    assert value(found, "vllm gpu-1/chat-a", UPGRADED) == pytest.approx(0.9)


def test_the_p99_of_a_framework_lies_between_those_of_its_servers(history: Engine) -> None:
    """Of its two 98 of 100 requests took up to 0.25 s, the 99th lies halfway to 0.5; and 97 up to 0.5 s, the 99th two
    thirds of the way to 1."""
    found = asked(history, "Time to first token by framework, P99")
    assert value(found, "vllm at least", 0) == pytest.approx(0.375)
    assert value(found, "vllm at most", 0) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert value(found, "sglang at least", 0) == value(found, "sglang at most", 0)


def test_the_slowest_server_is_shown_with_the_bounds_of_its_bucket(history: Engine) -> None:
    """The batch server, of whose requests five took 1 to 2 s: four fifths beyond 1 s."""
    found = asked(history, "Time to first token of the slowest server, P99")
    assert value(found, "P99 of the slowest", 0) == pytest.approx(1.8)
    assert value(found, "at least", 0) == pytest.approx(1.0)
    assert value(found, "at most", 0) == pytest.approx(2.0)


def test_the_newest_window_comes_slowest_first(history: Engine) -> None:
    """The batch server's five sixths beyond 1 s before the second chat server's three quarters."""
    found = asked(history, "The newest window, slowest first")
    assert len(found) == len(SERVERS)
    slowest = [row["ttft_p99"] for row in found]
    assert slowest == sorted(slowest, reverse=True)
    assert [(row["server"], row["ttft_p99"]) for row in found[:2]] == [
        ("batch", pytest.approx(1 + 5 / 6)), ("chat-b", pytest.approx(1.75)),
    ]  # fmt: skip


def test_kv_use_is_weighted_by_capacity(history: Engine) -> None:
    """The wave of a day has the mean 1: (0.62 × 400,000 + 0.44 × 200,000) ÷ 600,000."""
    assert value(asked(history, "KV cache in use"), "vllm", 0) == pytest.approx(0.56)


def test_an_engine_without_capacity_is_left_out_of_the_mean_but_not_of_the_fullest(history: Engine) -> None:
    assert {row["metric"] for row in asked(history, "KV cache in use")} == {"vllm", "sglang", "tensorrt_llm"}
    assert value(asked(history, "KV cache, the fullest engine"), "lmdeploy", 0) == pytest.approx(0.35 * 1.2)


def test_hits_are_summed_before_they_are_divided(history: Engine) -> None:
    assert value(asked(history, "Prefix cache hits"), "vllm", 0) == pytest.approx(0.5)


def test_energy_of_a_gpu_without_a_counter_comes_from_its_power(history: Engine) -> None:
    """8 minutes at 500 W: 1/15 kWh; two H100 count it, the A100 does not."""
    found = asked(history, "GPU energy")
    assert value(found, "NVIDIA H100", 0) == pytest.approx(2 / 15)
    assert value(found, "NVIDIA A100", 0) == pytest.approx(1 / 15)


def test_energy_per_token_is_all_energy_by_all_tokens(history: Engine) -> None:
    """Four GPUs at 500 W take 120,000 J a minute, in which 375,000 tokens are made."""
    assert value(asked(history, "Energy per generated token"), "per generated token", 0) == pytest.approx(0.32)


def test_cost_is_gpu_hours_by_the_price(history: Engine) -> None:
    """8 minutes of two H100: 4/15 hours at 2.5."""
    assert value(asked(history, "Cost of the GPUs"), "NVIDIA H100", 0) == pytest.approx(2 / 3)


def test_cost_per_million_tokens_counts_prompts_too(history: Engine) -> None:
    """4 GPUs ÷ 60 hours a minute at 2.5 for 5 × 375,000 tokens."""
    found = asked(history, "Cost per million tokens")
    assert value(found, "per million tokens", 0) == pytest.approx(4 / 60 * 2.5 / 1.875)


def test_without_a_price_nothing_costs_anything_known(history: Engine) -> None:
    assert asked(history, "Cost of the GPUs", price="0") == []
    assert asked(history, "Cost per million tokens", price="0") == []
    assert asked(history, "GPU-hours", 1, price="0") == [{"cost": None}]


def test_servers_were_up_for_a_share_of_the_time(history: Engine) -> None:
    """8 minutes on 27 days of five servers, and 90 in which one was down."""
    assert asked(history, "Servers were up") == [{"of the time": pytest.approx(1080 / 1170)}]


def test_the_budget_is_that_of_the_window_which_ends_with_the_day(history: Engine) -> None:
    """5 % may be slower than a second. The batch server: 5 of 100 on the first day; 112 of 2,700 in all."""
    found = asked(history, "Error budget left")
    assert value(found, "first-token lmdeploy", 0) == pytest.approx(0, abs=1e-9)
    assert value(found, "first-token lmdeploy", 27) == pytest.approx(1 - (112 / 2700) / 0.05)
    assert value(found, "first-token sglang", 27) == 1


def test_an_outage_spends_the_budget_by_its_minutes(history: Engine) -> None:
    """90 of the minutes of 30 days, of which 0.5 % may be bad; of its own day they are 1 in 16."""
    assert value(asked(history, "Error budget left"), "available lmdeploy", OUT) == pytest.approx(
        1 - 90 / 43_200 / 0.005
    )
    assert value(asked(history, "Bad share of each day"), "available lmdeploy", OUT) == pytest.approx(1 / 16)
    outages = asked(history, "Minutes of outage")
    assert value(outages, "available lmdeploy", OUT) == 90
    assert sum(row["Value"] for row in outages) == 90
    assert {row["metric"] for row in outages} == {f"available {framework}" for framework in FRAMEWORKS}


def test_beside_the_bad_share_stands_what_may_be_bad(history: Engine) -> None:
    found = asked(history, "Bad share of each day")
    assert value(found, "first-token lmdeploy", 0) == pytest.approx(0.05)
    assert value(found, "first-token may be bad", 0) == pytest.approx(0.05)
    assert value(found, "available may be bad", 0) == pytest.approx(0.005)


def test_a_month_is_told_as_a_report_tells_it(history: Engine) -> None:
    """28 days are judged; the least that is left comes first."""
    found = asked(history, "Months")
    assert {row["month"] for row in found} == {"2026-12"}
    told = {(row["slo"], row["subject"]): row for row in found}
    batch = told["available", "lmdeploy"]
    assert batch["budget_left"] == pytest.approx(1 - 90 / (28 * 1440) / 0.005)
    assert (batch["minutes_outage"], batch["minutes_unknown"]) == (90, 28 * 1440 - 27 * 8 - 90)
    assert told["first-token", "lmdeploy"]["judged"] == 27 * 8 * 100
    assert [row["budget_left"] for row in found] == sorted(row["budget_left"] for row in found)


def test_the_newest_budgets_are_those_of_the_last_day(history: Engine) -> None:
    found = asked(history, "Budgets at the end of the newest day")
    assert len(found) == 2 * len(FRAMEWORKS)
    assert (found[0]["slo"], found[0]["subject"]) == ("first-token", "lmdeploy")
    assert found[0]["budget_left"] == pytest.approx(1 - (112 / 2700) / 0.05)


def test_an_objective_that_is_not_chosen_is_left_out(history: Engine) -> None:
    found = asked(history, "Error budget left", slo=("available",))
    assert {row["metric"].split()[0] for row in found} == {"available"}


def test_changes_come_newest_first_with_what_was_and_what_is(history: Engine) -> None:
    found = asked(history, "What changed")
    assert {(row["subject"], row["kind"], row["before"], row["after"]) for row in found} == {
        (server.name, *change)
        for server in SERVERS
        if server.framework == "vllm"
        for change in (("restart", None, None), ("version", "1.9", "2.0"))
    }
    assert {moment(row["time"]) for row in found} == {START + UPGRADED * DAY}


@pytest.mark.parametrize("annotation", dashboard().annotations, ids=lambda each: each.name)
def test_annotations_find_what_changed(history: Engine, annotation: Any) -> None:
    found = answer(history, annotation.query, START, UNTIL, CHOSEN)
    assert len(found) == 2
    assert set(found[0]) == {"time", "title", "text"}


def test_a_choice_leaves_out_all_other_frameworks(history: Engine) -> None:
    found = asked(history, "Generated tokens", framework=("sglang",))
    assert {row["metric"] for row in found} == {"sglang"}
    assert asked(history, "Generated tokens", model=("it's another",)) == []


def test_frameworks_and_models_can_be_chosen_also_before_the_first_day_is_over(history: Engine) -> None:
    variables = {variable.name: variable.query for variable in dashboard().variables}
    assert [list(row.values()) for row in rows(history, variables["framework"])] == [[f] for f in sorted(FRAMEWORKS)]
    assert [list(row.values()) for row in rows(history, variables["model"])] == [["llama"]]
    assert "engine_hour_view" in variables["framework"]


def test_before_the_first_hour_is_over_the_choice_is_one_word_that_fits_nothing(empty: Engine) -> None:
    """`IN ()` is an error in PostgreSQL."""
    variables = {variable.name: variable.query for variable in dashboard().variables}
    assert [list(row.values()) for row in rows(empty, variables["model"])] == [["nothing yet"]]
    assert asked(empty, "Generated tokens", model=("nothing yet",)) == []


def test_what_prefill_and_decode_servers_count_counts_once(empty: Engine) -> None:
    """A prefill server hands 10 requests of 100 tokens on, which end at the decode server after 50 more each."""
    months.fill_apart(empty)
    for title, number, expected in (
        ("Tokens", 0, 500),
        ("Tokens", 1, 1000),
        ("Requests that ended well", 0, 10),
        ("Requests that ended well", 1, None),
    ):
        (row,) = asked(empty, title, number, step="hour")
        assert list(row.values()) == [expected]
    found = asked(empty, "Requests, by how they ended", step="hour")
    assert {row["metric"]: row["Value"] for row in found} == {"stop": 10}


def test_windows_of_an_hour_are_what_the_hour_held(history: Engine) -> None:
    found = asked(history, "Generated tokens", step="hour")
    [first] = [row["Value"] for row in found if row["metric"] == "vllm" and moment(row["time"]) == START + 3 * HOUR]
    assert first == pytest.approx(150_000)


@pytest.mark.parametrize(("title", "number"), QUERIES)
def test_a_query_reads_only_the_time_range(history: Engine, title: str, number: int) -> None:
    text = expanded(sql(PANELS[title], number).text(dialect(history)), START, UNTIL, CHOSEN)
    scopes = len(re.findall(r"\bFROM \w+_view", text))
    assert len(re.findall(rf">= {START}|BETWEEN {START * 1000} / 1000", text)) == scopes


def test_every_column_of_a_table_is_in_its_answer(history: Engine) -> None:
    for title, panel in PANELS.items():
        if isinstance(panel, Table):
            assert {column.name for column in panel.columns} <= set(asked(history, title)[0])


def test_every_view_and_column_that_is_named_is_one_of_the_documented() -> None:
    documented = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
    for panel in PANELS.values():
        for view in re.findall(r"FROM (\w+(?:\$\{step:raw\})?\w*)_view", sql(panel).postgres):
            assert f"`{view.replace('${step:raw}', 'day')}_view`" in documented
