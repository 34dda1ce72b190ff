from __future__ import annotations

import json
from collections.abc import Iterable
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import Engine, select

from exporters.observation import Labels
from exporters.schema import Scope
from monitor.history import tables
from monitor.history.database import for_writing
from monitor.history.encoding import decode
from monitor.history.minutes import Window
from monitor.history.rollup import SETTLING_SECONDS, RollupError, roll_up, stale
from monitor.history.store import Store
from monitor.history.tables import Tier, rows_table
from monitor.history.upsert import Upsert
from tests.end_to_end.processes import until
from tests.monitor.history.fleet import (
    DAY,
    HOUR,
    NEW_BOUNDS,
    OLD_BOUNDS,
    START,
    engine,
    engine_minute,
    gpu,
    gpu_minute,
    server_minute,
    target,
    target_minute,
    write,
)

Row = dict[str, Any]
LATER = START + 400 * DAY


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


def stored(database: Engine, scope: Scope, tier: Tier, of: Labels) -> dict[int, Row]:
    """By window start, histograms as (bounds, counts, sum); a maximum that is the mean is None."""
    table, series = rows_table(scope, tier), tables.series
    wanted = select(table).join(series).where(series.c.identity == json.dumps(dict(of), sort_keys=True))
    with database.connect() as connection:
        known = connection.execute(select(tables.bounds.c.id, tables.bounds.c.bounds)).all()
        bounds = {of: tuple(map(float, text.split(","))) for of, text in known}
        rows = connection.execute(wanted).mappings().all()
    return {row["start"]: {k: _readable(v, bounds) for k, v in row.items()} for row in rows}


def _readable(value: Any, bounds: dict[int, tuple[float, ...]]) -> Any:
    if not isinstance(value, bytes):
        return value
    return [(h.bounds, h.counts, h.sum) for h in decode(value, bounds)]


def due(database: Engine) -> set[tuple[str, int]]:
    with database.connect() as connection:
        rows = connection.execute(select(tables.rollup_due.c.tier, tables.rollup_due.c.start))
        return {(row.tier, row.start) for row in rows}


def hour_of(start: int = START, **more: Any) -> Iterable[Window]:
    return (server_minute(at, **more) for at in range(start, start + HOUR, 60))


def test_an_hour_adds_up_its_minutes(database: Engine, store: Store) -> None:
    write(store, hour_of())
    assert roll_up(database, START + HOUR + SETTLING_SECONDS) == 1
    [row] = stored(database, Scope.ENGINE, Tier.HOUR, engine(1)).values()
    assert (row["start"], row["samples"], row["covered_seconds"], row["increase_seconds"]) == (START, 240, 3600, 3600)
    assert row["generation_tokens"] == 60 * 200
    assert row["prompt_tokens"] is None, "never observed is not zero"
    assert row["requests_rejected"] == {"queue_full": 60}
    assert (row["requests_running_avg"], row["requests_running_max"], row["requests_running_readings"]) == (
        2,
        None,
        None,
    )
    assert row["ttft_histogram"] == [(OLD_BOUNDS, (60, 180, 240), 300)]
    assert row["e2e_histogram"] == [(OLD_BOUNDS, (0, 0, 0), 0)], "observed, and nothing happened"


def test_a_servers_hour_has_the_quantiles_of_all_its_engines(database: Engine, store: Store) -> None:
    """60 minutes of two engines: 120 requests up to 0.1 s, 240 up to 1 s, 120 beyond."""
    write(store, [*hour_of(), *hour_of(server="s2", bounds=NEW_BOUNDS)])
    roll_up(database, LATER)
    [row] = stored(database, Scope.TARGET, Tier.HOUR, target()).values()
    assert (row["samples"], row["covered_seconds"], row["up_avg"], row["up_max"]) == (240, 3600, 1, None)
    assert (row["ttft_p50_lower"], row["ttft_p50_upper"]) == (0.1, 1.0)
    assert row["ttft_p50"] == pytest.approx(0.1 + 0.9 * (240 - 120) / 240)
    assert (row["ttft_p99"], row["ttft_p99_lower"], row["ttft_p99_upper"]) == (1.0, 1.0, None)
    assert (row["e2e_p50"], row["e2e_p50_lower"], row["e2e_p50_upper"]) == (None, None, None), "of no requests"


