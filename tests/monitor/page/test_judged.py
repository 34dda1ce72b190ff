"""The pages of objectives and alerts as a browser without JavaScript sees them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from markupsafe import Markup
from sqlalchemy import Engine

from alerts.conditions import CONDITIONS
from alerts.rules.burn import NAMES
from exporters.observation import labels
from monitor.alert_history.firings import Firing
from monitor.alert_history.follower import AlertFollower
from monitor.alert_history.history import AlertHistory
from monitor.alert_history.store import AlertStore
from monitor.app import create_app
from monitor.config import AlertmanagerSection, PrometheusSection
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.upsert import Progress
from monitor.page.routes import breaking
from monitor.page.runbooks import runbook
from monitor.sources.prometheus.client import Client
from tests.exporters.servers import unused_url
from tests.monitor.alert_history.told import alert, notification
from tests.monitor.evaluate.minutes import DAY, START
from tests.monitor.evaluate.worlds import World
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
    assert "ok model=m 50 % of the budget left" in text
    assert "page 1h / 5m 0.5 / 0.5 14.4" in text
    assert "10 of 2,000 requests bad · observed for 20 min of 30 d" in text


async def test_alerts_that_fire_have_their_runbook_and_those_that_are_over_a_row(
    world: World, client: httpx.AsyncClient
) -> None:
    world.serve(10)
    world.serve(12, is_up=False)
    text = seen(await html(client, "/alerts"))
    assert (
        "page ServerDown The server does not answer HTTP at all, or only now and then. First: read the end of its log"
        in text
    )
    assert (
        "node=n1 server=a a on n1 is down, or up for moments only since 2026-12-01 00:15:00 UTC , for 7 min 30 s"
        in text
    )
    assert "What to do" in text
    assert "Nothing that fired is over." in text
    world.serve(5)
    text = seen(await html(client, "/alerts"))
    assert "No alert fires." in text
    assert "ServerDown page node=n1 server=a 2026-12-01 00:15:00 UTC 2026-12-01 00:26:00 UTC 11 min" in text


async def test_without_objectives_the_page_says_how_to_get_some(world: World, client: httpx.AsyncClient) -> None:
    world.watch.told = type(world.watch.told)()
    assert "inferwatch slo init" in await html(client, "/slos")


async def test_what_fires_is_shown_however_much_has_fired_since(world: World, client: httpx.AsyncClient) -> None:
    world.serve(2)
    store = AlertStore(world.database)
    of_old = alert(START - 20 * DAY, labels={"alertname": "Old", "severity": "page"})
    flapping = [alert(START - n, START - n + 0.5, labels={"alertname": f"Flapping{n}"}) for n in range(1, 302)]
    store.tell(notification(of_old, *flapping), world.now)
    text = await html(client, "/alerts")
    assert "page Old since 2026-11-11 00:00:00 UTC" in seen(text).replace(" slow", "")
    assert "<title>1 alert firing · inferwatch</title>" in text
    assert 'data-title="1 alert firing · inferwatch"' in text
    assert "The newest 300; /api/v1/alerts has all." in seen(text)


async def test_each_of_several_alerts_has_a_heading_before_its_summary(world: World, client: httpx.AsyncClient) -> None:
    bare = alert(START, labels={"alertname": "Slow", "server": "b"}, annotations={})
    store = AlertStore(world.database)
    store.tell(notification(alert(START, labels={"alertname": "Slow", "server": "a"}), bare), world.now)
    told = re.findall(r'<li class="firing">(<h4>.*?</h4>)(.*?)</li>', await html(client, "/alerts"), re.DOTALL)
    since = "since 2026-12-01 00:00:00 UTC"
    assert [(seen(heading), seen(rest).partition(" ,")[0]) for heading, rest in told] == [
        ("server=a", f"slow {since}"),
        ("server=b", since),
    ]


async def test_what_is_held_back_says_by_what(world: World, client: httpx.AsyncClient) -> None:
    down, lost = {"alertname": "ServerDown", "node": "n1", "server": "a"}, {"alertname": "GpuLost", "node": "n1"}
    world.now = START + 3600.0
    heard = Firing(labels(down), START, START, world.now, world.now, None)
    store = AlertStore(world.database)
    store.see([heard], Progress("alerts", START, int(world.now)))
    store.tell(notification(alert(START, labels=lost | {"node": "n2"})), world.now)
    assert "for 1 h; nobody was told" in seen(await html(client, "/alerts"))
    store.tell(notification(alert(START, labels=lost)), world.now)
    for path in ("/alerts", "/"):
        text = seen(await html(client, path))
        assert "for 1 h; held back while GpuLost fires" in text
        assert "nobody was told" not in text


async def test_silence_is_no_good_news_without_the_watchdog(world: World, client: httpx.AsyncClient) -> None:
    text = seen(await html(client, "/alerts"))
    assert "The Watchdog, which always fires, is not heard of" in text
    assert "No alert fires." not in text
    world.serve(2)
    text = seen(await html(client, "/alerts"))
    assert "No alert fires. none Watchdog Always fires." in text
    world.now += 3600
    assert "The Watchdog, which always fires, is not heard of" in seen(await html(client, "/alerts"))


async def test_what_cannot_be_read_is_no_silence(world: World, client: httpx.AsyncClient) -> None:
    world.serve(2)
    with world.database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE alerts RENAME TO away")
    text = await html(client, "/alerts")
    assert "could not read the alert history" in seen(text)
    assert "fires" not in seen(text)
    assert 'data-title="Alerts · inferwatch"' in text


async def test_alerts_of_others_have_their_own_severity(world: World, client: httpx.AsyncClient) -> None:
    severities = ("critical", "Warning", "info", "P2", "")
    told = [alert(START, START + 60, labels={"alertname": f"Of{n}", "severity": n}) for n in severities]
    AlertStore(world.database).tell(notification(*told), world.now)
    text = await html(client, "/alerts")
    found = re.findall(r'<span class="state (\w+)">.*?</svg>(.*?)</span>', text, re.DOTALL)
    assert sorted(found) == [
        ("bad", "critical"), ("quiet", "info"), ("warning", "P2"), ("warning", "Warning"), ("warning", "no severity"),
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["/slos", "/alerts"])
async def test_what_keeps_alerts_from_being_known_is_told(world: World, path: str) -> None:
    """The history may lag, the alerts of Prometheus may not be read: then what the page has is old."""
    section = PrometheusSection.model_validate({"url": unused_url()})
    prometheus, store = Client(section), AlertStore(world.database)
    follower = AlertFollower(prometheus, section, store)
    await follower.follow()
    alerts = AlertHistory(store, follower, access=AlertmanagerSection(), clock=lambda: world.now)
    app = create_app(Fleet(), History(world.database), alerts=alerts, watch=world.watch, clock=lambda: world.now)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        assert section.url in seen(await html(client, path))
    await prometheus.aclose()


async def test_every_page_leads_to_the_others(client: httpx.AsyncClient) -> None:
    for path in ("/", "/slos", "/alerts", "/runbooks/GpuLost"):
        links = {attrs.get("href") for tag, attrs in Elements(await html(client, path)).found if tag == "a"}
        assert {"/", "/slos", "/alerts"} <= links


async def test_pages_have_access_keys_from_the_left(client: httpx.AsyncClient) -> None:
    elements = Elements(await html(client, "/alerts")).found
    keys = [(attrs["accesskey"], attrs["href"]) for _, attrs in elements if "accesskey" in attrs]
    assert [key for key, _ in keys] == [str(n) for n in range(1, len(keys) + 1)]
    assert keys[0] == ("1", "/")
    assert "/alerts" in dict(keys).values()


async def test_a_runbook_alone_stays_where_it_is_read(client: httpx.AsyncClient) -> None:
    text = await html(client, "/runbooks/ServerStuck")
    assert 'http-equiv="refresh"' not in text
    headings = [tag for tag, _ in Elements(text).found if re.fullmatch("h[1-6]", tag)]
    assert headings == ["h1", "h2", "h2", "h2", "h2"]
    assert "By framework vLLM" in seen(text)
    assert "<thead>" not in text


async def test_the_runbook_of_an_objective_has_no_condition(client: httpx.AsyncClient) -> None:
    assert "spends its error budget" in seen(await html(client, "/runbooks/SloBurnPage"))


async def test_a_runbook_that_there_is_not_is_404(client: httpx.AsyncClient) -> None:
    assert (await client.get("/runbooks/Nothing")).status_code == 404


@pytest.mark.parametrize("name", [*CONDITIONS, *NAMES.values()])
def test_a_runbook_is_html_whose_links_lead_to_pages(name: str) -> None:
    text = str(runbook(name))
    elements = Elements(text)
    assert elements.wrong == []
    assert {tag for tag, _ in elements.found if re.fullmatch("h[1-6]", tag)} == {"h4"}
    links = {attrs["href"] or "" for tag, attrs in elements.found if tag == "a"}
    assert links <= {f"/runbooks/{other}" for other in (*CONDITIONS, *NAMES.values())}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("PreemptionsFrequent", "Preemptions<wbr>Frequent"),
        ("KvCacheSaturated", "Kv<wbr>Cache<wbr>Saturated"),
        ("KubeAPIDown", "Kube<wbr>APIDown"),
        ("Node2Down", "Node2<wbr>Down"),
        ("slow", "slow"),
        ("<b>aB</b>", "&lt;b&gt;a<wbr>B&lt;/b&gt;"),
    ],
)
def test_the_name_of_an_alert_is_broken_between_words_alone(name: str, shown: str) -> None:
    assert breaking(name) == Markup(shown)
