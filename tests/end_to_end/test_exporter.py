"""`inferwatch exporter` on a host whose servers nobody named."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.end_to_end.processes import free_port, running, until
from tests.end_to_end.product import Product
from tests.end_to_end.recorded import VLLM, serving, vllm


def test_the_sidecar_finds_servers_where_it_is_told_to_look_also_later(tmp_path: Path) -> None:
    one, port = free_port(), free_port()
    look = ["--look-on", "localhost", "--port", str(one)]
    command = [sys.executable, "-m", "inferwatch", "exporter", "--listen", f"127.0.0.1:{port}", *look]
    with running(command, tmp_path) as process:
        sidecar = Product(f"http://127.0.0.1:{port}", process)
        until(lambda: sidecar.get("/healthz"), process)
        assert "looking for inference servers on localhost:" in process.output()
        with serving(vllm(VLLM, "1-mid10"), port=one):
            until(lambda: f'server="localhost:{one}"' in sidecar.get("/metrics").text or None, process)
            assert process.end() == 0
    found = re.search(rf"found at port {one}: vllm( 0\.32\.0)?, tiny-qwen\n", process.output())
    assert found is not None, "the version is asked for beside the metrics, which are not kept waiting for it"
