import json
import math
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, select, update

from exporters.histogram import Histogram
from exporters.observation import Observation
from exporters.schema import TTFT
from monitor.history import recording as module
from monitor.history.database import open_database
from monitor.history.lease import SCRAPED, Lease
from monitor.history.recording import Recording
from monitor.history.store import Batch, RowsRefused, Store, WriteError
from monitor.history.tables import checkpoints, leases, metadata
from tests.monitor.history.stored import engine_rows, everything
from tests.monitor.observations import empty_page, observation, series

RUNNING, TOKENS = series("llm_requests_running"), series("llm_generation_tokens_total")
INTERVAL = 15.0


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


def test_a_minute_is_written_when_the_first_reading_after_it_arrives(database: Engine, store: Store) -> None:
    recording = Recording(store, INTERVAL)
    for at, tokens in [(0.5, 0), (30, 5), (60, 9)]:
        recording.record([observation(at, {TOKENS: tokens})], at)
    assert engine_rows(database) == {}
    recording.record([observation(75, {TOKENS: 12})], 75)
    assert {start: r["generation_tokens"] for start, r in engine_rows(database).items()} == {0: 9}
    assert recording.newest == 60


def test_the_open_minute_is_written_on_shutdown_as_far_as_it_got(database: Engine, store: Store) -> None:
    recording = Recording(store, INTERVAL)
    for at, tokens in [(60.5, 0), (75, 5)]:
        recording.record([observation(at, {TOKENS: tokens, RUNNING: at})], at)
    recording.flush()
    [row] = engine_rows(database).values()
    assert (row["samples"], row["covered_seconds"], row["generation_tokens"]) == (2, 14.5, 5)
    assert (row["requests_running_avg"], row["requests_running_max"]) == (67.75, 75)


def test_an_empty_page_is_a_base_line_for_the_next_process_too(database: Engine, store: Store) -> None:
    before = Recording(store, INTERVAL)
    before.record([empty_page(15)], 15)
    before.flush()
    after = Recording(store, INTERVAL)
    after.record([observation(30, {TOKENS: 40})], 30)
    after.flush()
    [row] = engine_rows(database).values()
    assert (row["generation_tokens"], row["increase_seconds"]) == (40, 15)


def test_a_minute_is_written_though_its_target_fell_silent(database: Engine, store: Store) -> None:
    recording = Recording(store, INTERVAL)
    recording.record([observation(30, {RUNNING: 1})], 30)
    recording.record([], 90)
    assert engine_rows(database) == {}
    recording.record([], 91)
    assert list(engine_rows(database)) == [0]


def test_a_partial_minute_is_gone_on_with_after_a_restart(database: Engine) -> None:
    readings = [(65, 0, 2), (80, 10, 4), (95, 25, 6), (110, 40, 8)]
    observations = [observation(at, {TOKENS: tokens, RUNNING: running}) for at, tokens, running in readings]
    record_all(database, observations[:2])
    assert engine_rows(database)[60]["samples"] == 2
    record_all(database, observations[2:])
    row = engine_rows(database)[60]
    assert (row["generation_tokens"], row["requests_running_avg"], row["samples"]) == (40, 5, 4)
    assert (row["covered_seconds"], row["increase_seconds"]) == (45, 45)


def test_a_minute_is_never_overwritten_with_less_even_without_its_checkpoint(database: Engine) -> None:
    record_all(database, [observation(at, {TOKENS: at}) for at in (65, 80, 95)])
    with database.begin() as connection:
        connection.exec_driver_sql("DELETE FROM checkpoints")
    record_all(database, [observation(110, {TOKENS: 110})])
    assert engine_rows(database)[60]["generation_tokens"] == 30


