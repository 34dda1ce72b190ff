"""A real Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.end_to_end.processes import free_port
from tests.end_to_end.web import get
from tests.servers.queried import Queried
from tests.servers.server import answers, ran, written
from tests.services import require

_BLOCK_SECONDS = 7200


def _by_blocks(openmetrics: Path) -> Iterator[Path]:
    """promtool reads a whole file again for each block of its storage."""
    blocks: dict[int, list[str]] = {}
    end = ""
    with openmetrics.open() as lines:
        for line in lines:
            if line.startswith("#"):
                end = line
            else:
                blocks.setdefault(int(float(line.rpartition(" ")[2]) // _BLOCK_SECONDS), []).append(line)
    for number, part in sorted(blocks.items()):
        file = openmetrics.with_suffix(f".{number}.om")
        file.write_text("".join((*part, end)))
        yield file
        file.unlink()


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
        for part in _by_blocks(openmetrics):
            ran([require("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(part), str(self._data)])

    def target(self) -> dict[str, Any]:
        (only,) = get(f"{self.url}/api/v1/targets").json()["data"]["activeTargets"]
        found: dict[str, Any] = only
        return found
