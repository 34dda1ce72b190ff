"""The long windows of an objective of 30 days, by a real Prometheus and by SQL from the same samples of three days."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from alerts.burn import DAY
from alerts.slo.spec import Slo
from monitor.history.database import open_database, sqlite_url
from tests.monitor.evaluate.minutes import HOUR, START, available, kv_below, latency, roll_up_all
from tests.monitor.evaluate.serving import Serving, Work
from tests.monitor.evaluate.test_agreement import Both, both

MINUTES = 73 * 60
UNTIL = START + MINUTES * 60
SLOS = [available(alerts=["ticket"]), kv_below(0.9, alerts=["ticket"]), latency("ttft", 0.5, alerts=["ticket"])]


def by_day(minute: int, chance: random.Random) -> Work:
    """More fails and the cache is fuller in some hours, as day and night do."""
    hour = minute // 60
    ends = {"stop": 40 + 30 * (hour % 24 > 8), "length": 10, "error": 1 + (hour % 5 == 0), "abort": 3}
    slow = {0.05: 80, 0.7: 2 + 6 * (hour % 4 == 1), 3.0: 1}
    return Work(slow, {**ends, "unknown": float(chance.random() < 0.2)}, kv=0.7 + 0.25 * (hour % 7 == 1))


def between_pieces(second: int) -> Work | None:
    return Work({3.0: 20 + 30 * (second // 3600 % 5 == 2)}, {}) if 270 < second % 300 <= 330 else None


SERVERS = [
    Serving("a", "vllm", "steady", by_day, tells_latencies=False),
    Serving("d", "triton", "timed", by_day, every=60, first=20, burst=between_pieces),
    Serving(
        "b", "sglang", "wild", by_day, tells_latencies=False, restarts=(700, 2900, 4100, 4301), down=range(4000, 4012)
    ),
    Serving("c", "vllm", "wild", by_day, tells_latencies=False, up_from=1500, down=range(4003, 4020)),
]


@pytest.fixture(scope="module")
def of_three_days(empty_history: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("long-agreement")
    path = folder / "history.sqlite"
    path.write_bytes(empty_history.read_bytes())
    database = open_database(sqlite_url(path))
    found = both(folder, database, SERVERS, SLOS, MINUTES)
    made = next(found)
    roll_up_all(database)
    yield made
    next(found, None)
    database.dispose()


def test_the_windows_are_those_of_tickets() -> None:
    found = {(w.long, w.short) for slo in SLOS for w in slo.burn_windows()[0] if w.severity == "ticket"}
    assert found == {(DAY, 2 * HOUR), (3 * DAY, 6 * HOUR)}


OF_MODELS = [("steady", SLOS[0]), ("steady", SLOS[1]), ("wild", SLOS[0]), ("wild", SLOS[1]), ("timed", SLOS[2])]


@pytest.mark.parametrize(("model", "slo"), OF_MODELS, ids=lambda value: getattr(value, "name", value))
@pytest.mark.parametrize("seconds", [2 * HOUR, 6 * HOUR, DAY, 3 * DAY])
def test_burns_of_long_windows_agree(of_three_days: Both, slo: Slo, seconds: int, model: str) -> None:
    told, ours = of_three_days.ratios(slo, "bad", seconds, model, UNTIL)
    assert told is not None
    assert 0 < told < 1
    assert ours == pytest.approx(told, rel=0.1 if model == "wild" else 0.01)