def test_new_bounds_inside_an_hour_keep_both_and_the_quantiles_know_both(database: Engine, store: Store) -> None:
    old = [server_minute(at) for at in range(START, START + 1800, 60)]
    new = [server_minute(at, bounds=NEW_BOUNDS) for at in range(START + 1800, START + HOUR, 60)]
    write(store, [*new, *old])
    roll_up(database, LATER)
    [row] = stored(database, Scope.ENGINE, Tier.HOUR, engine()).values()
    assert row["ttft_histogram"] == [(OLD_BOUNDS, (30, 90, 120), 150), (NEW_BOUNDS, (30, 90, 90, 120), 150)]
    [row] = stored(database, Scope.TARGET, Tier.HOUR, target()).values()
    # Rank 240 of 480. Up to 0.25 s there may be 180 + 60, up to 0.5 s are 60 + 180 surely, up to 1 s 180 + 180.
    assert (row["ttft_p50_lower"], row["ttft_p50_upper"]) == (0.1, 1.0)
    assert row["ttft_p50_lower"] < row["ttft_p50"] < row["ttft_p50_upper"]
    # Rank 475: up to 2 s there may be 240 + 180.
    assert (row["ttft_p99_lower"], row["ttft_p99_upper"]) == (2.0, None)


def test_gpus_are_rolled_up_too(database: Engine, store: Store) -> None:
    write(store, [Window(at, {gpu(): gpu_minute()}) for at in range(START, START + DAY, 60)])
    roll_up(database, LATER)
    hours, days = (stored(database, Scope.GPU, tier, gpu()) for tier in (Tier.HOUR, Tier.DAY))
    assert [row["energy_joules"] for row in hours.values()] == [360_000.0] * 24
    assert [(row["energy_joules"], row["xid_errors"]) for row in days.values()] == [(8_640_000.0, {"79": 1440})]


def test_a_day_adds_up_its_hours_and_is_due_only_through_them(database: Engine, store: Store) -> None:
    write(store, (w for hour in range(24) for w in hour_of(START + hour * HOUR)))
    assert due(database) == {("hour", START + hour * HOUR) for hour in range(24)}
    assert roll_up(database, START + DAY) == 23, "the last hour has not settled"
    assert due(database) == {("hour", START + 23 * HOUR), ("day", START)}
    assert roll_up(database, START + DAY + SETTLING_SECONDS) == 2, "the last hour and the day"
    assert due(database) == set()
    [row] = stored(database, Scope.ENGINE, Tier.DAY, engine()).values()
    assert (row["start"], row["samples"], row["covered_seconds"]) == (START, 5760, 86_400)
    assert row["generation_tokens"] == 144_000
    assert row["ttft_histogram"] == [(OLD_BOUNDS, (1440, 4320, 5760), 7200)]
    [row] = stored(database, Scope.TARGET, Tier.DAY, target()).values()
    assert (row["ttft_p50_lower"], row["ttft_p50_upper"]) == (0.1, 1.0)


def test_nothing_is_done_before_an_hour_has_settled(database: Engine, store: Store) -> None:
    write(store, hour_of())
    assert roll_up(database, START + HOUR + SETTLING_SECONDS - 1) == 0
    assert stored(database, Scope.ENGINE, Tier.HOUR, engine()) == {}


def test_a_minute_that_comes_late_rolls_its_hour_and_its_day_up_once_more(database: Engine, store: Store) -> None:
    write(store, [w for w in hour_of() if w.start != START + 600])
    roll_up(database, LATER)
    [hour], [day] = (stored(database, Scope.ENGINE, tier, engine()).values() for tier in (Tier.HOUR, Tier.DAY))
    assert (hour["generation_tokens"], day["generation_tokens"]) == (5900, 5900)
    write(store, [server_minute(START + 600)])
    with database.connect() as connection:
        assert stale(connection, Tier.HOUR, START, START + DAY) == {START}
        assert stale(connection, Tier.DAY, START, START + DAY) == {START}, "through its hour"
        assert stale(connection, Tier.DAY, START + DAY, START + 2 * DAY) == set()
    assert roll_up(database, LATER) == 2
    [hour], [day] = (stored(database, Scope.ENGINE, tier, engine()).values() for tier in (Tier.HOUR, Tier.DAY))
    assert (hour["generation_tokens"], day["generation_tokens"]) == (6000, 6000)
    assert (hour["samples"], day["samples"]) == (240, 240)


def test_an_hour_whose_minutes_are_deleted_is_not_replaced_by_less(database: Engine, store: Store) -> None:
    write(store, hour_of())
    roll_up(database, LATER)
    before = [stored(database, s, t, of) for s, t, of in _ALL]
    with for_writing(database).begin() as connection:
        for scope in (Scope.ENGINE, Scope.TARGET):
            connection.execute(rows_table(scope, Tier.MINUTE).delete())
    write(store, [server_minute(START + 60)])
    assert roll_up(database, LATER) == 2
    assert [stored(database, s, t, of) for s, t, of in _ALL] == before
    assert due(database) == set()


_ALL = [
    (scope, tier, of)
    for scope, of in ((Scope.ENGINE, engine()), (Scope.ENGINE, engine(1)), (Scope.TARGET, target()))
    for tier in (Tier.HOUR, Tier.DAY)
]


