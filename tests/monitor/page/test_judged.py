"""The pages of objectives and alerts as a browser without JavaScript sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from alerts.conditions import CONDITIONS
from monitor.alert_history.history import AlertHistory
from monitor.alert_history.store import AlertStore
from monitor.app import create_app
from monitor.config import AlertmanagerSection
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.page.runbooks import runbook
from tests.monitor.evaluate.test_embedded import World
from tests.monitor.page.test_routes import Elements, seen


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


async def html(client: httpx.AsyncClient, path: str) -> str:
    answer = await client.get(path)
    assert answer.status_code == 200
    assert Elements(answer.text).wrong == []
    return answer.text


async def test_a_card_tells_state_budget_and_burn(world: World, client: httpx.AsyncClient) -> None:
    world.serve(20, failed=0.5)
    text = seen(await html(client, "/slos"))
    assert "available 99 % of requests end well, over 30 days" in text
    assert "ok model=m role=unified 50.0 % of the budget left" in text
    assert "page 1h / 5m 0.50 / 0.50 14.4" in text
    assert "10 of 2,000 requests bad · 30 d not observed" in text


async def test_alerts_that_fire_have_their_runbook_and_those_that_are_over_a_row(
    world: World, client: httpx.AsyncClient
) -> None:
    world.serve(10)
    world.serve(12, is_up=False)
    text = seen(await html(client, "/alerts"))
    assert "page ServerDown The server does not answer HTTP at all, or only now and then." in text
    assert "node=n1 server=a since 2026-12-01 00:19:00 UTC , for 3 min 30 s a on n1 is down: up 0%" in text
    assert "What to do" in text
    assert "Nothing that fired is over." in text
    world.serve(5)
    text = seen(await html(client, "/alerts"))
    assert "No alert fires." in text
    assert "ServerDown page node=n1 server=a 2026-12-01 00:19:00 UTC 2026-12-01 00:25:00 UTC 6 min" in text


async def test_without_objectives_the_page_says_how_to_get_some(world: World, client: httpx.AsyncClient) -> None:
    world.watch.told = type(world.watch.told)()
    assert "inferwatch slo init" in await html(client, "/slos")


async def test_every_page_leads_to_the_others(client: httpx.AsyncClient) -> None:
    for path in ("/", "/slos", "/alerts", "/runbooks/GpuLost"):
        links = {attrs.get("href") for tag, attrs in Elements(await html(client, path)).found if tag == "a"}
        assert {"/", "/slos", "/alerts"} <= links


async def test_a_runbook_that_there_is_not_is_404(client: httpx.AsyncClient) -> None:
    assert (await client.get("/runbooks/Nothing")).status_code == 404


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_runbook_is_html_whose_links_lead_to_pages(name: str) -> None:
    text = str(runbook(name))
    elements = Elements(text)
    assert elements.wrong == []
    assert not any((attrs.get("href") or "").endswith(".md") for _, attrs in elements.found)
    assert "<h1" not in text
