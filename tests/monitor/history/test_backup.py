from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Engine, func, insert, select
from sqlalchemy.exc import OperationalError

from monitor.history import backup as module
from monitor.history import tables
from monitor.history.backup import BackupError, back_up
from monitor.history.database import (
    DatabaseError,
    alembic_config,
    for_writing,
    open_database,
    sqlite_url,
    upgrade,
)
from monitor.history.lease import SCRAPED, Lease
from monitor.history.minutes import Event, Window
from monitor.history.partitions import partition_of
from monitor.history.restore import RestoreError, restore
from monitor.history.rollup import roll_up
from monitor.history.store import Batch, Store
from monitor.history.transfer import contents
from tests.monitor.history.fleet import (
    DAY,
    HOUR,
    NEW_BOUNDS,
    START,
    gpu,
    gpu_minute,
    load_test,
    server_minute,
    target,
    write,
)
from tests.servers.postgres import Postgres


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Another database, without tables."""
    with _new(request, tmp_path) as url:
        engine = open_database(url)
        yield engine
        engine.dispose()


@contextmanager
def _new(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield sqlite_url(tmp_path / "other" / "history.sqlite")
        return
    postgres: Postgres = request.getfixturevalue("postgres")
    with postgres.new_database() as url:
        yield url


@pytest.fixture
def filled(database: Engine) -> Engine:
    """With something in every table."""
    store = Store(database)
    write(store, [server_minute(at) for at in range(START, START + 2 * HOUR, 60)])
    write(store, [Window(START, {gpu(): gpu_minute()}), server_minute(START + DAY, bounds=NEW_BOUNDS)])
    roll_up(database, START + DAY + HOUR)
    checkpoint = Batch("n1", "s1", 1.5, (), (Event(target(), START + 0.25, "version", "0.32", "0.33"),), b"\x00\xff")
    store.write([checkpoint])
    objective = {
        "id": 7, "name": "a", "identity": "i", "definition": "{}", "indicator": "slices",
        "objective": 0.995, "window_days": 30, "unknown": "bad", "counts_outage": True,
        "maintenance": "[]", "until": START,
    }  # fmt: skip
    alert = {"labels": {"z": "\u00fc", "a": "1"}, "annotations": {}, "receivers": {}, "name": "Down"}
    with for_writing(database).begin() as connection:
        connection.execute(insert(tables.alerts).values(fingerprint="f", starts_at=0.1, **alert))
        connection.execute(insert(tables.objectives).values(objective))
        connection.execute(insert(tables.comparison_runs).values(load_test(START)))
        counts = dict.fromkeys(tables.COUNTED, 0.1)
        connection.execute(
            insert(tables.budgets).values(objective_id=7, identity="{}", labels="{}", start=0, subject="m", **counts)
        )
    Lease(database, SCRAPED, "somebody on another host").acquire()
    return database


def everything(database: Engine) -> dict[str, list[Any]]:
    with database.connect() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(select(table)).all()))
            for table in tables.metadata.sorted_tables
        }


def silent(_: str) -> None:
    pass


def test_what_was_backed_up_is_there_again_whichever_the_databases(
    filled: Engine, empty: Engine, tmp_path: Path
) -> None:
    file = tmp_path / "backup.sqlite"
    back_up(filled, file, silent)
    found = restore(file, empty, silent)
    assert (found.series, found.rows) == (0, 0)
    before, after = everything(filled), everything(empty)
    assert all(before.values()), "something of every table"
    assert after == before | {"leases": []}, "who wrote then says nothing of now"


def test_a_restored_history_goes_on(filled: Engine, empty: Engine, tmp_path: Path) -> None:
    back_up(filled, tmp_path / "b", silent)
    restore(tmp_path / "b", empty, silent)
    later = [server_minute(START + at, server="s2", bounds=(0.7, 9.0)) for at in (0, 60, 3 * DAY)]
    write(Store(empty), later)
    assert roll_up(empty, START + 10 * DAY) > 0
    with empty.connect() as connection:
        servers = connection.scalars(select(tables.series.c.server).order_by(tables.series.c.id)).all()
        assert sorted(servers) == ["", *["s1"] * 3, *["s2"] * 3]
        assert connection.scalar(select(func.count()).select_from(tables.bounds)) == 3


def test_a_backup_is_of_one_moment_though_others_write_meanwhile(
    filled: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A minute is written whenever the backup tells how far it is."""
    monkeypatch.setattr(module, "_PAGES_AT_ONCE", 8)
    before = everything(filled)
    elsewhere = open_database(filled.url.render_as_string(hide_password=False))
    other = Store(elsewhere)
    told: list[str] = []

    def write_meanwhile(progress: str) -> None:
        told.append(progress)
        if len(told) < 20:
            write(other, [server_minute(START + 4 * DAY + 60 * len(told), server="s9")])

    back_up(filled, tmp_path / "b", write_meanwhile)
    elsewhere.dispose()
    assert len(told) > 5
    with sqlite_database_at(tmp_path / "b") as copy:
        assert everything(copy) == before | {"leases": []}
    assert len(everything(filled)["target_minute"]) == len(before["target_minute"]) + min(len(told), 19)


