from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporters.config import unread
from exporters.loader import ConfigError, load
from monitor.config import AlertmanagerAccess, AlertmanagerSection, BasicAuth, MonitorConfig

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


def test_several_alertmanagers_are_told_with_one_way_in(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "secret")
    written.write_text(
        "alertmanager: {url: ['http://a:9093', 'https://b/am'], access: {basic_auth: {username: me, password_env: "
        "PASSWORD}, tls: {insecure_skip_verify: true}}}"
    )
    found = load(written, MonitorConfig).alertmanager
    assert found.url == ("http://a:9093", "https://b/am")
    assert found.access.basic_auth is not None
    assert found.access.basic_auth.password() == "secret"
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("{url: 'http://a/api/v2'}", "allowed: the URL before /api/v2"),
        ("{url: ['http://a', 'http://a']}", "allowed: each `url` once"),
        ("{access: {bearer_token_env: PASSWORD}}", "allowed: `access` together with `url`"),
        ("{url: 'http://a', access: {tls: {}}}", "allowed: `access.tls` with a `url` of https"),
        (
            "{url: 'http://a', access: {bearer_token_env: PASSWORD, bearer_token_file: token}}",
            "access.bearer_token_env: allowed: without `bearer_token_file`",
        ),
        (
            "{url: 'http://a', access: {bearer_token_env: PASSWORD, basic_auth: {username: m, password_file: token}}}",
            "allowed: either a token or `basic_auth`",
        ),
        (
            "{url: 'http://a', access: {basic_auth: {username: me}}}",
            "allowed: either `password_file` or `password_env`",
        ),
    ],
)
def test_ways_in_that_cannot_be_meant_are_refused(
    written: Path, monkeypatch: pytest.MonkeyPatch, section: str, told: str
) -> None:
    monkeypatch.setenv("PASSWORD", "secret")
    written.with_name("token").write_text("secret")
    written.write_text(f"alertmanager: {section}")
    with pytest.raises(ConfigError) as error:
        load(written, MonitorConfig)
    (problem,) = error.value.problems
    assert told in problem


def test_every_key_has_its_row_in_the_docs() -> None:
    found = re.findall(r"^\| `alertmanager\.([\w.]+)` \|", DOCS.read_text(), re.MULTILINE)
    assert set(found) == {
        *(set(AlertmanagerSection.model_fields) - {"access"}),
        *(f"access.{name}" for name in AlertmanagerAccess.model_fields),
        *(f"access.basic_auth.{name}" for name in BasicAuth.model_fields),
    }
