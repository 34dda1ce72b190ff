from __future__ import annotations

from pathlib import Path

import pytest

from inferwatch.subjects import Known, url_of
from tests.end_to_end.recorded import VLLM, serving, vllm
from tests.inferwatch.command import Command, lines

TOKEN = "s3cret-t0ken"
PAGE = str(VLLM.page("1-mid10"))


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def token_file(text: str = TOKEN) -> str:
    Path("token").write_text(text + "\n")
    return "token"


def configured(port: int, more: str = "", name: str = "c.yml") -> str:
    Path(name).write_text(f"servers:\n  - url: http://localhost:{port}\n    name: chat\n{more}")
    return name


@pytest.mark.parametrize(
    ("subject", "url"),
    [
        ("http://h:8000", "http://h:8000"),
        ("https://h/llm/metrics", "https://h/llm/metrics"),
        ("h:8000", "http://h:8000"),
        ("10.0.0.1:8000/metrics", "http://10.0.0.1:8000/metrics"),
        ("[::1]:8000", "http://[::1]:8000"),
        (":8000", "http://localhost:8000"),
        ("metrics.prom", None),
        ("-", None),
        ("folder/metrics.prom", None),
        ("h", None),
    ],
)
def test_a_subject_is_a_url_or_a_file(subject: str, url: str | None) -> None:
    assert url_of(subject) == url


def test_a_file_whose_name_looks_like_host_and_port_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h:8000").write_text("")
    assert url_of("h:8000") is None


def test_a_server_that_wants_a_token_says_how_to_give_one(inferwatch: Command) -> None:
    pages = vllm(VLLM, "1-mid10")
    pages.token = TOKEN
    with serving(pages) as port:
        without, with_one = (
            inferwatch("check", f":{port}", *more) for more in ([], ["--bearer-token-file", token_file()])
        )
    assert without.status == 1
    assert "error unauthorized" in without.out
    assert "Give --bearer-token-file FILE" in without.out
    assert with_one.status == 0
    assert "vllm 0.32.0, model tiny-qwen" in with_one.out


@pytest.mark.parametrize(
    "subject", ["chat", ":{port}", "localhost:{port}", "http://localhost:{port}/", "http://localhost:{port}/metrics"]
)
@pytest.mark.parametrize("by", ["file", "env"])
def test_a_configured_server_is_asked_with_its_credentials(
    inferwatch: Command, monkeypatch: pytest.MonkeyPatch, subject: str, by: str
) -> None:
    monkeypatch.setenv("CHAT_TOKEN", TOKEN)
    credentials = {"file": f"bearer_token_file: {token_file()}", "env": "bearer_token_env: CHAT_TOKEN"}[by]
    pages = vllm(VLLM, "1-mid10")
    pages.token = TOKEN
    with serving(pages) as port:
        ran = inferwatch("check", "--config", configured(port, f"    {credentials}\n"), subject.format(port=port))
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(f"{subject.format(port=port)}: vllm 0.32.0, model tiny-qwen")


