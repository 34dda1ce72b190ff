import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from monitor.evaluate.daily import Daily
from monitor.evaluate.objectives import Objectives
from monitor.history.ask import History
from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.retention import Retention, forget
from monitor.history.store import Store
from tests.monitor.evaluate.minutes import available
from tests.monitor.history import mixed_fleet
from tests.servers.postgres import Postgres


@pytest.fixture(scope="session")
def empty_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database at head, to be copied: migrating takes longer than a test."""
    path = tmp_path_factory.mktemp("history") / "empty.sqlite"
    engine = open_database(sqlite_url(path))
    upgrade(engine)
    engine.dispose()
    return path


@pytest.fixture(scope="session")
def empty_postgres_history(postgres: Postgres) -> Iterator[str]:
    """The name of a database at head, to be copied."""
    with postgres.new_database() as url:
        engine = open_database(url)
        upgrade(engine)
        engine.dispose()
        yield make_url(url).database or ""


@pytest.fixture
def sqlite_database(empty_history: Path, tmp_path: Path) -> Iterator[Engine]:
    path = tmp_path / "history.sqlite"
    path.write_bytes(empty_history.read_bytes())
    engine = open_database(sqlite_url(path))
    yield engine
    engine.dispose()


@pytest.fixture
def postgres_database(postgres: Postgres, empty_postgres_history: str) -> Iterator[Engine]:
    with postgres.new_database(template=empty_postgres_history) as url:
        engine = open_database(url)
        yield engine
        engine.dispose()


@pytest.fixture
def database(sqlite_database: Engine) -> Engine:
    return sqlite_database


@pytest.fixture(params=["sqlite", "postgresql"])
def each_database(request: pytest.FixtureRequest) -> Engine:
    """For modules whose tests all run on both: there `database` is this one."""
    fixture = "sqlite_database" if request.param == "sqlite" else "postgres_database"
    found: Engine = request.getfixturevalue(fixture)
    return found


@pytest.fixture
def store(database: Engine) -> Store:
    return Store(database)


@pytest.fixture
def history(database: Engine) -> History:
    return History(database)


@pytest.fixture(scope="session")
def filled(
    empty_history: Path, postgres: Postgres, empty_postgres_history: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Engine]]:
    """The same fleet in SQLite and PostgreSQL, only to be read.

    Written in different orders, so that ids differ; rolled up, and of the first day the minutes are deleted.
    """
    found = list(mixed_fleet.windows(random.Random(4)))
    objectives = Objectives(())
    objectives.slos = [available()]
    path = tmp_path_factory.mktemp("filled") / "history.sqlite"
    path.write_bytes(empty_history.read_bytes())
    with postgres.new_database(template=empty_postgres_history) as url:
        engines = [open_database(sqlite_url(path)), open_database(url)]
        for engine, in_order in zip(engines, (found, found[::-1]), strict=True):
            mixed_fleet.write(engine, in_order)
            mixed_fleet.roll_up_all(engine)
            Daily(engine, objectives).turn(lambda: False)
            forget(engine, Retention(minutes=1, hours=math.inf, days=math.inf), mixed_fleet.UNTIL)
        yield engines
        for engine in engines:
            engine.dispose()
