"""Memory of the sidecar process and the time of its first scrape, with one recorded vLLM server behind it."""

from __future__ import annotations

import http.server
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

MOST_MB = 80.0
MOST_S = 1.0
SCRAPES = 50
_START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Result:
    rss_mb: float
    first_scrape_s: float

    @property
    def good(self) -> bool:
        return self.rss_mb < MOST_MB and self.first_scrape_s <= MOST_S


def measure(body: Path) -> Result:
    page = body.read_bytes()

    class Recorded(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/metrics"
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(page if found else b"")

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorded) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            return _measure_against(server.server_address[1])
        finally:
            server.shutdown()


def _measure_against(target_port: int) -> Result:
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "inferwatch.yml"
        config.write_text(f"servers:\n  - url: http://127.0.0.1:{target_port}\n")
        command = [sys.executable, "-m", "exporters", "--config", str(config), "--listen", f"127.0.0.1:{port}"]
        with subprocess.Popen(command) as process:
            try:
                _wait_for(port)
                started = time.perf_counter()
                _get(port)
                first = time.perf_counter() - started
                for _ in range(SCRAPES - 1):
                    _get(port)
                return Result(_rss_mb(process.pid), first)
            finally:
                process.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"the sidecar did not listen on port {port} within {_START_SECONDS} s")


def _get(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        body: bytes = answer.read()
    return body


def _rss_mb(pid: int) -> float:
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
