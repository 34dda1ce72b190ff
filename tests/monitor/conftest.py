from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from monitor.history.ask import History
from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.store import Store


@pytest.fixture(scope="session")
def empty_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database at head, to be copied: migrating takes longer than a test."""
    path = tmp_path_factory.mktemp("history") / "empty.sqlite"
    engine = open_database(sqlite_url(path))
    upgrade(engine)
    engine.dispose()
    return path


@pytest.fixture
def database(empty_history: Path, tmp_path: Path) -> Iterator[Engine]:
    path = tmp_path / "history.sqlite"
    path.write_bytes(empty_history.read_bytes())
    engine = open_database(sqlite_url(path))
    yield engine
    engine.dispose()


@pytest.fixture
def store(database: Engine) -> Store:
    return Store(database)


@pytest.fixture
def history(database: Engine) -> History:
    return History(database)
