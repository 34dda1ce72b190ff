from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferwatch.generate import ROOT
from monitor.history import rollup
from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.store import Store
from tests.inferwatch.command import Command
from tests.monitor.history.fleet import DAY, HOUR, START, server_minute, write

NOW = START + 40 * DAY + 5 * HOUR


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command runs: no configuration of the machine is read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def state(folder: Path) -> Iterator[Path]:
    """The folder of a history with four hours of one minute each, forty days ago and today."""
    state = folder / "given"
    engine = open_database(sqlite_url(state / "history.sqlite"))
    upgrade(engine)
    starts = [day + hour * HOUR for day in (START, START + 40 * DAY) for hour in range(4)]
    write(Store(engine), [server_minute(at) for at in starts])
    rollup.roll_up(engine, NOW)
    engine.dispose()
    yield state


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: float(NOW))


def test_a_new_history_is_made_and_then_up_to_date(inferwatch: Command, folder: Path) -> None:
    for _ in range(2):
        ran = inferwatch("db", "upgrade")
        assert (ran.status, ran.err) == (0, "")
        assert ran.out.startswith(f"{folder}/state/inferwatch/history.sqlite: up to date (revision 0")


def test_retention_tells_what_is_kept_and_deletes_only_what_it_is_told_to(inferwatch: Command, state: Path) -> None:
    told = inferwatch("db", "retention", "--state-dir", str(state))
    assert told.status == 0
    lines = told.out.splitlines()
    assert lines[0].startswith(f"{state}/history.sqlite: 0.")
    assert lines[0].endswith(" MB")
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "tier kept rows oldest too old",
        "minutes 35 days 24 2026-12-01 00:00 UTC 12 before 2026-12-06 00:00 UTC",
        "hours 400 days 24 2026-12-01 00:00 UTC 0 before 2025-12-06 00:00 UTC",
        "days for ever 3 2026-12-01 00:00 UTC",
        "alerts 400 days 0 0 before 2025-12-06 00:00 UTC",
    ]
    assert inferwatch("db", "retention", "--dry-run", "--state-dir", str(state)).out == told.out
    applied = inferwatch("db", "retention", "--apply", "--state-dir", str(state)).out.splitlines()
    assert applied[2].split()[3:6] == ["12", "2027-01-10", "00:00"]
    assert applied[2].split()[7] == "0"


def test_retention_is_the_configurations(inferwatch: Command, state: Path, folder: Path) -> None:
    (folder / "c.yml").write_text(
        "history: {path: given/history.sqlite, retention: {minutes: 1d, hours: 2d, days: 3d, alerts: 4d}}"
    )
    ran = inferwatch("db", "retention", "--config", "c.yml")
    assert [line.split()[1:3] for line in ran.out.splitlines()[2:]] == [[days, "days"] for days in "1234"]


def test_a_backup_goes_to_postgresql_and_back(
    inferwatch: Command, state: Path, folder: Path, postgres_url: str
) -> None:
    there, back = folder / "there", folder / "back"
    ran = inferwatch("db", "backup", str(there), "--state-dir", str(state))
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(f"{there}: 0.")
    assert ran.out.endswith(f" MB, all of {state}/history.sqlite\n")
    ran = inferwatch("db", "restore", str(there), "--database", postgres_url)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.endswith(f": restored from {there}\n")
    assert inferwatch("db", "backup", str(back), "--database", postgres_url).status == 0
    assert dump(there) == dump(back)


def dump(file: Path) -> dict[str, list[str]]:
    """But for the order of rows and of columns that a migration added."""
    with sqlite3.connect(file) as connection:
        connection.row_factory = sqlite3.Row
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}
        found = {name: sorted(repr(sorted(dict(row).items())) for row in of) for name, of in rows.items()}
    connection.close()
    return found


