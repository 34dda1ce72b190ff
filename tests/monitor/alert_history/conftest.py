from __future__ import annotations

import pytest
from sqlalchemy import Engine

from monitor.alert_history.store import AlertStore


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


@pytest.fixture
def alerts(database: Engine) -> AlertStore:
    return AlertStore(database)
