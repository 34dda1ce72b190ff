from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from monitor.history import upkeep as module
from monitor.history.database import ReadError, open_database
from monitor.history.lease import Lease
from monitor.history.retention import Retention
from monitor.history.rollup import roll_up
from monitor.history.store import Store
from monitor.history.tables import Tier
from monitor.history.upkeep import Upkeep
from tests.monitor.history.fleet import DAY, HOUR, START, server_minute, write
from tests.monitor.history.test_retention import starts
from tests.servers.postgres import Postgres

KEEP = Retention(minutes=2 * DAY, hours=30 * DAY)


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


def test_a_turn_rolls_up_deletes_what_is_old_and_sees_how_large_all_is(database: Engine, store: Store) -> None:
    write(store, [server_minute(START), server_minute(START + 10 * DAY)])
    upkeep = Upkeep(database, KEEP)
    assert upkeep.size_bytes is None
    upkeep.turn(START + 12 * DAY)
    assert starts(database, Tier.MINUTE) == [START + 10 * DAY]
    assert starts(database, Tier.HOUR) == starts(database, Tier.DAY) == [START, START + 10 * DAY]
    assert upkeep.size_bytes is not None
    assert upkeep.size_bytes > 0


def test_old_rows_are_looked_for_once_an_hour(database: Engine, store: Store) -> None:
    upkeep = Upkeep(database, KEEP)
    write(store, [server_minute(START)])
    upkeep.turn(START + 3 * DAY - 1800)
    assert starts(database, Tier.MINUTE) == [START]
    upkeep.turn(START + 3 * DAY)
    assert starts(database, Tier.MINUTE) == [START]
    upkeep.turn(START + 3 * DAY + 1800)
    assert starts(database, Tier.MINUTE) == []


def test_of_several_processes_one_does_it(database: Engine, store: Store) -> None:
    write(store, [server_minute(START)])
    first = Upkeep(database, KEEP)
    first.turn(START)
    other = Upkeep(database, KEEP)
    other.turn(START + 2 * HOUR)
    assert starts(database, Tier.HOUR) == []
    assert other.size_bytes, "that each can tell"
    first.stop()
    other.turn(START + 2 * HOUR)
    assert starts(database, Tier.HOUR) == [START]


def test_a_turn_that_loses_its_lease_ends(database: Engine, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store, [server_minute(START + hour * HOUR) for hour in range(3)])
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.0)
    upkeep = Upkeep(database, KEEP)
    monkeypatch.setattr(Lease, "acquire", _answers(True, False))
    upkeep.turn(START + DAY)
    assert starts(database, Tier.HOUR) == [START]


def _answers(*answers: bool) -> Callable[[Lease], bool]:
    left = list(answers)
    return lambda _: left.pop(0)


def test_a_turn_ends_when_it_is_stopped(database: Engine, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store, [server_minute(START + hour * HOUR) for hour in range(3)])
    upkeep = Upkeep(database, KEEP)

    def stopped_meanwhile(engine: Engine, now: float, pause: Callable[[], bool]) -> int:
        upkeep.stop()
        return roll_up(engine, now, pause)

    monkeypatch.setattr(module, "roll_up", stopped_meanwhile)
    upkeep.turn(START + 9 * DAY)
    assert starts(database, Tier.HOUR) == [START]
    assert len(starts(database, Tier.MINUTE)) == 3, "nothing is deleted any more"
    upkeep.turn(START + 9 * DAY)
    assert starts(database, Tier.HOUR) == [START]


def test_a_database_that_cannot_be_reached_is_told(postgres: Postgres) -> None:
    with postgres.new_database() as url:
        database = open_database(url)
    with pytest.raises(ReadError, match=r"could not read the history at .*does not exist"):
        Upkeep(database, KEEP).turn(START)
    database.dispose()
