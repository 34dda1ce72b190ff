"""What a person reads whose PostgreSQL cannot be used."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.engine import make_url

from monitor.history.database import DatabaseError, open_database, upgrade
from monitor.history.trouble import place
from tests.servers.postgres import Postgres, postgres_cluster


def refused(url: str, password_file: Path | None = None) -> str:
    engine = open_database(url, password_file)
    with pytest.raises(DatabaseError) as caught:
        upgrade(engine)
    engine.dispose()
    told = str(caught.value)
    assert "\n" not in told
    assert "sqlalche.me" not in told
    return told


@pytest.fixture(scope="module")
def strict() -> Iterator[Postgres]:
    """A cluster that asks one user for a password."""
    with postgres_cluster() as postgres, postgres.connect() as connection:
        connection.execute("CREATE ROLE by_password LOGIN PASSWORD 'right'")
        rules = postgres.folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all by_password all scram-sha-256\n{rules.read_text()}")
        connection.execute("SELECT pg_reload_conf()")
        yield postgres


@pytest.fixture
def asks_for_passwords(strict: Postgres) -> Iterator[str]:
    with strict.new_database() as text:
        url = make_url(text)
        with strict.connect() as connection:
            connection.execute(f"ALTER DATABASE {url.database} OWNER TO by_password".encode())
        yield url.set(username="by_password").render_as_string()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda url: url.set(port=1), "no PostgreSQL answers there (connection failed: "),
        (lambda url: url.set(host="nosuch.invalid"), "no PostgreSQL answers there (failed to resolve host"),
        (lambda url: url.set(database="nosuch"), "that database is not there (connection failed: "),
        (lambda url: url.set(username="nosuch"), "that user is not there (connection failed: "),
    ],
)
def test_a_url_that_leads_nowhere(postgres_url: str, change: Callable[..., object], told: str) -> None:
    url = make_url(str(change(make_url(postgres_url))))
    assert refused(str(url)).startswith(f"could not use the history at {place(url)}: {told}")


def test_a_place_is_named_without_driver_password_and_options() -> None:
    url = make_url("postgresql+psycopg://me:secret@db:5433/history?sslmode=require&password=secret")
    assert place(url) == "postgresql://me:***@db:5433/history"


def test_a_password_that_is_missing_or_wrong(asks_for_passwords: str, tmp_path: Path) -> None:
    wrong = tmp_path / "password"
    wrong.write_text("wrong\n")
    for file in (None, wrong):
        told = refused(asks_for_passwords, file)
        assert ": the password is missing or wrong (connection failed: " in told
        assert told.endswith("; give `history.password_file`, PGPASSFILE or PGPASSWORD")
    wrong.unlink()
    assert "could not read the password in" in refused(asks_for_passwords, wrong)


def test_a_password_file_is_read_again_for_each_connection(asks_for_passwords: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("right\n")
    engine = open_database(asks_for_passwords, file)
    upgrade(engine)
    engine.dispose()
    file.write_text("wrong\n")
    assert "the password is missing or wrong" in refused(asks_for_passwords, file)


def test_a_user_without_rights(postgres: Postgres, postgres_url: str) -> None:
    with postgres.connect() as connection:
        connection.execute("CREATE ROLE without_rights LOGIN")
        told = refused(make_url(postgres_url).set(username="without_rights").render_as_string())
        connection.execute("DROP ROLE without_rights")
    assert ": this user lacks a right (permission denied for schema public); make it the owner" in told


def test_a_database_that_cannot_hold_every_name(postgres: Postgres) -> None:
    latin = "ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'"
    with postgres.new_database("template0", latin) as url:
        told = refused(url)
    assert "the database's encoding is LATIN1, which cannot hold every name" in told


def test_a_release_that_is_too_old(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_database(postgres_url)
    engine.connect().close()
    monkeypatch.setattr(engine.dialect, "server_version_info", (14, 11))
    with pytest.raises(DatabaseError, match=r"PostgreSQL 14.11 is too old; use 15 or newer"):
        upgrade(engine)
    engine.dispose()


def test_another_programs_database_is_left_as_it_is(postgres_url: str) -> None:
    engine = open_database(postgres_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE series (title TEXT)"))
    told = refused(postgres_url)
    assert "it is another program's database (its tables: series); name another database in `history.url`" in told
    engine.dispose()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_the_url_is_written_as_people_do(postgres_url: str, scheme: str) -> None:
    engine: Engine = open_database(postgres_url.replace("postgresql+psycopg", scheme))
    with engine.connect() as connection:
        assert connection.scalar(text("SHOW application_name")) == "inferwatch"
    engine.dispose()
