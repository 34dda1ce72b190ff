from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from monitor.history import partitions as module
from monitor.history.database import open_database
from monitor.history.minutes import Minute, Window
from monitor.history.partitions import DAY, Partition, drop_before, make_partitions, partition_of, partitions
from monitor.history.store import Store
from monitor.history.tables import engine_minute, target_minute
from monitor.history.upsert import Progress
from tests.monitor.history.stored import engine_rows
from tests.monitor.observations import ENGINE_0, TARGET

FIRST, SECOND, THIRD = (Partition("engine_minute", 20_000 * DAY + n * DAY) for n in range(3))


def write(store: Store, *starts: int) -> None:
    windows = [Window(start, {ENGINE_0: Minute(1), TARGET: Minute(1)}) for start in starts]
    store.write_windows(windows, [], Progress("a", min(starts), max(starts) + 60))


@pytest.fixture
def database(postgres_database: Engine) -> Engine:
    return postgres_database


@pytest.fixture
def three_days(database: Engine) -> Iterator[Engine]:
    write(Store(database), FIRST.start, SECOND.start - 60, SECOND.start, THIRD.start)
    yield database


def test_each_utc_day_has_a_partition_of_its_own_made_when_it_is_needed(three_days: Engine) -> None:
    with three_days.connect() as connection:
        assert [p.name for p in partitions(connection, engine_minute)] == [
            "engine_minute_p20241004", "engine_minute_p20241005", "engine_minute_p20241006",
        ]  # fmt: skip
        assert len(partitions(connection, target_minute)) == 3
        counted = connection.scalar(text("SELECT count(*) FROM engine_minute_p20241004"))
    assert counted == 2
    assert len(engine_rows(three_days)) == 4


def test_rows_have_no_gaps_between_what_is_aligned(three_days: Engine) -> None:
    """PostgreSQL puts numbers of 8 bytes at multiples of 8, and texts of a few bytes anywhere."""
    with three_days.connect() as connection:
        widths = connection.execute(
            text("SELECT attname, attlen FROM pg_attribute WHERE attrelid = to_regclass(:of) AND attnum > 0"),
            {"of": FIRST.name},
        ).all()
    assert {name for name, _ in widths} == set(engine_minute.columns.keys())
    required = {"start": 8, "covered_seconds": 8, "increase_seconds": 8, "series_id": 4, "samples": 4}
    assert dict(widths[:5]) == required
    assert [width for _, width in widths[5:]] == sorted((width for _, width in widths[5:]), reverse=True)


def test_a_name_says_which_day(three_days: Engine) -> None:
    assert Partition.named(FIRST.name) == FIRST == partition_of(engine_minute, SECOND.start - 60)
    assert [Partition.named(name) for name in ("engine_minute", "engine_minute_p2024", "p20241004")] == [None] * 3


def test_only_whole_days_that_are_over_are_dropped(three_days: Engine) -> None:
    with three_days.connect() as connection:
        assert drop_before(connection, engine_minute, SECOND.start - 1) == []
        assert drop_before(connection, engine_minute, THIRD.start + 7200) == [FIRST, SECOND]
        assert drop_before(connection, engine_minute, THIRD.start + 7200) == []
    assert list(engine_rows(three_days)) == [THIRD.start]


def test_a_partition_that_was_dropped_is_made_again_when_it_is_written(database: Engine) -> None:
    store = Store(database)
    write(store, FIRST.start)
    with database.connect() as connection:
        drop_before(connection, engine_minute, THIRD.start)
    write(store, FIRST.start + 60)
    assert list(engine_rows(database)) == [FIRST.start + 60]


def test_two_that_need_the_same_partitions_make_them_once(database: Engine) -> None:
    others = [open_database(database.url.render_as_string()) for _ in range(3)]
    wanted = [FIRST, SECOND, THIRD]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda engine: make_partitions(engine, wanted), others))
    for other in others:
        other.dispose()
    with database.connect() as connection:
        assert partitions(connection, engine_minute) == wanted


def test_a_partition_is_made_while_a_question_runs(three_days: Engine) -> None:
    with three_days.connect() as asking:
        asking.execute(text("SELECT count(*) FROM engine_minute"))
        write(Store(three_days), THIRD.start + DAY)
    assert THIRD.start + DAY in engine_rows(three_days)


def test_dropping_gives_up_where_a_question_runs_on_and_on(three_days: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOCK_TIMEOUT", "1ms")
    with three_days.connect() as asking, three_days.connect() as connection:
        asking.execute(text("SELECT count(*) FROM engine_minute"))
        with pytest.raises(OperationalError, match="lock timeout"):
            drop_before(connection, engine_minute, THIRD.start)
        asking.rollback()
        assert drop_before(connection, engine_minute, THIRD.start) == [FIRST, SECOND]


def test_sqlite_has_no_partitions(sqlite_database: Engine) -> None:
    make_partitions(sqlite_database, [FIRST])
    with sqlite_database.connect() as connection:
        assert partitions(connection, engine_minute) == []
        assert drop_before(connection, engine_minute, THIRD.start) == []
