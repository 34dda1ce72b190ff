from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import Engine, func, insert, select

from exporters.schema import Scope
from monitor.history import tables
from monitor.history.database import for_writing
from monitor.history.minutes import Event
from monitor.history.retention import Retention, RetentionError, forget, horizon, survey
from monitor.history.rollup import SETTLING_SECONDS, roll_up
from monitor.history.size import oldest, rows, size_bytes
from monitor.history.store import Store
from monitor.history.tables import Tier
from monitor.history.upsert import Progress
from tests.monitor.history.fleet import DAY, HOUR, START, load_test, server_minute, target, write
from tests.monitor.history.stored import rows as stored_rows

KEEP = Retention(minutes=2 * DAY, hours=30 * DAY)
LATER = START + 400 * DAY


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


def minutes_every_hour(days: int) -> list[Any]:
    return [server_minute(at) for at in range(START, START + days * DAY, HOUR)]


def roll_up_all(database: Engine, now: float = LATER) -> None:
    while roll_up(database, now):
        pass


def starts(database: Engine, tier: Tier) -> list[int]:
    with database.connect() as connection:
        table = tables.rows_table(Scope.TARGET, tier)
        return list(connection.scalars(select(table.c.start).order_by(table.c.start)))


def count(database: Engine, table: Any) -> int:
    with database.connect() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0


def test_each_tier_is_cut_at_a_midnight(database: Engine, store: Store) -> None:
    write(store, minutes_every_hour(days=4))
    roll_up_all(database)
    now = START + 3 * DAY + 5 * HOUR
    forget(database, KEEP, now)
    assert starts(database, Tier.MINUTE) == list(range(START + DAY, START + 4 * DAY, HOUR))
    assert starts(database, Tier.HOUR) == list(range(START, START + 4 * DAY, HOUR))
    forget(database, KEEP, START + 33 * DAY - 1)
    assert starts(database, Tier.MINUTE) == []
    assert starts(database, Tier.HOUR) == list(range(START + 2 * DAY, START + 4 * DAY, HOUR))
    assert starts(database, Tier.DAY) == list(range(START, START + 4 * DAY, DAY)), "those stay for ever"


def test_no_row_of_another_kind_of_series_is_left(database: Engine, store: Store) -> None:
    write(store, minutes_every_hour(days=1))
    roll_up_all(database)
    forget(database, KEEP, LATER)
    assert [count(database, table) for table in (tables.engine_minute, tables.engine_hour, tables.gpu_hour)] == [0] * 3


def test_minutes_of_hours_that_are_due_stay(database: Engine, store: Store) -> None:
    """On PostgreSQL with the rest of their day."""
    write(store, minutes_every_hour(days=2))
    roll_up_all(database)
    write(store, [server_minute(START + 5 * HOUR + 60)])
    forget(database, KEEP, LATER)
    left = [START + 5 * HOUR, START + 5 * HOUR + 60]
    if database.dialect.name == "postgresql":
        left = sorted({*range(START, START + DAY, HOUR), *left})
    assert starts(database, Tier.MINUTE) == left
    roll_up_all(database)
    forget(database, KEEP, LATER)
    assert starts(database, Tier.MINUTE) == []


def test_hours_of_days_that_are_due_stay(database: Engine, store: Store) -> None:
    write(store, minutes_every_hour(days=2))
    roll_up_all(database)
    write(store, [server_minute(START + 60)])
    forget(database, KEEP, LATER)
    assert starts(database, Tier.HOUR) == list(range(START, START + DAY, HOUR))


def test_minutes_of_the_hour_in_which_a_source_stands_stay(database: Engine, store: Store) -> None:
    windows = [server_minute(at) for at in range(START, START + HOUR, 60)]
    store.write_windows(windows[:30], [], Progress("http://prometheus", START, START + 1800))
    roll_up_all(database)
    forget(database, KEEP, LATER)
    store.write_windows(windows[30:], [], Progress("http://prometheus", START, START + HOUR))
    roll_up_all(database)
    with database.connect() as connection:
        tokens = select(tables.engine_hour.c.generation_tokens).order_by(tables.engine_hour.c.series_id)
        assert connection.scalars(tokens).all() == [6000, 12_000]
    store.write_windows([], [], Progress("http://prometheus", START, START + DAY))
    forget(database, KEEP, LATER)
    assert starts(database, Tier.MINUTE) == []


def test_minutes_of_the_hour_that_is_being_read_stay(database: Engine, store: Store) -> None:
    """An hour is read from where the source stands, of some targets before it is of all: only then it is marked."""
    windows = [server_minute(at) for at in range(START, START + 2 * HOUR, 60)]
    store.write_windows(windows[:37], [], Progress("http://prometheus", START, START + 37 * 60))
    store.write_windows(windows[37:97], [], None)
    roll_up_all(database)
    forget(database, KEEP, LATER)
    store.write_windows(windows[92:], [], Progress("http://prometheus", START, START + 2 * HOUR))
    roll_up_all(database)
    assert {row["samples"] for row in stored_rows(database, "target_hour").values()} == {240}


