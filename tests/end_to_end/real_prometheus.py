"""A real Prometheus that scrapes a real sidecar."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """Has scraped metrics at least twice when it is handed over. A page that takes longer than `every` is missing: a
    second leaves gaps where the machine stands still."""
    scrape = {"job_name": "inferwatch", "static_configs": [{"targets": [target.removeprefix("http://")]}]}
    settings = {"global": {"scrape_interval": every, "scrape_timeout": every}, "scrape_configs": [scrape]}
    with Prometheus(yaml.safe_dump(settings), folder) as prometheus:
        read = f"sum_over_time(llm_metrics_available{{server='{server}'}}[5m])"
        until(lambda: prometheus.number(read) >= 2, prometheus.process)
        yield prometheus


@dataclass(frozen=True)
class Moment:
    """What a Prometheus says of one scrape, whatever it scrapes or misses later."""

    prometheus: Prometheus
    at: float

    def ask(self, query: str) -> list[dict[str, Any]]:
        return self.prometheus.ask(query, time=f"{self.at:.3f}")

    def number(self, query: str) -> float:
        return self.prometheus.number(query, time=f"{self.at:.3f}")


def moment(prometheus: Prometheus, *said: str) -> Moment:
    """Of the first scrape of which all these queries have an answer."""

    def looked() -> Moment:
        newest = Moment(prometheus, prometheus.number("max(timestamp(llm_up))"))
        missing = [query for query in said if not newest.ask(query)]
        assert not missing, f"no answer: {missing}"
        return newest

    return until(looked, prometheus.process)
