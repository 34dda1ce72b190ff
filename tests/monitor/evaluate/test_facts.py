"""What the history does not hold: of which minutes it is known, and since when an alert that rests on it counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine

from exporters.findings import finding
from exporters.observation import labels
from monitor.evaluate.facts import Facts
from monitor.fleet import Fleet
from monitor.history.minutes import Window
from tests.monitor.evaluate.minutes import HOUR, START, minute, write
from tests.monitor.evaluate.worlds import World
from tests.monitor.gpu_data import gathered, lost, uuid
from tests.monitor.observations import observation, series


@pytest.fixture
def world(database: Engine, tmp_path: Path) -> World:
    return World(database, tmp_path)


def see(fleet: Fleet, at: float, *reasons: str, server: str = "a") -> None:
    info = series("llm_server_info", server=server, frontend="vllm_v1")
    fleet.update([observation(at, {info: 1}, server=server, findings=tuple(map(finding, reasons)))])


def unhealthy(world: World, minutes: int) -> None:
    for _ in range(minutes):
        see(world.fleet, world.now, "unhealthy")
        world.serve(1, failed=100)


def minutes_of(facts: Facts, metric: str, since: int, at: int) -> list[int]:
    """Whole minutes from the start on."""
    rows = (minute for of in facts.rows(since, at) for minute in of.minutes)
    return sorted({(row.end - START) // 60 for row in rows if any(name == metric for name, _ in row.gauges)})


def test_each_minute_has_what_was_told_in_it_and_those_before_no_finding() -> None:
    fleet = Fleet()
    facts = Facts(fleet)
    for n, reasons in enumerate(((), ("unhealthy",), ("unhealthy",), ()), start=5):
        see(fleet, START + 60 * n, *reasons)
        facts.notice(START + 60 * n)
    assert minutes_of(facts, "inferwatch_finding", START, START + 600) == [6, 7]
    assert minutes_of(facts, "llm_server_info", START, START + 600) == list(range(11))


def test_a_finding_of_the_first_moment_is_not_known_of_the_minutes_before() -> None:
    fleet = Fleet()
    facts = Facts(fleet)
    see(fleet, START + 300, "unhealthy")
    facts.notice(START + 300)
    assert minutes_of(facts, "inferwatch_finding", START, START + 360) == [5, 6]
    assert minutes_of(facts, "llm_server_info", START, START + 360) == list(range(7))


def test_what_is_not_told_any_more_is_forgotten_in_time_and_what_is_told_stays() -> None:
    fleet = Fleet()
    facts = Facts(fleet)
    see(fleet, START, "unhealthy")
    facts.notice(START)
    see(fleet, START + 4 * HOUR, server="b")
    for at in range(START + 4 * HOUR, START + 7 * HOUR, HOUR):
        facts.notice(at)
    of = {dict(of.labels).get("server") for of in facts.rows(START, START + 6 * HOUR)}
    assert "a" not in of


def test_a_clock_that_was_set_back_tells_what_is_told_then() -> None:
    fleet = Fleet()
    facts = Facts(fleet)
    see(fleet, START + 600, "unhealthy")
    for n in (10, 11, 5):
        facts.notice(START + 60 * n)
    assert minutes_of(facts, "inferwatch_finding", START, START + 420) == [5, 6, 7]


def test_after_a_restart_a_fault_of_seconds_has_to_hold_for_its_whole_time(world: World) -> None:
    world.serve(20)
    world.start()
    unhealthy(world, 5)
    assert world.alerts("ServerStuck") == []
    unhealthy(world, 1)
    (stuck,) = world.alerts("ServerStuck")
    # Noticed first in the minute that ends at 21, and for five minutes.
    assert stuck.starts_at == START + 26 * 60


def test_an_alert_that_rests_on_what_is_told_goes_on_through_a_restart(world: World) -> None:
    world.serve(5)
    unhealthy(world, 8)
    (before,) = world.alerts("ServerStuck")
    world.start()
    world.watch.turn()
    unhealthy(world, 3)
    (after,) = world.alerts("ServerStuck")
    assert (after.starts_at, after.ends_at, after.last_seen) == (before.starts_at, None, START + 16 * 60)
    world.start()
    world.serve(12)
    (after,) = world.alerts("ServerStuck")
    assert after.starts_at == before.starts_at
    assert after.ends_at is not None


def test_minutes_that_come_late_are_judged_by_what_was_told_in_them(world: World) -> None:
    world.serve(5)
    before = world.now
    for n in range(1, 8):
        world.now = before + 60 * n
        see(world.fleet, world.now, *(("unhealthy",) if n > 4 else ()))
        world.watch.turn()
    world.serve(6, judged=False)
    unhealthy(world, 1)
    assert world.alerts("ServerStuck") == []
    unhealthy(world, 3)
    # Told from minute 10 on.
    assert [a.starts_at for a in world.alerts("ServerStuck")] == [START + 15 * 60]


def test_a_gpu_that_is_lost_is_no_gpu_that_is_unhealthy(world: World) -> None:
    """Also where it is lost in the first minute of a process."""
    of = labels({"node": "n1", "uuid": uuid("0"), "gpu": "0"})

    def read(*up: float) -> None:
        write(world.database, [Window(START + 60 * world.minute, {of: minute(gauges={"gpu_up": up})})])
        world.serve(1)

    for _ in range(12):
        read(1, 1, 1, 1)
    world.start()
    for up in ((1, 1, 0, 0), *[(0, 0, 0, 0)] * 14):
        world.fleet.gpus.update("n1", gathered(world.now, lost("0"), node="n1"))
        read(*up)
    assert world.alerts("GpuUnhealthy") == []
    assert [a.starts_at for a in world.alerts("GpuLost")] == [START + 16 * 60]