def test_what_could_not_be_written_is_written_the_next_time(database: Engine) -> None:
    class Broken(Store):
        fails = True

        def write(self, batches: Sequence[Batch]) -> None:
            if self.fails:
                raise WriteError("could not write the history: disk full")
            super().write(batches)

    store = Broken(database)
    recording = Recording(store, INTERVAL)
    recording.record([observation(30, {TOKENS: 0}), observation(60, {TOKENS: 7})], 60)
    with pytest.raises(WriteError):
        recording.record([observation(75, {TOKENS: 8})], 75)
    with pytest.raises(WriteError):
        recording.record([observation(135, {TOKENS: 9})], 135)
    store.fails = False
    recording.record([observation(150, {TOKENS: 10})], 150)
    assert {s: r["generation_tokens"] for s, r in engine_rows(database).items()} == {0: 7, 60: 1}


def test_what_a_database_refuses_of_one_server_keeps_back_no_other(postgres_database: Engine) -> None:
    rejected = series("llm_requests_rejected_total", server="odd", reason="queue_full")
    recording = Recording(Store(postgres_database), INTERVAL)

    def read(at: float, value: float) -> None:
        odd = observation(at, {rejected: value}, server="odd")
        recording.record([odd, observation(at, {TOKENS: at})], at)

    read(15, 1)
    read(30, math.inf)  # JSON has no such number
    for at in (75, 135):
        with pytest.raises(RowsRefused, match=r"minutes of odd on n1 cannot be stored.* type json"):
            read(at, 2)
    assert {start: row["generation_tokens"] for start, row in engine_rows(postgres_database).items()} == {0: 15, 60: 45}


def test_while_nothing_can_be_written_only_so_much_is_kept(
    database: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Store):
        def write(self, batches: Sequence[Batch]) -> None:
            raise WriteError("could not write the history: disk full")

    monkeypatch.setattr(module, "MAX_PENDING", 2)
    recording = Recording(Broken(database), INTERVAL)
    for minute in range(5):
        with suppress(WriteError):
            recording.record([observation(30 + 60 * minute, {TOKENS: minute})], 30 + 60 * minute)
    recording._store = Store(database)
    recording.flush()
    assert list(engine_rows(database)) == [120, 180, 240]
    assert "gave up a minute of n1 s1:" in caplog.text


def test_a_checkpoint_of_another_release_is_not_read(database: Engine) -> None:
    record_all(database, [observation(at, {TOKENS: at}) for at in (65, 80)])
    with database.begin() as connection:
        state = connection.scalars(select(checkpoints.c.state)).one()
        document = json.loads(zlib.decompress(state)) | {"version": 99}
        newer = zlib.compress(json.dumps(document).encode())
        connection.execute(update(checkpoints).values(state=newer))
    record_all(database, [observation(at, {TOKENS: at}) for at in (125, 140)])
    added = {start: r["generation_tokens"] for start, r in engine_rows(database).items()}
    assert added == {60: 15, 120: 15}, "what passed from 80 to 125 is not known"


def test_a_locked_database_is_an_error_of_its_own(sqlite_database: Engine) -> None:
    other = open_database(str(sqlite_database.url))
    with sqlite_database.connect() as lock:
        lock.exec_driver_sql("COMMIT")
        lock.exec_driver_sql("BEGIN EXCLUSIVE")
        with other.connect() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout = 1")
        recording = Recording(Store(other), INTERVAL)
        recording.record([observation(30, {TOKENS: 0})], 30)
        with pytest.raises(WriteError, match="database is locked"):
            recording.flush()
    other.dispose()


@dataclass
class World:
    """A server whose life is drawn step by step."""

    at: float = 1000.0
    started: float | None = 900.0
    tokens: float = 50.0
    counts: tuple[float, float] = (3.0, 4.0)
    bounds: tuple[float, ...] = (0.5,)
    seen: list[Observation] = field(default_factory=list)

    def observe(self, *, available: bool, lora: bool) -> None:
        if not available:
            self.seen.append(observation(self.at, up=False, available=False))
            return
        values = {RUNNING: self.tokens % 7, TOKENS: self.tokens}
        if lora:
            values |= {series("llm_lora_adapters_running"): 1.0, series("llm_preemptions_total"): self.tokens}
        histogram = Histogram(self.bounds, self.counts, self.counts[-1] * 0.25)
        self.seen.append(observation(self.at, values, {series(TTFT.metric): histogram}, start_time=self.started))


