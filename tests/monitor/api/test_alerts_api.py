from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, text

from exporters.observation import labels
from monitor.alert_history.fingerprint import fingerprint
from monitor.alert_history.firings import Firing
from monitor.alert_history.history import AlertHistory
from monitor.alert_history.store import AlertStore
from monitor.api import alerts as module
from monitor.app import create_app
from monitor.config import AlertmanagerSection
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.upsert import Progress
from tests.monitor.alert_history.told import AM, OF, START, alert, sent

NOW = START + 3600


@asynccontextmanager
async def client_of(database: Engine, **access: Any) -> AsyncIterator[httpx.AsyncClient]:
    alerts = AlertHistory(AlertStore(database), access=AlertmanagerSection(**access), clock=lambda: START + 1)
    app = create_app(Fleet(), History(database), alerts=alerts, node="n1", clock=lambda: NOW)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        yield client


@pytest.fixture
async def client(database: Engine) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(database) as client:
        yield client


def see(database: Engine, starts_at: float, last_seen: float, **more: str) -> None:
    firing = Firing(labels({**OF, **more}), starts_at, starts_at, last_seen, last_seen, None)
    AlertStore(database).see([firing], Progress("p", 0, 60))


async def tell(client: httpx.AsyncClient, *alerts: dict[str, Any], **more: Any) -> Any:
    answer = await client.post("/alertmanager", json=sent(*alerts, **more))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def listed(client: httpx.AsyncClient, **query: Any) -> Any:
    answer = await client.get("/api/v1/alerts", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def refused(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    detail: str = answer.json()["detail"]
    return detail


async def test_what_alertmanager_tells_is_listed(client: httpx.AsyncClient) -> None:
    assert await tell(client, alert(), alert(labels={"alertname": "Other"})) == {"stored": 2, "left_out": 0}
    (told,) = await listed(client, name="Slow")
    assert told == {
        "fingerprint": fingerprint(AM),
        "name": "Slow",
        "severity": "page",
        "server": "a",
        "state": "firing",
        "starts_at": START,
        "ends_at": None,
        "last_seen": None,
        "delivered": True,
        "receivers": [{"name": "oncall", "delivered_at": START + 1, "resolved_at": None}],
        "labels": AM,
        "annotations": {"summary": "slow"},
        "generator_url": "http://prometheus/graph",
    }


async def test_alerts_are_chosen_by_query(client: httpx.AsyncClient) -> None:
    await tell(client, alert(), alert(START + 60, START + 90, labels={**OF, "severity": "ticket", "server": "b"}))
    for query, servers in (
        ({}, ["b", "a"]),
        ({"severity": "ticket"}, ["b"]),
        ({"server": "a"}, ["a"]),
        ({"state": "resolved"}, ["b"]),
        ({"state": "firing"}, ["a"]),
        ({"limit": 1}, ["b"]),
        ({"since": START + 100}, ["a"]),
        ({"until": START + 30}, ["a"]),
        ({"name": "Nothing"}, []),
        ({"name": "No\0thing", "server": "\0"}, []),
    ):
        assert [row["server"] for row in await listed(client, **query)] == servers, query


async def test_an_alert_that_fired_and_was_never_told_of_stands_out(
    client: httpx.AsyncClient, database: Engine
) -> None:
    see(database, START, NOW, server="lost")
    assert [row["delivered"] for row in await listed(client)] == [None], (
        "nobody knows whether Alertmanager tells at all"
    )
    assert await listed(client, delivered="false") == []
    await tell(client, alert())
    assert {row["server"]: row["delivered"] for row in await listed(client)} == {"lost": False, "a": True}
    assert [row["server"] for row in await listed(client, delivered="false")] == ["lost"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"state": "fireing"}, "state: 'fireing' is no state; did you mean 'firing'?"),
        ({"delivered": "perhaps"}, "delivered: 'perhaps': allowed: true or false: "),
        ({"limit": "0"}, "limit: '0': allowed: 1 to 10000"),
        ({"since": "yesterday"}, "since: 'yesterday' is no moment"),
        (
            {"since": "2026-12-01T02:00:00Z", "until": "2026-12-01T01:00:00Z"},
            "until: 2026-12-01T01:00:00Z is not after since=2026-12-01T02:00:00Z",
        ),
        ({"severety": "page"}, "severety: no such parameter"),
        ({"name": ["a", "b"]}, "name: given more than once"),
    ],
)
async def test_a_question_that_cannot_be_answered_is_refused(
    client: httpx.AsyncClient, query: dict[str, Any], told: str
) -> None:
    assert told in await refused(await client.get("/api/v1/alerts", params=query), 400)


