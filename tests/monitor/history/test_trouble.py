"""What a person reads who starts inferwatch on something that is not its history."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from monitor.history.ask import History
from monitor.history.database import DatabaseError, ReadError, open_database, sqlite_url, upgrade
from monitor.history.recording import Recording
from monitor.history.retention import Retention
from monitor.history.store import Store, WriteError
from monitor.history.trouble import explained, repeatedly
from monitor.history.upkeep import Upkeep
from tests.monitor.observations import observation

ANOTHER = "name another place with --state-dir FOLDER or `history.path`"


def refused(path: Path) -> str:
    engine = open_database(sqlite_url(path))
    with pytest.raises(DatabaseError) as caught:
        upgrade(engine)
    engine.dispose()
    told = str(caught.value)
    assert "\n" not in told
    assert "sqlalche.me" not in told
    return told


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "h").mkdir()
    assert (
        refused(tmp_path / "h") == f"could not use the history at {tmp_path}/h: it is a folder, not a file; {ANOTHER}"
    )


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "h").write_text("no database at all, but long enough to be taken for one" * 30)
    assert refused(tmp_path / "h") == (
        f"could not use the history at {tmp_path}/h: the file is no SQLite database (file is not a database); "
        f"move it away, or {ANOTHER}"
    )


def test_a_damaged_file(tmp_path: Path, empty_history: Path) -> None:
    whole = empty_history.read_bytes()
    (tmp_path / "h").write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    assert "the file is damaged (database disk image is malformed); stop inferwatch" in refused(tmp_path / "h")


@pytest.mark.parametrize("table", ["users (name TEXT)", "series (id INTEGER PRIMARY KEY, title TEXT)"])
@pytest.mark.parametrize("version", ["", "; CREATE TABLE alembic_version (version_num TEXT)"])
def test_another_programs_database_is_left_as_it_is(tmp_path: Path, table: str, version: str) -> None:
    with sqlite3.connect(tmp_path / "h") as other:
        other.executescript(f"CREATE TABLE {table}{version}")
    other.close()
    told = refused(tmp_path / "h")
    assert told.startswith(f"could not use the history at {tmp_path}/h: it is another program's database (its tables: ")
    assert told.endswith(ANOTHER)
    with sqlite3.connect(tmp_path / "h") as other:
        names = {name for (name,) in other.execute("SELECT name FROM sqlite_master")}
    other.close()
    assert not names & {"checkpoints", "engine_minute"}


def test_a_history_of_a_newer_release(tmp_path: Path, empty_history: Path) -> None:
    (tmp_path / "h").write_bytes(empty_history.read_bytes())
    with sqlite3.connect(tmp_path / "h") as newer:
        newer.execute("UPDATE alembic_version SET version_num = '9999'")
    newer.close()
    assert refused(tmp_path / "h") == (
        f"could not use the history at {tmp_path}/h: a newer release wrote it (Can't locate revision identified by "
        f"'9999'); start that release, or {ANOTHER}"
    )


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "h", tmp_path / "file" / "deep" / "h"):
        with pytest.raises(DatabaseError) as caught:
            open_database(sqlite_url(path))
        assert str(caught.value) == (
            f"could not make the history's folder {path.parent}: {tmp_path}/file is a file, not a folder; {ANOTHER}"
        )


def _error(code: int, name: str, text: str) -> OperationalError:
    original = sqlite3.OperationalError(text)
    original.sqlite_errorcode, original.sqlite_errorname = code, name
    return OperationalError("SELECT 1", None, original)


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    url = open_database(sqlite_url(tmp_path / "h")).url
    error = _error(
        sqlite3.SQLITE_READONLY_DIRECTORY, "SQLITE_READONLY_DIRECTORY", "attempt to write a readonly database"
    )
    told = f"{tmp_path}/h: this user may not write into {tmp_path}; allow it, or {ANOTHER}"
    assert explained(url, error) == told


def test_a_full_disk_says_where_room_is_needed(database: Engine) -> None:
    error = _error(sqlite3.SQLITE_FULL, "SQLITE_FULL", "database or disk is full")
    path = database.url.database
    assert explained(database.url, error) == f"{path}: the disk is full (database or disk is full); make room there"


def test_a_locked_history_names_who_may_hold_it(tmp_path: Path, empty_history: Path) -> None:
    (tmp_path / "h").write_bytes(empty_history.read_bytes())
    engine = open_database(sqlite_url(tmp_path / "h"))
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 1")
    holder = sqlite3.connect(tmp_path / "h", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseError, match=r"another inferwatch or another program uses it .*stop that one, or name"):
        upgrade(engine)
    holder.close()
    engine.dispose()


def test_damage_while_it_runs_is_told_by_the_next_look_at_the_file(database: Engine) -> None:
    path = Path(database.url.database or "")
    store = Store(database)
    recording = Recording(store, 15)
    recording.record([observation(30), observation(75)], 75)
    database.dispose()
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.write(whole[:100] + b"\xff" * (len(whole) - 100))
    with pytest.raises(WriteError, match=r"history.sqlite: the file is damaged"):
        recording.record([observation(135)], 135)
    with pytest.raises(ReadError, match=r"could not read the history at .*: the file is damaged"):
        Upkeep(database, Retention(1000)).turn(1000)
    with pytest.raises(ReadError, match=r"history.sqlite: the file is damaged"):
        History(database).ask("llm_requests_running", None, 0, 60, 60)
    with pytest.raises(ReadError, match=r"history.sqlite: the file is damaged"):
        Recording(store, 15)


PASSING = _error(sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY, "SQLITE_CONSTRAINT_FOREIGNKEY", "the series is gone")
LASTING = _error(sqlite3.SQLITE_FULL, "SQLITE_FULL", "database or disk is full")


def _fails(*errors: SQLAlchemyError) -> tuple[Callable[[], None], list[SQLAlchemyError]]:
    """With each of these in turn, and then no more; and what is left of them."""
    left = list(errors)

    def do() -> None:
        if left:
            raise left.pop(0)

    return do, left


def test_what_fails_for_something_that_passes_is_done_again_up_to_three_times() -> None:
    do, left = _fails(PASSING, PASSING)
    repeatedly(do)
    assert not left
    do, left = _fails(PASSING, PASSING, PASSING, PASSING)
    with pytest.raises(OperationalError, match="the series is gone"):
        repeatedly(do)
    assert len(left) == 1


def test_what_fails_for_something_that_lasts_is_not_done_again() -> None:
    do, left = _fails(PASSING, LASTING, PASSING)
    with pytest.raises(OperationalError, match="disk is full"):
        repeatedly(do)
    assert len(left) == 1


def test_what_is_done_is_not_done_again() -> None:
    done: list[int] = []
    repeatedly(lambda: done.append(1))
    assert done == [1]


def test_who_calls_says_what_passes_and_how_often_it_is_waited_for() -> None:
    do, left = _fails(*[LASTING] * 9)
    with pytest.raises(OperationalError, match="disk is full"):
        repeatedly(do, 5, lambda error: error is LASTING)
    assert len(left) == 4
