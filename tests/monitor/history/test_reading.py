from __future__ import annotations

import pytest
from sqlalchemy import Engine, func, select, text

from monitor.history.database import ReadError, open_database, reading
from monitor.history.store import Store
from monitor.history.tables import target_minute
from tests.monitor.history.fleet import START, server_minute, write
from tests.servers.postgres import Postgres

ROWS = select(func.count()).select_from(target_minute)


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


def test_all_that_is_read_is_of_one_moment(database: Engine, store: Store) -> None:
    write(store, [server_minute(START)])
    with reading(database) as connection:
        assert connection.scalar(ROWS) == 1
        write(store, [server_minute(START + 60)])
        assert connection.scalar(ROWS) == 1
    with reading(database) as connection:
        assert connection.scalar(ROWS) == 2


def test_whoever_writes_next_on_the_connection_does_so_as_ever(database: Engine) -> None:
    with reading(database) as connection:
        before = connection.get_isolation_level()
    with database.connect() as connection:
        after = connection.get_isolation_level()
    told = {"sqlite": ("SERIALIZABLE", "SERIALIZABLE"), "postgresql": ("REPEATABLE READ", "READ COMMITTED")}
    assert (before, after) == told[database.dialect.name]


def test_a_question_that_fails_is_told_with_the_place(database: Engine) -> None:
    place = (database.url.database or "").rpartition("/")[2]
    told = rf"could not read the alert history at .*{place}: .*no_such_table"
    with pytest.raises(ReadError, match=told), reading(database, "alert history") as connection:
        connection.execute(text("SELECT * FROM no_such_table"))


def test_a_database_that_is_not_there_is_told(postgres: Postgres) -> None:
    with postgres.new_database() as url:
        gone = open_database(url)
    with pytest.raises(ReadError, match=r"could not read the history at .*does not exist"), reading(gone):
        pass
    gone.dispose()
