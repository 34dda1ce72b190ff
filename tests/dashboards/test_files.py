"""What `inferwatch dashboards build` writes, and Grafana's provisioning of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dashboards.files import FOLDER, PASSWORD_FILE
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
