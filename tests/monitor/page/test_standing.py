"""What the page of the fleet says of alerts and objectives."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from alerts.budget import State
from exporters.observation import labels
from monitor.alert_history.firings import Firing
from monitor.alert_history.history import AlertHistory
from monitor.alert_history.store import AlertStore
from monitor.app import create_app
from monitor.config import AlertmanagerSection
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.upsert import Progress
from tests.monitor.alert_history.told import alert, notification
from tests.monitor.evaluate.minutes import START
from tests.monitor.evaluate.worlds import World
from tests.monitor.gpu_data import gathered, lost
from tests.monitor.page.fleet_data import FLEET, NOW, fleet_of
from tests.monitor.page.test_routes import Elements, seen


@pytest.fixture
def world(database: Engine, tmp_path: Path) -> World:
    return World(database, tmp_path)


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    alerts = AlertHistory(AlertStore(world.database), access=AlertmanagerSection(), clock=lambda: world.now)
    app = create_app(Fleet(), History(world.database), alerts=alerts, watch=world.watch, clock=lambda: world.now)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        yield client


async def told(client: httpx.AsyncClient, path: str = "/") -> list[str]:
    """Its lines."""
    answer = await client.get(path)
    assert answer.status_code == 200
    assert Elements(answer.text).wrong == []
    found = re.search(r'<section class="standing".*?</section>', answer.text, re.DOTALL)
    assert found
    return [seen(line) for line in re.findall(r"<li.*?</li>", found[0], re.DOTALL)]


async def test_what_fires_stands_above_the_servers_pages_first(world: World, client: httpx.AsyncClient) -> None:
    world.serve(10)
    world.serve(12, is_up=False)
    ticket = alert(world.now - 120, labels={"alertname": "Aged", "severity": "ticket"})
    AlertStore(world.database).tell(notification(ticket), world.now)
    lines = await told(client)
    assert lines[0] == "page ServerDown server=a node=n1 for 7 min 30 s"
    assert lines[1] == "ticket Aged for 2 min"


async def test_alerts_of_one_name_are_one_line_that_leads_to_them(world: World, client: httpx.AsyncClient) -> None:
    world.serve(2)
    of = [alert(world.now - 60, labels={"alertname": "A/B", "severity": "page", "server": s}) for s in ("a", "b")]
    AlertStore(world.database).tell(notification(*of), world.now)
    assert (await told(client))[0] == "page A/B × 2 server=a for up to 60 s"
    [href] = re.findall(r'href="/alerts#(alert-A[^"]*)"', (await client.get("/")).text)
    assert 'id="alert-A/B"' in (await client.get("/alerts")).text
    assert href == "alert-A/B"


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("nn", "server=s1 node=n for up to 3 min; 2 of 2 held back while GpuLost fires"),
        ("nnm", "server=s2 node=m for up to 3 min; 2 of 3 held back while GpuLost fires"),
        ("mnm", "server=s2 node=m for up to 3 min; 1 of 3 held back while GpuLost fires"),
        ("n", "server=s0 node=n for 3 min; held back while GpuLost fires"),
        ("mm", "server=s1 node=m for up to 3 min"),
    ],
)
async def test_a_group_of_which_a_part_is_held_back_says_how_many_and_shows_one_that_is_not(
    world: World, client: httpx.AsyncClient, nodes: str, expected: str
) -> None:
    """The first server's fires for three minutes, the second's for two, the third's for one."""
    world.serve(2)
    downs = [{"alertname": "ServerDown", "node": node, "server": f"s{n}"} for n, node in enumerate(nodes)]
    since = [world.now - 60 * (3 - n) for n in range(len(nodes) + 1)]
    heard = [
        Firing(labels(of | {"severity": "page"}), since[n], since[n], world.now, world.now, None)
        for n, of in enumerate([*downs, {"alertname": "GpuLost", "node": "n"}])
    ]
    AlertStore(world.database).see(heard, Progress("alerts", START, int(world.now)))
    [line] = [line for line in await told(client) if "ServerDown" in line]
    many = f" × {len(nodes)}" if len(nodes) > 1 else ""
    assert line == f"page ServerDown{many} {expected}"


