"""The sidecar as a process of its own."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporters.__main__ import parse_listen
from exporters.loader import ConfigError
from tests.exporters.process import LONG, Process

Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Process] = []

    def process(*arguments: str) -> Process:
        started.append(Process(*arguments, folder=tmp_path))
        return started[-1]

    yield process
    for each in started:
        each.close()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "other.yml"
    path.write_text("listen: {port: 0}\nservers: [{url: 'http://127.0.0.1:1', name: first}]\n")
    return path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_the_sidecar_answers_and_stops_cleanly(start: Start, config: Path, number: int) -> None:
    process = start("--config", str(config))
    assert 'server="first"' in process.get("/metrics")
    assert process.get("/healthz") == "ok\n"
    assert process.stop(number) == 0
    assert "Traceback" not in process.text()


def test_the_sidecar_stays_small(start: Start, config: Path) -> None:
    process = start("--config", str(config))
    for _ in range(3):
        process.get("/metrics")
    assert process.resident_kb() < 80_000


def test_a_server_that_hangs_does_not_hold_the_sidecar_back_from_stopping(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        path = tmp_path / "other.yml"
        path.write_text(f"listen: {{port: 0}}\nservers: [{{url: 'http://127.0.0.1:{silent.getsockname()[1]}'}}]\n")
        process = start("--config", str(path))
        port = int(process.until(r"listening on http://127\.0\.0\.1:(\d+)")[1])
        with socket.create_connection(("127.0.0.1", port)) as scraper:
            scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nX-Prometheus-Scrape-Timeout-Seconds: 3600\r\n\r\n")
            asked, _ = silent.accept()
            with asked:
                assert process.stop() == 0
    assert "Traceback" not in process.text()


def test_without_a_configuration_there_is_a_sidecar_without_servers(start: Start) -> None:
    process = start("--listen", "127.0.0.1:0")
    assert "inferwatch_build_info" in process.get("/metrics")


def test_the_configuration_of_the_working_directory_is_used(start: Start, config: Path) -> None:
    config.rename(config.with_name("inferwatch.yml"))
    assert 'server="first"' in start().get("/metrics")


def test_a_hangup_reloads_a_good_configuration_and_refuses_a_bad_one(start: Start, config: Path) -> None:
    process = start("--config", str(config))
    process.get("/healthz")
    config.write_text("servers: [{url: 'http://127.0.0.1:1', name: second}]\n")
    process.popen.send_signal(signal.SIGHUP)
    process.until("configuration reloaded")
    page = process.get("/metrics")
    assert 'server="second"' in page
    assert 'server="first"' not in page
    config.write_text("servers: [{url: 'ftp://127.0.0.1:1'}]\n")
    process.popen.send_signal(signal.SIGHUP)
    process.until("configuration not reloaded")
    page = process.get("/metrics")
    assert 'server="second"' in page
    assert re.search(r"^inferwatch_config_last_reload_successful\{.*\} 0\.0$", page, re.MULTILINE)
    assert f"{config}: servers[0].url: 'ftp://127.0.0.1:1': allowed: http or https URL" in process.text()


def test_a_bad_configuration_stops_the_start_with_its_errors_and_nothing_else(start: Start, config: Path) -> None:
    config.write_text("listn: {}\nservers: {}\n")
    process = start("--config", str(config))
    assert process.popen.wait(LONG) == 2
    assert process.text().splitlines() == [
        f"{config}: listn: unknown key: did you mean `listen`?",
        f"{config}: servers: a mapping: allowed: a list",
    ]


def test_a_configuration_that_is_not_there_stops_the_start(start: Start, tmp_path: Path) -> None:
    process = start("--config", str(tmp_path / "none.yml"))
    assert process.popen.wait(LONG) == 2
    assert process.text() == f"{tmp_path}/none.yml: could not be read: No such file or directory\n"


def test_a_port_in_use_stops_the_start_with_one_line(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start("--listen", f"127.0.0.1:{port}")
        assert process.popen.wait(LONG) == 1
    assert process.text() == f"could not listen on 127.0.0.1:{port}: Address already in use\n"


def test_a_host_that_does_not_exist_stops_the_start_with_one_line(start: Start) -> None:
    process = start("--listen", "no-such-host.invalid:9840")
    assert process.popen.wait(LONG) == 1
    assert process.text().startswith("could not listen on no-such-host.invalid:9840: ")
    assert len(process.text().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:80", "127.0.0.1", 80),
        (":9000", "0.0.0.0", 9000),
        ("[::1]:9", "::1", 9),
        ("localhost:0", "localhost", 0),
    ],
)
def test_where_to_listen_can_be_said(text: str, host: str, port: int) -> None:
    listen = parse_listen(text)
    assert (listen.host, listen.port) == (host, port)


@pytest.mark.parametrize("text", ["", "9840", "host", "host:", "host:port", "host:70000", "host:-1"])
def test_where_nobody_can_listen_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="allowed: HOST:PORT"):
        parse_listen(text)


def test_the_sidecar_alone_imports_neither_database_nor_web_framework() -> None:
    script = "import sys, exporters.__main__; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    root = Path(__file__).parents[2]
    shown = subprocess.run([sys.executable, "-c", script], cwd=root, check=True, capture_output=True, text=True)
    loaded = set(shown.stdout.split())
    assert "httpx" in loaded
    assert not loaded & {
        "alembic", "alerts", "dashboards", "fastapi", "inferwatch", "jinja2", "monitor", "numpy", "prometheus_client",
        "sqlalchemy", "typer",
    }  # fmt: skip
