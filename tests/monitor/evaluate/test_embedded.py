from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from monitor.alert_history.alert import State
from monitor.evaluate.poster import Poster
from tests.end_to_end.processes import until
from tests.end_to_end.web import get
from tests.monitor.evaluate.minutes import HOUR, START
from tests.monitor.evaluate.worlds import World
from tests.servers.alertmanager import Alertmanager


@pytest.fixture
def world(database: Engine, tmp_path: Path) -> World:
    return World(database, tmp_path)


def test_a_burn_is_an_alert_with_the_labels_of_the_rules(world: World) -> None:
    world.serve(30)
    world.serve(20, failed=60)
    (page,) = world.alerts("SloBurnPage")
    assert page.labels == {
        "alertname": "SloBurnPage", "slo": "available", "severity": "page", "model": "m", "role": "unified",
    }  # fmt: skip
    assert page.state(world.now) is State.FIRING
    # 60 of 100 fail from minute 30 on: 7 % of 34 minutes, and over 6 hours 6 % are enough.
    assert page.starts_at == START + 60 * 34
    world.serve(30)
    (page,) = world.alerts("SloBurnPage")
    # Half an hour later no more than 3 bad minutes are left of its short window of 30 minutes: 6 %.
    assert page.ends_at == START + 60 * 77


def test_a_server_that_is_down_is_told_after_its_time_and_until_it_is_up(world: World) -> None:
    world.serve(10)
    world.serve(12, is_up=False)
    (down,) = world.alerts("ServerDown")
    assert down.labels == {"alertname": "ServerDown", "severity": "page", "node": "n1", "server": "a"}
    fired = down.starts_at
    # Four of six minutes are down at minute 14, and five more have to pass.
    assert fired == START + 19 * 60
    world.serve(4)
    (down,) = world.alerts("ServerDown")
    assert (down.starts_at, down.ends_at) == (fired, START + 60 * 25)


def test_an_alert_goes_on_through_a_restart_and_ends_at_its_first_judgement_without_it(world: World) -> None:
    world.serve(10)
    world.serve(10, is_up=False)
    (before,) = world.alerts("ServerDown")
    world.start()
    world.serve(2, is_up=False)
    (after,) = world.alerts("ServerDown")
    assert (after.starts_at, after.ends_at) == (before.starts_at, None)
    world.serve(20, judged=False)
    world.start()
    world.serve(1)
    (after,) = world.alerts("ServerDown")
    assert (after.starts_at, after.ends_at is None) == (before.starts_at, False)


def test_the_watchdog_always_fires(world: World) -> None:
    world.serve(2)
    (watchdog,) = world.alerts("Watchdog")
    assert watchdog.labels == {"alertname": "Watchdog", "severity": "none"}


CONFIG = """
route: {receiver: nobody, group_wait: 1s}
receivers: [{name: nobody}]
"""


def an_hour_ago() -> int:
    """Alertmanager has no other clock than its own."""
    return int(time.time() - HOUR) // 60 * 60


def listed(server: Alertmanager, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(f"{server.url}/api/v2/alerts").json()
    return [alert for alert in found if alert["labels"]["alertname"] == name]


async def test_a_real_alertmanager_is_told_until_it_is_over(database: Engine, tmp_path: Path) -> None:
    with Alertmanager(CONFIG, tmp_path) as server:
        poster = Poster(server.url)
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
    world = World(database, tmp_path, Poster(server.url), an_hour_ago())
    world.serve(2)
    await world.embedded.tell(time.time())
    (problem,) = world.watch.history_problems()
    assert "could not tell Alertmanager" in problem
    with server:
        await world.embedded.tell(time.time())
        assert world.watch.history_problems() == []
        assert listed(server, "Watchdog")
    await world.embedded.aclose()
