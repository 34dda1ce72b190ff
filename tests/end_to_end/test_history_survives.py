"""The history is whole after the monitor was killed, Prometheus was away or PostgreSQL crashed, in the middle of it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from sqlalchemy import Engine, event
from sqlalchemy.engine import make_url

from monitor.history import tables as stored
from monitor.sources import SourceError
from tests.end_to_end.histories import (
    BACKFILL,
    FOR_EVER,
    NOTHING,
    SETTLED,
    history,
    in_file,
    read_until,
    roll_up_all,
    tables,
)
from tests.end_to_end.nursery import Death, Nursery, nursery
from tests.end_to_end.processes import free_port, until
from tests.end_to_end.worlds import World
from tests.monitor.following import following
from tests.servers.postgres import Postgres
from tests.servers.prometheus import Prometheus

DEATHS = int(os.environ.get("DEATHS", "3"))  # of each database; more of them: DEATHS=50
_CRASHES = 3
_WRITING = """
SELECT count(*) FROM pg_locks JOIN pg_class ON pg_class.oid = relation
WHERE relname LIKE 'engine_minute%' AND mode = 'RowExclusiveLock' AND granted
"""
_IDLE_SECONDS = 5.0


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Nursery]:
    with nursery(tmp_path) as found:
        yield found


def serve(folder: Path, source: str, database: str, seen: World) -> list[str]:
    """`inferwatch serve` on a database, with a Prometheus as its source."""
    url = make_url(database)
    plain = url.set(drivername=url.get_backend_name()).render_as_string(hide_password=False)
    since = time.time() - seen.start + 3600
    config = {
        "listen": {"port": free_port()},
        "history": {"url": plain},
        "prometheus": {"url": source, "backfill": f"{since:.0f}s", "max_requests_per_second": 1000.0},
    }
    file = folder / "monitor.yml"
    file.write_text(yaml.safe_dump(config))
    return ["serve", "--config", str(file)]


def is_read(database: Engine, seen: World) -> bool:
    return read_until(database) >= seen.until


def until_read_or_dead(running: Nursery, pid: int, database: Engine, seen: World) -> bool:
    """Whether it died by itself."""
    while not is_read(database, seen):
        if running.ended(0.1) is not None:
            return True
    if running.ended(_IDLE_SECONDS) is not None:
        return True
    with suppress(ProcessLookupError):  # its own death may come just now
        os.kill(pid, signal.SIGKILL)
    assert running.ended() == -signal.SIGKILL
    return False


def test_kill_9_in_the_middle_of_writing_loses_and_doubles_nothing(
    undisturbed: Engine, seen: World, prometheus: Prometheus, new_url: str, started: Nursery, tmp_path: Path
) -> None:
    """Each time at another statement, or some time after; when all was read it begins anew."""
    chance = random.Random(2026)
    command = serve(tmp_path, prometheus.url, new_url, seen)
    with history(new_url) as database:
        deaths = 0
        while deaths < DEATHS:
            death = Death(chance.randint(20, 120), chance.choice((0.0, chance.uniform(0, 0.2))))
            deaths += until_read_or_dead(started, started.start(command, death), database, seen)
            if is_read(database, seen):
                check(database, undisturbed, seen)
                empty(database)
        assert not until_read_or_dead(started, started.start(command), database, seen), started.output()
        check(database, undisturbed, seen)


def check(database: Engine, undisturbed: Engine, seen: World) -> None:
    roll_up_all(database, seen)
    assert tables(database, seen) == tables(undisturbed, seen)


def empty(database: Engine) -> None:
    with database.begin() as connection:
        for table in reversed(stored.metadata.sorted_tables):
            connection.execute(table.delete())


async def at_once(seconds: float) -> None:
    """A pause of the test's clock."""


async def test_prometheus_away_for_three_minutes_is_read_once_it_is_back(
    undisturbed: Engine, seen: World, prometheus_folder: Path, tmp_path: Path
) -> None:
    """The monitor goes on asking meanwhile, by a clock that the test says."""
    shutil.copytree(prometheus_folder, tmp_path / "copy")
    source = Prometheus(NOTHING, tmp_path / "copy", FOR_EVER)
    with source, history(in_file(tmp_path)) as database:
        async with following(source.url, database, backfill=BACKFILL) as (follower, client):
            client.at = seen.start + 3000.0
            while await follower.step():
                pass
            source.stop()
            for client.at in (seen.start + 3060.0, seen.start + 3120.0, seen.start + 3180.0):
                with pytest.raises(SourceError, match="connection_refused"):
                    await follower.step()
            assert follower.lag() >= 180
            source.start()
            for client.at in (seen.start + 3240.0, seen.until + SETTLED):
                while await follower.step():
                    pass
        check(database, undisturbed, seen)


def test_postgresql_that_crashes_while_a_monitor_writes_loses_and_doubles_nothing(
    undisturbed: Engine, seen: World, prometheus: Prometheus, postgres: Postgres, started: Nursery, tmp_path: Path
) -> None:
    """Its server dies when rows of engines are written and not committed. When all was read it begins anew."""
    with postgres.new_database() as url, history(url) as database:
        command, crashes = serve(tmp_path, prometheus.url, url, seen), 0
        while crashes < _CRASHES:
            pid = started.start(command)
            while crashes < _CRASHES and not is_read(database, seen):
                before = read_until(database)
                crashes += crashes_while_written_to(postgres, database, seen)
                until(lambda: read_until(database) > before or is_read(database, seen))  # noqa: B023 (used at once)
            until(lambda: is_read(database, seen))
            os.kill(pid, signal.SIGTERM)
            assert started.ended() == 0
            check(database, undisturbed, seen)
            empty(database)


def crashes_while_written_to(postgres: Postgres, database: Engine, seen: World) -> bool:
    """False where all was read before."""
    with postgres.connect(database.url.database or "") as connection:
        while connection.execute(_WRITING).fetchone() == (0,):
            if is_read(database, seen):
                return False
        postgres.stop()
    postgres.start()
    return True


async def test_postgresql_restarted_in_the_middle_of_writes_is_written_to_again(
    undisturbed: Engine, seen: World, prometheus: Prometheus, postgres: Postgres
) -> None:
    """Without a last checkpoint, and each time while another table is written."""
    written = ["INSERT INTO engine_minute", "INSERT INTO target_minute", "INSERT INTO rollup_due", "UPDATE series"]
    with postgres.new_database() as url, history(url) as database:

        @event.listens_for(database, "before_cursor_execute")
        def _restart(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            if written and statement.startswith(written[-1]):
                written.pop()
                postgres.restart()

        async with following(prometheus.url, database, backfill=BACKFILL, sleep=at_once) as (follower, client):
            for client.at in (*(seen.start + 1200.0 * n for n in range(1, 6)), seen.until + SETTLED):
                while await follower.step():
                    pass
        assert written == []
        check(database, undisturbed, seen)
