from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from inferwatch.generate import ROOT
from monitor.app import create_app
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.store import Store
from tests.inferwatch.command import Command
from tests.monitor.history.fleet import HOUR, START, server_minute, write

NOW = float(START + 3 * HOUR)
RUNNING, TTFT = "llm_requests_running", "llm_time_to_first_token_seconds"


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """In the current folder, with three hours of two servers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.time", lambda: NOW)
    engine = open_database(sqlite_url(tmp_path / "history.sqlite"))
    upgrade(engine)
    starts = range(START, START + 3 * HOUR, 60)
    write(Store(engine), [server_minute(at, server, tokens=300) for at in starts for server in ("s1", "s2")])
    yield engine
    engine.dispose()


@pytest.mark.parametrize(
    "asked",
    [
        {"metric": RUNNING, "since": "2h", "step": "5m"},
        {"metric": RUNNING, "aggregation": "max", "group_by": ["server", "engine"], "where": ["engine=0"]},
        {"metric": TTFT, "q": "0.99", "since": str(START), "until": "30m", "group_by": ["server"], "format": "csv"},
        {"metric": "llm_requests_rejected_total", "group_by": ["reason"], "step": "auto", "format": "json"},
    ],
)
async def test_the_same_parameters_give_the_bytes_of_the_api(
    inferwatch: Command, database: Engine, asked: dict[str, str | list[str]]
) -> None:
    app = create_app(Fleet(), History(database), node="n1", clock=lambda: NOW)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        told = await client.get("/api/v1/history", params=asked)
    given = [(name, v) for name, value in asked.items() for v in (value if isinstance(value, list) else [value])]
    ran = inferwatch("history", "export", "--state-dir", ".", *(f"--{n.replace('_', '-')}={v}" for n, v in given))
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.encode() == told.content
    assert told.status_code == 200
    assert len(told.content) > 300


def test_lines_hold_any_number_of_points(inferwatch: Command, database: Engine) -> None:
    asked = ["--metric", RUNNING, "--since", "3h", "--step", "1m", "--group-by", "server", "--format", "jsonl"]
    ran = inferwatch("history", "export", "--state-dir", ".", *asked)
    points = [json.loads(line) for line in ran.out.splitlines()]
    assert len(points) == 2 * 180
    assert points[0] == {
        "metric": RUNNING, "labels": {"server": "s1"}, "start": START, "seconds": 60, "value": 9.0, "lower": None,
        "upper": None, "at_least": False, "covered_seconds": 60.0, "series": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (["--metric", "llm_requests_runing"], "--metric: 'llm_requests_runing' is not in the schema; did you mean"),
        (["--metric", TTFT], "--q: missing; allowed: 0 to 1 for a histogram metric\n"),
        (["--metric", RUNNING, "--group-by", "colour"], "--group-by: llm_requests_running has no label 'colour'"),
        (["--metric", RUNNING, "--since", "soon"], "--since: 'soon' is no moment; allowed: unix seconds, an RFC 3339"),
        (["--metric", RUNNING, "--where", "x"], "--where: 'x' is no filter; allowed: label=value"),
    ],
)
def test_a_question_that_cannot_be_answered_says_what_is_allowed(
    inferwatch: Command, database: Engine, asked: list[str], problem: str
) -> None:
    ran = inferwatch("history", "export", "--state-dir", ".", *asked)
    assert (ran.status, ran.out) == (2, "")
    assert problem in ran.err


def test_a_history_that_is_not_there_is_told(inferwatch: Command, tmp_path: Path) -> None:
    ran = inferwatch("history", "export", "--metric", RUNNING, "--state-dir", str(tmp_path / "nowhere"))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == f"inferwatch: there is no history at {tmp_path}/nowhere/history.sqlite\n"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.usefixtures("database")
def test_who_reads_only_the_first_lines_is_told_nothing(tmp_path: Path) -> None:
    asked = ["--metric", RUNNING, "--since", str(START), "--until", str(START + 3 * HOUR), "--step", "1m"]
    command = [sys.executable, "-m", "inferwatch", "history", "export", *asked, "--group-by", "server"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*command, "--format", "jsonl", "--state-dir", "."],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as ran:  # fmt: skip
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.close()
        assert ran.stderr.read() == b""


def test_what_is_said_of_the_configuration_is_no_part_of_the_answer(
    inferwatch: Command, database: Engine, tmp_path: Path
) -> None:
    (tmp_path / "inferwatch.yml").write_text("history: {path: history.sqlite}")
    ran = inferwatch("history", "export", "--metric", RUNNING)
    assert json.loads(ran.out)["metric"] == RUNNING
    assert ran.err == "using inferwatch.yml of this folder\n"
