from __future__ import annotations

import pytest
from hypothesis import settings

# Examples are counted, never timed: machines differ.
settings.register_profile("inferwatch", deadline=None)
settings.load_profile("inferwatch")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="rewrite the expected texts beside the captures")


@pytest.fixture
def update_goldens(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-goldens"))
