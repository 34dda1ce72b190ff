"""A real Prometheus that scrapes a real sidecar."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.end_to_end.processes import Process, free_port, running, until
from tests.end_to_end.web import get
from tests.services import require


@dataclass(frozen=True)
class Prometheus:
    url: str
    process: Process

    def ask(self, query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = get(f"{self.url}/api/v1/query", query=query).json()["data"]["result"]
        return found

    def number(self, query: str) -> float:
        (only,) = self.ask(query)
        return float(only["value"][1])

    def target(self) -> dict[str, Any]:
        (only,) = get(f"{self.url}/api/v1/targets").json()["data"]["activeTargets"]
        found: dict[str, Any] = only
        return found


@contextmanager
def sidecar_of(servers: list[dict[str, object]], folder: Path) -> Iterator[str]:
    port = free_port()
    config = folder / "inferwatch.yml"
    config.write_text(yaml.safe_dump({"servers": servers, "listen": {"port": port}, "node": "node-a"}))
    with running([sys.executable, "-m", "exporters", "--config", str(config)], folder) as process:
        url = f"http://127.0.0.1:{port}"
        until(lambda: get(f"{url}/healthz"), process)
        yield url


@contextmanager
def prometheus_of(target: str, folder: Path, *, server: str) -> Iterator[Prometheus]:
    """Has scraped at least twice when it is handed over."""
    scrape = {"job_name": "inferwatch", "static_configs": [{"targets": [target.removeprefix("http://")]}]}
    settings = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [scrape]}
    config, data, port = folder / "prometheus.yml", folder / "data", free_port()
    config.write_text(yaml.safe_dump(settings))
    command = [require("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={data}"]
    with running([*command, f"--web.listen-address=127.0.0.1:{port}"], folder) as process:
        prometheus = Prometheus(f"http://127.0.0.1:{port}", process)
        until(lambda: prometheus.number(f"count_over_time(llm_up{{server='{server}'}}[1m])") >= 2, process)
        yield prometheus
