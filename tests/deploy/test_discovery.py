"""A Prometheus that learns from the monitor which sidecars there are, and a monitor that reads that Prometheus."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import yaml

from tests.end_to_end.processes import free_port, running, until
from tests.end_to_end.product import Product
from tests.end_to_end.recorded import VLLM, serving, vllm
from tests.servers.prometheus import Prometheus


def test_a_sidecar_that_the_monitor_names_is_scraped_and_comes_back_to_the_monitor(tmp_path: Path) -> None:
    sidecar, monitor, server = free_port(), free_port(), free_port()
    look = ["--look-on", "localhost", "--port", str(server), "--listen", f"127.0.0.1:{sidecar}"]
    scrape = {
        "job_name": "inferwatch", "scrape_interval": "1s", "scrape_timeout": "1s",
        "http_sd_configs": [{"url": f"http://127.0.0.1:{monitor}/sd", "refresh_interval": "1s"}],
    }  # fmt: skip
    prometheus = Prometheus(yaml.safe_dump({"scrape_configs": [scrape]}), tmp_path)
    config = {
        "listen": {"port": monitor}, "prometheus": {"url": prometheus.url}, "history": {"path": "history.sqlite"},
        "sources": {"sidecars": [f"http://127.0.0.1:{sidecar}"]}, "scrape": {"interval": "1s", "timeout": "1s"},
    }  # fmt: skip
    (tmp_path / "monitor.yml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "inferwatch"]
    with ExitStack() as stack:
        stack.enter_context(serving(vllm(VLLM, "1-mid10"), server))
        stack.enter_context(running([*command, "exporter", *look], tmp_path))
        process = stack.enter_context(running([*command, "serve", "--config", "monitor.yml"], tmp_path))
        stack.enter_context(prometheus)
        product = Product(f"http://127.0.0.1:{monitor}", process)
        rows = until(lambda: product.reads(f"localhost:{server}"), process)
    assert rows[f"localhost:{server}"]["running"] == 12