def test_minutes_of_a_whole_hour_that_is_being_read_stay(database: Engine, store: Store) -> None:
    """The source stands where the hour begins: at the start of all that is read, or between two hours."""
    windows = [server_minute(at) for at in range(START, START + HOUR, 60)]
    store.write_windows([], [], Progress("http://prometheus", START, START))
    store.write_windows(windows[:37], [], None)
    roll_up_all(database)
    forget(database, KEEP, LATER)
    store.write_windows(windows[37:], [], Progress("http://prometheus", START, START + HOUR))
    roll_up_all(database)
    assert {row["samples"] for row in stored_rows(database, "target_hour").values()} == {240}


@pytest.mark.parametrize("again", [0, 1])
def test_minutes_and_hours_before_which_a_source_begins_stay(database: Engine, store: Store, again: int) -> None:
    """A longer backfill than before is read from newer to older, an hour in pieces."""
    source = Progress("http://prometheus", START + DAY - HOUR, START + 2 * DAY)
    windows = [server_minute(at) for at in range(START + DAY - 2 * HOUR, START + DAY - HOUR, 60)]
    write(store, [server_minute(START + DAY - HOUR)])
    store.write_windows(windows[:37], [], source)
    for _ in range(1 + again):
        roll_up_all(database)
        forget(database, Retention(DAY, DAY), LATER)
    store.write_windows(windows[37:], [], Progress(source.source, START + DAY - 2 * HOUR, START + 2 * DAY))
    roll_up_all(database)
    assert {
        row["samples"] for (_, at), row in stored_rows(database, "target_hour").items() if at < START + DAY - HOUR
    } == {240}
    assert {row["samples"] for row in stored_rows(database, "target_day").values()} == {244}


def test_no_minute_stays_for_a_source_before_which_there_is_none(database: Engine, store: Store) -> None:
    write(store, minutes_every_hour(days=1))
    store.write_windows([], [], Progress("http://prometheus", START, START + 2 * DAY))
    store.write_windows([], [], Progress("alerts of http://prometheus", START + HOUR + 7, START + 2 * DAY))
    roll_up_all(database)
    forget(database, KEEP, LATER)
    assert starts(database, Tier.MINUTE) == []


def test_questions_are_told_before_which_moment_rows_may_be_gone(database: Engine, store: Store) -> None:
    write(store, minutes_every_hour(days=1))
    forget(database, KEEP, START + 5 * DAY + 1)
    told = store.progress(horizon(Tier.MINUTE))
    assert told == Progress("retention:minute", START + 3 * DAY, START + 3 * DAY)
    forget(database, Retention(4 * DAY), START + 5 * DAY + 1)
    assert store.progress(horizon(Tier.MINUTE)) == told, "what is gone does not come back"


def test_without_an_end_everything_stays(database: Engine, store: Store) -> None:
    write(store, minutes_every_hour(days=1))
    roll_up_all(database)
    store.write_windows([], [Event(target(), START, "restart")], Progress("x", 0, 0))
    forget(database, Retention(DAY), LATER)
    assert (count(database, tables.events), count(database, tables.series)) == (1, 3)
    assert len(starts(database, Tier.HOUR)) == 24


def test_events_and_series_go_with_the_days(database: Engine, store: Store) -> None:
    write(store, [server_minute(START), server_minute(START + 20 * DAY, server="s2")])
    events = [Event(target(), START + 1, "restart"), Event(target("s2"), START + 20 * DAY, "restart")]
    store.write_windows([], events, Progress("x", 0, 0))
    with for_writing(database).begin() as connection:
        connection.execute(tables.series.update().values(last_seen=tables.series.c.id * 0 + START))
    roll_up_all(database)
    forget(database, Retention(DAY, 2 * DAY, 10 * DAY), START + 20 * DAY + HOUR)
    with database.connect() as connection:
        assert set(connection.scalars(select(tables.series.c.server))) == {"s2"}, "it has rows yet"
        assert connection.scalars(select(tables.events.c.at)).all() == [START + 20 * DAY]


def test_runs_of_load_tests_go_with_the_days(database: Engine) -> None:
    with for_writing(database).begin() as connection:
        connection.execute(tables.comparison_runs.insert(), [load_test(START), load_test(START + 15 * DAY)])
    forget(database, Retention(DAY, 2 * DAY, 10 * DAY), START + 20 * DAY + HOUR)
    with database.connect() as connection:
        kept = connection.scalars(select(tables.comparison_runs.c.imported_at)).all()
    assert kept == [START + 15 * DAY]


_FIRED: dict[str, dict[str, float]] = {
    "over": {"ends_at": START + 60, "last_seen": START + 50},
    "over when Alertmanager told so": {"resolved_at": START + 60},
    "never heard of again": {"last_seen": START + 60},
    "over since then": {"ends_at": LATER - 10 * DAY},
    "told to be over, and fires": {"resolved_at": START + 60, "last_seen": LATER},
    "fires, as only Alertmanager told": {},
    "fires": {"last_seen": LATER},
}
_GOES = {"over", "over when Alertmanager told so", "never heard of again"}


