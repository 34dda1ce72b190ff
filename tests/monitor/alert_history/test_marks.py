"""Prometheus marks the end of an alert in its storage, and passes the mark on: with real programs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import groupby, pairwise

import pytest
import yaml
from sqlalchemy import Engine

from monitor.alert_history.follower import AlertFollower
from monitor.alert_history.store import AlertStore, Wanted
from monitor.config import PrometheusSection
from monitor.sources.prometheus.client import Client
from tests.end_to_end.processes import until
from tests.servers.prometheus import Prometheus
from tests.servers.queried import Queried
from tests.servers.victoria_metrics import VictoriaMetrics

FLAPPING = {"alert": "Flapping", "expr": "vector(time()) % 6 < 3"}
"""Three evaluations of six."""
ALWAYS = {"alert": "Always", "expr": "vector(1)"}
FIRING = 'ALERTS{alertname="Flapping",alertstate="firing"}[1h]'
EVALUATED = 'ALERTS{alertname="Always",alertstate="firing"}[1h]'
MISSED = 1.5
"""Seconds between two evaluations."""
TOLD_SECONDS = 3.0
"""After an evaluation: two are left out at the end of what is asked for, and so is the part of a second."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Queried]]:
    """A Prometheus in which an alert fired a few times, and the storage that it passes its samples on to."""
    folder = tmp_path_factory.mktemp("marks")
    rules = folder / "rules.yml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "g", "interval": "1s", "rules": [FLAPPING, ALWAYS]}]}))
    with VictoriaMetrics("", folder, "-search.latencyOffset=0s") as copy:
        remote = {"url": f"{copy.url}/api/v1/write", "queue_config": {"batch_send_deadline": "100ms"}}
        config = {"rule_files": [str(rules)], "remote_write": [remote]}
        with Prometheus(yaml.safe_dump(config), folder) as prometheus:
            until(lambda: len(stretches(prometheus)) >= 2, prometheus.process)
            seen = time.time() + TOLD_SECONDS
            until(lambda: _reaches(copy, seen), copy.process)
            yield {"prometheus": prometheus, "victoria_metrics": copy}


def _reaches(copy: VictoriaMetrics, moment: float) -> bool:
    copy.flush()
    return copy.number('max(timestamp(ALERTS{alertname="Always"}))') > moment


async def spans(url: str, database: Engine) -> list[tuple[str, float, float | None]]:
    config = PrometheusSection.model_validate({"url": url, "delay": 1, "backfill": 600, "max_requests_per_second": 1e6})
    client, store = Client(config), AlertStore(database)
    await AlertFollower(client, config, store).catch_up()
    await client.aclose()
    found = store.find(Wanted(100, 0))
    return [(row.name, row.starts_at, row.ends_at) for row in reversed(found)]


def stretches(prometheus: Queried) -> list[tuple[float, float]]:
    """First evaluation that said yes, and the one that said no.

    Where a busy Prometheus left out evaluations around the end of one, that one and the next are looked at by nobody:
    the end is told of late, or not before the next began.
    """
    evaluations, firing = ([at for at, _ in prometheus.ask(of)[0]["values"]] for of in (EVALUATED, FIRING))
    runs = [(fires, list(moments)) for fires, moments in groupby(evaluations, set(firing).__contains__)]
    found = [[*run, after[0]] for (fires, run), (_, after) in pairwise(runs) if fires]
    clean = [max(b - a for a, b in pairwise(run)) < MISSED for run in found]
    return [(run[0], run[-1]) for run, *both in zip(found, clean, [True, *clean], strict=False) if all(both)]


@pytest.mark.parametrize("kind", ["prometheus", "victoria_metrics"])
async def test_one_that_flaps_is_a_row_each_time_and_ends_at_the_evaluation_that_said_no(
    both: dict[str, Queried], sqlite_database: Engine, kind: str
) -> None:
    found = await spans(both[kind].url, sqlite_database)
    expected = stretches(both["prometheus"])[:2]
    begun = {start for start, _ in expected}
    assert [row[1:] for row in found if row[0] == "Flapping" and row[1] in begun] == expected
    assert [row[2] for row in found if row[0] == "Always"] == [None]
