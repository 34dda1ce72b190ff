from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine as Database

from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.store import Store
from tests.inferwatch.command import Command
from tests.monitor.compare.imported.results import GUIDELLM, VLLM
from tests.monitor.compare.stored import KIND, MINUTE, START, Engine, window, write

MINUTES = 30


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """In the current folder, with half an hour of two servers, and a configuration with a price."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.time", lambda: float(START + MINUTES * MINUTE))
    made = open_database(sqlite_url(tmp_path / "history.sqlite"))
    upgrade(made)
    write(Store(made), [window(n, e) for n in range(MINUTES) for e in (Engine(), Engine("s2", "sglang", prompt=36e3))])
    Path("inferwatch.yml").write_text("history: {path: history.sqlite}\ncompare: {gpu_hour: 2, currency: EUR}\n")
    yield made
    made.dispose()


@pytest.fixture
def compared(inferwatch: Command, database: Database) -> Command:
    return inferwatch


def result(document: object, name: str = "result.json") -> str:
    Path(name).write_text(json.dumps(document))
    return name


def test_the_table_puts_frameworks_beside_each_other(compared: Command) -> None:
    ran = compared("compare")
    assert ran.status == 0
    assert f"llama on {KIND}" in ran.out
    assert "tokens/s at about 16: sglang > vllm" in ran.out
    assert "cost of a million tokens, EUR" in ran.out


def test_each_format_is_what_it_is_called(compared: Command) -> None:
    assert json.loads(compared("compare", "--format", "json").out)["cells"][0]["framework"] == "sglang"
    assert compared("compare", "--format", "csv").out.startswith("framework,model,gpu,")
    assert "\n| 16 | vllm | 30 |" in compared("compare", "--format", "markdown").out


def test_a_split_needs_something_that_changed(compared: Command) -> None:
    ran = compared("compare", "--split", "version")
    assert "Nothing to compare" in ran.out
    assert "one release only" in ran.out


def test_what_cannot_be_asked_ends_with_the_option(compared: Command) -> None:
    ran = compared("compare", "--split", "soon")
    assert (ran.status, ran.out) == (2, "")
    assert "inferwatch: --split: 'soon' is no moment" in ran.err
    assert "--by: 'gpu'; allowed: version, server" in compared("compare", "--by", "gpu").err


def test_a_model_that_nobody_serves_is_refused_with_those_that_are(compared: Command) -> None:
    ran = compared("compare", "--model", "lama")
    assert ran.status == 2
    assert ran.err.endswith("inferwatch: --model: 'lama' is no model of this history; allowed: llama\n")


@pytest.mark.parametrize("option", ["--framework", "--release", "--gpu"])
def test_what_is_told_of_a_load_test_chooses_nothing(compared: Command, option: str) -> None:
    ran = compared("compare", option, "vllm")
    assert ran.status == 2
    assert f"{option}: allowed: together with --import" in ran.err


def test_a_load_test_is_kept_with_what_is_said_of_it(compared: Command) -> None:
    told = ("--framework", "vllm", "--release", "0.32.0", "--gpu", KIND, "--model", "llama")
    ran = compared("compare", "--import", result(GUIDELLM), *told)
    assert (ran.status, ran.err.splitlines()[-1]) == (0, "result.json: 2 of guidellm")
    runs = [c for c in json.loads(compared("compare", "--format", "json").out)["cells"] if c["tool"]]
    assert [(c["framework"], c["version"], c["gpu"], c["at_once"]) for c in runs] == [
        ("vllm", "0.32.0", KIND, 16), ("vllm", "0.32.0", KIND, 64),
    ]  # fmt: skip


def test_of_several_files_all_are_kept_or_none(compared: Command) -> None:
    ran = compared("compare", "--import", result(VLLM), "--import", result({"a": 1}, "other.json"))
    assert ran.status == 2
    assert "other.json: allowed: the result of a load test as JSON" in ran.err
    assert "[vllm bench serve]" not in compared("compare").out


def test_a_load_test_is_forgotten_by_its_file(compared: Command) -> None:
    compared("compare", "--import", result(VLLM))
    assert "[vllm bench serve]" in compared("compare").out
    wrong = compared("compare", "--forget", "other.json")
    assert (wrong.status, "allowed: result.json" in wrong.err) == (2, True)
    assert compared("compare", "--forget", "result.json").status == 0
    assert "[vllm bench serve]" not in compared("compare").out


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "could not be read: No such file"),
        (b'\xef\xbb\xbf{"a":\n"\xe4"}', "line 2, byte 10: allowed: UTF-8 text"),
        (b"{", "line 1, column 2: Expecting property name enclosed in double quotes: no JSON"),
        (b'{"a": {"b": 1, "b": 2}}', "'a.b': stands twice; allowed: each name once in an object"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(compared: Command, content: bytes | None, told: str) -> None:
    if content is not None:
        Path("x.json").write_bytes(content)
    ran = compared("compare", "--import", "x.json")
    assert (ran.status, ran.out) == (2, "")
    assert f"inferwatch: x.json: {told}" in ran.err


def test_a_byte_order_mark_is_no_part_of_a_result(compared: Command) -> None:
    Path("x.json").write_text(json.dumps(VLLM), encoding="utf-8-sig")
    assert compared("compare", "--import", "x.json").status == 0


def test_what_may_have_no_end_is_not_read(compared: Command) -> None:
    os.mkfifo("results")
    ran = compared("compare", "--import", "results")
    assert (ran.status, ran.err) == (
        2,
        "inferwatch: results: allowed: a regular file: a pipe or device may have no end\n",
    )


def test_an_unknown_framework_is_refused(compared: Command) -> None:
    ran = compared("compare", "--import", result(VLLM), "--framework", "tgi")
    assert (ran.status, "--framework: 'tgi': allowed: vllm, sglang" in ran.err) == (2, True)
