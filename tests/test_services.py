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
        "gcc": "build-essential",
        "libatomic.so.1": "libatomic1",
    }


def test_a_missing_program_skips_and_names_the_package(empty_path: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"promtool is not installed.*install prometheus"):
        services.require("promtool")


def test_a_missing_program_fails_in_ci(empty_path: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="chromium is not installed"):
        services.require("chromium")
