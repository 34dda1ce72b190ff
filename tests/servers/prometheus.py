"""A real Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.end_to_end.processes import free_port
from tests.end_to_end.web import get
from tests.servers.queried import Queried
from tests.servers.server import answers, ran, written
from tests.services import require


class Prometheus(Queried):
    """Keeps what it stores over a restart."""

    def __init__(self, config: str, folder: Path, *flags: str) -> None:
        file, port = written(config, folder / "prometheus.yml"), free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._data = folder / "prometheus-data"
        paths = [f"--config.file={file}", f"--storage.tsdb.path={self._data}"]
        command = [require("prometheus"), *paths, f"--web.listen-address=127.0.0.1:{port}", *flags]
        super().__init__(command, folder, answers(f"{self.url}/-/ready"))

    def load(self, openmetrics: Path) -> None:
        """History from a file of samples with timestamps, ended by `# EOF`; while it is stopped."""
        ran([require("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(openmetrics), str(self._data)])

    def target(self) -> dict[str, Any]:
        (only,) = get(f"{self.url}/api/v1/targets").json()["data"]["activeTargets"]
        found: dict[str, Any] = only
        return found
