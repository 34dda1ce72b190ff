"""kill -9 in the middle of what is done to a history besides writing it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from exporters.schema import Scope
from monitor.history import tables
from monitor.history.backup import back_up
from monitor.history.database import open_database, sqlite_url
from monitor.history.restore import restore
from monitor.history.rollup import roll_up
from monitor.history.store import Store
from monitor.history.tables import Tier, rows_table
from tests.monitor.history.fleet import DAY, HOUR, START, server_minute, write

ROOT = Path(__file__).parents[3]
UPKEEPER = "tests.monitor.history.upkeeper"
DEATHS = 5


@pytest.fixture
def database(each_database: Engine) -> Iterator[Engine]:
    """Four servers over two days, a minute of every half hour."""
    store = Store(each_database)
    starts = range(START, START + 2 * DAY, HOUR // 2)
    write(store, [server_minute(at, server=f"s{n}", tokens=n + 1) for at in starts for n in range(4)])
    yield each_database


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def ran(*arguments: str, lives: int = 0) -> int:
    """The exit status."""
    return subprocess.run([sys.executable, "-m", UPKEEPER, str(lives), *arguments], cwd=ROOT, check=False).returncode


def killed(lives: int, *arguments: str) -> None:
    assert ran(*arguments, lives=lives) == -signal.SIGKILL, "it has not ended by itself"


def all_rows(engine: Engine) -> dict[str, list[Any]]:
    coarser = [rows_table(scope, tier) for tier in (Tier.HOUR, Tier.DAY) for scope in (Scope.ENGINE, Scope.TARGET)]
    with engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key.columns))]
            for table in (*coarser, tables.rollup_due)
        }


def test_roll_ups_lose_and_double_nothing(database: Engine, tmp_path: Path) -> None:
    back_up(database, tmp_path / "before", lambda _: None)
    moments = random.Random(2026)
    for _ in range(DEATHS):
        killed(moments.randint(1, 8), "roll-up", url_of(database))
    while roll_up(database, START + 100 * DAY):
        pass
    found = all_rows(database)
    assert [len(found[name]) for name in ("engine_hour", "engine_day", "rollup_due")] == [48 * 8, 2 * 8, 0]
    undisturbed = open_database(sqlite_url(tmp_path / "undisturbed"))
    restore(tmp_path / "before", undisturbed, lambda _: None)
    while roll_up(undisturbed, START + 100 * DAY):
        pass
    assert found == all_rows(undisturbed)
    undisturbed.dispose()


def test_a_backup_is_whole_or_not_there(database: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    file = folder / "b"
    for lives in (1, 3):
        killed(lives, "back-up", url_of(database), str(file))
        assert not file.exists()
    assert all(path.name.startswith("b.") and ".partial" in path.name for path in folder.iterdir())
    assert ran("back-up", url_of(database), str(file)) == 0
    whole = file.read_bytes()
    killed(2, "back-up", url_of(database), str(file))
    assert file.read_bytes() == whole, "the one before stays until the next is whole"


@pytest.fixture
def other(request: pytest.FixtureRequest, database: Engine, tmp_path: Path) -> Iterator[Engine]:
    """An empty one of the same kind."""
    with ExitStack() as stack:
        url = sqlite_url(tmp_path / "other")
        if database.dialect.name == "postgresql":
            url = stack.enter_context(request.getfixturevalue("postgres").new_database())
        engine = open_database(url)
        stack.callback(engine.dispose)
        yield engine


def test_a_restore_is_whole_or_nothing(database: Engine, other: Engine, tmp_path: Path) -> None:
    while roll_up(database, START + 100 * DAY):
        pass
    back_up(database, tmp_path / "b", lambda _: None)
    for lives in (2, 5):
        killed(lives, "restore", url_of(other), str(tmp_path / "b"))
        with other.connect() as connection:
            assert connection.scalar(select(func.count()).select_from(tables.series)) == 0
    assert ran("restore", url_of(other), str(tmp_path / "b")) == 0
    assert all_rows(other) == all_rows(database)
