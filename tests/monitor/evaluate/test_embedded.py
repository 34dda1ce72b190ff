from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine

from exporters.findings import finding
from monitor.alert_history.alert import State
from monitor.alert_history.store import AlertStore
from tests.monitor.alert_history.told import alert, notification
from tests.monitor.evaluate.minutes import START
from tests.monitor.evaluate.worlds import World
from tests.monitor.gpu_data import gathered, reading, uuid


@pytest.fixture
def world(each_database: Engine, tmp_path: Path) -> World:
    return World(each_database, tmp_path)


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
    # Five of nine minutes are down at minute 15.
    assert fired == START + 15 * 60
    world.serve(4)
    (down,) = world.alerts("ServerDown")
    assert (down.starts_at, down.ends_at) == (fired, START + 60 * 26)


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


def test_an_alert_that_tells_a_time_keeps_it_through_a_restart_after_which_it_holds_no_more(world: World) -> None:
    world.known.behind = 400.0
    world.serve(8)
    assert [a.ends_at for a in world.alerts("HistoryLagging")] == [None]
    world.start()
    world.known.behind = 0.0
    world.serve(1)
    (told,) = world.alerts("HistoryLagging")
    assert told.annotations["summary"] == "The history of n1 lies 6m 40s behind"


def test_what_alertmanager_tells_of_an_alert_is_of_the_same_row(world: World) -> None:
    """It keeps milliseconds of the start: what begins with the process begins on a whole second."""
    world.now = START + 30.8754321
    world.start()
    world.watch.turn()
    (watchdog,) = world.alerts("Watchdog")
    assert watchdog.starts_at == START + 30
    told = alert(watchdog.starts_at, labels=dict(watchdog.labels))
    AlertStore(world.database).tell(notification(told), world.now)
    (only,) = world.alerts("Watchdog")
    assert (only.starts_at, only.delivered_at, only.state(world.now)) == (START + 30, world.now, State.FIRING)


def test_the_watchdog_always_fires(world: World) -> None:
    world.serve(2)
    (watchdog,) = world.alerts("Watchdog")
    assert watchdog.labels == {"alertname": "Watchdog", "severity": "none"}


def test_gpus_that_cannot_be_read_are_told_of(world: World) -> None:
    for _ in range(12):
        silent = gathered(world.now, node="n1", available=False, findings=(finding("gpu_no_driver"),))
        world.fleet.gpus.update("n1", silent)
        world.serve(1)
    (told,) = world.alerts("GpuUnhealthy")
    assert told.labels == {
        "alertname": "GpuUnhealthy", "severity": "ticket", "node": "n1", "reason": "gpu_no_driver",
    }  # fmt: skip


def test_an_alert_of_a_gpu_names_the_servers_that_were_on_it_last(world: World) -> None:
    """Also once nothing tells of them any more, and after a restart."""
    broken = reading("0", findings=(finding("gpu_power_cable"),))

    def read(minutes: int, on: dict[str, str]) -> str:
        for _ in range(minutes):
            world.fleet.gpus.update("n1", gathered(world.now, broken, node="n1", on=on))
            world.serve(1)
        (told,) = world.alerts("GpuUnhealthy")
        assert told.labels.keys() == {"alertname", "severity", "node", "uuid", "reason"}
        assert told.annotations["summary"].startswith(f"GPUs on n1 {uuid('0')}: A power cable is not attached")
        return told.annotations["servers"]

    assert read(13, {"0": "chat"}) == "chat"
    assert read(2, {}) == "chat"
    world.start()
    assert read(2, {}) == "chat"
    assert read(1, {"0": "code"}) == "code"
