from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboards import by_hand, recorded
from tests.dashboards.asked import Grafana
from tests.end_to_end.samples import Scrape, as_openmetrics
from tests.servers.prometheus import Prometheus


@pytest.fixture(scope="session")
def grafana(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grafana]:
    """Over a Prometheus that holds the last twenty minutes of the recorded servers and of those made by hand."""
    folder = tmp_path_factory.mktemp("dashboards")
    end = int(time.time()) // 60 * 60
    start = end - recorded.MINUTES * 60
    of_recorded = recorded.scrapes(folder, start)
    with loaded(folder, [*of_recorded, *by_hand.scrapes(start)]) as prometheus:
        yield Grafana(prometheus, end)


def loaded(folder: Path, scrapes: list[Scrape]) -> Prometheus:
    prometheus = Prometheus("global: {scrape_interval: 1h}", folder)
    prometheus.load(as_openmetrics(sorted(scrapes, key=lambda s: s.at), folder / "past.om"))
    return prometheus
