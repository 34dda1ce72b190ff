"""A small world that a real Prometheus holds, for what reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.end_to_end.histories import FOR_EVER, NOTHING, history, in_file, read_late
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
    with history(in_file(tmp_path_factory.mktemp("undisturbed"))) as database:
        asyncio.run(read_late(prometheus.url, database, seen))
        yield database


@pytest.fixture(scope="session")
def undisturbed_postgres(seen: World, prometheus: Prometheus, postgres: Postgres) -> Iterator[Engine]:
    with postgres.new_database() as url, history(url) as database:
        asyncio.run(read_late(prometheus.url, database, seen))
        yield database


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty database."""
    if request.param == "sqlite":
        return in_file(tmp_path)
    url: str = request.getfixturevalue("postgres_url")
    return url
