"""A real Prometheus that scrapes a real sidecar."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.end_to_end.processes import free_port, running, until
from tests.end_to_end.web import get
from tests.servers.prometheus import Prometheus


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
def prometheus_of(target: str, folder: Path, *, server: str, every: str = "10s") -> Iterator[Prometheus]:
    """Has scraped at least twice when it is handed over. A page that takes longer than `every` is missing: a second
    leaves gaps where the machine stands still."""
    scrape = {"job_name": "inferwatch", "static_configs": [{"targets": [target.removeprefix("http://")]}]}
    settings = {"global": {"scrape_interval": every, "scrape_timeout": every}, "scrape_configs": [scrape]}
    with Prometheus(yaml.safe_dump(settings), folder) as prometheus:
        until(lambda: prometheus.number(f"count_over_time(llm_up{{server='{server}'}}[5m])") >= 2, prometheus.process)
        yield prometheus
