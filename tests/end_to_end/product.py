"""`inferwatch` as a process of its own, looked at from outside."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.end_to_end.processes import DEADLINE, ROOT, Process, free_port, running, until
from tests.end_to_end.web import Answer, get


@dataclass(frozen=True)
class Product:
    url: str
    process: Process

    def get(self, path: str) -> Answer:
        return get(self.url + path)

    def rows(self) -> dict[str, Any]:
        """The API's view of each server, by name."""
        return {row["server"]: row for row in self.get("/api/v1/servers").json()}

    def shows(self, *names: str) -> dict[str, Any]:
        """The rows, once the API and the page have all of them."""
        rows = self.rows()
        page = self.get("/").text
        assert set(names) <= rows.keys(), rows.keys()
        assert all(name in page for name in names)
        return rows

    def reads(self, *names: str) -> dict[str, Any]:
        """The same, once the metrics of these could be read: a machine that stands still makes one of them late."""
        rows = self.shows(*names)
        assert all(rows[name]["available"] for name in names), rows
        return rows

    def refused(self, name: str) -> dict[str, Any]:
        """The rows, once this server is told as one where nothing listens: a process that stands still while it asks
        tells for once that it got no answer."""
        rows = self.shows(name)
        assert [finding["reason"] for finding in rows[name]["findings"]] == ["connection_refused"], rows
        return rows


@contextmanager
def up(folder: Path, *arguments: str, port: int | None = None, within: float = DEADLINE) -> Iterator[Product]:
    """`inferwatch up` in `folder`, with its history there; ready as soon as its page answers."""
    port = port or free_port()
    command = [
        sys.executable,
        "-m",
        "inferwatch",
        "up",
        "--listen",
        f"127.0.0.1:{port}",
        "--state-dir",
        str(folder / "state"),
    ]
    with running([*command, *arguments], folder, environment={"PYTHONPATH": str(ROOT)}) as process:
        product = Product(f"http://127.0.0.1:{port}", process)
        until(lambda: product.get("/healthz"), process, within=within)
        yield product


def local(port: int) -> str:
    """The name that a server of this host has without another."""
    return f"127.0.0.1:{port}"
