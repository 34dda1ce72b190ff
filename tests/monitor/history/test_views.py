"""The views against the API's answers, and the queries that the docs show."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, inspect

from exporters.observation import labels
from exporters.schema import IDENTITY, METRICS, Scope, Type
from monitor.history.ask import History
from monitor.history.columns import COLUMNS, QUANTILE_COLUMNS, GaugeColumns, HistogramColumn, OpenCounterColumn
from monitor.history.minutes import Window
from monitor.history.store import Store
from monitor.history.tables import Tier
from tests.monitor.history.fleet import engine, engine_minute, write
from tests.monitor.history.mixed_fleet import DAY, START, UNTIL

SQL = Path(__file__).parents[3] / "docs" / "sql.md"
VIEW = {Scope.ENGINE: "engine", Scope.TARGET: "server", Scope.GPU: "gpu"}
MACROS = {
    "$__unixEpochFilter(start)": f"start BETWEEN {START} AND {UNTIL}",
    "$__unixEpochFrom()": str(START),
    "$__unixEpochTo()": str(UNTIL),
    "$__from": str(START * 1000),
    "$__to": str(UNTIL * 1000),
}
Key = tuple[str, ...]


@pytest.fixture(params=[0, 1], ids=["sqlite", "postgresql"])
def read_only(request: pytest.FixtureRequest, filled: list[Engine]) -> Engine:
    engine: Engine = filled[request.param]
    return engine


def rows(database: Engine, query: str) -> list[dict[str, Any]]:
    with database.connect() as connection:
        return [dict(row) for row in connection.exec_driver_sql(query.replace("%", "%%")).mappings()]


def by_key(database: Engine, scope: Scope, tier: Tier) -> dict[tuple[Key, int], dict[str, Any]]:
    names = IDENTITY[scope]
    found = rows(database, f"SELECT * FROM {VIEW[scope]}_{tier.value}_view")
    return {(tuple(row[name] for name in names), row["start"]): row for row in found}


def told(history: History, metric: str, way: str | None, tier: Tier, q: float | None = None) -> Iterator[Any]:
    """Each point under the key that its row has, with the value of the metric's own label."""
    of, since = METRICS[metric], START + DAY if tier is Tier.MINUTE else START
    names = (*IDENTITY[of.scope], *of.labels)
    for answer in history.ask(metric, q, since, UNTIL, tier.seconds, names, aggregation=way):
        *key, own = (*answer.labels.values(), "")[: len(IDENTITY[of.scope]) + 1]
        for point in answer.points:
            yield (tuple(key), point.start), own, point


def stored(scope: Scope) -> Iterator[tuple[str, str, str]]:
    """Metric, way to ask, and what the column of the view ends with."""
    for column in COLUMNS[scope]:
        if isinstance(column, GaugeColumns):
            yield column.metric.name, "avg", ""
            yield column.metric.name, "max", "_max"
        elif not isinstance(column, HistogramColumn | OpenCounterColumn):
            yield column.metric.name, "sum", ""
            yield column.metric.name, "rate", "_per_second"


def column(metric: str, own: str, ending: str) -> str:
    name = metric.removeprefix("llm_").removeprefix("gpu_").removesuffix("_total")
    return f"{name}{f'_{own}' if own else ''}{ending}"


@pytest.mark.parametrize("scope", VIEW)
def test_gauges_counters_and_rates_are_those_of_the_api(read_only: Engine, scope: Scope) -> None:
    history = History(read_only)
    for tier in (Tier.MINUTE, Tier.HOUR):
        found = by_key(read_only, scope, tier)
        for metric, way, ending in sorted(set(stored(scope))):
            points = list(told(history, metric, way, tier))
            assert points
            for key, own, point in points:
                if key in found:  # hours that are still to be rolled up have minutes only
                    assert found[key][column(metric, own, ending)] == pytest.approx(point.value, rel=1e-12)
            assert {key for key, _, _ in points} >= found.keys() - {k for k in found if k[1] < points[0][2].start}


