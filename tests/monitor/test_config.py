import re
from pathlib import Path

import pytest

from exporters.config import Config
from exporters.loader import ConfigError, Section, load
from monitor.config import HistorySection, MonitorConfig, Sources

DOCS = Path(__file__).parents[2] / "docs" / "history.md"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "inferwatch.yml"


def config_of(path: Path, text: str) -> MonitorConfig:
    path.write_text(text)
    return load(path, MonitorConfig)


def test_without_a_file_the_history_is_sqlite_under_the_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert load(None, MonitorConfig).history.database == "sqlite:////state/inferwatch/history.sqlite"


def test_a_path_of_the_history_is_relative_to_the_file(written: Path) -> None:
    config = config_of(written, "history: {path: data/h.sqlite, retention: 7d}")
    assert config.history.database == f"sqlite:///{written.parent}/data/h.sqlite"
    assert config.history.retention == 7 * 86_400


def test_one_file_serves_sidecar_and_monitor(written: Path) -> None:
    text = (
        "servers: [{url: 'http://gpu-1:8000'}]\nsources: {sidecars: ['http://gpu-2:9840']}\nscrape: {interval: 30s}\n"
    )
    monitor, sidecar = config_of(written, text), load(written, Config)
    assert monitor.sources.sidecars == ("http://gpu-2:9840",)
    assert monitor.scrape.interval == sidecar.scrape.interval == 30
    assert sidecar.servers[0].name == "gpu-1:8000"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("history: {url: 'nonsense'}", "history.url: 'nonsense': allowed: a database URL, such as"),
        ("history: {url: 'postgresql://u:secret@h/d'}", "allowed: a database URL without password"),
        ("history: {url: 'sqlite:///a', path: b}", "history: a mapping: allowed: either `url` or `path`"),
        ("history: {retention: soon}", "history.retention: 'soon': allowed: seconds, or text such as"),
        ("history: {patth: x}", "history.patth: unknown key: did you mean `path`?"),
        ("sources: {sidecars: ['gpu-1']}", "sources.sidecars[0]: 'gpu-1': allowed: http or https URL of a sidecar"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place_and_what_is_allowed(written: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(written, text)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_every_key_of_the_monitor_has_its_row_in_the_docs() -> None:
    documented = set(re.findall(r"^\| `((?:history|sources)\.\w+)` \|", DOCS.read_text(), re.MULTILINE))
    sections: dict[str, type[Section]] = {"history": HistorySection, "sources": Sources}
    assert documented == {f"{name}.{key}" for name, section in sections.items() for key in section.model_fields}
