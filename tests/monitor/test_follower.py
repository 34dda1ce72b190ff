from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from monitor.history.database import open_database, sqlite_url
from tests.monitor.following import followed
from tests.monitor.history import by_definition
from tests.monitor.history.lives import END, copies, lives
from tests.monitor.history.openmetrics import written
from tests.monitor.history.scraped import START, Copies
from tests.monitor.history.stored import everything, rows
from tests.servers.prometheus import Prometheus

NOTHING = "global: {scrape_interval: 1h}"
FOR_EVER = "--storage.tsdb.retention.time=100y"
LATE = END + 400.0
"""When nothing that concerns the windows to END is still to come."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """With a dozen lives of up to 70 minutes."""
    with prometheus_with(all_lives(), tmp_path_factory.mktemp("prometheus")) as server:
        yield server


def all_lives() -> Copies:
    found: dict[Any, list[Any]] = {}
    for of in (*lives().values(), *copies().values()):
        for copy, scrapes in of.items():
            found.setdefault(copy, []).extend(scrapes)
    return found


def prometheus_with(copies: Copies, folder: Path) -> Prometheus:
    server = Prometheus(NOTHING, folder, FOR_EVER)
    server.load(written(copies, folder / "history.om"))
    return server


@pytest.fixture
def other(empty_history: Path, tmp_path: Path) -> Iterator[Engine]:
    """Another database, to be compared."""
    path = tmp_path / "other.sqlite"
    path.write_bytes(empty_history.read_bytes())
    engine = open_database(sqlite_url(path))
    yield engine
    engine.dispose()


def file_of(database: Engine) -> Path:
    return Path(database.url.database or "")


async def test_rows_are_those_that_the_pages_give_by_definition(prometheus: Prometheus, database: Engine) -> None:
    follower = await followed(prometheus.url, database, LATE)
    assert follower.problems() == []
    targets, engines = (rows(file_of(database), table) for table in ("target_minute", "engine_minute"))
    for name, of in lives().items():
        [scrapes] = of.values()
        pages = [by_definition.page(s) for s in scrapes]
        wanted = {start: by_definition.minute(pages, start) for start in range(START - 60, END, 60)}
        mine = {start: by_definition.stored_target(row) for (i, start), row in targets.items() if _is_of(i, name)}
        assert {s: r for s, r in mine.items() if s < END} == {s: t for s, (t, _) in wanted.items() if t}, name
        mine = {start: by_definition.stored_engine(row) for (i, start), row in engines.items() if _is_of(i, name)}
        assert mine == {s: e for s, (_, e) in wanted.items() if e}, name


def _is_of(identity: str, server: str) -> bool:
    return by_definition.server_in(identity) == server


async def test_of_two_copies_each_second_counts_once(prometheus: Prometheus, database: Engine) -> None:
    await followed(prometheus.url, database, LATE)
    engines = rows(file_of(database), "engine_minute")
    tokens = {n: [r["generation_tokens"] for (i, _), r in engines.items() if _is_of(i, n)] for n in copies()}
    assert tokens["by-two"] == [45, 60, 163 - 115, 60, 295 - 223]
    assert tokens["ahead"] == [45, 60, 130 - 115, 60, 60], "b said 130 at 170: a had said 115"
    assert [event for event in everything(file_of(database))["events"] if '"ahead"' in event[0]] == []


async def test_a_late_monitor_has_the_rows_of_one_that_followed(
    prometheus: Prometheus, database: Engine, other: Engine
) -> None:
    await followed(prometheus.url, database, LATE)
    minutes = (*range(8, 14), *range(20, 24), *range(34, 40), 45, 46, 47, 50, 51)
    await followed(prometheus.url, other, *(START + 30.0 + 60 * n for n in minutes), LATE)
    assert everything(file_of(other)) == everything(file_of(database))
