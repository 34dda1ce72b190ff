import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from monitor.history import lease
from monitor.history.database import open_database, sqlite_url
from tests.servers.postgres import Postgres


@pytest.fixture(scope="module", autouse=True)
def _leases_that_last() -> Iterator[None]:
    """Those that are to run out are set so: none does by itself, however long a test stands still."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease, "LEASE_SECONDS", 3600.0)
        yield


@pytest.fixture(scope="module")
def unlike(
    empty_history: Path, empty_postgres_history: str, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Engine, Engine]]:
    """SQLite and PostgreSQL, to be compared."""
    file = Path(shutil.copy(empty_history, tmp_path_factory.mktemp("unlike") / "one"))
    with postgres.new_database(template=empty_postgres_history) as url:
        engines = open_database(sqlite_url(file)), open_database(url)
        yield engines
        for engine in engines:
            engine.dispose()


@pytest.fixture(scope="module")
def two(empty_history: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Engine]]:
    """Two databases, to be compared."""
    folder = tmp_path_factory.mktemp("two")
    names = (Path(shutil.copy(empty_history, folder / name)) for name in ("one", "other"))
    engines = [open_database(sqlite_url(name)) for name in names]
    yield engines[0], engines[1]
    for engine in engines:
        engine.dispose()
