from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from monitor.history.ask import History
from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.store import Store
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
