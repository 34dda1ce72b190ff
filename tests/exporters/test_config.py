from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import BaseModel, ValidationError

from exporters import schema
from exporters.config import SECTIONS, Config, ConfigError, Server, load, unread
from exporters.loader import Root, Section, Text, shown
from exporters.tables import FRONTENDS

FOLDER = Path(__file__).parent / "config"
INVALID = sorted(FOLDER.glob("invalid-*.yml"))
PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "inferwatch.yml"


def config_of(path: Path, text: str) -> Config:
    path.write_text(text)
    return load(path, Config)


@pytest.mark.parametrize("path", INVALID, ids=lambda p: p.stem)
def test_an_invalid_file_is_refused_with_all_its_errors(path: Path) -> None:
    expected = re.findall(r"^# error: (.*)$", path.read_text(), re.MULTILINE)
    with pytest.raises(ConfigError) as caught:
        load(path, Config)
    assert expected
    frontends = " or ".join(sorted(FRONTENDS))
    assert list(caught.value.problems) == [f"{path}: {line}".replace("{frontends}", frontends) for line in expected]


@pytest.mark.parametrize("path", INVALID, ids=lambda p: p.stem)
def test_no_error_shows_a_secret(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(path, Config)
    assert not re.search("s3cr3t|hunter2", str(caught.value))


def test_without_a_file_everything_has_a_default() -> None:
    config = load(None, Config)
    assert config == Config()
    assert (config.servers, config.node) == ((), socket.gethostname())
    assert (config.listen.host, config.listen.port) == ("127.0.0.1", 9840)
    assert (config.scrape.interval, config.scrape.timeout) == (15.0, 10.0)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "servers:\n", "---\n"])
def test_an_empty_file_or_section_is_the_default(written: Path, text: str) -> None:
    assert config_of(written, text) == Config()


def test_a_whole_file_is_read(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_TOKEN", "s3cr3t")
    config = config_of(
        written,
        """
        node: rack-1
        listen: {host: 0.0.0.0, port: 9000}
        scrape: {interval: 30s, timeout: 1500ms}
        servers:
          - url: HTTPS://GPU-1.example/llm/
            name: big one
            frontend: vllm
            metrics_path: /metrics/
            role: decode
            labels: {team: search, since: 2026-01-31}
            timeout: 2m
            bearer_token_env: GPU_TOKEN
            max_body_bytes: 1000
            max_samples: 10
            max_models: 1
          - url: http://[::1]:8000
        file_sd: [targets/*.json]
        probe: {allow: ["10.0.0.0/8"]}
        model_aliases: {/models/llama-3-8b: llama-3-8b}
        """,
    )
    first, second = config.servers
    assert first.url == "https://gpu-1.example/llm"
    assert (first.name, second.name) == ("big one", "[::1]:8000")
    assert (first.role, first.timeout, first.metrics_path) == ("decode", 120.0, "/metrics/")
    assert first.labels == {"team": "search", "since": "2026-01-31"}
    assert config.scrape.timeout == 1.5
    assert config.file_sd == (written.parent / "targets/*.json",)
    assert config.model_aliases == {"/models/llama-3-8b": "llama-3-8b"}
    assert "s3cr3t" not in repr(config)
    assert "GPU_TOKEN" not in repr(config)


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("HTTP://GPU-1:80/", ("http://gpu-1", "")),
        ("https://gpu-1:443/llm/", ("https://gpu-1/llm", "")),
        ("http://gpu-1:443", ("http://gpu-1:443", "")),
        ("http://gpu-1:08000/metrics/", ("http://gpu-1:8000", "")),
        ("http://gpu-1:8000/prometheus/metrics", ("http://gpu-1:8000", "")),
        ("http://gpu-1:8000/model-a/metrics", ("http://gpu-1:8000", "/model-a/metrics")),
        ("http://[::1]:80", ("http://[::1]", "")),
        ("http://localhost:8000", ("http://localhost:8000", "")),
        ("http://127.0.0.1:8000", ("http://127.0.0.1:8000", "")),
    ],
)
def test_one_server_is_the_same_however_it_is_written(url: str, page: tuple[str, str]) -> None:
    assert Server.model_validate({"url": url}).page == page


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://gpu-1:8000", "gpu-1:8000"),
        ("http://gpu-1", "gpu-1:80"),
        ("https://gpu-1", "gpu-1:443"),
        ("http://GPU-1:8000/a", "gpu-1:8000"),
        ("http://[::1]", "[::1]:80"),
    ],
)
def test_a_server_is_named_after_host_and_port(url: str, name: str) -> None:
    assert Server.model_validate({"url": url}).name == name


