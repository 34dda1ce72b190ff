from __future__ import annotations

import pytest
from sqlalchemy import Engine

from monitor.evaluate.condition_rows import ConditionRows
from monitor.fleet import Fleet
from monitor.history.minutes import Window
from tests.monitor.evaluate.minutes import START, target, up, write


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


def test_servers_are_judged_where_none_tells_of_engines_or_gpus(database: Engine) -> None:
    write(database, [Window(START, {target("a"): up()})])
    assert servers(ConditionRows(database, Fleet())) == ["a"]


def servers(rows: ConditionRows) -> list[str]:
    return sorted(dict(series.labels)["server"] for series in rows.upto(START + 60, 600, START + 60).rows.series)
