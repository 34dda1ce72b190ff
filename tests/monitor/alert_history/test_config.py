from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporters.config import unread
from exporters.loader import ConfigError, load
from monitor.config import AlertmanagerSection, MonitorConfig

DOCS = Path(__file__).parents[3] / "docs" / "alerts.md"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "inferwatch.yml"


def test_a_token_lies_in_a_file_and_is_never_shown(written: Path) -> None:
    written.with_name("token").write_text("secret")
    written.write_text("alertmanager: {bearer_token_file: token}")
    config = load(written, MonitorConfig)
    assert config.alertmanager.bearer_token_file == written.with_name("token")
    assert "token" not in repr(config.alertmanager)
    assert unread(config) == []


def test_two_tokens_are_refused(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    written.with_name("token").write_text("secret")
    written.write_text(
        "alertmanager: {bearer_token_file: token, bearer_token_env: TOKEN}\nprometheus: {url: 'http://p'}"
    )
    with pytest.raises(ConfigError) as error:
        load(written, MonitorConfig)
    assert error.value.problems == (f"{written}: alertmanager.bearer_token_env: allowed: without `bearer_token_file`",)


def test_an_empty_token_is_refused(written: Path) -> None:
    written.with_name("token").write_text("\n")
    written.write_text("alertmanager: {bearer_token_file: token}")
    with pytest.raises(
        ConfigError, match=r"bearer_token_file: \(value not shown\): allowed: a file that holds a token"
    ):
        load(written, MonitorConfig)


def test_every_key_has_its_row_in_the_docs() -> None:
    found = re.findall(r"^\| `alertmanager\.(\w+)` \|", DOCS.read_text(), re.MULTILINE)
    assert set(found) == set(AlertmanagerSection.model_fields)
