from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from monitor.alert_history import follower as module
from monitor.alert_history.alert import Alert
from monitor.alert_history.follower import AlertFollower
from monitor.alert_history.store import AlertStore, Wanted
from monitor.sources import SourceError
from tests.exporters.servers import unused_url
from tests.monitor.alert_history.told import alert, notification
from tests.monitor.following import Dated, config_of
from tests.servers.prometheus import Prometheus

HOUR = 3600
NOTHING = "global: {scrape_interval: 1h}"
NOW = time.time()
START = int(NOW - 3 * HOUR) // 60 * 60 + 7
"""Of the history that is loaded, which ends two hours later. No sample lies on the minute."""
DOWN, BACK = START + 2400, START + 4200


def when_up(first: int, last: int, step: int) -> Iterator[int]:
    return (at for at in range(START + first, START + last + 1, step) if not DOWN <= at < BACK)


def samples(name: str, first: int, last: int, since: int | None = None) -> Iterator[tuple[str, int, int]]:
    """An alert that is evaluated every 15 seconds while Prometheus is up."""
    of = f'alertname="{name}",cluster="c1",prometheus_replica="p0"'
    for at in when_up(first, last, 15):
        yield f'ALERTS{{{of},alertstate="firing"}}', 1, at
        yield f"ALERTS_FOR_STATE{{{of}}}", START + (first if since is None else since), at


HISTORY = [
    *(("up", 1, at) for at in when_up(0, 7200, 30)),
    *samples("Always", 0, 7200, -100),
    *samples("Before", 600, 900, 540),
    *samples("Through", 1800, 4200 + 600, 1800),
    *samples("ThroughAnew", 1800, 2385),
    *samples("ThroughAnew", 4260, 4800, 4260),
    *samples("Into", 1800, 2385),
    *samples("OutOf", 4800, 5100),
]
EXPECTED = {
    "Always": [(0, 7200, None)],
    "Before": [(600, 900, 1013)],
    "Through": [(1800, 4800, 4913)],
    "ThroughAnew": [(1800, 4800, 4913)],
    "Into": [(1800, 2385, 4253)],
    "OutOf": [(4800, 5100, 5213)],
}
"""From hand: a series that is loaded has no mark of its end, so the end is that of the first minute that began two
evaluations later, when Prometheus had other data; for Into the first after the pause."""


def openmetrics(history: Iterable[tuple[str, int, int]]) -> str:
    return "".join(f"{series} {value} {at}\n" for series, value, at in sorted(history)) + "# EOF\n"


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    file = folder / "history.om"
    file.write_text(openmetrics(HISTORY))
    server = Prometheus(NOTHING, folder)
    server.load(file)
    with server:
        yield server


@asynccontextmanager
async def following(url: str, database: Engine, until: int = 7200, **settings: Any) -> AsyncIterator[AlertFollower]:
    """Nothing later than so many seconds after the start is read, however long that takes."""
    config = config_of(url, backfill=4 * HOUR, **settings)
    client = Dated(config, lambda question, seconds: None)
    client.at = START + until + config.delay
    yield AlertFollower(client, config, AlertStore(database))
    await client.aclose()


def rows(database: Engine) -> list[Alert]:
    return AlertStore(database).find(Wanted(100, NOW))


def spans(database: Engine) -> dict[str, list[tuple[float, float, float | None]]]:
    found: dict[str, list[tuple[float, float, float | None]]] = {}
    for row in reversed(rows(database)):
        assert row.last_seen is not None
        end = None if row.ends_at is None else row.ends_at - START
        found.setdefault(row.name, []).append((row.starts_at - START, row.last_seen - START, end))
    return found


async def test_what_prometheus_kept_is_read_through_a_pause(prometheus: Prometheus, database: Engine) -> None:
    async with following(prometheus.url, database) as follower:
        await follower.catch_up()
    assert spans(database) == EXPECTED
    assert {tuple(row.labels) for row in rows(database)} == {("alertname", "cluster")}, "the replica is no label of it"


