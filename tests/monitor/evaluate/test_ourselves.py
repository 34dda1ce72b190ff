"""Conditions of inferwatch itself, judged by the clock: also where the history stands still."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine

from exporters.observation import labels
from monitor.evaluate.ourselves import Sidecar
from monitor.history.minutes import Window
from tests.monitor.evaluate.minutes import DAY, START, up, write
from tests.monitor.evaluate.worlds import World
from tests.monitor.observations import observation

GPU_1 = Sidecar("http://gpu-1:9840", "n7", answers=True)


@pytest.fixture
def world(database: Engine, tmp_path: Path) -> World:
    return World(database, tmp_path)


def wait(world: World, minutes: int) -> None:
    """Nothing new comes in."""
    for _ in range(minutes):
        world.now += 60
        world.watch.turn()


def test_a_sidecar_that_does_not_answer_is_told_though_nothing_comes_in(world: World) -> None:
    world.known.of_sidecars = [GPU_1]
    world.serve(2)
    world.known.of_sidecars = [Sidecar(GPU_1.url, "n7", answers=False)]
    wait(world, 5)
    assert world.alerts("SidecarDown") == []
    wait(world, 1)
    (down,) = world.alerts("SidecarDown")
    assert down.labels == {"alertname": "SidecarDown", "severity": "page", "node": "n7", "instance": "gpu-1:9840"}
    assert down.annotations["summary"] == "inferwatch on n7 (gpu-1:9840) does not answer"
    assert down.starts_at == START + 8 * 60
    world.known.of_sidecars = [GPU_1]
    wait(world, 1)
    (down,) = world.alerts("SidecarDown")
    assert down.ends_at == START + 9 * 60


def test_its_node_is_remembered_over_a_restart_by_the_alert(world: World) -> None:
    world.known.of_sidecars = [Sidecar(GPU_1.url, "n7", answers=False)]
    wait(world, 10)
    (before,) = world.alerts("SidecarDown")
    world.known.of_sidecars = [Sidecar(GPU_1.url, None, answers=False)]
    world.start()
    wait(world, 10)
    (after,) = world.alerts("SidecarDown")
    assert (after.labels, after.starts_at, after.ends_at) == (before.labels, before.starts_at, None)


def test_one_that_never_answered_is_named_by_its_host(world: World) -> None:
    world.known.of_sidecars = [Sidecar("https://gpu-9/inferwatch", None, answers=False)]
    wait(world, 10)
    (down,) = world.alerts("SidecarDown")
    assert (down.labels["node"], down.labels["instance"]) == ("gpu-9", "gpu-9:443")


def test_a_history_that_cannot_be_written_is_told_all_the_same(world: World) -> None:
    world.serve(2)
    world.known.behind = 400.0
    wait(world, 6)
    (lagging,) = world.alerts("HistoryLagging")
    assert lagging.labels == {"alertname": "HistoryLagging", "severity": "ticket", "node": "n1"}
    assert lagging.annotations["summary"] == "The history of n1 lies 6m 40s behind"


def unmapped(world: World, count: int) -> None:
    world.known.of_servers = [observation(world.now, unmapped=count, user_labels=(("team", "a"),))]


def known_before(world: World) -> None:
    """The history has the server since a day and an hour."""
    write(world.database, [Window(START, {labels({"node": "n1", "server": "s1", "team": "a"}): up()})])
    world.pass_by(25 * 60)
    world.start()


def test_families_that_a_server_had_all_along_are_not_new(world: World) -> None:
    known_before(world)
    unmapped(world, 2)
    world.serve(20)
    assert world.alerts("UnmappedFamilies") == []


def test_families_that_are_new_at_a_server_are_a_ticket_for_a_day(world: World) -> None:
    known_before(world)
    unmapped(world, 2)
    world.serve(2)
    unmapped(world, 5)
    wait(world, 17)
    (new,) = world.alerts("UnmappedFamilies")
    assert new.labels == {
        "alertname": "UnmappedFamilies", "severity": "ticket", "node": "n1", "server": "s1", "team": "a",
    }  # fmt: skip
    assert new.annotations["summary"] == "Metric families of s1 on n1 that are not known: 5"
    world.start()
    wait(world, 10)
    assert world.alerts("UnmappedFamilies")[0].ends_at is None
    world.now += DAY
    wait(world, 10)
    assert world.alerts("UnmappedFamilies")[0].ends_at is not None


def test_families_of_a_server_that_is_new_are_new(world: World) -> None:
    write(world.database, [Window(START, {labels({"node": "n1", "server": "s1", "team": "a"}): up()})])
    unmapped(world, 1)
    world.serve(20)
    (new,) = world.alerts("UnmappedFamilies")
    # It was first read at minute 1, and has to hold for 15.
    assert new.starts_at == START + 16 * 60
