"""What `inferwatch dashboards build` writes, and Grafana's provisioning of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from dashboards.files import FOLDER, PASSWORD_FILE
from tests.dashboards.asked import one
from tests.dashboards.panels import FILES, JSON
from tests.inferwatch.command import Command

SOURCES = yaml.safe_load(FILES["provisioning/datasources/inferwatch.yml"])
PROVIDERS = yaml.safe_load(FILES["provisioning/dashboards/inferwatch.yml"])


@pytest.fixture
def inferwatch(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(capsys, monkeypatch)


def test_the_command_writes_what_is_checked_in(inferwatch: Command, tmp_path: Path) -> None:
    ran = inferwatch("dashboards", "build", str(tmp_path / "new" / "folder"))
    assert (ran.status, ran.err) == (0, "")
    root = tmp_path / "new" / "folder"
    written = {str(p.relative_to(root)): p.read_text(encoding="utf-8") for p in root.rglob("*") if p.is_file()}
    assert written == FILES
    checked_in = Path(__file__).parents[2] / "dashboards" / "generated"
    assert {str(p.relative_to(checked_in)) for p in checked_in.rglob("*") if p.is_file()} == set(FILES)


def test_objectives_are_told_apart_by_labels_of_ones_own(inferwatch: Command, tmp_path: Path) -> None:
    file = tmp_path / "slo.yml"
    indicator = "{latency: {phase: ttft, below: 1s}}"
    file.write_text(
        "version: 1\nuser_labels: [team]\n"
        f"slos: [{{name: fast, objective: 95%, indicator: {indicator}, group_by: [team, framework]}}]\n"
    )
    assert inferwatch("dashboards", "build", str(tmp_path / "new"), "--slo", str(file)).status == 0
    written = json.loads((tmp_path / "new" / "dashboards" / "slos.json").read_text(encoding="utf-8"))
    (left,) = one(written, "Error budget left")["targets"]
    assert left["legendFormat"].endswith("{{role}} {{engine}} {{team}}")
    (states,) = one(written, "Objectives")["targets"]
    assert "max by (slo, node, server, framework, model, role, engine, team)" in states["expr"]
    for title in ("What was judged", "Burn of every window", "Alerts that fire"):
        transformed = one(written, title)["transformations"]
        assert "team" in next(t for t in transformed if t["id"] == "organize")["options"]["renameByName"]


def test_a_file_of_objectives_that_is_wrong_is_told(inferwatch: Command, tmp_path: Path) -> None:
    (tmp_path / "slo.yml").write_text("version: 2\n")
    ran = inferwatch("dashboards", "build", str(tmp_path / "new"), "--slo", str(tmp_path / "slo.yml"))
    assert ran.status == 2
    assert "version" in ran.err
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_written_is_told(inferwatch: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = inferwatch("dashboards", "build", str(tmp_path / "file"))
    assert ran.status == 1
    assert ran.err.startswith(f"inferwatch: could not write {tmp_path}/file/")
    assert len(ran.err.splitlines()) == 1


def test_other_files_of_the_folder_stay(inferwatch: Command, tmp_path: Path) -> None:
    mine = tmp_path / "dashboards" / "mine.json"
    mine.parent.mkdir()
    mine.write_text("{}")
    assert inferwatch("dashboards", "build", str(tmp_path)).status == 0
    assert mine.read_text() == "{}"


def test_the_data_sources_are_those_that_dashboards_choose_from() -> None:
    found = {source["uid"]: source for source in SOURCES["datasources"]}
    assert set(found) == {"inferwatch-prometheus", "inferwatch-postgres"}
    wanted = {
        v["query"]
        for name, dashboard in JSON.items()
        if name.startswith("dashboards/")
        for v in dashboard["templating"]["list"]
        if v["type"] == "datasource"
    }
    assert wanted <= {source["type"] for source in found.values()}
    assert found["inferwatch-prometheus"]["isDefault"] is True


def test_the_password_stands_in_no_file() -> None:
    (history,) = (s for s in SOURCES["datasources"] if s["uid"] == "inferwatch-postgres")
    assert history["secureJsonData"] == {"password": f"$__file{{{PASSWORD_FILE}}}"}


def test_the_folder_of_dashboards_is_provisioned_and_left_as_it_is() -> None:
    (provider,) = PROVIDERS["providers"]
    assert provider["options"] == {"path": FOLDER}
    assert (provider["allowUiUpdates"], provider["disableDeletion"]) == (False, True)