def fired(database: Engine, alerts: Mapping[str, Mapping[str, float]]) -> None:
    alert = {"starts_at": START, "name": "Down", "labels": {}, "annotations": {}, "receivers": {}}
    with for_writing(database).begin() as connection:
        for name, times in alerts.items():
            connection.execute(insert(tables.alerts).values({**alert, "fingerprint": name, **times}))


def names(database: Engine) -> set[str]:
    with database.connect() as connection:
        return set(connection.scalars(select(tables.alerts.c.fingerprint)))


def test_alerts_go_some_time_after_their_end_and_never_while_they_fire(database: Engine) -> None:
    fired(database, _FIRED)
    forget(database, Retention(DAY), LATER)
    assert names(database) == _FIRED.keys(), "for ever"
    kept = Retention(DAY, alerts=100 * DAY)
    assert survey(database, kept, LATER)[-1].old_rows == len(_GOES)
    forget(database, kept, LATER)
    assert names(database) == _FIRED.keys() - _GOES


def test_many_alerts_go_in_several_transactions(database: Engine) -> None:
    fired(database, {f"{n:04}": {"ends_at": START + n} for n in range(2001)})
    forget(database, Retention(DAY, alerts=DAY), LATER, pause=lambda: len(names(database)) < 2001)
    assert len(names(database)) == 1001
    forget(database, Retention(DAY, alerts=DAY), LATER)
    assert names(database) == set()


def test_a_series_that_was_seen_since_stays_though_it_has_no_rows(database: Engine, store: Store) -> None:
    write(store, [server_minute(START)])
    roll_up_all(database)
    with for_writing(database).begin() as connection:
        connection.execute(tables.series.update().values(last_seen=LATER))
    forget(database, Retention(DAY, DAY, DAY), LATER)
    assert (starts(database, Tier.DAY), count(database, tables.series)) == ([], 3)


def test_a_server_that_was_forgotten_never_gets_the_rows_of_another(database: Engine, store: Store) -> None:
    """The store remembers ids; another process adds a server meanwhile."""
    later = START + 20 * DAY
    write(store, [server_minute(START, "a"), server_minute(later, "a")])
    write(store, [server_minute(START, "b")])
    roll_up_all(database)
    forget(database, Retention(5 * DAY, 5 * DAY, 5 * DAY), later)
    write(Store(database), [server_minute(later, "c", tokens=7.0)])
    write(store, [server_minute(later + 60, "b", tokens=5.0)])
    found = {(json.loads(of)["server"], start) for of, start in stored_rows(database, "target_minute")}
    assert found == {("a", later), ("b", later + 60), ("c", later)}


def test_a_survey_says_what_is_there_and_what_would_go(database: Engine, store: Store) -> None:
    write(store, minutes_every_hour(days=4))
    roll_up(database, START + DAY + SETTLING_SECONDS)
    now = START + 4 * DAY
    minute, hour, day, alerts = survey(database, KEEP, now)
    assert (minute.rows, minute.oldest, minute.cut, minute.old_rows) == (4 * 24 * 3, START, START + 2 * DAY, 24 * 3)
    assert (hour.rows, hour.oldest, hour.old_rows, hour.cut) == (24 * 3, START, 0, START - 26 * DAY)
    assert (alerts.name, alerts.rows, alerts.oldest, alerts.cut, alerts.old_rows) == ("alerts", 0, None, None, 0)
    assert (day.rows, day.oldest, day.cut, day.old_rows, day.seconds) == (3, START, None, 0, math.inf)
    forget(database, KEEP, now)
    assert survey(database, KEEP, now)[0].rows == minute.rows - minute.old_rows


def test_deleting_ends_when_it_is_told_to(sqlite_database: Engine) -> None:
    write(Store(sqlite_database), minutes_every_hour(days=1))
    roll_up_all(sqlite_database)
    forget(sqlite_database, KEEP, LATER, pause=lambda: True)
    assert len(starts(sqlite_database, Tier.MINUTE)) == 23


def test_the_size_grows_with_the_rows(database: Engine, store: Store) -> None:
    with database.connect() as connection:
        before = size_bytes(connection)
    write(store, minutes_every_hour(days=4))
    with database.connect() as connection:
        assert 0 < before < size_bytes(connection)
        assert (rows(connection, Tier.MINUTE), oldest(connection, Tier.MINUTE)) == (4 * 24 * 3, START)
        assert oldest(connection, Tier.MINUTE, START + 1) == START + HOUR
        assert (rows(connection, Tier.DAY), oldest(connection, Tier.DAY)) == (0, None)


def test_what_cannot_be_deleted_is_told_in_one_line(database: Engine) -> None:
    with for_writing(database).begin() as connection:
        connection.exec_driver_sql("DROP TABLE rollup_due")
        connection.exec_driver_sql("DROP TABLE progress")
    with pytest.raises(RetentionError, match=r"could not delete what is old from the history at .*progress"):
        forget(database, KEEP, LATER)
