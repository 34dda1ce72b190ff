"""Recorded bodies served on a local port, by a thread of the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

_FOLDER = Path(__file__).parents[1] / "captures" / "vllm" / "0.32.0"


@dataclass(frozen=True)
class Run:
    """One of the recorded runs."""

    prefix: str

    def page(self, name: str) -> Path:
        return _FOLDER / f"{self.prefix}-{name}.prom"

    @property
    def pages(self) -> list[Path]:
        """In order, as long as all was well."""
        return sorted(_FOLDER.glob(f"{self.prefix}-[0-6]-*.prom"))


VLLM, VLLM_DP = Run("A"), Run("C-dp2-smallkv")
"""One engine with LoRA adapters through a whole run, and two data-parallel engines short of KV cache."""


@dataclass
class Pages:
    """What a server answers, by path; may be changed while it runs. Other paths are 404.

    With a `token`, whoever does not bring it gets 401.
    """

    bodies: dict[str, bytes]
    content_type: str = "text/plain; version=0.0.4; charset=utf-8"
    asked: list[str] = field(default_factory=list)
    token: str = ""


def vllm(run: Run, name: str) -> Pages:
    return Pages(
        {
            "/metrics": run.page(name).read_bytes(),
            "/version": b'{"version":"0.32.0"}',
            "/health": b"",
        }
    )


@contextmanager
def serving(pages: Pages, port: int = 0) -> Iterator[int]:
    """Yields the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            pages.asked.append(path)
            is_known = not pages.token or self.headers["Authorization"] == f"Bearer {pages.token}"
            body = pages.bodies.get(path) if is_known else b""
            self.send_response(401 if not is_known else 404 if body is None else 200)
            self.send_header("Content-Type", pages.content_type if path == "/metrics" else "application/json")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", port), Handler)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
