"""When alerts begin and end: never before anybody judged, and as the minutes tell where nobody did for a while."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from sqlalchemy import Engine

from exporters.observation import labels
from monitor.alert_history.store import AlertStore, Wanted
from monitor.history.minutes import Mean, Window
from tests.monitor.evaluate.minutes import DAY, HOUR, START, minute, roll_up_all, target, up, write
from tests.monitor.evaluate.worlds import World

GIB = 2.0**30


@pytest.fixture
def world(database: Engine, tmp_path: Path) -> World:
    return World(database, tmp_path)


def begun(world: World) -> dict[str, float]:
    return {a.name: a.starts_at for a in AlertStore(world.database).find(Wanted(1000, world.now))}


def test_no_alert_begins_before_the_monitor_does(database: Engine, tmp_path: Path) -> None:
    world = World(database, tmp_path, begins=START + 41)
    world.watch.turn()
    assert begun(world) == {"Watchdog": START + 41}
    world.begins = START + 60
    world.serve(1, failed=100)
    assert begun(world) == {"Watchdog": START + 41, "SloBurnPage": START + 120, "SloBurnTicket": START + 120}


def test_what_the_history_holds_of_before_begins_when_it_is_judged(world: World) -> None:
    world.serve(30, is_up=False, failed=100, judged=False)
    world.start()
    world.serve(1, is_up=False)
    assert begun(world) == {"Watchdog": START + 31 * 60, "ServerDown": START + 31 * 60}


def test_an_old_history_is_not_judged_as_if_it_were_now(world: World) -> None:
    world.serve(30, is_up=False, failed=100, judged=False)
    world.now += DAY
    world.start()
    world.watch.turn()
    assert begun(world) == {"Watchdog": world.now}


def test_an_alert_that_still_fires_after_a_pause_began_when_it_did(world: World) -> None:
    world.serve(10)
    world.serve(12, is_up=False)
    (before,) = world.alerts("ServerDown")
    world.pass_by(25)
    world.start()
    assert world.alerts("ServerDown") == [before]
    world.serve(2, is_up=False)
    (after,) = world.alerts("ServerDown")
    assert (after.starts_at, after.ends_at, after.last_seen) == (before.starts_at, None, START + 49 * 60)


def test_one_that_is_over_after_a_pause_is_kept_as_long_as_any(world: World) -> None:
    world.serve(10)
    world.serve(12, is_up=False)
    world.pass_by(25)
    world.start()
    world.serve(7)
    (down,) = world.alerts("ServerDown")
    assert (down.starts_at, down.last_seen, down.ends_at) == (START + 15 * 60, START + 50 * 60, START + 51 * 60)
    world.serve(3)
    assert world.alerts("ServerDown") == [down]


def test_a_burn_that_is_over_after_a_pause_was_last_seen_before_it(world: World) -> None:
    world.serve(30)
    world.serve(10, failed=60)
    (page,) = world.alerts("SloBurnPage")
    assert page.ends_at is None
    world.pass_by(10 * 60)
    world.start()
    world.watch.turn()
    assert world.alerts("SloBurnPage") == [page]
    world.serve(2)
    (page,) = world.alerts("SloBurnPage")
    assert (page.last_seen, page.ends_at) == (START + 40 * 60, START + 641 * 60)


def blind(world: World, minutes: int) -> None:
    """A server that is up, and whose page cannot be read."""
    for _ in range(minutes):
        row = up()
        row.gauges.setdefault(("llm_metrics_available", ""), Mean()).add(0)
        write(world.database, [Window(START + 60 * world.minute, {target("a"): row})])
        world.minute += 1
        world.now = START + 60 * world.minute + 30.0
        world.watch.turn()


def test_the_time_of_a_pause_is_no_time_that_it_held(world: World) -> None:
    world.serve(10)
    blind(world, 6)  # it holds since minute 11, and has to for five more
    world.pass_by(4)
    world.start()
    blind(world, 4)
    assert world.alerts("MetricsMissing") == []
    blind(world, 1)
    (missing,) = world.alerts("MetricsMissing")
    assert missing.starts_at == START + 25 * 60


def test_what_began_and_ended_in_minutes_that_came_late_is_kept(world: World) -> None:
    world.serve(10)
    world.serve(12, is_up=False, judged=False)
    world.serve(10, judged=False)
    world.serve(1)
    (down,) = world.alerts("ServerDown")
    assert (down.starts_at, down.ends_at) == (START + 15 * 60, START + 26 * 60)


def idle(world: World, minutes: range, busy: range = range(0)) -> None:
    """A GPU that somebody holds, and that computes nothing."""
    of = labels({"node": "n1", "uuid": "GPU-0", "gpu": "0"})
    memory = {"gpu_memory_used_bytes": 40 * GIB, "gpu_memory_total_bytes": 80 * GIB}
    rows = (minute(gauges={**memory, "gpu_utilization_ratio": 0.9 if n in busy else 0.0}) for n in minutes)
    write(
        world.database,
        [Window(START + 60 * n, {of: row, target("a"): up()}) for n, row in zip(minutes, rows, strict=True)],
    )
    world.now = START + 60 * minutes.stop + 30.0


def test_a_gpu_that_was_idle_all_along_is_told_after_a_day_through_any_restart(world: World) -> None:
    idle(world, range(25 * 60))
    roll_up_all(world.database)
    world.start()
    idle(world, range(25 * 60, 25 * 60 + 1))
    world.watch.turn()
    (found,) = world.alerts("GpuIdle")
    assert found.starts_at == START + 25 * HOUR + 60


@pytest.mark.parametrize(("busy_until", "fires"), [(30, True), (3 * 60, False)])
def test_a_gpu_that_was_busy_meanwhile_is_idle_since_then(world: World, busy_until: int, fires: bool) -> None:
    """Its mean over an hour is that of an idle GPU an hour after it was busy."""
    idle(world, range(26 * 60), busy=range(busy_until - 10, busy_until))
    roll_up_all(world.database)
    world.start()
    idle(world, range(26 * 60, 26 * 60 + 1))
    world.watch.turn()
    assert (world.alerts("GpuIdle") != []) is fires


def test_the_value_of_an_alert_that_is_not_judged_yet_is_what_it_was(world: World) -> None:
    world.serve(10)
    world.serve(12, is_up=False)
    (before,) = world.alerts("ServerDown")
    world.start()
    world.watch.turn()
    (after,) = world.alerts("ServerDown")
    assert after.annotations == before.annotations
    assert str(math.nan) not in after.annotations["summary"]
