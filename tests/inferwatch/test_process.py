from __future__ import annotations

import socket
from pathlib import Path

import pytest

from exporters.config import Config, Listen
from inferwatch.console import CommandError
from inferwatch.process import config_path, listening, load, say, url_of
from tests.inferwatch.listeners import need_ipv6


def bound(host: str = "127.0.0.1") -> socket.socket:
    return listening(Listen(host=host, port=0), None)


def test_the_option_goes_before_the_configuration() -> None:
    with listening(Listen(port=1), "127.0.0.1:0") as found:
        assert found.getsockname()[1] > 1


def test_an_address_in_use_is_named_with_the_option_that_changes_it() -> None:
    with bound() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError) as error:
            listening(Listen(port=port), None)
    assert error.value.status == 1
    why = f"could not listen on 127.0.0.1 port {port}: Address already in use"
    assert error.value.lines == (f"{why}; --listen HOST:PORT chooses another address",)


def test_an_address_of_another_host_is_refused_the_same_way() -> None:
    with pytest.raises(CommandError, match=r"could not listen on 192\.0\.2\.1 port 80: .*--listen"):
        listening(Listen(host="192.0.2.1", port=80), None)


@pytest.mark.parametrize("text", ["nowhere", "host:port", "h:70000", ""])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="allowed: HOST:PORT") as error:
        listening(Listen(), text)
    assert error.value.status == 2


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]")])
def test_the_address_told_is_one_that_a_browser_of_this_host_can_open(host: str, shown: str) -> None:
    if ":" in host:
        need_ipv6()
    with bound(host) as found:
        assert url_of(found) == f"http://{shown}:{found.getsockname()[1]}"


def test_a_configuration_that_lies_here_is_used_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert config_path(None) is None
    (tmp_path / "inferwatch.yml").write_text("{}")
    assert config_path(None) == Path("inferwatch.yml")
    assert capsys.readouterr().out == "using inferwatch.yml of this folder\n"
    assert config_path(Path("other.yml")) == Path("other.yml")
    assert capsys.readouterr().out == ""


def test_every_mistake_of_a_configuration_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    path.write_text("listen: {port: 70000}\nnodee: x\n")
    with pytest.raises(CommandError) as error:
        load(path, Config)
    assert error.value.status == 2
    assert len(error.value.lines) == 2


def test_what_is_said_keeps_its_lines_and_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("found: m\x1b[2J\nforged", "next")
    assert capsys.readouterr().out == "found: m\\x1b[2J\\nforged\nnext\n"
