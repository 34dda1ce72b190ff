"""A real VictoriaMetrics, single-node."""

from __future__ import annotations

from pathlib import Path
from urllib.request import urlopen

from tests.end_to_end.processes import DEADLINE, free_port
from tests.end_to_end.web import get
from tests.servers.queried import Queried
from tests.servers.server import answers, ran, written
from tests.services import require


class VictoriaMetrics(Queried):
    """Keeps what it stores over a restart; `config` is what it scrapes, in Prometheus' words.

    It hides the last 30 seconds from queries, unless the flag `-search.latencyOffset` says otherwise.
    """

    def __init__(self, config: str, folder: Path, *flags: str) -> None:
        file, port = written(config, folder / "victoria-metrics.yml"), free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._scraping = [require("victoria-metrics"), f"-promscrape.config={file}"]
        settings = [f"-storageDataPath={folder / 'victoria-metrics-data'}", "-retentionPeriod=100y"]
        command = [*self._scraping, *settings, f"-httpListenAddr=127.0.0.1:{port}", *flags]
        super().__init__(command, folder, answers(f"{self.url}/health"))

    def start(self) -> None:
        """It answers before it reads what to scrape: a mistake there would end it somewhere in the test."""
        ran([*self._scraping, "-promscrape.config.dryRun"])
        super().start()

    def load(self, openmetrics: Path) -> None:
        """History from a file of samples with timestamps; while it runs."""
        urlopen(f"{self.url}/api/v1/import/prometheus", openmetrics.read_bytes(), timeout=DEADLINE).close()
        self.flush()

    def flush(self) -> None:
        """What was received is seen by the next query, which otherwise takes a second or so."""
        assert get(f"{self.url}/internal/force_flush").status == 200