@pytest.mark.parametrize("tier", [Tier.HOUR, Tier.DAY])
def test_percentiles_of_a_server_are_those_of_the_api(read_only: Engine, tier: Tier) -> None:
    history, found, compared = History(read_only), by_key(read_only, Scope.TARGET, tier), 0
    for quantile in QUANTILE_COLUMNS:
        for answer in history.ask(
            quantile.phase.metric, quantile.q, START, START + DAY, tier.seconds, ["node", "server"]
        ):
            for point in answer.points:
                row = found[tuple(answer.labels.values()), point.start]
                upper = math.inf if row[quantile.upper] is None else row[quantile.upper]
                assert (row[quantile.estimate], row[quantile.lower], upper) == (point.value, point.lower, point.upper)
                compared += 1
    assert compared >= len(QUANTILE_COLUMNS) * 4 * (DAY // tier.seconds)


def test_servers_and_gpus_are_named_as_they_are_known(read_only: Engine) -> None:
    servers = rows(read_only, "SELECT DISTINCT server, framework, model, role, gpu FROM server_hour_view")
    assert sorted(tuple(row.values()) for row in servers) == [
        ("B:1", "sglang", "m", "unified", None),
        ("a:1", "vllm", "m", "unified", None),
        ("c:1", "vllm", "m", "unified", None),
        ("ä:1", "lmdeploy", "m", "unified", None),
    ]
    engines = rows(read_only, "SELECT DISTINCT server, engine, version, gpu FROM engine_day_view WHERE server = 'B:1'")
    assert sorted(tuple(row.values()) for row in engines) == [
        ("B:1", "0", "1.0", "nvidia h200"),
        ("B:1", "1", "1.1", "nvidia h200"),
    ]
    gpus = rows(read_only, "SELECT DISTINCT uuid, gpu, name FROM gpu_minute_view")
    assert sorted(tuple(row.values()) for row in gpus) == [("GPU-B", "1", "h200"), ("GPU-a", "0", "H100")]


def test_time_is_what_grafana_takes_for_a_time(filled: list[Engine]) -> None:
    sqlite, postgres = (
        rows(each, f"SELECT DISTINCT time FROM server_hour_view WHERE start = {START}") for each in filled
    )
    assert sqlite == [{"time": START}]
    assert postgres == [{"time": datetime.fromtimestamp(START, UTC)}]


def test_both_databases_show_the_same(filled: list[Engine]) -> None:
    for scope in VIEW:
        for tier in Tier:
            one, other = (
                {key: {n: v for n, v in row.items() if n != "time"} for key, row in by_key(each, scope, tier).items()}
                for each in filled
            )
            assert one
            assert {key: _parsed(row) for key, row in one.items()} == {key: _parsed(row) for key, row in other.items()}


def _parsed(row: dict[str, Any]) -> dict[str, Any]:
    """One driver reads JSON, the other gives its text."""
    return {name: json.loads(v) if name in _JSON and isinstance(v, str) else v for name, v in row.items()}


_JSON = ("labels", "info", "requests_rejected", "xid_errors")


def test_every_stored_metric_is_in_a_view(read_only: Engine) -> None:
    for scope, view in VIEW.items():
        for tier in Tier:
            shown = {c["name"] for c in inspect(read_only).get_columns(f"{view}_{tier.value}_view")}
            wanted = {
                column(metric, own, ending)
                for metric, _, ending in stored(scope)
                for own in [v for values in METRICS[metric].values.values() for v in values] or [""]
            }
            wanted |= {c.name for c in COLUMNS[scope] if isinstance(c, OpenCounterColumn)}
            if scope is Scope.TARGET and tier is not Tier.MINUTE:
                wanted |= {name for q in QUANTILE_COLUMNS for name in q.names}
            assert wanted <= shown, "make the views anew with a migration (docs/sql.md says how)"
            assert "start" in shown


def queries() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", SQL.read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(queries())))
def test_the_queries_of_the_docs_find_something(read_only: Engine, number: int) -> None:
    query = queries()[number]
    for macro, text in MACROS.items():
        query = query.replace(macro, text)
    assert "$__" not in query
    found = rows(read_only, query)
    assert found or "event_view" in query


def test_what_stands_for_all_engines_together_is_no_engine(database: Engine, store: Store) -> None:
    together = labels({name: value for name, value in engine() if name != "engine"})
    write(store, [Window(START, {engine(0): engine_minute(), engine(1): engine_minute(), together: engine_minute()})])
    counted = "SELECT count(*) AS every, count(DISTINCT engine) AS engines FROM engine_minute_view"
    assert rows(database, counted) == [{"every": 3, "engines": 2}]


def test_every_view_stands_in_the_docs(read_only: Engine) -> None:
    text = SQL.read_text()
    assert {name for name in inspect(read_only).get_view_names() if f"`{name}`" not in text} == set()
    assert [m for m in METRICS.values() if m.type is Type.HISTOGRAM and f"`{m.name}`" in text] == []
