import asyncio
import logging
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from sqlalchemy import Engine, select

from exporters.gpu.gathered import Gathered
from exporters.observation import Observation
from monitor import recorder as module
from monitor.fleet import Fleet
from monitor.history import tables
from monitor.history.ask import History
from monitor.history.database import ReadError
from monitor.history.lease import SCRAPED, Lease
from monitor.history.recording import Recording
from monitor.history.retention import Retention
from monitor.history.store import Batch, Store, WriteError
from monitor.history.upkeep import Upkeep
from monitor.recorder import Recorder
from monitor.sources import Source, SourceError
from tests.monitor.gpu_data import gathered, reading
from tests.monitor.observations import observation, series

RUNNING = series("llm_requests_running")
NOW = 1_796_032_800.0


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


class Scripted:
    """Says what it is told to; an error is raised."""

    is_recorded = True

    def __init__(self, name: str, *says: list[Observation] | Exception) -> None:
        self.name = name
        self.says = list(says)
        self.closed = False
        self.asked = asyncio.Event()

    async def observe(self) -> list[Observation]:
        self.asked.set()
        said = self.says.pop(0) if self.says else []
        if isinstance(said, Exception):
            raise said
        return said

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture
def clock() -> Clock:
    return Clock()


def recorder(sources: Sequence[Source], fleet: Fleet, store: Store, clock: Clock, **more: Any) -> Recorder:
    return Recorder(sources, fleet, store, interval=more.pop("interval", 15), clock=clock, **more)


async def test_what_a_source_says_goes_to_the_fleet_and_to_the_history(
    store: Store, history: History, clock: Clock
) -> None:
    source = Scripted("a", [observation(NOW, {RUNNING: 3})], [observation(NOW + 15, {RUNNING: 5})])
    fleet = Fleet()
    recording = recorder([source], fleet, store, clock)
    for clock.now in (NOW, NOW + 15):
        await recording.observe(source)
    assert fleet.rows(clock.now)[0].running == 5
    [answer] = history.ask("llm_requests_running", None, NOW - 60, NOW + 60, 60)
    assert [p.value for p in answer.points] == [3]