def test_days_that_are_too_old_stay_until_the_backup_has_them(postgres_database: Engine, tmp_path: Path) -> None:
    """Dropped they would be gone for the backup's snapshot as well, which says that they are whole."""
    write(Store(postgres_database), [server_minute(START), server_minute(START + DAY)])
    before = everything(postgres_database)
    elsewhere = open_database(postgres_database.url.render_as_string(hide_password=False))

    def drop() -> None:
        with elsewhere.begin() as connection:
            connection.exec_driver_sql("SET LOCAL lock_timeout = '10ms'")
            connection.exec_driver_sql(f"DROP TABLE {partition_of(tables.target_minute, START).name}")

    def drop_meanwhile(_: str) -> None:
        with pytest.raises(OperationalError, match="lock timeout"):
            drop()

    back_up(postgres_database, tmp_path / "b", drop_meanwhile)
    with sqlite_database_at(tmp_path / "b") as copy:
        assert everything(copy) == before
    drop()
    elsewhere.dispose()
    assert len(everything(postgres_database)["target_minute"]) == 1


@contextmanager
def sqlite_database_at(path: Path) -> Iterator[Engine]:
    engine = open_database(sqlite_url(path))
    yield engine
    engine.dispose()


def test_a_backup_is_one_file_and_a_sound_database(filled: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    back_up(filled, folder / "b", silent)
    with sqlite3.connect(folder / "b") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    assert [path.name for path in folder.iterdir()] == ["b"]


def test_a_backup_that_exists_is_replaced_only_if_that_is_said(sqlite_database: Engine, tmp_path: Path) -> None:
    file = tmp_path / "b"
    file.write_text("mine")
    with pytest.raises(BackupError, match="b: it exists already; name another, or --overwrite"):
        back_up(sqlite_database, file, silent)
    assert file.read_text() == "mine"
    back_up(sqlite_database, file, silent, overwrite=True)
    assert file.read_bytes().startswith(b"SQLite format 3")


def test_the_history_itself_is_no_place_for_its_backup(sqlite_database: Engine) -> None:
    with pytest.raises(BackupError, match="that is the history itself"):
        back_up(sqlite_database, Path(sqlite_database.url.database or ""), silent, overwrite=True)


def test_nor_is_it_under_another_name(sqlite_database: Engine, tmp_path: Path) -> None:
    own = Path(sqlite_database.url.database or "")
    (tmp_path / "link").symlink_to(own)
    for name in (tmp_path / "link", own.parent / ".." / own.parent.name / own.name):
        with pytest.raises(BackupError, match="that is the history itself"):
            back_up(sqlite_database, name, silent, overwrite=True)


def test_nothing_but_a_file_is_replaced(sqlite_database: Engine, tmp_path: Path) -> None:
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    for place in (folder, pipe):
        with pytest.raises(BackupError, match="it is a folder or a device; name a file"):
            back_up(sqlite_database, place, silent, overwrite=True)
    assert (folder.is_dir(), pipe.is_fifo()) == (True, True)


def test_what_fails_on_the_way_leaves_the_backup_before(filled: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    (folder / "b").write_text("of yesterday")

    def fails(_: str) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(BackupError, match=r"could not write the backup .*b: .*No space left"):
        back_up(filled, folder / "b", fails, overwrite=True)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"b": "of yesterday"}


def test_a_folder_that_is_not_there_is_told(sqlite_database: Engine, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match=r"could not write the backup .*No such file or directory"):
        back_up(sqlite_database, tmp_path / "nowhere" / "b", silent)


def test_a_database_without_a_history_has_no_backup(empty: Engine, tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="holds no history of inferwatch"):
        back_up(empty, tmp_path / "b", silent)
    assert not (tmp_path / "b").exists()


def test_a_history_is_not_restored_over_another_unless_that_is_said(
    filled: Engine, empty: Engine, tmp_path: Path
) -> None:
    back_up(filled, tmp_path / "b", silent)
    upgrade(empty)
    write(Store(empty), [server_minute(START, server="s7")])
    before = everything(empty)
    with pytest.raises(RestoreError, match=r"it is not empty .3 series and 6 other rows.; name an empty database, or"):
        restore(tmp_path / "b", empty, silent)
    assert everything(empty) == before
    assert str(restore(tmp_path / "b", empty, silent, replace=True)) == "3 series and 6 other rows"
    assert everything(empty) == everything(filled) | {"leases": []}


def test_a_restore_that_fails_changes_nothing(filled: Engine, empty: Engine, tmp_path: Path) -> None:
    back_up(filled, tmp_path / "b", silent)
    upgrade(empty)
    write(Store(empty), [server_minute(START, server="s7")])
    before = everything(empty)

    def fails(progress: str) -> None:
        if progress.startswith("target_minute"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        restore(tmp_path / "b", empty, fails, replace=True)
    assert everything(empty) == before


def test_nothing_is_restored_while_another_process_writes(filled: Engine, empty: Engine, tmp_path: Path) -> None:
    back_up(filled, tmp_path / "b", silent)
    upgrade(empty)
    Lease(empty, SCRAPED, "somebody else").acquire()
    with pytest.raises(RestoreError, match="inferwatch in somebody else writes it; end that first"):
        restore(tmp_path / "b", empty, silent)


def test_a_backup_of_an_older_release_is_brought_up_to_date_and_stays_as_it_is(empty: Engine, tmp_path: Path) -> None:
    file = tmp_path / "old.sqlite"
    with sqlite_database_at(file) as old, for_writing(old).begin() as connection:
        command.upgrade(alembic_config(connection), "0001")
        connection.exec_driver_sql(
            "INSERT INTO series (id, scope, identity, node, server, labels, info) "
            "VALUES (7, 'target', 'x', 'n', 's', '{}', '{}')"
        )
        row = "INSERT INTO target_minute (series_id, start, samples, covered_seconds, up_avg) VALUES (7, 60, 4, 60, 1)"
        connection.exec_driver_sql(row)
    before = file.read_bytes()
    restore(file, empty, silent)
    assert file.read_bytes() == before
    with empty.connect() as connection:
        rows = connection.execute(select(tables.target_minute)).mappings().all()
        assert connection.execute(select(tables.rollup_due)).all() == [("hour", 0, 1)]
    assert [(r["series_id"], r["start"], r["samples"], r["up_avg"], r["up_readings"]) for r in rows] == [
        (7, 60, 4, 1, None)
    ]


def newer(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE alembic_version SET version_num = '9999'")


def foreign(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TABLE alembic_version")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (newer, r"a newer release wrote .*b \(revision 9999\): use that release"),
        (foreign, "b holds no history of inferwatch"),
    ],
)
def test_a_backup_that_this_release_does_not_know_is_refused(
    empty_history: Path,
    sqlite_database: Engine,
    tmp_path: Path,
    change: Callable[[sqlite3.Connection], None],
    problem: str,
) -> None:
    (tmp_path / "b").write_bytes(empty_history.read_bytes())
    with sqlite3.connect(tmp_path / "b") as connection:
        change(connection)
    connection.close()
    with pytest.raises(DatabaseError, match=problem):
        restore(tmp_path / "b", sqlite_database, silent)


def test_what_is_no_backup_is_refused(sqlite_database: Engine, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("no database at all, but text of some length" * 100)
    with pytest.raises(RestoreError, match=r"could not restore .*b: it is no backup .file is not a database."):
        restore(tmp_path / "b", sqlite_database, silent)
    with pytest.raises(RestoreError, match=r"could not restore .*nowhere: there is no such file"):
        restore(tmp_path / "nowhere", sqlite_database, silent)


def test_every_table_but_the_leases_is_part_of_a_backup() -> None:
    assert {table.name for table in contents()} == set(tables.metadata.tables) - {"leases"}
