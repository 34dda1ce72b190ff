from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.servers.postgres import Postgres, postgres_cluster

# Examples are counted, never timed: machines differ.
settings.register_profile("inferwatch", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("inferwatch")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="rewrite the expected texts beside the captures")


@pytest.fixture
def update_goldens(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-goldens"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with postgres_cluster() as found:
        yield found


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """A new, empty database."""
    with postgres.new_database() as url:
        yield url
