"""A real Alertmanager, alone: no cluster."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.processes import free_port
from tests.servers.server import Server, answers, written
from tests.services import require


class Alertmanager(Server):
    """Keeps silences and what it has sent over a restart, not the alerts: whoever raised them sends them again."""

    def __init__(self, config: str, folder: Path, *flags: str) -> None:
        file, port = written(config, folder / "alertmanager.yml"), free_port()
        self.url = f"http://127.0.0.1:{port}"
        paths = [f"--config.file={file}", f"--storage.path={folder / 'alertmanager-data'}", "--cluster.listen-address="]
        command = [require("prometheus-alertmanager"), *paths, f"--web.listen-address=127.0.0.1:{port}", *flags]
        super().__init__(command, folder, answers(f"{self.url}/-/ready"))
