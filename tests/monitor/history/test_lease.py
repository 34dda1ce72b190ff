import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, text

from monitor.history import lease as module
from monitor.history.database import open_database
from monitor.history.lease import Holder, Lease, LeaseError, LeaseLost, this_process
from tests.servers.postgres import Postgres


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


def set_until(database: Engine, seconds_from_now: float) -> None:
    """Instead of waiting."""
    now = {"postgresql": "extract(epoch FROM now())", "sqlite": "unixepoch()"}[database.dialect.name]
    with database.begin() as connection:
        connection.execute(text(f"UPDATE leases SET until = {now} + {seconds_from_now}"))


def test_one_holds_it_until_it_is_given_up(database: Engine) -> None:
    first, second = Lease(database, "scraped", "a"), Lease(database, "scraped", "b")
    assert (first.acquire(), second.acquire(), first.acquire()) == (True, False, True)
    assert (first.other, second.other) == (None, "a")
    first.release()
    assert (second.acquire(), first.acquire()) == (True, False)
    second.release()
    first.release()
    assert Lease(database, "scraped", "c").acquire()


def test_leases_of_other_names_are_others(database: Engine) -> None:
    assert Lease(database, "scraped", "a").acquire()
    assert Lease(database, "rolled up", "b").acquire()


def test_one_that_is_not_kept_runs_out(database: Engine) -> None:
    first, second = Lease(database, "scraped", "a"), Lease(database, "scraped", "b")
    first.acquire()
    set_until(database, module.LEASE_SECONDS - 1)
    assert not second.acquire()
    set_until(database, -1)
    assert second.acquire()
    assert not first.acquire()


def test_one_that_ran_out_is_kept_all_the_same_while_nobody_else_wants_it(database: Engine) -> None:
    lease = Lease(database, "scraped", "a")
    lease.acquire()
    set_until(database, -1)
    with database.begin() as connection:
        lease.hold(connection)
    assert not Lease(database, "scraped", "b").acquire()


def test_a_clock_that_was_set_back_does_not_keep_it_for_years(database: Engine) -> None:
    Lease(database, "scraped", "a").acquire()
    set_until(database, 86_400)
    assert Lease(database, "scraped", "b").acquire()


def test_who_takes_it_again_knows_that_another_may_have_had_it(database: Engine) -> None:
    first, second = Lease(database, "scraped", "a"), Lease(database, "scraped", "b")
    assert [(first.acquire(), first.term) for _ in range(2)] == [(True, 1)] * 2
    set_until(database, -1)
    second.acquire()
    second.release()
    assert (first.acquire(), first.term) == (True, 2)
    assert (second.acquire(), second.term) == (False, 1)


def test_nobody_has_it_unnoticed_while_its_holder_takes_it_again(postgres_database: Engine) -> None:
    """Who stands still after seeing that it is the holder would not know that another was, too."""
    url = postgres_database.url.update_query_dict({"options": "-c lock_timeout=10"})
    other = open_database(url.render_as_string())
    first, second = Lease(postgres_database, "scraped", "a"), Lease(other, "scraped", "b")
    first.acquire()
    set_until(postgres_database, -1)
    refused: list[str] = []

    @event.listens_for(postgres_database, "before_cursor_execute")
    def _want(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO leases"):
            with pytest.raises(LeaseError, match="lock timeout"):
                second.acquire()
            refused.append(statement)

    assert (first.acquire(), first.term) == (True, 1)
    assert len(refused) == 1
    other.dispose()


def test_who_has_lost_it_cannot_write(database: Engine) -> None:
    first, second = Lease(database, "scraped", "a"), Lease(database, "scraped", "b")
    first.acquire()
    with database.begin() as connection:
        first.hold(connection)
    set_until(database, -1)
    second.acquire()
    with pytest.raises(LeaseLost, match="another inferwatch has taken that over"), database.begin() as connection:
        first.hold(connection)


def test_nobody_takes_it_while_its_holder_writes(postgres_database: Engine) -> None:
    first, second = Lease(postgres_database, "scraped", "a"), Lease(postgres_database, "scraped", "b")
    first.acquire()
    set_until(postgres_database, -1)
    with ThreadPoolExecutor() as pool:
        with postgres_database.begin() as connection:
            first.hold(connection)
            taking = pool.submit(second.acquire)
            assert not taking.done()
        assert taking.result() is False


def test_of_many_that_want_it_at_once_one_gets_it(database: Engine) -> None:
    others = [open_database(database.url.render_as_string()) for _ in range(4)]
    wanting = [Lease(other, "scraped", str(number)) for number, other in enumerate(others)]
    with ThreadPoolExecutor() as pool:
        assert sorted(pool.map(Lease.acquire, wanting)) == [False, False, False, True]
    for other in others:
        other.dispose()


def test_a_process_of_this_host_that_has_died_blocks_nobody(database: Engine) -> None:
    script = f"""
from monitor.history.database import open_database
from monitor.history.lease import Lease
print(Lease(open_database({database.url.render_as_string()!r}), "scraped").acquire(), flush=True)
input()
"""
    command = [sys.executable, "-c", script]
    mine = Lease(database, "scraped")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "True\n"
        set_until(database, module.LEASE_SECONDS)
        assert not mine.acquire()
        assert mine.other == f"process {process.pid} on {os.uname().nodename}"
        process.kill()
        process.wait()
    assert mine.acquire()


def test_only_a_process_that_surely_is_gone_counts_as_dead() -> None:
    me = this_process()
    assert Holder.parsed(str(me)) == me
    assert not me.is_dead()
    assert replace(me, started="1").is_dead(), "another process has its number now"
    assert replace(me, pid="99999999").is_dead()
    for space in ("", "another boot or container"):
        assert not replace(me, pid="99999999", space=space).is_dead()
    assert Holder.parsed("somebody") is None


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_process_of_another_user_is_alive_whether_it_is_seen_or_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_seen: bool
) -> None:
    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    me = this_process()
    monkeypatch.setattr(os, "kill", refuse)
    if not is_seen:
        monkeypatch.setattr(module, "_PROC", tmp_path)
    assert not me.is_dead()
    assert replace(me, started="1").is_dead() is is_seen, "another process may have its number now"


def test_a_process_that_died_and_was_not_waited_for_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        holder = replace(this_process(), pid=str(process.pid), started=module._started(str(process.pid)) or "")
        assert not holder.is_dead()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert holder.is_dead()


def test_a_database_that_is_away_is_an_error_of_its_own(postgres: Postgres, postgres_database: Engine) -> None:
    lease = Lease(postgres_database, "scraped", "a")
    postgres.stop()
    for attempt in (lease.acquire, lease.release):
        with pytest.raises(LeaseError, match="no PostgreSQL answers there"):
            attempt()
