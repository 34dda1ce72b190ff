"""A sidecar on one host, the monitor on another: two processes, seen from outside."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

import yaml

from tests.end_to_end.processes import DEADLINE, free_port, running, until
from tests.end_to_end.product import Product
from tests.end_to_end.recorded import VLLM, VLLM_DP, serving, vllm
from tests.end_to_end.web import get
from tests.servers.prometheus import Prometheus


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "inferwatch", *arguments]


def write(path: Path, **sections: object) -> str:
    path.write_text(yaml.safe_dump(sections))
    return str(path)


def test_the_monitor_shows_what_sidecars_elsewhere_read(tmp_path: Path) -> None:
    with serving(vllm(VLLM, "1-mid10")) as one, serving(vllm(VLLM_DP, "1-mid03")) as two:
        servers = [
            {"name": n, "url": f"http://127.0.0.1:{p}"} for n, p in (("one", one), ("two", two), ("dead", free_port()))
        ]
        sidecar, monitor = free_port(), free_port()
        sidecar_config = write(tmp_path / "sidecar.yml", node="gpu-1", servers=servers, listen={"port": sidecar})
        monitor_config = write(
            tmp_path / "monitor.yml",
            sources={"sidecars": [f"http://127.0.0.1:{sidecar}"]},
            listen={"port": monitor},
            scrape={"interval": "1s"},
            servers=[],
            compare={"gpu_hour": 2.9},
            advise={},
        )
        serve = command("serve", "--config", monitor_config, "--state-dir", str(tmp_path / "state"))
        with (
            running(command("exporter", "--config", sidecar_config), tmp_path),
            running(serve, tmp_path) as process,
        ):
            product = Product(f"http://127.0.0.1:{monitor}", process)
            rows = until(lambda: product.refused("dead") and product.reads("one", "two"), process)
            assert process.end() == 0
            assert "nothing reads these sections in this release: advise\n" in process.output()
    assert {row["node"] for row in rows.values()} == {"gpu-1"}
    assert [rows["one"][k] for k in ("up", "running", "waiting")] == [True, 12, 3]
    assert rows["two"]["kv_capacity_tokens"] == 2560
    assert (rows["dead"]["up"], rows["dead"]["running"]) == (False, None)
    assert [finding["reason"] for finding in rows["dead"]["findings"]] == ["connection_refused"]


def test_without_a_sidecar_to_read_it_says_how_to_name_one(tmp_path: Path) -> None:
    with running(command("serve"), tmp_path) as process:
        assert process.popen.wait(DEADLINE) == 2
    assert process.output().startswith("inferwatch: no sidecar to read")
    assert "sources: {sidecars:" in process.output()


def test_each_process_says_once_which_sections_of_a_common_file_it_does_not_read(tmp_path: Path) -> None:
    port = free_port()
    config = write(
        tmp_path / "inferwatch.yml",
        servers=[{"url": "http://127.0.0.1:1"}],
        gpus={"source": "off"},
        probe={},
        sources={"sidecars": ["http://127.0.0.1:1"]},
        listen={"port": port},
        compare={"gpu_hour": 2.9},
        advise={},
    )
    told = {
        "serve": "does not read `gpus`, `servers`: `inferwatch up` and `inferwatch exporter` do",
        "exporter": "does not read `compare`, `sources`: `inferwatch up` and `inferwatch serve` do",
    }
    for name, line in told.items():
        with running(command(name, "--config", config), tmp_path, environment={"HOME": str(tmp_path)}) as process:
            until(lambda: get(f"http://127.0.0.1:{port}/healthz"), process)
            assert process.end() == 0
            assert process.output().count("does not read") == 1
            assert f"configuration: `inferwatch {name}` {line}\n" in process.output()


def test_servers_alone_are_nothing_for_the_monitor_which_says_who_reads_them(tmp_path: Path) -> None:
    config = write(tmp_path / "inferwatch.yml", servers=[{"url": "http://127.0.0.1:1"}])
    with running(command("serve", "--config", config), tmp_path) as process:
        assert process.popen.wait(DEADLINE) == 2
    assert "does not read `servers`: `inferwatch up` and `inferwatch exporter` do" in process.output()
    assert "inferwatch: no sidecar to read" in process.output()


def test_what_answers_in_a_sidecars_place_is_named_and_a_sidecar_without_servers_is_none_of_it(tmp_path: Path) -> None:
    with (
        serving(vllm(VLLM, "1-mid10")) as server,
        Prometheus("scrape_configs: []", tmp_path) as prometheus,
    ):
        sidecar, monitor = free_port(), free_port()
        sidecar_config = write(tmp_path / "sidecar.yml", listen={"port": sidecar}, gpus={"source": "off"})
        urls = [f"http://127.0.0.1:{port}" for port in (sidecar, server, monitor)]
        monitor_config = write(
            tmp_path / "monitor.yml",
            sources={"sidecars": [*urls, prometheus.url]},
            listen={"port": monitor},
            scrape={"interval": "1s"},
        )
        with (
            running(command("exporter", "--config", sidecar_config), tmp_path),
            running(command("serve", "--config", monitor_config, "--state-dir", str(tmp_path)), tmp_path) as process,
        ):
            product = Product(urls[2], process)

            def told() -> list[str | None]:
                problems = [row["problem"] for row in product.get("/api/v1/sources").json()]
                assert problems[0] is None
                assert all("no sidecar's page" in str(p) or "a monitor that" in str(p) for p in problems[1:])
                assert product.get("/").text.count("<strong>Source:</strong>") == 3
                return problems

            problems = until(told, process)
            assert process.end() == 0
    for problem, it_is in zip(problems[1:], ("this is vllm", "this is a monitor", "this is a Prometheus"), strict=True):
        assert it_is in str(problem)
    for url, problem in zip((*urls[1:], prometheus.url), problems[1:], strict=True):
        lines = [told for _, of, told in (line.partition(f" {url}: ") for line in process.output().splitlines()) if of]
        assert str(problem) in lines
        assert [line for line, _ in groupby(lines)] == lines, "once, for as long as nothing else is told of it"
