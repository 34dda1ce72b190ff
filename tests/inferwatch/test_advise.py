from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from monitor.history.database import open_database, sqlite_url, upgrade
from tests.inferwatch.command import Command
from tests.monitor.advise.minutes import engine, minute, process, store
from tests.monitor.evaluate.minutes import START

HOUR = 3600
SPEC = "version: 1\nslos:\n  - {name: fast, objective: 95%, indicator: {latency: {phase: ttft, below: 1s}}}\n"


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """In the current folder, with an hour of a server that preempts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.time", lambda: float(START + HOUR))
    found = open_database(sqlite_url(tmp_path / "history.sqlite"))
    upgrade(found)
    store(found, 60, {**dict([process()]), engine(): minute({"llm_preemptions_total": 9.0})})
    yield found
    found.dispose()


@pytest.mark.usefixtures("database")
def test_text_is_for_people_and_has_what_to_change_first(inferwatch: Command) -> None:
    ran = inferwatch("advise", "--state-dir", ".", "--since", "1h")
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[:6] == [
        "Advice from 2026-12-01 00:00:00 UTC to 2026-12-01 01:00:00 UTC",
        "",
        "What to change",
        "",
        "1. KV cache too small: n1/s1 throws requests out of its batch and computes them again: its KV cache is too "
        "small for the load.",
        "   change: raise --gpu-memory-utilization (the default is 0.9)",
    ]
    assert "   confidence: low (preemptions are counted, and yet the cache was not full); held 1 h" in lines
    assert "SGLang, by the reference figures alone. For measured ones let two frameworks" in ran.out
    assert "How many more requests: needs a latency objective in the configuration (slos) for ttft, tpot, e2e" in lines


def test_what_is_simulated_is_said_to_be(database: Engine, inferwatch: Command) -> None:
    store(database, 60, {**dict([process("s2")]), engine("s2", source="simulated"): minute()})
    ran = inferwatch("advise", "--state-dir", ".", "--since", "1h")
    told = "Simulated are 1 of 2 servers: what is said of them is true of no real one."
    assert ran.out.splitlines()[:3] == ["Advice from 2026-12-01 00:00:00 UTC to 2026-12-01 01:00:00 UTC", told, ""]
    whole = json.loads(inferwatch("advise", "--state-dir", ".", "--since", "1h", "--format", "json").out)
    assert whole["simulated"] == ["n1/s2"]
    one = json.loads(
        inferwatch("advise", "--state-dir", ".", "--since", "1h", "--server", "s1", "--format", "json").out
    )
    assert one["simulated"] == []


@pytest.mark.usefixtures("database")
def test_markdown_has_headings_lists_and_code(inferwatch: Command) -> None:
    out = inferwatch("advise", "--state-dir", ".", "--since", "1h", "--format", "markdown").out
    assert out.startswith("# Advice from 2026-12-01 00:00:00 UTC")
    assert "## What to change\n\n1. KV cache too small: n1/s1" in out
    assert "   - change: raise `--gpu-memory-utilization` (the default is 0.9)" in out


@pytest.mark.usefixtures("database")
def test_json_is_what_the_api_tells(inferwatch: Command) -> None:
    told = json.loads(inferwatch("advise", "--state-dir", ".", "--since", "1h", "--format", "json").out)
    assert [finding["name"] for finding in told["findings"]] == ["kv_cache_short"]
    assert told["since"] == START


@pytest.mark.usefixtures("database")
def test_the_objectives_of_the_configuration_are_the_goals(inferwatch: Command) -> None:
    Path("slo.yml").write_text(SPEC)
    Path("inferwatch.yml").write_text("slos: slo.yml\nhistory: {path: history.sqlite}\n")
    ran = inferwatch("advise", "--since", "1h")
    assert ran.status == 0
    assert "How many more requests (m): needs 60 minutes or hours with requests; there are 0" in ran.out


@pytest.mark.usefixtures("database")
def test_an_unknown_server_names_the_nearest(inferwatch: Command) -> None:
    ran = inferwatch("advise", "--state-dir", ".", "--since", "1h", "--server", "s11")
    assert (ran.status, ran.err) == (
        2,
        "inferwatch: --server: 's11' is not in the history of this time; did you mean 's1'?; allowed: n1/s1\n",
    )


@pytest.mark.usefixtures("database")
def test_a_wrong_moment_says_what_is_allowed(inferwatch: Command) -> None:
    ran = inferwatch("advise", "--state-dir", ".", "--since", "soon")
    assert ran.status == 2
    assert ran.err.startswith("inferwatch: --since: 'soon' is no moment; allowed: unix seconds")


@pytest.mark.usefixtures("database")
def test_a_time_without_servers_is_no_time_in_which_all_was_well(inferwatch: Command) -> None:
    ran = inferwatch("advise", "--state-dir", ".", "--since", "90d", "--until", "89d")
    assert ran.status == 0
    assert "No server was observed in this time." in ran.out
    assert "Nothing was found" not in ran.out


def test_without_a_history_the_command_says_so(
    inferwatch: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = inferwatch("advise", "--state-dir", ".")
    assert ran.status == 1
    assert "there is no history at" in ran.err
