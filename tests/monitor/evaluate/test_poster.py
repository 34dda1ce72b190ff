"""Alertmanager is told: a real one, and some that answer as it might."""

from __future__ import annotations

import base64
import json
import logging
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from exporters.observation import labels
from monitor.app import create_app
from monitor.config import AlertmanagerAccess
from monitor.evaluate.poster import Poster
from monitor.evaluate.raised import Raised
from monitor.fleet import Fleet
from monitor.history.ask import History
from tests.end_to_end.processes import DEADLINE, until
from tests.end_to_end.web import get
from tests.exporters.servers import CERTIFICATE, answering, https_context, pages, response, serving, unused_url
from tests.monitor.evaluate.minutes import HOUR
from tests.monitor.evaluate.worlds import World
from tests.servers.alertmanager import Alertmanager

CONFIG = """
route: {receiver: nobody, group_wait: 1s}
receivers: [{name: nobody}]
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for a while is no Alertmanager that does not answer."""
    monkeypatch.setattr("monitor.evaluate.poster._TIMEOUT_SECONDS", DEADLINE)


def an_hour_ago() -> int:
    """Alertmanager has no other clock than its own."""
    return int(time.time() - HOUR) // 60 * 60


def listed(server: Alertmanager, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(f"{server.url}/api/v2/alerts").json()
    return [alert for alert in found if alert["labels"]["alertname"] == name]


async def test_a_real_alertmanager_is_told_until_it_is_over(database: Engine, tmp_path: Path) -> None:
    with Alertmanager(CONFIG, tmp_path) as server:
        poster = Poster([server.url], AlertmanagerAccess())
        world = World(database, tmp_path, poster, an_hour_ago())
        world.serve(10)
        world.serve(10, is_up=False)
        await world.embedded.tell(time.time())
        (down,) = listed(server, "ServerDown")
        assert down["labels"] == {"alertname": "ServerDown", "severity": "page", "node": "n1", "server": "a"}
        assert down["annotations"]["runbook"] == "alerts/runbooks/ServerDown.md"
        assert "a" in down["annotations"]["summary"]
        assert down["fingerprint"] == world.alerts("ServerDown")[0].fingerprint
        assert datetime.fromisoformat(down["startsAt"]).timestamp() == world.alerts("ServerDown")[0].starts_at
        world.serve(4)
        await world.embedded.tell(time.time())
        assert until(lambda: listed(server, "ServerDown") == [])
        assert listed(server, "Watchdog")
        server.restart()
        await world.embedded.tell(time.time())
        assert listed(server, "Watchdog")
        await world.embedded.aclose()


async def test_an_alertmanager_that_is_gone_is_a_problem_and_is_told_later(database: Engine, tmp_path: Path) -> None:
    server = Alertmanager(CONFIG, tmp_path)
    world = World(database, tmp_path, Poster([server.url], AlertmanagerAccess()), an_hour_ago())
    world.serve(2)
    await world.embedded.tell(time.time())
    (problem,) = world.watch.history_problems()
    assert "could not tell Alertmanager" in problem
    with server:
        await world.embedded.tell(time.time())
        assert world.watch.history_problems() == []
        assert listed(server, "Watchdog")
    await world.embedded.aclose()


DOWN = Raised(labels({"alertname": "ServerDown", "server": "a"}), 1_796_083_200.0, 1_796_083_260.0, {"summary": "a"})
CLOSE = {"Connection": "close"}
TAKEN = response("", content_type="application/json")


def access(**settings: Any) -> AlertmanagerAccess:
    return AlertmanagerAccess.model_validate(settings)


async def header(name: str, **settings: Any) -> str | None:
    async with serving(answering(TAKEN)) as served:
        poster = Poster([served.url], access(**settings))
        await poster.post([DOWN], DOWN.since + 60)
        await poster.aclose()
    assert poster.problems() == []
    return served.header(name)


async def test_a_token_and_a_password_are_read_for_each_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    monkeypatch.setenv("AM_SECRET", "other")
    assert await header("authorization") is None
    assert await header("authorization", bearer_token_file=tmp_path / "secret") == "Bearer s3cret"
    assert await header("authorization", bearer_token_env="AM_SECRET") == "Bearer other"
    for given, password in (
        ({"password_file": tmp_path / "secret"}, "s3cret"),
        ({"password_env": "AM_SECRET"}, "other"),
    ):
        told = await header("authorization", basic_auth={"username": "me", **given})
        assert told == "Basic " + base64.b64encode(f"me:{password}".encode()).decode()


async def test_credentials_that_cannot_be_read_are_a_problem_and_nothing_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("s3cret")
    async with serving(answering(TAKEN)) as served:
        poster = Poster([served.url], access(bearer_token_file=file))
        file.unlink()
        await poster.post([DOWN], DOWN.since + 60)
        await poster.aclose()
    assert served.heads == []
    (problem,) = poster.problems()
    assert "its credentials cannot be read: see `alertmanager.access`" in problem


async def test_a_certificate_of_ones_own_is_trusted_by_its_file_alone() -> None:
    async with serving(answering(TAKEN), https_context()) as served:
        for settings, is_good in (
            ({"tls": {"ca_file": CERTIFICATE}}, True), ({"tls": {"insecure_skip_verify": True}}, True), ({}, False),
        ):  # fmt: skip
            poster = Poster([served.url], access(**settings))
            await poster.post([DOWN], DOWN.since + 60)
            await poster.aclose()
            assert (poster.problems() == []) is is_good, settings


async def test_one_alertmanager_of_several_that_is_gone_leaves_the_others_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gone = unused_url()
    async with serving(answering(TAKEN)) as served:
        poster = Poster([gone, served.url], access())
        with caplog.at_level(logging.INFO):
            for minute in range(3):
                await poster.post([DOWN], DOWN.since + 60 * minute)
        assert len(served.heads) == 3
        assert len(caplog.messages) == 1  # once, and not each minute
        assert poster.problems() == [f"could not tell Alertmanager at {gone}/api/v2/alerts: {problem(caplog)}"]
        assert poster.failures == 3
        await poster.aclose()


def problem(caplog: pytest.LogCaptureFixture) -> str:
    return caplog.messages[0].partition("/api/v2/alerts: ")[2]


async def test_what_it_refuses_is_told_in_its_words_and_its_return_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    answers = {"/api/v2/alerts": response("no such thing", status=400, headers=CLOSE)}
    async with serving(pages(answers)) as served:
        poster = Poster([served.url], access())
        with caplog.at_level(logging.INFO):
            await poster.post([DOWN], DOWN.since)
            assert poster.problems()[0].endswith("it answers 400: no such thing")
            answers["/api/v2/alerts"] = response("{}")
            await poster.post([DOWN], DOWN.since + 60)
        assert poster.problems() == []
        assert caplog.messages[1] == f"Alertmanager at {served.url}/api/v2/alerts is told again"
        await poster.aclose()


async def test_it_is_told_again_before_it_takes_an_alert_for_over(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[list[dict[str, Any]]] = []

    async def taken(self: object, body: bytes) -> None:
        bodies.append(json.loads(body))

    monkeypatch.setattr("monitor.evaluate.poster._Alertmanager.tell", taken)
    poster = Poster(["http://am:9093"], access())
    await poster.post([DOWN], DOWN.since)
    await poster.post([], DOWN.since + 60)
    for minutes in (2, 15, 17):
        await poster.post([], DOWN.since + 60 * minutes)
    ends = [[datetime.fromisoformat(alert["endsAt"]).timestamp() - DOWN.since for alert in body] for body in bodies]
    assert ends == [[240], [60], [60], [60]]  # and then it is told no more
    await poster.aclose()


async def test_what_holds_others_back_is_told_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    async def taken(self: object, body: bytes) -> None:
        told = json.loads(body)
        seen.append(
            [a["labels"]["alertname"] for a in told if datetime.fromisoformat(a["endsAt"]).timestamp() > DOWN.since]
        )

    async def pause(seconds: float) -> None:
        seen.append(seconds)

    monkeypatch.setattr("monitor.evaluate.poster._Alertmanager.tell", taken)
    poster = Poster(["http://am:9093"], access(), pause)
    place = {"node": "n1", "server": "a", "slo": "chat"}
    for names, told in (
        (["SloBurnTicket", "SloBurnPage"], [["SloBurnPage"], 2.0, ["SloBurnTicket"]]),
        (["TimeToFirstTokenRegressed", "ServerDown", "GpuLost"],
         [["GpuLost"], 2.0, ["ServerDown"], 2.0, ["TimeToFirstTokenRegressed"]]),
        (["GpuLost", "SloBurnTicket"], [["GpuLost", "SloBurnTicket"]]),
    ):  # fmt: skip
        seen.clear()
        await poster.post([replace(DOWN, labels=labels({"alertname": name, **place})) for name in names], DOWN.since)
        assert [each for each in seen if each] == told
    await poster.aclose()


async def test_failures_are_among_the_own_metrics(database: Engine, tmp_path: Path) -> None:
    world = World(database, tmp_path, Poster([unused_url()], access()))
    world.serve(2)
    await world.embedded.tell(world.now)
    app = create_app(Fleet(), History(database), watch=world.watch, node="n1", clock=lambda: world.now)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        assert 'inferwatch_alertmanager_failures_total{node="n1"} 1.0' in (await client.get("/metrics")).text
    await world.embedded.aclose()