def test_what_is_there_is_lost_only_by_force_which_says_so(inferwatch: Command, state: Path, folder: Path) -> None:
    assert inferwatch("db", "backup", "b", "--state-dir", str(state)).status == 0
    refused = inferwatch("db", "restore", "b", "--state-dir", str(state))
    assert refused.status == 1
    assert "is not empty (3 series and " in refused.err
    forced = inferwatch("db", "restore", "b", "--state-dir", str(state), "--force")
    assert forced.status == 0
    assert "restored from b; lost: 3 series and " in forced.out
    overwritten = inferwatch("db", "backup", "b", "--state-dir", str(state))
    assert (overwritten.status, overwritten.err) == (
        1,
        "inferwatch: could not write the backup b: it exists already; name another, or --overwrite\n",
    )
    assert inferwatch("db", "backup", "b", "--state-dir", str(state), "--overwrite").status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        (["retention"], 1, "there is no history at "),
        (["backup", "b"], 1, "there is no history at "),
        (["restore", "b"], 1, "could not restore b: there is no such file"),
        (["upgrade", "--database", "mysql://h/d"], 2, "--database: allowed: a database URL, such as sqlite:////"),
        (
            ["upgrade", "--database", "postgresql://u:hidden@h/d"],
            2,
            "--database: (value not shown): allowed: a database",
        ),
        (["upgrade", "--database", "sqlite:///x", "--state-dir", "y"], 2, "--database: allowed: without --state-dir"),
        (["upgrade", "--config", "nowhere.yml"], 2, "nowhere.yml: could not be read"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    inferwatch: Command, folder: Path, arguments: list[str], status: int, problem: str
) -> None:
    ran = inferwatch("db", *arguments)
    assert (ran.status, ran.err.count("\n")) == (status, 1)
    assert problem in ran.err
    assert "hidden" not in ran.err
    assert not (folder / "state").exists() or arguments[0] in ("upgrade", "restore"), "nothing is made on the way"


def test_a_file_that_is_no_backup_is_told(inferwatch: Command, folder: Path) -> None:
    (folder / "text").write_text("no database\n" * 100)
    ran = inferwatch("db", "restore", "text")
    assert ran.status == 1
    assert ran.err == "inferwatch: could not restore text: it is no backup (file is not a database)\n"


def test_tables_of_an_older_release_are_upgraded_only_when_that_is_asked(inferwatch: Command, folder: Path) -> None:
    from alembic import command

    from monitor.history.database import alembic_config, for_writing

    engine = open_database(sqlite_url(folder / "history.sqlite"))
    with for_writing(engine).begin() as connection:
        command.upgrade(alembic_config(connection), "0001")
    engine.dispose()
    ran = inferwatch("db", "retention", "--state-dir", ".")
    assert ran.status == 1
    assert "has the tables of an older release: inferwatch db upgrade" in ran.err
    assert inferwatch("db", "backup", "old", "--state-dir", ".").status == 0, "before the upgrade, of all times"
    assert inferwatch("db", "upgrade", "--state-dir", ".").status == 0
    assert inferwatch("db", "retention", "--state-dir", ".").status == 0


def test_progress_is_shown_on_a_terminal_alone(
    inferwatch: Command, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = inferwatch("db", "backup", "quiet", "--state-dir", str(state))
    assert quiet.err == ""
    monkeypatch.setattr("inferwatch.db._is_terminal", lambda: True)
    shown = inferwatch("db", "backup", "shown", "--state-dir", str(state))
    assert shown.err.startswith("\r\x1b[K")
    assert "100 %" in shown.err
    assert shown.err.endswith("\r\x1b[K")


@pytest.mark.parametrize("command", [["db", "--help"], ["history", "--help"], ["db", "backup", "--help"]])
def test_help_needs_no_sql(command: list[str]) -> None:
    code = (
        "import sys; from inferwatch.__main__ import app\n"
        "try: app(sys.argv[1:])\n"
        "except SystemExit: assert 'sqlalchemy' not in sys.modules and 'monitor' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