def test_a_url_of_the_metrics_page_itself_is_taken_apart() -> None:
    server = Server.model_validate({"url": "http://gpu-1:8000/prometheus/metrics"})
    assert (server.url, server.metrics_path) == ("http://gpu-1:8000", "/prometheus/metrics")


def test_a_configuration_cannot_be_changed() -> None:
    config = Config()
    with pytest.raises(ValidationError, match="frozen"):
        config.node = "other"


def test_paths_are_relative_to_the_file(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    (written.parent / "token").write_text("abc")
    config = config_of(written, "servers: [{url: 'http://a:1', bearer_token_file: token}]")
    assert config.servers[0].bearer_token_file == written.parent / "token"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yml: could not be read: No such file or directory"):
        load(tmp_path / "none.yml", Config)


def test_a_file_that_is_no_text_is_named(written: Path) -> None:
    written.write_bytes(b"node: \xff\n")
    with pytest.raises(ConfigError, match=r"inferwatch\.yml: byte 6: allowed: UTF-8 text"):
        load(written, Config)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_a_file_nested_too_deeply_is_refused(written: Path, opening: str) -> None:
    written.write_text(opening * 20_000)
    with pytest.raises(ConfigError, match=r"^[^:]*inferwatch\.yml: nested too deeply: allowed: YAML$"):
        load(written, Config)


def test_only_a_regular_file_is_read(written: Path) -> None:
    os.mkfifo(written)
    for path in (written, Path("/dev/zero")):
        with pytest.raises(ConfigError) as caught:
            load(path, Config)
        assert caught.value.problems == (f"{path}: allowed: a regular file",)


def test_a_file_has_at_most_one_mebibyte(written: Path) -> None:
    text = "node: rack-1\n#"
    assert config_of(written, text + "x" * (2**20 - len(text))).node == "rack-1"
    with pytest.raises(ConfigError, match=r"inferwatch\.yml: more than 1048576 bytes: allowed: at most 1 MiB"):
        config_of(written, text + "x" * (2**20 - len(text) + 1))


def test_an_empty_variable_is_named(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_TOKEN", "")
    with pytest.raises(ConfigError, match=r"servers\[0\]\.bearer_token_env: CHAT_TOKEN is empty$"):
        config_of(written, "servers: [{url: 'http://a:1', bearer_token_env: CHAT_TOKEN}]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://a:1/?token=s3cr3t", "'http://a:1/?(not shown)'"),
        ("http://a:1?s3cr3t#s3cr3t", "'http://a:1?(not shown)'"),
        ("http://a:1#s3cr3t", "'http://a:1#(not shown)'"),
        ("metrics?token=s3cr3t", "'metrics?(not shown)'"),
        ("a:1?s3cr3t", "'a:1?(not shown)'"),
        ("me:s3cr3t@a:1", "'(not shown)@a:1'"),
        ("postgresql://me:s3cr3t@b/@a/d?password=s3cr3t", "'postgresql://(not shown)@a/d?(not shown)'"),
        ("http://a:1/?", "'http://a:1/?'"),
        ("gpu#1", "'gpu#1'"),
        ("me@gpu", "'me@gpu'"),
    ],
)
def test_what_may_be_secret_in_a_url_is_not_shown(text: str, expected: str) -> None:
    assert shown("key", text) == expected