def test_a_token_of_the_command_line_goes_before_the_configured_one(
    inferwatch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_TOKEN", "old")
    pages = vllm(VLLM, "1-mid10")
    pages.token = TOKEN
    with serving(pages) as port:
        config = configured(port, "    bearer_token_env: CHAT_TOKEN\n")
        assert inferwatch("check", "--config", config, "chat").status == 1
        assert inferwatch("check", "--config", config, "--bearer-token-file", token_file(), "chat").status == 0


def test_path_frontend_and_aliases_are_the_configured_ones(inferwatch: Command) -> None:
    pages = vllm(VLLM, "1-mid10")
    pages.bodies["/inner/page"] = pages.bodies.pop("/metrics")
    pages.content_type = "application/json"
    with serving(pages) as port:
        more = "    metrics_path: /inner/page\n    frontend: vllm\nmodel_aliases: {tiny-qwen: tiny}\n"
        ran = inferwatch("check", "--config", configured(port, more), "chat")
    assert ran.out.startswith("chat: vllm 0.32.0, model tiny,")
    assert f"metrics page: http://localhost:{port}/inner/page\n" in ran.out


def test_the_url_of_another_page_of_a_configured_server_keeps_its_credentials(inferwatch: Command) -> None:
    pages = vllm(VLLM, "1-mid10")
    pages.bodies["/inner/metrics"] = pages.bodies.pop("/metrics")
    pages.token = TOKEN
    with serving(pages) as port:
        config = configured(port, f"    bearer_token_file: {token_file()}\n")
        ran = inferwatch("check", "--config", config, f"http://localhost:{port}/inner/metrics")
    assert f"metrics page: http://localhost:{port}/inner/metrics\n" in ran.out
    assert ran.status == 0


def test_a_server_of_a_targets_file_is_known_by_its_name(inferwatch: Command) -> None:
    with serving(vllm(VLLM, "1-mid10")) as port:
        Path("t.json").write_text(
            f'[{{"targets": ["localhost:{port}"], "labels": {{"__metrics_path__": "/metrics"}}}}]'
        )
        Path("c.yml").write_text("file_sd: [t.json]\n")
        assert inferwatch("check", "--config", "c.yml", f"localhost:{port}").status == 0


def test_no_completion_is_asked_for() -> None:
    server = Known(Path(configured(1, "    synthetic_request: {interval: 1s}\n")), None).server("chat")
    assert server is not None
    assert server.synthetic_request is None


def test_the_configuration_of_the_folder_is_used_and_told(inferwatch: Command) -> None:
    with serving(vllm(VLLM, "1-mid10")) as port:
        configured(port, name="inferwatch.yml")
        ran = inferwatch("check", "--json", "chat")
    assert (ran.status, ran.err) == (0, "inferwatch: using inferwatch.yml of this folder\n")
    assert ran.out.startswith("[")


def test_saved_pages_need_no_configuration(inferwatch: Command) -> None:
    Path("inferwatch.yml").write_text("nonsense: 1\n")
    ran = inferwatch("check", PAGE)
    assert (ran.status, ran.err) == (0, "")


def test_a_file_goes_before_a_server_of_its_name_and_a_folder_does_not(inferwatch: Command) -> None:
    with serving(vllm(VLLM, "1-mid10")) as port:
        config = configured(port)
        Path("chat").mkdir()
        assert lines(inferwatch("check", "--config", config, "chat").out, "chat: vllm 0.32.0")
        Path("chat").rmdir()
        Path("chat").write_text("<html>")
        assert lines(inferwatch("check", "--config", config, "chat").out, "error html_body")


def test_a_name_that_nobody_has_is_refused_with_those_there_are(inferwatch: Command) -> None:
    ran = inferwatch("check", "--config", configured(1), "chta", PAGE)
    assert ran.status == 2
    assert ran.err == "inferwatch: chta: no such file, and no server of this name: chat\n"
    assert "tiny-qwen" in ran.out


@pytest.mark.parametrize("text", ["nodee: x\n", "servers: [{url: 'ftp://x'}]\n", "file_sd: [missing.json]\n"])
def test_a_wrong_configuration_is_told_and_nothing_is_asked(inferwatch: Command, text: str) -> None:
    Path("c.yml").write_text(text)
    ran = inferwatch("check", "--config", "c.yml", PAGE)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("inferwatch: ")


def test_a_token_file_that_is_none_is_refused(inferwatch: Command) -> None:
    ran = inferwatch("check", "--bearer-token-file", "none", ":1")
    allowed = "allowed: a file that exists and can be read"
    assert (ran.status, ran.err) == (2, f"inferwatch: --bearer-token-file: 'none': {allowed}\n")


def test_a_token_is_shown_nowhere(inferwatch: Command) -> None:
    with serving(vllm(VLLM, "1-mid10")) as port:
        for more in ([], ["--json"], ["--verbose"]):
            ran = inferwatch("check", "--bearer-token-file", token_file(), *more, f":{port}", ":1")
            assert TOKEN not in ran.out + ran.err
