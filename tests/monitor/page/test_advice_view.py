"""What the page of advice says while alerts fire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from monitor.alert_history.history import AlertHistory
from monitor.alert_history.store import AlertStore
from monitor.app import create_app
from monitor.config import AlertmanagerSection
from monitor.fleet import Fleet
from monitor.history.ask import History
from tests.monitor.alert_history.told import alert, notification
from tests.monitor.evaluate.minutes import START
from tests.monitor.evaluate.worlds import World
from tests.monitor.page.test_routes import Elements, seen

NOTHING = "Nothing was found to be wrong, but not everything could be judged ."


@pytest.fixture
def world(database: Engine, tmp_path: Path) -> World:
    return World(database, tmp_path)


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    alerts = AlertHistory(AlertStore(world.database), access=AlertmanagerSection(), clock=lambda: world.now)
    history = History(world.database)
    app = create_app(Fleet(), history, alerts=alerts, watch=world.watch, node="n1", clock=lambda: world.now)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        yield client


async def html(client: httpx.AsyncClient) -> str:
    answer = await client.get("/advice", params={"since": "10m"})
    assert answer.status_code == 200
    assert Elements(answer.text).wrong == []
    return answer.text


async def test_nothing_to_set_otherwise_is_no_all_clear_while_alerts_fire(
    world: World, client: httpx.AsyncClient
) -> None:
    world.serve(10)
    assert NOTHING in seen(await html(client))
    assert "alert fires" not in seen(await html(client))
    AlertStore(world.database).tell(notification(alert(START)), world.now)
    one = await html(client)
    assert f"{NOTHING} Now 1 alert fires : what is broken is told there" in seen(one)
    assert 'Now <a href="/alerts">1 alert fires</a>' in one
    another = alert(START, labels={"alertname": "Slow", "server": "b"})
    AlertStore(world.database).tell(notification(another), world.now)
    assert "Now 2 alerts fire : what is broken" in seen(await html(client))