@pytest.mark.parametrize("error", [SourceError("could not read the sidecar"), RuntimeError("a mistake of ours")])
async def test_a_source_that_fails_leaves_the_others_alone_and_is_logged_once(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    caplog.set_level(logging.INFO)
    bad, good = Scripted("bad", error, error), Scripted("good", [observation(NOW, {RUNNING: 3})])
    fleet = Fleet()
    recording = recorder([bad, good], fleet, store, clock)
    for source in (bad, good, bad, bad):
        await recording.observe(source)
    assert fleet.rows(NOW)[0].up
    assert [r.getMessage() for r in caplog.records] == [f"bad: {error}", "bad: works again"]


async def test_a_server_taken_out_of_a_source_is_gone_and_one_of_a_source_that_fails_stays(
    store: Store, clock: Clock
) -> None:
    one = Scripted(
        "one", [observation(NOW, server="a"), observation(NOW, server="b")], [observation(NOW + 15, server="b")]
    )
    two = Scripted("two", [observation(NOW, server="c")], SourceError("could not read the sidecar"))
    fleet = Fleet()
    recording = recorder([one, two], fleet, store, clock)
    for source in (one, two, one, two):
        await recording.observe(source)
    assert [row.server for row in fleet.rows(NOW + 15)] == ["b", "c"]


async def test_a_source_that_has_its_own_history_is_shown_and_not_recorded(
    store: Store, history: History, clock: Clock
) -> None:
    source = Scripted("a", [observation(NOW, {RUNNING: 3})], [observation(NOW + 75, {RUNNING: 5})])
    source.is_recorded = False
    fleet = Fleet()
    recording = recorder([source], fleet, store, clock)
    for _ in range(2):
        await recording.observe(source)
    recording._flush()
    assert fleet.rows(NOW + 75)[0].running == 5
    assert history.ask("llm_requests_running", None, NOW - 60, NOW + 240, 60) == []


async def test_why_a_source_cannot_be_read_is_told_until_it_can(store: Store, clock: Clock) -> None:
    bad, good = Scripted("bad", SourceError("no route"), []), Scripted("good")
    recording = recorder([bad, good], Fleet(), store, clock)
    for source in (bad, good):
        await recording.observe(source)
    assert recording.source_problems() == {"bad": "no route"}
    assert recording.history_problems() == []
    await recording.observe(bad)
    assert recording.source_problems() == {}


async def test_a_source_is_asked_again_only_after_its_last_answer_is_taken(store: Store, clock: Clock) -> None:
    """So that a reload is never undone by a collection that began before it."""
    released = asyncio.Event()

    class Slow(Scripted):
        async def observe(self) -> list[Observation]:
            said = await super().observe()
            await released.wait()
            return said

    source = Slow("a", [observation(NOW, server="old")], [observation(NOW, server="new")])
    fleet = Fleet()
    recording = recorder([source], fleet, store, clock)
    async with asyncio.TaskGroup() as group:
        before = group.create_task(recording.observe(source))
        await source.asked.wait()
        group.create_task(recording.observe(source))
        await asyncio.sleep(0)
        assert len(source.says) == 1
        released.set()
        await before
    assert [row.server for row in fleet.rows(NOW)] == ["new"]


async def test_a_history_that_cannot_be_written_costs_nothing_but_the_lag(database: Engine, clock: Clock) -> None:
    class Full(Store):
        def write(self, batches: Sequence[Batch]) -> None:
            raise WriteError("could not write the history: disk full")

    source = Scripted("a", *([observation(NOW + n, {RUNNING: 3})] for n in (0, 15, 75)))
    fleet = Fleet()
    recording = recorder([source], fleet, Full(database), clock)
    for clock.now in (NOW, NOW + 15, NOW + 75):
        await recording.observe(source)
    assert fleet.rows(clock.now)[0].last_seen == NOW + 75
    assert recording.lag() == 75


async def test_the_lag_is_the_age_of_the_newest_whole_minute(store: Store, clock: Clock) -> None:
    source = Scripted("a", [observation(NOW - 5)], [observation(NOW + 10)])
    recording = recorder([source], Fleet(), store, clock)
    await recording.observe(source)
    clock.now = NOW + 10
    assert recording.lag() == 10, "nothing is stored yet: since the start"
    await recording.observe(source)
    assert recording.lag() == 10, "the minute that ended at NOW is stored"


async def test_minutes_in_the_future_do_not_hide_the_lag_and_are_told_once(
    database: Engine, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    ahead = NOW + 86_400
    early = Recording(Store(database), 15)
    early.record([observation(NOW - 160, server="s2"), observation(NOW - 100, server="s2")], NOW - 100)
    early.record([observation(ahead), observation(ahead + 60)], ahead + 60)
    recording = recorder([], Fleet(), Store(database), clock)
    clock.now = NOW + 600
    assert recording.lag() == 660, "since the minute that ended at NOW - 60"
    [told] = [r.getMessage() for r in caplog.records]
    assert told.startswith("the history holds minutes in the future, up to 2026-12-01T10:00:00+00:00")


async def test_a_clock_that_is_set_back_while_it_runs_does_not_hide_the_lag(store: Store, clock: Clock) -> None:
    source = Scripted("a", [observation(NOW - 5)], [observation(NOW + 10)], [observation(NOW - 3601)], [])
    recording = recorder([source], Fleet(), store, clock)
    for clock.now in (NOW - 5, NOW + 10, NOW - 3600):
        await recording.observe(source)
    assert recording.lag() == 0
    clock.now = NOW - 3000
    assert recording.lag() == 600, "since the clock was seen to be back"
    await recording.observe(source)
    assert recording.lag() == 600, "the open minute is written, and was not whole"


async def test_on_shutdown_the_open_minute_is_written_and_sources_are_closed(
    store: Store, history: History, clock: Clock
) -> None:
    sources = [Scripted("a", [observation(NOW + 5, {RUNNING: 3})]), Scripted("b", SourceError("down"))]
    recording = recorder(sources, Fleet(), store, clock)
    await recording.observe(sources[0])
    assert history.ask("llm_requests_running", None, NOW, NOW + 60, 60) == []
    running = asyncio.create_task(recording.run())
    await sources[1].asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    [answer] = history.ask("llm_requests_running", None, NOW, NOW + 60, 60)
    assert answer.points[0].value == 3
    assert [s.closed for s in sources] == [True, True]


async def test_sources_are_asked_again_and_again(store: Store) -> None:
    source = Scripted("a")
    running = asyncio.create_task(Recorder([source], Fleet(), store, interval=0.01).run())
    for _ in range(3):
        await source.asked.wait()
        source.asked.clear()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_minutes_are_rolled_up_and_old_ones_deleted_while_it_runs(
    database: Engine, store: Store, history: History, clock: Clock
) -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    class Telling(Upkeep):
        def turn(self, now: float) -> None:
            super().turn(now)
            loop.call_soon_threadsafe(done.set)

    later = NOW + 3 * 86_400
    source = Scripted("a", [observation(NOW, {RUNNING: 3})], [observation(later, {RUNNING: 4})])
    recording = recorder([source], Fleet(), store, clock, upkeep=Telling(database, Retention(86_400)))
    for clock.now in (NOW, later):
        await recording.observe(source)
    assert recording.history_bytes() is None
    running = asyncio.create_task(recording.run())
    await done.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (recording.history_bytes() or 0) > 0
    with database.connect() as connection:
        starts = connection.scalars(select(tables.engine_minute.c.start)).all()
        assert starts == [later - 60], "the open minute, written on shutdown"
        assert connection.scalars(select(tables.engine_hour.c.requests_running_avg)).all() == [3]
        assert connection.scalars(select(tables.leases.c.name)).all() == []


async def test_what_keeps_the_history_from_being_kept_up_is_told(
    database: Engine, store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TURN_SECONDS", 0.01)
    loop, again, turns = asyncio.get_running_loop(), asyncio.Event(), count(1)

    class Failing(Upkeep):
        def turn(self, now: float) -> None:
            if next(turns) == 2:
                loop.call_soon_threadsafe(again.set)
            raise ReadError("could not read the history")

    recording = recorder([], Fleet(), store, clock, upkeep=Failing(database, Retention(3600)))
    running = asyncio.create_task(recording.run())
    await again.wait()
    assert recording.history_problems() == ["could not read the history"]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_who_stands_by_shows_the_fleet_says_so_and_takes_over(
    database: Engine, history: History, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.01)
    loop, taken = asyncio.get_running_loop(), asyncio.Event()

    class Telling(Lease):
        def acquire(self) -> bool:
            if held := super().acquire():
                loop.call_soon_threadsafe(taken.set)
            return held

    other = Lease(database, SCRAPED, "the other")
    assert other.acquire()
    source = Scripted("a", *([observation(NOW + n, {RUNNING: n})] for n in (5, 20, 35)))
    fleet = Fleet()
    recording = recorder([source], fleet, Store(database, Telling(database, SCRAPED)), clock)
    await recording.observe(source)
    assert fleet.rows(NOW + 5)[0].running == 5
    [told] = recording.history_problems()
    assert told.startswith("another inferwatch (the other) writes this history; this one stands by")
    running = asyncio.create_task(recording.run())
    await asyncio.to_thread(other.release)
    await taken.wait()
    await recording.observe(source)
    assert recording.history_problems() == []
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    [answer] = history.ask("llm_requests_running", None, NOW, NOW + 60, 60)
    assert answer.points


async def test_a_server_whose_history_nobody_writes_has_a_finding(database: Engine, clock: Clock) -> None:
    other = Lease(database, SCRAPED, "the other")
    assert other.acquire()
    moments = [NOW + 60 * n for n in range(7)]
    source = Scripted("a", *([observation(at)] for at in moments))
    fleet = Fleet()
    recording = recorder([source], fleet, Store(database, Lease(database, SCRAPED, "this")), clock)
    for clock.now in moments:
        assert other.acquire()
        await recording.observe(source)
    (row,) = fleet.rows(clock.now)
    assert [(finding.reason, finding.severity) for finding in row.findings] == [("not_recorded", "error")]
    assert "nobody writes the history of s1 on n1" in recording.history_problems()[1]


class WithGpus(Scripted):
    told: dict[str, Gathered | None]

    def gpus(self) -> dict[str, Gathered | None]:
        return self.told


async def test_gpus_of_a_source_go_to_the_fleet(store: Store, clock: Clock) -> None:
    fleet, source = Fleet(), WithGpus("a", [], SourceError("gone"), [])
    source.told = {"n1": gathered(NOW, reading("0"), node="n1")}
    recording = recorder([source], fleet, store, clock)
    await recording.observe(source)
    assert [(row.node, row.gpu) for row in fleet.gpus.rows(NOW)] == [("n1", "0")]
    source.told = {"n1": None}
    await recording.observe(source)
    assert len(fleet.gpus.rows(NOW)) == 1, "a source that fails tells nothing"
    await recording.observe(source)
    assert fleet.gpus.rows(NOW) == []


async def test_gpus_of_a_source_go_to_the_history(database: Engine, store: Store, clock: Clock) -> None:
    source = WithGpus("a", [], [])
    recording = recorder([source], Fleet(), store, clock)
    for clock.now in (NOW, NOW + 15):
        source.told = {"n1": gathered(clock.now, reading("0"), node="n1"), "n2": None}
        await recording.observe(source)
    with database.connect() as connection:
        stored = connection.exec_driver_sql("SELECT start, samples, power_watts_avg FROM gpu_minute").all()
    assert [tuple(row) for row in stored] == [(NOW - 60, 1, 642.25)]
