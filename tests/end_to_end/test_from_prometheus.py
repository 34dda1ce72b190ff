"""The monitor reads from a Prometheus, or what speaks its API: real programs, and recorded servers behind them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.end_to_end.processes import free_port, running, until
from tests.end_to_end.product import Product, up
from tests.end_to_end.recorded import VLLM, VLLM_DP, serving, vllm
from tests.servers.prometheus import Prometheus
from tests.servers.queried import Queried
from tests.servers.victoria_metrics import VictoriaMetrics

NAMES = ("one", "two")
SAME = (
    "framework", "frontend", "version", "model", "role", "up", "available", "engines", "running", "waiting",
    "kv_capacity_tokens", "labels", "simulated", "node",
)  # fmt: skip


def scraping(target: str) -> str:
    """Twice, as two replicas or jobs would."""
    found = [{"targets": [target.removeprefix("http://")]}]
    jobs = [{"job_name": name, "static_configs": found} for name in ("inferwatch", "again")]
    return yaml.safe_dump({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs})


def write(path: Path, **sections: object) -> str:
    path.write_text(yaml.safe_dump({"scrape": {"interval": "1s"}, **sections}))
    return str(path)


@contextmanager
def serve(folder: Path, url: str, **settings: object) -> Iterator[Product]:
    port = free_port()
    config = write(folder / "monitor.yml", prometheus={"url": url, **settings}, listen={"port": port})
    command = [sys.executable, "-m", "inferwatch", "serve", "--config", config, "--state-dir", str(folder / "state")]
    with running(command, folder) as process:
        product = Product(f"http://127.0.0.1:{port}", process)
        until(lambda: product.get("/healthz"), process)
        yield product


@contextmanager
def recorded(folder: Path) -> Iterator[Product]:
    """A sidecar of two servers, one engine and two."""
    with serving(vllm(VLLM, "1-mid10")) as one, serving(vllm(VLLM_DP, "1-mid03")) as two:
        ports = zip(NAMES, (one, two), strict=True)
        labels = {"source": "simulated"}
        servers = [{"name": n, "url": f"http://127.0.0.1:{port}", "labels": labels} for n, port in ports]
        with up(folder, "--config", write(folder / "up.yml", servers=servers)) as sidecar:
            yield sidecar


def sources(product: Product) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = product.get("/api/v1/sources").json()
    return found


@pytest.mark.parametrize("kind", [Prometheus, VictoriaMetrics])
def test_the_monitor_shows_what_a_prometheus_scraped(tmp_path: Path, kind: Callable[[str, Path], Queried]) -> None:
    (tmp_path / "sidecar").mkdir()
    with (
        recorded(tmp_path / "sidecar") as sidecar,
        kind(scraping(sidecar.url), tmp_path) as prometheus,
        serve(tmp_path, prometheus.url) as product,
    ):

        def same() -> bool:
            near, far = sidecar.shows(*NAMES), product.shows(*NAMES)
            for name in NAMES:
                assert {k: far[name][k] for k in SAME} == {k: near[name][k] for k in SAME}
                assert far[name]["prompt_tokens_per_second"] is not None
            return True

        assert until(same, product.process)
        assert sources(product) == [{"name": prometheus.url, "readable": True, "problem": None}]
        assert "simulated" in product.get("/").text
        assert "could not" not in product.process.output()


def test_a_prometheus_that_is_not_there_is_told_and_read_once_it_is(tmp_path: Path) -> None:
    with serving(vllm(VLLM, "1-mid10")) as port, up(tmp_path, "--port", str(port)) as sidecar:
        prometheus = Prometheus(scraping(sidecar.url), tmp_path)
        with serve(tmp_path, prometheus.url) as product:
            told = f"could not ask Prometheus at {prometheus.url}: connection_refused"
            (source,) = until(lambda: [s for s in sources(product) if s["readable"] is False], product.process)
            assert source["problem"].startswith(told)
            assert told in product.get("/").text
            assert f"Prometheus {prometheus.url}" in product.get("/").text
            with prometheus:
                rows = until(lambda: product.reads(f"127.0.0.1:{port}"), product.process)
                assert [s["readable"] for s in sources(product)] == [True]
                until(lambda: told not in product.get("/").text, product.process)
                lines = product.process.output().splitlines()  # before its end, which is told as well
            assert [rows[f"127.0.0.1:{port}"][k] for k in ("up", "running", "waiting")] == [True, 12, 3]
            assert len([line for line in lines if " ERROR " in line]) == 1, "whoever finds it out"
            (again,) = (line for line in lines if "again" in line)
            assert f"Prometheus at {prometheus.url} answers again: it did not for 0:" in again


def test_a_prometheus_without_sidecars_says_so_on_the_page(tmp_path: Path) -> None:
    with (
        Prometheus("global: {scrape_interval: 1h}", tmp_path) as prometheus,
        serve(tmp_path, prometheus.url, selector='cluster="b"') as product,
    ):
        (source,) = until(lambda: [s for s in sources(product) if s["readable"] is False], product.process)
    assert "has no `llm_up` with cluster" in source["problem"]


def test_up_with_a_prometheus_shows_what_that_scraped_of_its_own_sidecar(tmp_path: Path) -> None:
    with serving(vllm(VLLM, "1-mid10")) as server:
        port = free_port()
        prometheus = Prometheus(scraping(f"http://127.0.0.1:{port}"), tmp_path)
        own = {"name": "own", "url": f"http://127.0.0.1:{server}"}
        config = write(tmp_path / "up.yml", prometheus={"url": prometheus.url}, servers=[own])
        with up(tmp_path, "--config", config, port=port) as product:
            until(lambda: [s for s in sources(product) if s["readable"] is False], product.process)
            assert product.rows() == {}, "there is no other source beside it"
            until(lambda: 'llm_requests_running{engine="0"' in product.get("/metrics").text, product.process)
            with prometheus:
                rows = until(lambda: product.reads("own"), product.process)
    assert (rows["own"]["up"], rows["own"]["running"]) == (True, 12)