@pytest.mark.parametrize("seconds", [61, 600, 1999])
async def test_where_the_windows_begin_does_not_matter(
    prometheus: Prometheus, sqlite_database: Engine, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    monkeypatch.setattr(module, "_MOST_SECONDS", seconds)
    async with following(prometheus.url, sqlite_database) as follower:
        await follower.catch_up()
    assert spans(sqlite_database) == EXPECTED


async def test_one_that_was_there_all_along_has_the_same_rows(prometheus: Prometheus, sqlite_database: Engine) -> None:
    for minute in range(0, 7201, 60):
        async with following(prometheus.url, sqlite_database, minute) as follower:
            await follower.catch_up()
    assert spans(sqlite_database) == EXPECTED


@pytest.mark.parametrize("before", [{"selector": 'cluster="other"'}, {"tenant": "other"}])
async def test_another_part_of_the_same_prometheus_is_read_from_the_beginning(
    prometheus: Prometheus, sqlite_database: Engine, before: dict[str, Any]
) -> None:
    async with following(prometheus.url, sqlite_database, **before) as follower:
        await follower.catch_up()
    with sqlite_database.begin() as connection:
        connection.exec_driver_sql("DELETE FROM alerts")
    async with following(prometheus.url, sqlite_database) as follower:
        await follower.catch_up()
    assert spans(sqlite_database) == EXPECTED


async def test_while_it_is_down_alerts_fire_on_and_what_ended_ends_soon_after(
    prometheus: Prometheus, sqlite_database: Engine
) -> None:
    for seconds, open_ones in (
        (4000, ["Always", "Into", "Through", "ThroughAnew"]),
        (4500, ["Always", "Into", "Through", "ThroughAnew"]),
        (4561, ["Always", "Through", "ThroughAnew"]),
    ):
        async with following(prometheus.url, sqlite_database, seconds) as follower:
            await follower.catch_up()
        assert sorted(row.name for row in rows(sqlite_database) if row.ends_at is None) == open_ones


async def test_reading_everything_again_changes_nothing(prometheus: Prometheus, database: Engine) -> None:
    async with following(prometheus.url, database) as follower:
        await follower.catch_up()
        before = rows(database)
    with database.begin() as connection:
        connection.exec_driver_sql("DELETE FROM progress")
    async with following(prometheus.url, database) as follower:
        await follower.catch_up()
    assert rows(database) == before


async def test_two_monitors_at_once_write_the_same_rows(prometheus: Prometheus, database: Engine) -> None:
    async with (
        following(prometheus.url, database) as one,
        following(prometheus.url, database) as other,
    ):
        await asyncio.gather(one.catch_up(), other.catch_up())
    assert spans(database) == EXPECTED


async def test_what_alertmanager_told_meanwhile_is_of_the_same_rows(prometheus: Prometheus, database: Engine) -> None:
    of = {"alertname": "Through", "cluster": "c1", "region": "external"}
    AlertStore(database).tell(notification(alert(START + 1800, labels=of)), START + 1830)
    async with following(prometheus.url, database) as follower:
        await follower.catch_up()
    assert spans(database) == EXPECTED
    (row,) = (row for row in rows(database) if row.name == "Through")
    assert (row.labels, row.delivered_at) == (of, START + 1830)


async def test_only_alerts_that_the_selector_names_are_read(prometheus: Prometheus, sqlite_database: Engine) -> None:
    only = 'alertname="Before"'
    async with following(prometheus.url, sqlite_database, selector=only) as follower:
        await follower.catch_up()
    assert list(spans(sqlite_database)) == ["Before"]


async def test_an_answer_that_is_too_large_is_asked_for_in_parts(
    tmp_path: Path, prometheus: Prometheus, sqlite_database: Engine
) -> None:
    """Prometheus refuses to load more samples at once than this."""
    limited = Prometheus(NOTHING, tmp_path, "--query.max-samples=600")
    (tmp_path / "history.om").write_text(openmetrics(HISTORY))
    limited.load(tmp_path / "history.om")
    with limited:
        async with following(limited.url, sqlite_database) as follower:
            await follower.catch_up()
    assert spans(sqlite_database) == EXPECTED


async def test_a_prometheus_that_is_not_there_is_told_and_asked_again(
    prometheus: Prometheus, sqlite_database: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(unused_url(), sqlite_database) as follower:
        with pytest.raises(SourceError, match="could not ask Prometheus at"):
            await follower.catch_up()
        for _ in range(2):
            await follower.follow()
        assert "connection_refused" in follower.trouble.text
        assert len(caplog.records) == 1, "once, not again and again"
        follower._client.name = prometheus.url
        await follower.follow()
        assert follower.trouble.text == ""
