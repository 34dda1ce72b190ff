import logging
from pathlib import Path

import pytest
from sqlalchemy import Engine

from monitor.history.database import open_database, sqlite_url
from monitor.history.file import path_of
from monitor.history.recording import Recording
from monitor.history.store import Store, WriteError
from tests.monitor.history.stored import engine_rows
from tests.monitor.observations import observation, series

TOKENS = series("llm_generation_tokens_total")


@pytest.fixture
def path(database: Engine) -> Path:
    return Path(database.url.database or "")


def record(recording: Recording, *moments: float) -> None:
    for at in moments:
        recording.record([observation(at, {TOKENS: at})], at)


@pytest.mark.parametrize("beside", [("",), ("", "-wal", "-shm")])
def test_a_history_that_is_deleted_while_it_is_written_goes_on_in_a_new_file(
    store: Store, path: Path, beside: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    recording = Recording(store, 15)
    record(recording, 30, 60, 75)
    for suffix in beside:
        path.with_name(path.name + suffix).unlink()
    record(recording, 120, 135, 180, 195)
    assert {start: r["generation_tokens"] for start, r in engine_rows(path).items()} == {60: 60, 120: 60}
    assert recording.newest == 180
    told = f"{path} was deleted while inferwatch ran: what it held is lost; the history goes on without it"
    assert store.losses == [told]
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR] == [f"history: {told}"]


def test_a_folder_that_is_deleted_is_made_again(database: Engine, tmp_path: Path, empty_history: Path) -> None:
    path = tmp_path / "state" / "h.sqlite"
    engine = open_database(sqlite_url(path))
    path.write_bytes(empty_history.read_bytes())
    recording = Recording(Store(engine), 15)
    record(recording, 30)
    for file in (*path.parent.iterdir(),):
        file.unlink()
    path.parent.rmdir()
    record(recording, 60, 75)
    assert list(engine_rows(path)) == [0]
    engine.dispose()


def test_a_file_that_takes_its_place_is_used_and_told(store: Store, path: Path, empty_history: Path) -> None:
    recording = Recording(store, 15)
    record(recording, 30)
    other = path.with_name("other")
    other.write_bytes(empty_history.read_bytes())
    other.replace(path)
    record(recording, 75)
    assert list(engine_rows(path)) == [0]
    assert store.losses[0].startswith(f"{path} was replaced by another file while inferwatch ran")


def test_where_no_new_file_can_be_made_nothing_counts_as_stored(store: Store, path: Path) -> None:
    recording = Recording(store, 15)
    record(recording, 30, 75)
    for file in path.parent.glob("history.sqlite*"):
        file.unlink()
    path.mkdir()
    for _ in range(2):
        with pytest.raises(
            WriteError, match=r"history.sqlite was .* while inferwatch ran: what it held is lost; could"
        ):
            record(recording, 135)
    assert recording.newest == 60
    path.rmdir()
    record(recording, 195)
    assert list(engine_rows(path)) == [60, 120], "what waited is written"


def test_a_deleted_file_is_noticed_without_a_write_too(store: Store, path: Path) -> None:
    record(Recording(store, 15), 30, 75)
    path.unlink()
    store.follow_file()
    assert path.is_file()
    assert engine_rows(path) == {}


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "postgresql://host/history"])
def test_a_database_that_is_no_file_has_no_path(url: str) -> None:
    from sqlalchemy.engine import make_url

    assert path_of(make_url(url)) is None
