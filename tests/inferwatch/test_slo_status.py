from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.store import Store
from tests.inferwatch.command import Command
from tests.monitor.history.fleet import HOUR, START, server_minute, write

SPEC = "version: 1\nslos:\n  - {name: fast, objective: 95%, indicator: {latency: {phase: ttft, below: 1s}}}\n"


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """In the current folder, with three hours of two servers of two engines: each minute 4 requests of an engine, of
    which 3 are within a second."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.time", lambda: float(START + 3 * HOUR))
    engine = open_database(sqlite_url(tmp_path / "history.sqlite"))
    upgrade(engine)
    starts = range(START, START + 3 * HOUR, 60)
    write(Store(engine), [server_minute(at, server) for at in starts for server in ("s1", "s2")])
    Path("slo.yml").write_text(SPEC)
    yield engine
    engine.dispose()


@pytest.mark.usefixtures("database")
def test_a_table_tells_how_objectives_stand(inferwatch: Command) -> None:
    ran = inferwatch("slo", "status", "--state-dir", ".")
    assert ran.status == 0, ran.err
    assert ran.out.splitlines() == [
        "as of 2026-12-01 03:00:00 UTC",
        "objective  group                   state      budget left  burn by window                     lasts  "
        "minutes not known",
        "fast       model=m-a role=unified  exhausted  -400.0 %     1h:5.00 6h:5.00 1d:5.00! 3d:5.00!  0 s    "
        "43020 of 43200",
    ]


@pytest.mark.usefixtures("database")
def test_json_is_what_the_api_tells(inferwatch: Command) -> None:
    ran = inferwatch("slo", "status", "slo.yml", "--state-dir", ".", "--json")
    ((told,), (group,)) = (json.loads(ran.out), json.loads(ran.out)[0]["groups"])
    assert (told["name"], told["at"], group["good"], group["bad"]) == ("fast", START + 3 * HOUR, 2160, 720)


@pytest.mark.usefixtures("database")
def test_the_configuration_names_the_objectives(inferwatch: Command) -> None:
    Path("mine.yml").write_text(SPEC.replace("fast", "mine"))
    Path("inferwatch.yml").write_text("slos: mine.yml\nhistory: {path: history.sqlite}\n")
    assert "mine" in inferwatch("slo", "status").out


def test_without_a_history_or_objectives_the_command_says_so(
    inferwatch: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    missing = inferwatch("slo", "status", "--state-dir", ".")
    assert (missing.status, missing.err) == (
        2, "inferwatch: slo.yml: could not be read: No such file or directory\n",
    )  # fmt: skip
    Path("slo.yml").write_text(SPEC)
    assert "there is no history at" in inferwatch("slo", "status", "--state-dir", ".").err


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(
    ("since", "until", "told"),
    [
        ("20m", "now", "2026-12-01 02:40 to 2026-12-01 03:00"),
        ("2026-12-01T01:33:20Z", "2026-12-01T02:09:00Z", "2026-12-01 01:30 to 2026-12-01 02:05"),
    ],
)
def test_a_replay_keeps_to_what_was_asked_for_and_says_so(
    inferwatch: Command, since: str, until: str, told: str
) -> None:
    ran = inferwatch("slo", "replay", "--state-dir", ".", "--since", since, "--until", until)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines()[0] == f"fast: 95 % over 30 days, from {told} UTC, every 5m"
    assert "could not be evaluated" not in ran.out


@pytest.mark.usefixtures("database")
def test_a_replay_of_less_than_a_step_is_refused(inferwatch: Command) -> None:
    ran = inferwatch("slo", "replay", "--state-dir", ".", "--since", "0m")
    assert (ran.status, ran.err) == (
        2,
        "inferwatch: --since: '0m': allowed: a moment 5m or more before --until and before the newest minute, "
        "2026-12-01 03:00 UTC\n",
    )


@pytest.mark.usefixtures("database")
def test_a_replay_since_what_is_no_moment_is_refused(inferwatch: Command) -> None:
    ran = inferwatch("slo", "replay", "--state-dir", ".", "--since", "soon")
    assert ran.status == 2
    assert ran.err.startswith("inferwatch: --since: 'soon' is no moment; allowed: unix seconds, ")


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(
    ("option", "value"), [("--month", "2027-01"), ("--month", "9999-12"), ("--quarter", "2027-Q1")]
)
def test_a_report_of_what_has_not_begun_is_refused(inferwatch: Command, option: str, value: str) -> None:
    ran = inferwatch("slo", "report", "--state-dir", ".", option, value)
    told = "allowed: one that has begun by the newest minute of the history, 2026-12-01 03:00 UTC"
    assert (ran.status, ran.out, ran.err) == (2, "", f"inferwatch: {option}: {value!r}: {told}\n")