@st.composite
def lives(draw: st.DrawFn) -> list[Observation]:
    world = World()
    for _ in range(draw(st.integers(2, 25))):
        world.at += draw(st.sampled_from([5.0, 15.0, 15.0, 15.0, 20.0, 29.9, 45.0, 60.0, 70.5, 310.0]))
        event = draw(st.sampled_from(["run"] * 6 + ["restart", "reset", "rebucket"]))
        if event == "restart":
            world.started = world.at - 3 if world.started is not None else None
        if event == "rebucket":
            world.bounds = (0.5,) if world.bounds != (0.5,) else (0.25,)
        if event != "run":
            world.tokens, world.counts = 0.0, (0.0, 0.0)
        world.tokens += draw(st.integers(0, 40))
        below, above = draw(st.integers(0, 9)), draw(st.integers(0, 3))
        world.counts = world.counts[0] + below, world.counts[1] + below + above
        world.observe(available=draw(st.integers(0, 5)) > 0, lora=draw(st.booleans()))
    return world.seen


def clear(engine: Engine) -> None:
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())


def record_all(database: Engine, observations: Sequence[Observation]) -> None:
    """A process from its start to an orderly end."""
    recording = Recording(Store(database), INTERVAL)
    for each in observations:
        recording.record([each], each.at)
    recording.flush()


@settings(max_examples=30, deadline=None)
@given(observations=lives(), data=st.data())
def test_any_split_into_restarts_gives_the_same_rows(
    two: tuple[Engine, Engine], observations: list[Observation], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(observations) - 1), max_size=4)))
    whole, split = two
    clear(whole)
    clear(split)
    record_all(whole, observations)
    for start, end in zip([0, *cuts], [*cuts, len(observations)], strict=True):
        record_all(split, observations[start:end])
    assert everything(split) == everything(whole)


@settings(max_examples=15, deadline=None)
@given(observations=lives())
def test_both_databases_hold_the_same(unlike: tuple[Engine, Engine], observations: list[Observation]) -> None:
    sqlite, postgres = unlike
    for database in unlike:
        clear(database)
        record_all(database, observations)
    assert everything(postgres) == everything(sqlite)


class Counting(Store):
    """Knows how often something was written."""

    written = 0

    def write(self, batches: Sequence[Batch]) -> None:
        super().write(batches)
        self.written += 1


@settings(max_examples=30, deadline=None)
@given(observations=lives(), data=st.data())
def test_dying_is_the_same_as_not_having_looked_since_the_last_write(
    two: tuple[Engine, Engine], observations: list[Observation], data: st.DataObject
) -> None:
    deaths = data.draw(st.sets(st.integers(1, len(observations) - 1), max_size=4))
    whole, killed = two
    clear(whole)
    clear(killed)
    record_all(whole, _record_with_deaths(killed, observations, deaths))
    assert everything(killed) == everything(whole)


def _record_with_deaths(database: Engine, observations: list[Observation], deaths: set[int]) -> list[Observation]:
    """Returns the observations that were not lost."""
    kept: list[Observation] = []
    since_write: list[Observation] = []
    recording = Recording(store := Counting(database), INTERVAL)
    for index, each in enumerate(observations):
        if index in deaths:
            recording, since_write = Recording(store, INTERVAL), []
        written = store.written
        recording.record([each], each.at)
        since_write.append(each)
        if store.written > written:
            kept += since_write
            since_write = []
    recording.flush()
    return kept + since_write


