from __future__ import annotations

import signal
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, text

from tests.servers.postgres import Postgres, postgres_cluster
from tests.servers.server import Server


def asked(url: str, question: str) -> list[tuple[object, ...]]:
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            result = connection.execute(text(question))
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        engine.dispose()


def only(postgres: Postgres, question: bytes) -> object:
    with postgres.connect() as connection:
        row = connection.execute(question).fetchone()
    assert row is not None
    return row[0]


def test_a_url_leads_to_a_new_and_empty_database(postgres_url: str) -> None:
    assert asked(postgres_url, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'") == []


def test_each_test_has_its_own_database(postgres: Postgres) -> None:
    with postgres.new_database() as one, postgres.new_database() as two:
        asked(one, "CREATE TABLE t AS SELECT 1 AS n")
        asked(two, "CREATE TABLE t AS SELECT 2 AS n")
        assert (asked(one, "SELECT n FROM t"), asked(two, "SELECT n FROM t")) == ([(1,)], [(2,)])


def test_a_database_is_dropped_though_somebody_is_still_connected(postgres: Postgres) -> None:
    with postgres.new_database() as url:
        engine = create_engine(url)
        engine.connect().close()  # stays in the pool
    engine.dispose()
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        postgres.connect(engine.url.database or "")


def test_what_was_committed_outlives_an_immediate_stop(postgres: Postgres, postgres_url: str) -> None:
    asked(postgres_url, "CREATE TABLE t AS SELECT 1 AS n")
    postgres.stop()
    with pytest.raises(psycopg.OperationalError):
        postgres.connect()
    postgres.start()
    assert asked(postgres_url, "SELECT n FROM t") == [(1,)]


def test_the_release_is_one_that_is_supported(postgres: Postgres) -> None:
    assert int(str(only(postgres, b"SHOW server_version_num"))) >= 150000


def test_text_is_sorted_as_a_language_sorts_it(postgres_url: str) -> None:
    names = "SELECT n FROM unnest(ARRAY['B', 'a', 'c']) AS n ORDER BY n"
    assert asked(postgres_url, names) == [("a",), ("B",), ("c",)]


def test_a_durable_cluster_waits_for_the_disk(postgres: Postgres) -> None:
    with postgres_cluster(durable=True) as durable:
        assert (only(durable, b"SHOW fsync"), only(postgres, b"SHOW fsync")) == ("on", "off")
        folder = durable.folder
    assert not folder.exists()


def test_a_server_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    broken = Server(["sh", "-c", "echo no such thing; exit 1"], tmp_path, lambda: False)
    with pytest.raises(AssertionError, match="no such thing"):
        broken.start()
    broken.stop(signal.SIGKILL)