async def test_labels_that_say_where_it_is_come_first(world: World, client: httpx.AsyncClient) -> None:
    world.serve(2)
    of = {"alertname": "KvFull", "severity": "page", "engine": "0", "node": "n1", "server": "a", "zone": "z"}
    other = {"alertname": "Other", "severity": "page", "instance": "i", "job": "j"}
    store = AlertStore(world.database)
    store.tell(notification(*(alert(world.now - 60, labels=each) for each in (of, other))), world.now)
    assert (await told(client))[:2] == [
        "page KvFull server=a node=n1 for 60 s", "page Other instance=i job=j for 60 s",
    ]  # fmt: skip


async def test_an_alert_stands_at_the_server_that_it_names(world: World) -> None:
    """Which may say of itself that all is well; what names no server stands above them alone."""
    world.serve(2)
    fleet = fleet_of(replace(FLEET[0], node="n1", server="a"), replace(FLEET[0], node="n1", server="b"))
    fleet.gpus.update("n1", gathered(NOW, lost("0"), node="n1"))
    of = [
        {"alertname": "ServerStuck", "severity": "page", "node": "n1", "server": "b", "engine": engine}
        for engine in ("0", "1")
    ]
    other = {"alertname": "Other", "severity": "page", "model": "m"}
    store = AlertStore(world.database)
    store.tell(notification(*(alert(world.now - 60, labels=each) for each in (*of, other))), world.now)
    alerts = AlertHistory(store, access=AlertmanagerSection(), clock=lambda: world.now)
    app = create_app(fleet, History(world.database), alerts=alerts, watch=world.watch, clock=lambda: NOW)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        text = (await client.get("/")).text
        of_server = (await client.get("/fragments/servers/n1/b")).text
    assert 'href="/alerts#alert-ServerStuck"' in of_server
    assert "GPU 0 of this node is lost, and which servers were on it is not known. <a" in of_server
    assert 'href="/runbooks/GpuLost"' in of_server
    b, a = re.findall(r"<tbody.*?</tbody>", text, re.DOTALL)
    assert seen(b).startswith("b on n1")
    assert re.findall(r'class="fires bad"[^>]* href="([^"]*)"', b) == ["/alerts#alert-ServerStuck"]
    assert "fires" not in a
    assert "probable cause" not in a


async def test_an_objective_in_trouble_tells_what_is_left(world: World, client: httpx.AsyncClient) -> None:
    """100 of 2,000 requests are 5 %, five times what may be bad."""
    world.serve(20, failed=5.0)
    lines = [line for line in await told(client) if line.startswith("exhausted")]
    assert lines == ["exhausted available model=m 500 % of the budget spent"]


async def test_objectives_of_which_nothing_is_known_are_counted(world: World, client: httpx.AsyncClient) -> None:
    world.serve(20)
    told_now = world.watch.told
    unknown = [replace(status, state=State.UNKNOWN) for status in told_now.statuses]
    world.watch.told = replace(told_now, statuses=(unknown[0], unknown[0]))
    assert await told(client) == ["2 groups of objectives of which nothing is known", "No alert fires."]


async def test_calm_is_said_only_while_alerts_are_judged(world: World, client: httpx.AsyncClient) -> None:
    never = "The Watchdog, which always fires, is not heard of: that no alert fires means nothing."
    assert await told(client) == [never]
    world.serve(20)
    assert await told(client, "/fragments/fleet") == ["No alert fires."]
    world.now += 3600
    assert await told(client) == [never]


async def test_of_many_the_first_are_named_and_the_rest_counted(world: World, client: httpx.AsyncClient) -> None:
    world.serve(2)
    many = [alert(START, labels={"alertname": f"Other{n}", "severity": "page"}) for n in range(9)]
    AlertStore(world.database).tell(notification(*many), world.now)
    lines = await told(client)
    assert [line.split()[1] for line in lines[:6]] == [f"Other{n}" for n in range(6)]
    assert lines[6] == "3 more alerts"


async def test_alerts_that_cannot_be_read_are_no_silence(world: World, client: httpx.AsyncClient) -> None:
    world.serve(2)
    with world.database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE alerts RENAME TO away")
    text = seen((await client.get("/")).text)
    assert "History: could not read the alert history" in text
    assert "No alert fires" not in text


async def test_where_nothing_is_judged_nothing_is_said(world: World) -> None:
    app = create_app(Fleet(), History(world.database), clock=lambda: world.now)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        assert "standing" not in (await client.get("/")).text