@dataclass
class Two:
    """Two monitors on one database that read the same server."""

    database: Engine
    first: Recording
    second: Recording

    def read(self, at: float, tokens: float, *, by: str = "12") -> None:
        for number, recording in (("1", self.first), ("2", self.second)):
            if number in by:
                recording.record([observation(at, {TOKENS: tokens})], at)

    def let_run_out(self) -> None:
        with self.database.begin() as connection:
            connection.execute(update(leases).values(until=0))


@pytest.fixture
def two_monitors(database: Engine) -> Two:
    first, second = (Recording(Store(database, Lease(database, SCRAPED, name)), INTERVAL) for name in ("a", "b"))
    return Two(database, first, second)


def added(database: Engine) -> dict[int, float | None]:
    return {start: row["generation_tokens"] for start, row in engine_rows(database).items()}


def test_of_two_monitors_one_writes_and_the_other_stands_by(two_monitors: Two) -> None:
    two_monitors.read(30, 5)
    two_monitors.read(75, 9)
    assert added(two_monitors.database) == {0: None}
    assert two_monitors.first.standing_by is None
    assert two_monitors.second.standing_by == (
        "another inferwatch (a) writes this history; this one stands by and takes over when that one ends"
    )
    two_monitors.read(90, 10)
    assert two_monitors.second.newest == 60, "it tells how the history is doing all the same"


def test_who_takes_over_goes_on_from_where_the_other_wrote_last(two_monitors: Two) -> None:
    for at, tokens in [(30, 5), (60, 7), (75, 9), (90, 12)]:
        two_monitors.read(at, tokens)
    two_monitors.let_run_out()
    two_monitors.second.attend()
    for at, tokens in [(120, 20), (135, 21)]:
        two_monitors.read(at, tokens, by="2")
    assert added(two_monitors.database) == {0: 2, 60: 13}, "from 7, the last that is known to the second, to 20"


def test_who_has_lost_its_turn_writes_nothing_more_and_takes_over_again_later(two_monitors: Two) -> None:
    two_monitors.read(30, 5)
    two_monitors.read(75, 9)
    two_monitors.let_run_out()
    two_monitors.second.attend()
    two_monitors.read(120, 20)
    two_monitors.read(135, 26)
    two_monitors.read(150, 28)
    assert two_monitors.first.standing_by
    assert added(two_monitors.database) == {0: None, 60: 15}
    two_monitors.second.flush()
    two_monitors.let_run_out()
    two_monitors.first.attend()
    two_monitors.read(180, 30)
    two_monitors.read(195, 31)
    assert added(two_monitors.database) == {0: None, 60: 15, 120: 10}
    assert two_monitors.second.standing_by


@settings(max_examples=20, deadline=None)
@given(observations=lives(), data=st.data())
def test_however_often_the_turn_changes_every_token_counts_once(
    two: tuple[Engine, Engine], observations: list[Observation], data: st.DataObject
) -> None:
    changes = data.draw(st.sets(st.integers(1, len(observations) - 1), max_size=5))
    whole, shared = two
    clear(whole)
    clear(shared)
    kept = _record_in_turns(shared, observations, changes)
    record_all(whole, kept)
    assert everything(shared) == everything(whole)


def _record_in_turns(database: Engine, observations: list[Observation], changes: set[int]) -> list[Observation]:
    """Returns what was not lost: all but what the writer had not written when it lost its turn."""
    stores = [Counting(database, Lease(database, SCRAPED, name)) for name in "ab"]
    turns = [Recording(store, INTERVAL) for store in stores]
    kept: list[Observation] = []
    since_write: list[Observation] = []
    for index, each in enumerate(observations):
        if index in changes:
            with database.begin() as connection:
                connection.execute(update(leases).values(until=0))
            turns.reverse()
            stores.reverse()
            turns[0].attend()
            since_write = []
        written = stores[0].written
        turns[1].record([each], each.at)
        turns[0].record([each], each.at)
        since_write.append(each)
        if stores[0].written > written:
            kept += since_write
            since_write = []
    turns[0].flush()
    return kept + since_write
