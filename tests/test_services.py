from __future__ import annotations

from pathlib import Path

import pytest

from tests import services


@pytest.fixture
def empty_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


def test_every_program_of_the_script_is_known() -> None:
    assert services.packages() == {
        "prometheus": "prometheus",
        "promtool": "prometheus",
        "chromium": "chromium",
        "initdb": "postgresql",
        "postgres": "postgresql",
        "prometheus-alertmanager": "prometheus-alertmanager",
        "amtool": "prometheus-alertmanager",
        "victoria-metrics": "victoria-metrics",
        "gcc": "build-essential",
        "libatomic.so.1": "libatomic1",
        "podman": "podman",
        "buildah": "buildah",
        "runc": "runc",
        "debootstrap": "debootstrap",
    }


def test_a_missing_program_skips_and_names_the_package(empty_path: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"promtool is not installed.*install prometheus"):
        services.require("promtool")


def test_a_missing_program_fails_in_ci(empty_path: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="chromium is not installed"):
        services.require("chromium")


def test_a_program_off_the_path_is_found_in_the_newest_release(
    empty_path: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for release in ("9", "15", "14"):
        program = tmp_path / release / "bin" / "postgres"
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
    script = tmp_path / "script"
    script.write_text(f"off_path='{tmp_path}/*/bin'\n")
    monkeypatch.setattr(services, "SCRIPT", script)
    assert services.require("postgres") == str(tmp_path / "15" / "bin" / "postgres")