async def test_a_notification_that_is_wrong_is_refused_with_what_is_wrong(client: httpx.AsyncClient) -> None:
    answer = await client.post("/alertmanager", json=sent(alert(startsAt="soon")))
    assert "alerts[0].startsAt: 'soon': allowed: an RFC 3339 time" in await refused(answer, 400)
    answer = await client.post("/alertmanager", content=b"{", headers={"content-type": "application/json"})
    assert "the body, line 1, column 2: allowed: JSON" in await refused(answer, 400)
    twice = json.dumps(sent(alert()))[:-1] + ', "receiver": "other"}'
    answer = await client.post("/alertmanager", content=twice, headers={"content-type": "application/json"})
    assert "the body: 'receiver': stands twice" in await refused(answer, 400)
    assert await listed(client) == []


async def test_only_json_is_taken_which_no_other_site_can_make_a_browser_send(client: httpx.AsyncClient) -> None:
    body = json.dumps(sent(alert()))
    answer = await client.post("/alertmanager", content=body, headers={"content-type": "text/plain"})
    assert await refused(answer, 415) == "content-type: text/plain: allowed: application/json"
    kind = {"content-type": "Application/JSON; charset=utf-8"}
    assert (await client.post("/alertmanager", content=body, headers=kind)).status_code == 200


async def test_a_notification_that_is_too_large_is_refused(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    told = await refused(await client.post("/alertmanager", json=sent(alert())), 413)
    assert told.startswith("the body: more than 100 bytes: set `max_alerts`")


async def test_without_its_token_nobody_tells_anything(database: Engine, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    async with client_of(database, bearer_token_file=file) as client:
        for given, word in (({}, "missing"), ({"authorization": "Bearer other"}, "another")):
            answer = await client.post("/alertmanager", json=sent(alert()), headers=given)
            assert (await refused(answer, 401)).startswith(f"authorization: {word}: allowed: the token")
        right = {"authorization": "Bearer secret"}
        assert (await client.post("/alertmanager", json=sent(alert()), headers=right)).status_code == 200
        file.unlink()
        answer = await client.post("/alertmanager", json=sent(alert()), headers=right)
        assert "could not read the token" in await refused(answer, 503)


async def test_what_cannot_be_stored_is_not_taken(client: httpx.AsyncClient, database: Engine) -> None:
    """Alertmanager tries again after a 503."""
    with database.begin() as connection:
        connection.execute(text("ALTER TABLE alerts RENAME TO away"))
    assert "could not write the alert history" in await refused(
        await client.post("/alertmanager", json=sent(alert())), 503
    )
    assert "could not read the alert history" in await refused(await client.get("/api/v1/alerts"), 503)
    with database.begin() as connection:
        connection.execute(text("ALTER TABLE away RENAME TO alerts"))
    await tell(client, alert())
    assert len(await listed(client)) == 1


async def test_alerts_that_alertmanager_left_out_are_counted_and_told(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert await tell(client, alert(), truncatedAlerts=7) == {"stored": 1, "left_out": 7}
    await tell(client, alert(), truncatedAlerts=2)
    assert "Alertmanager left 7 alerts out of a notification to receiver 'oncall': see `max_alerts`" in caplog.text
    assert 'inferwatch_truncated_alerts_total{node="n1"} 9.0' in (await client.get("/metrics")).text


async def test_both_are_described(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    assert "requestBody" in paths["/alertmanager"]["post"]
    assert {p["name"] for p in paths["/api/v1/alerts"]["get"]["parameters"]} >= {"name", "state", "delivered"}
    assert "POST /alertmanager" in (await client.get("/docs")).text