def test_what_is_allowed_names_each_section_once(written: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(written, "zzzzzz: 1")
    _, _, names = str(caught.value).partition("zzzzzz: unknown key: allowed: ")
    assert names.split(", ") == sorted(SECTIONS)


def test_sections_that_nothing_reads_are_known(written: Path) -> None:
    config = config_of(written, "web: 17\ncompare:\nprometheus:\nhistory: {}\nsources: {}\nservers: []\n")
    assert unread(config) == ["web"]
    assert unread(load(written, _OfTheMonitor)) == ["web"]


def test_anchors_and_merge_keys_are_no_duplicates(written: Path) -> None:
    text = """
    servers:
      - &base {url: "http://a:1", timeout: 5, labels: {team: a}}
      - &next {<<: *base, url: "http://b:1", timeout: 6}
      - {<<: *next, url: "http://c:1"}
    """
    config = config_of(written, text)
    assert [(s.url, s.timeout) for s in config.servers] == [("http://a:1", 5), ("http://b:1", 6), ("http://c:1", 6)]


class _History(Section):
    keep: Text = "35d"


class _OfTheMonitor(Root):
    known: ClassVar[frozenset[str]] = SECTIONS
    history: _History = _History()


def test_sections_of_other_processes_are_known_by_name_only(written: Path) -> None:
    text = "history: {keep: 7d, whatever: [1]}\nservers: [{url: 'http://a:1'}]\n"
    config = config_of(written, text)
    assert config.foreign == {"history": {"keep": "7d", "whatever": [1]}}
    written.write_text("history: {keep: 7d}\nservers: nonsense\n")
    assert load(written, _OfTheMonitor).history.keep == "7d"
    written.write_text("history: {keeep: 7d}\nservres: nonsense\n")
    with pytest.raises(ConfigError) as caught:
        load(written, _OfTheMonitor)
    assert [p.partition(": ")[2] for p in caught.value.problems] == [
        "servres: unknown key: did you mean `servers`?",
        "history.keeep: unknown key: did you mean `keep`?",
    ]


def test_every_section_of_the_sidecar_is_a_known_one() -> None:
    assert set(Config.model_fields) - {"foreign"} <= SECTIONS


def test_no_user_label_can_hide_a_label_of_ours() -> None:
    """`source` excepted: our own stands beside it where a metric has one."""
    for metric in schema.METRICS.values():
        for name in {*metric.labels, *schema.IDENTITY[metric.scope]} - {"source"}:
            with pytest.raises(ValidationError):
                Server.model_validate({"url": "http://a:1", "labels": {name: "x"}})


def keys(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Dotted path of every key."""
    for name, field in model.model_fields.items():
        if name == "foreign":
            continue
        yield f"{path}{name}"
        for inner in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from keys(inner, f"{path}{name}.")


def test_every_key_of_the_configuration_has_its_row_in_the_docs() -> None:
    documented = re.findall(r"^\| `([a-z0-9_.]+)` \|", PAGE, re.MULTILINE)
    ours = {key for key in documented if key.partition(".")[0] in Config.model_fields}
    assert ours == set(keys(Config))


def test_every_section_has_its_heading_in_the_docs() -> None:
    headings = set(re.findall(r"^## `(\w+)`", PAGE, re.MULTILINE))
    assert set(Config.model_fields) - {"foreign"} <= headings


def test_the_example_of_the_docs_is_valid(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_2_TOKEN", "x")
    example = re.search(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert example
    assert len(config_of(written, example[1]).servers) == 2


def test_synthetic_requests_are_off_unless_they_are_configured(written: Path) -> None:
    assert Server.model_validate({"url": "http://a:1"}).synthetic_request is None
    text = (
        "servers: [{url: 'http://a:1', synthetic_request: {}}, {url: 'http://b:1', synthetic_request: {interval: 10}}]"
    )
    first, second = (server.synthetic_request for server in config_of(written, text).servers)
    assert first
    assert second
    assert (first.interval, first.time_allowed, first.max_tokens, first.endpoint) == (60.0, 30.0, 4, "completions")
    assert (second.interval, second.time_allowed) == (10.0, 10.0)
    assert first.prompt not in repr(first)
