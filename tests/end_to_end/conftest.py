"""A small world that a real Prometheus holds, for what reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from monitor.history.database import open_database
from tests.end_to_end.histories import FOR_EVER, NOTHING, new_sqlite, read_late
from tests.end_to_end.samples import as_openmetrics
from tests.end_to_end.worlds import World, world
from tests.servers.postgres import Postgres
from tests.servers.prometheus import Prometheus


@pytest.fixture(scope="session")
def seen(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def openmetrics(seen: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return as_openmetrics(seen.all_scrapes(), tmp_path_factory.mktemp("samples") / "world.om")


@pytest.fixture(scope="session")
def prometheus_folder(openmetrics: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the world's blocks, to be copied."""
    folder = tmp_path_factory.mktemp("prometheus")
    Prometheus(NOTHING, folder, FOR_EVER).load(openmetrics)
    return folder


@pytest.fixture(scope="session")
def prometheus(prometheus_folder: Path) -> Iterator[Prometheus]:
    with Prometheus(NOTHING, prometheus_folder, FOR_EVER) as server:
        yield server


@pytest.fixture(scope="session")
def undisturbed(seen: World, prometheus: Prometheus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Read late, all at once."""
    engine = new_sqlite(tmp_path_factory.mktemp("undisturbed") / "history.sqlite")
    asyncio.run(read_late(prometheus.url, engine, seen))
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def undisturbed_postgres(seen: World, prometheus: Prometheus, postgres: Postgres) -> Iterator[Engine]:
    with postgres.new_database() as url:
        engine = open_database(url)
        asyncio.run(read_late(prometheus.url, engine, seen))
        yield engine
        engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.sqlite'}"
    url: str = request.getfixturevalue("postgres_url")
    return url
