"""PostgreSQL goes away, or another writer stands in the way: nothing is lost, and nothing doubled."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, event, text

from monitor.history.database import open_database
from monitor.history.minutes import Minute, Window
from monitor.history.recording import Recording
from monitor.history.store import Store, WriteError
from monitor.history.upsert import Progress
from tests.end_to_end.processes import until
from tests.monitor.history.stored import engine_rows, rows
from tests.monitor.observations import ENGINE_0, observation, series
from tests.servers.postgres import Postgres

TOKENS = series("llm_generation_tokens_total")
WRITERS = 3


@pytest.fixture
def database(postgres_database: Engine) -> Engine:
    return postgres_database


def record(recording: Recording, *moments: float) -> None:
    for at in moments:
        recording.record([observation(at, {TOKENS: at})], at)


def test_what_waits_while_postgresql_is_away_is_written_when_it_is_back(postgres: Postgres, database: Engine) -> None:
    recording = Recording(Store(database), 15)
    record(recording, 30, 60, 75)
    postgres.stop()
    for at in (120, 135, 195):
        with pytest.raises(WriteError, match=r"could not write the history at postgresql://.*: no PostgreSQL answers"):
            record(recording, at)
            recording.flush()
    postgres.start()
    record(recording, 255)
    added = {start: r["generation_tokens"] for start, r in engine_rows(database).items()}
    assert added == {0: 60 - 30, 60: 120 - 60, 120: 135 - 120, 180: 195 - 135}


def test_a_restart_in_the_middle_of_a_write_is_told_and_the_write_repeated(
    postgres: Postgres, database: Engine
) -> None:
    recording = Recording(Store(database), 15)
    record(recording, 30, 75)
    restarts: Iterator[None] = iter([None])

    @event.listens_for(database, "before_cursor_execute")
    def _restart(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO engine_minute") and next(restarts, "none left") is None:
            postgres.restart()

    with pytest.raises(WriteError, match=r"the connection was lost|just starting or stopping"):
        record(recording, 120, 135)
    record(recording, 150, 195)
    added = {start: r["generation_tokens"] for start, r in engine_rows(database).items()}
    assert added == {0: None, 60: 120 - 30, 120: 150 - 120}


def test_many_writers_of_the_same_rows_wait_for_each_other(database: Engine) -> None:
    """As two monitors do that read one Prometheus."""
    others = [open_database(database.url.render_as_string()) for _ in range(WRITERS)]
    identities = [(*ENGINE_0[1:], ("node", f"n{number}")) for number in range(20)]

    def write(number: int) -> None:
        store = Store(others[number])
        for start in range(0, 7200, 600):
            minutes = {of: Minute(4) for of in identities[number:] + identities[:number]}
            windows = [Window(start + 60 * n, minutes) for n in range(10)][:: -1 if number % 2 else 1]
            store.write_windows(windows, [], Progress("a", start, start + 600))

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    for other in others:
        other.dispose()
    assert len(rows(database, "engine_minute")) == 120 * len(identities)
    with database.connect() as connection:
        assert connection.scalar(text("SELECT sum(touched) FROM rollup_due")) == WRITERS * 12


def test_a_deadlock_costs_no_more_than_another_attempt(database: Engine) -> None:
    """Whoever else locks the rows in another order, a person at a prompt for one."""
    store = Store(database)
    store.write_windows([Window(0, {ENGINE_0: Minute(4)})], [], Progress("a", 0, 60))
    first_attempts: Iterator[None] = iter([None])
    locking: list[Future[None]] = []
    with database.connect() as other, ThreadPoolExecutor() as pool:
        other.execute(text("SET deadlock_timeout = '1h'"))  # the other side is the one that is ended
        other.execute(text("SELECT * FROM engine_minute FOR UPDATE"))

        def lock_in_another_order() -> None:
            other.execute(text("UPDATE rollup_due SET touched = 7"))
            other.commit()

        @event.listens_for(database, "before_cursor_execute")
        def _meet(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            """Who waits last is the one that sees the deadlock: each looks only once."""
            if statement.startswith("INSERT INTO engine_minute") and next(first_attempts, "none left") is None:
                locking.append(pool.submit(lock_in_another_order))
                until(lambda: _is_blocked(database))

        store.write_windows([Window(0, {ENGINE_0: Minute(5)})], [], Progress("a", 0, 60))
        locking[0].result()
    [row] = engine_rows(database).values()
    assert row["samples"] == 5


def _is_blocked(database: Engine) -> bool:
    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with database.connect() as watching:
        return bool(watching.scalar(text(waits)))


def test_a_series_that_was_deleted_meanwhile_is_made_again(database: Engine) -> None:
    store = Store(database)
    for start in (0, 60):
        store.write_windows([Window(start, {ENGINE_0: Minute(4)})], [], Progress("a", start, start + 60))
        with database.begin() as connection:
            connection.execute(text("DELETE FROM series"))
    store.write_windows([Window(120, {ENGINE_0: Minute(4)})], [], Progress("a", 120, 180))
    assert list(engine_rows(database)) == [120]
