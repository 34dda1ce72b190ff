from __future__ import annotations

import pytest
from sqlalchemy import Connection, Engine, event

from alerts.conditions.expression import Over
from monitor.evaluate.condition_rows import ConditionRows
from monitor.fleet import Fleet
from monitor.history.minutes import Mean, Minute, Window
from tests.monitor.evaluate.minutes import START, target, up, write


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


def test_servers_are_judged_where_none_tells_of_engines_or_gpus(database: Engine) -> None:
    write(database, [Window(START, {target("a"): up()})])
    assert servers(ConditionRows(database, Fleet())) == ["a"]


def test_a_server_that_is_new_while_rows_are_read_is_read_the_next_time(database: Engine) -> None:
    write(database, [Window(START, {target("a"): up()})])
    coming = [Window(START, {target("b"): up()})]

    @event.listens_for(database, "after_cursor_execute")
    def comes(_connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("SELECT") and coming:
            write(database, [coming.pop()])

    rows = ConditionRows(database, Fleet())
    assert servers(rows) == ["a"]
    assert servers(rows) == ["a", "b"]


def servers(rows: ConditionRows) -> list[str]:
    return sorted(dict(series.labels)["server"] for series in rows.upto(START + 60, 600, START + 60).rows.series)


def test_a_mean_weighs_minutes_alike_however_often_they_were_read(database: Engine) -> None:
    """Read once a minute and then every 5 seconds, as after a change of the interval."""
    often = Minute(samples=12, covered_seconds=60.0, gauges={("llm_up", ""): Mean(0.0, 12, 0.0)})
    once = Minute(samples=1, covered_seconds=60.0, gauges={("llm_up", ""): Mean(1.0, 1, 1.0)})
    rows = [*[once] * 7, *[often] * 2]
    write(database, [Window(START + 60 * n, {target("a"): row}) for n, row in enumerate(rows)])
    found = ConditionRows(database, Fleet()).upto(START + 540, 600, START + 540).rows
    # Seven of nine minutes; by readings it would be 7 of 31, which is down.
    assert list(Over("avg", "llm_up", 540).at(found, START + 540).values()) == [pytest.approx(7 / 9)]
