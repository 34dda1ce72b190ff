from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, insert

from monitor.compare.imported.run import Run
from monitor.compare.model import Band, Measure, Workload
from monitor.compare.runs import Runs
from monitor.history.backup import back_up
from monitor.history.database import open_database, sqlite_url
from monitor.history.restore import restore
from monitor.history.tables import comparison_runs

RUN = Run(
    "guidellm",
    60.0,
    {Measure.TOKENS: 19_200.0, Measure.TTFT_P99: 1.1},
    Workload(512, 256),
    "llama",
    1_796_000_000.0,
    "sglang",
    "0.5.23",
    "NVIDIA H100",
)


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


@pytest.fixture
def runs(database: Engine) -> Runs:
    return Runs(database, lambda: 1_796_083_200.0)


def test_a_model_whose_name_no_database_holds_has_no_runs(runs: Runs) -> None:
    runs.add("rate-25.json", b"{}", [RUN])
    assert runs.cells("llama\0") == []


def test_an_imported_run_is_a_cell_with_tool_and_file(runs: Runs) -> None:
    runs.add("rate-25.json", b"{}", [RUN])
    (cell,) = runs.cells()
    group = cell.group
    assert (group.framework, group.model, group.version, group.gpu) == ("sglang", "llama", "0.5.23", "NVIDIA H100")
    assert (group.tool, group.file, group.is_imported) == ("guidellm", "rate-25.json", True)
    assert (cell.band, cell.concurrency, cell.minutes, cell.is_told) == (Band(64), 60.0, 0, True)
    assert {measure: estimate.value for measure, estimate in cell.measures.items()} == dict(RUN.measures)
    assert cell.workload == Workload(512, 256)
    assert all(estimate.low is None for estimate in cell.measures.values())


def test_the_same_file_again_replaces_what_was_said_of_it(runs: Runs) -> None:
    runs.add("a.json", b"one", [RUN, RUN])
    runs.add("b.json", b"one", [RUN])
    runs.add("a.json", b"other", [RUN])
    assert [cell.group.file for cell in runs.cells()] == ["a.json", "b.json"]


def test_runs_of_a_file_can_be_removed(runs: Runs) -> None:
    runs.add("a.json", b"one", [RUN, RUN])
    runs.add("b.json", b"two", [RUN])
    assert (runs.remove("a.json"), runs.remove("a.json")) == (2, 0)
    assert [cell.group.file for cell in runs.cells()] == ["b.json"]


def test_only_runs_of_the_model_asked_for_are_told(runs: Runs) -> None:
    runs.add("a.json", b"one", [RUN])
    assert runs.cells("qwen") == []
    assert len(runs.cells("llama")) == 1


def test_measures_of_a_newer_release_are_left_out(runs: Runs, database: Engine) -> None:
    runs.add("a.json", b"one", [RUN])
    with database.begin() as connection:
        row = dict(connection.execute(comparison_runs.select()).mappings().one())
        row |= {"digest": "x", "measures": {"joy": 1.0, "tokens_per_second": 2.0}}
        connection.execute(insert(comparison_runs), [row])
    assert {frozenset(cell.measures) for cell in runs.cells()} == {
        frozenset([Measure.TOKENS]), frozenset(RUN.measures),
    }  # fmt: skip


def test_a_name_that_postgresql_cannot_hold_is_kept_as_far_as_it_can(runs: Runs) -> None:
    runs.add("a\0b.json", b"one", [RUN])
    assert [cell.group.file for cell in runs.cells()] == ["a\N{REPLACEMENT CHARACTER}b.json"]
    assert runs.remove("a\0b.json") == 1


def test_a_backup_has_the_runs(runs: Runs, database: Engine, tmp_path: Path) -> None:
    runs.add("a.json", b"one", [RUN])
    back_up(database, tmp_path / "backup", lambda _: None)
    other = open_database(sqlite_url(tmp_path / "restored.sqlite"))
    restore(tmp_path / "backup", other, lambda _: None)
    assert Runs(other).cells() == runs.cells()
    other.dispose()