def test_the_quantiles_of_a_server_do_not_suffer_where_only_minutes_of_its_engines_are_deleted(
    database: Engine, store: Store
) -> None:
    write(store, hour_of())
    roll_up(database, LATER)
    before = stored(database, Scope.TARGET, Tier.HOUR, target())
    with for_writing(database).begin() as connection:
        connection.execute(tables.engine_minute.delete())
    write(store, [Window(START, {target(): target_minute()})])
    assert roll_up(database, LATER) == 2
    assert stored(database, Scope.TARGET, Tier.HOUR, target()) == before


def test_a_gap_is_rolled_up_as_a_gap(database: Engine, store: Store) -> None:
    write(store, [Window(START + 60 * i, {target(): target_minute(samples=0)}) for i in range(60)])
    with for_writing(database).begin() as connection:
        connection.execute(tables.target_minute.update().values(covered_seconds=0))
    roll_up(database, LATER)
    [row] = stored(database, Scope.TARGET, Tier.HOUR, target()).values()
    assert (row["samples"], row["covered_seconds"], row["up_avg"], row["up_max"]) == (0, 0, None, None)


def test_one_turn_takes_a_day_of_hours_and_the_next_goes_on(database: Engine, store: Store) -> None:
    write(store, [server_minute(START + hour * HOUR) for hour in range(30)])
    assert roll_up(database, LATER) == 24 + 1, "the first day is whole by then"
    assert {start for tier, start in due(database) if tier == "hour"} == {START + h * HOUR for h in range(24, 30)}
    assert roll_up(database, LATER) == 6 + 1
    assert due(database) == set()


def test_a_turn_ends_when_it_is_told_to(database: Engine, store: Store) -> None:
    write(store, [server_minute(START + hour * HOUR) for hour in range(3)])
    assert roll_up(database, LATER, pause=lambda: True) == 1
    assert roll_up(database, LATER) == 3


def test_what_fails_in_the_middle_leaves_the_hour_due_and_without_rows(
    database: Engine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError

    write(store, hour_of())
    with monkeypatch.context() as context, pytest.raises(RuntimeError):
        context.setattr("monitor.history.rollup._quantiles", fails)
        roll_up(database, LATER)
    assert stored(database, Scope.ENGINE, Tier.HOUR, engine()) == {}
    assert due(database) == {("hour", START)}
    assert roll_up(database, LATER) == 2


def test_a_database_that_cannot_be_read_is_told_in_one_line(database: Engine) -> None:
    with for_writing(database).begin() as connection:
        connection.exec_driver_sql("DROP TABLE rollup_due")
    with pytest.raises(RollupError, match=r"could not roll up the history at .*rollup_due"):
        roll_up(database, LATER)


def test_a_roll_up_waits_for_a_writer_of_the_same_hour_and_takes_what_it_wrote(
    postgres_database: Engine,
) -> None:
    store = Store(postgres_database)
    write(store, [w for w in hour_of() if w.start != START])
    with postgres_database.connect() as connection, connection.begin() as writing:
        Upsert(connection).due([START])
        job = Thread(target=roll_up, args=(postgres_database, LATER))
        job.start()
        until(lambda: _waits(postgres_database))
        other = select(tables.engine_minute).where(tables.engine_minute.c.start == START + 60)
        for late in connection.execute(other).mappings().all():
            connection.execute(tables.engine_minute.insert().values({**late, "start": START}))
        writing.commit()
    job.join()
    [row] = stored(postgres_database, Scope.ENGINE, Tier.HOUR, engine()).values()
    assert row["generation_tokens"] == 6000
    assert due(postgres_database) == set()


def test_a_writer_that_comes_while_its_hour_is_rolled_up_makes_it_due_again(postgres_database: Engine) -> None:
    store = Store(postgres_database)
    write(store, [w for w in hour_of() if w.start != START])
    writers: list[Thread] = []

    def meanwhile(*_: object) -> Any:
        writers.append(Thread(target=write, args=(Store(postgres_database), [server_minute(START)])))
        writers[0].start()
        until(lambda: _waits(postgres_database))
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("monitor.history.rollup._quantiles", meanwhile)
        assert roll_up(postgres_database, LATER, pause=lambda: True) == 1
    writers[0].join()
    assert ("hour", START) in due(postgres_database)
    roll_up(postgres_database, LATER)
    [row] = stored(postgres_database, Scope.ENGINE, Tier.HOUR, engine()).values()
    assert row["generation_tokens"] == 6000


def _waits(database: Engine) -> bool:
    with database.connect() as connection:
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        return bool(connection.exec_driver_sql(waiting).scalar())


def test_engine_minutes_of_a_server_that_is_not_known_as_a_target_are_rolled_up(database: Engine, store: Store) -> None:
    write(store, [Window(START, {engine(): engine_minute()})])
    assert roll_up(database, LATER) == 2
    assert list(stored(database, Scope.ENGINE, Tier.DAY, engine())) == [START]
    assert stored(database, Scope.TARGET, Tier.DAY, target()) == {}
