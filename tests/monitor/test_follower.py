from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from exporters.observation import Series
from monitor.assembly import assemble
from monitor.config import MonitorConfig
from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.retention import Retention, forget
from monitor.history.rollup import roll_up
from monitor.history.store import Store
from monitor.sources import SourceError
from monitor.sources.prometheus.answers import Busy, TooMuch
from monitor.sources.prometheus.client import source_key
from monitor.sources.rebuild import Part
from tests.end_to_end.processes import until
from tests.monitor.following import config_of, followed, following
from tests.monitor.gpu_data import H100, gathered, key, reading, uuid
from tests.monitor.history import by_definition
from tests.monitor.history.lives import END, copies, lives, moments, read, scrape, server_of, steady
from tests.monitor.history.openmetrics import written
from tests.monitor.history.scraped import ONLY, START, Copies
from tests.monitor.history.stored import everything, rows
from tests.servers.prometheus import Prometheus
from tests.servers.victoria_metrics import VictoriaMetrics

NOTHING = "global: {scrape_interval: 1h}"
FOR_EVER = "--storage.tsdb.retention.time=100y"
LATE = END + 400.0
"""When nothing that concerns the windows to END is still to come."""
MANY = 'server!~"on-edge|past-edge|each.+|restarts"'
ENERGY = key("gpu_energy_joules_total")
FEW = 'server=~"grow.+|restarts|ahead"'


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """With a dozen lives of up to 70 minutes."""
    with prometheus_with(all_lives(), tmp_path_factory.mktemp("prometheus")) as server:
        yield server


def all_lives() -> Copies:
    found: dict[Any, list[Any]] = {}
    for of in (*lives().values(), *copies().values()):
        for copy, scrapes in of.items():
            found.setdefault(copy, []).extend(scrapes)
    return found


def prometheus_with(copies: Copies, folder: Path) -> Prometheus:
    server = Prometheus(NOTHING, folder, FOR_EVER)
    server.load(written(copies, folder / "history.om"))
    return server


@pytest.fixture
def other(empty_history: Path, tmp_path: Path) -> Iterator[Engine]:
    """Another database, to be compared."""
    path = tmp_path / "other.sqlite"
    path.write_bytes(empty_history.read_bytes())
    engine = open_database(sqlite_url(path))
    yield engine
    engine.dispose()


def file_of(database: Engine) -> Path:
    return Path(database.url.database or "")


async def test_rows_are_those_that_the_pages_give_by_definition(prometheus: Prometheus, database: Engine) -> None:
    follower = await followed(prometheus.url, database, LATE)
    assert follower.problems() == []
    targets, engines = (rows(file_of(database), table) for table in ("target_minute", "engine_minute"))
    for name, of in lives().items():
        [scrapes] = of.values()
        pages = [by_definition.page(s) for s in scrapes]
        wanted = {start: by_definition.minute(pages, start) for start in range(START - 60, END, 60)}
        mine = {start: by_definition.stored_target(row) for (i, start), row in targets.items() if _is_of(i, name)}
        assert {s: r for s, r in mine.items() if s < END} == {s: t for s, (t, _) in wanted.items() if t}, name
        mine = {start: by_definition.stored_engine(row) for (i, start), row in engines.items() if _is_of(i, name)}
        assert mine == {s: e for s, (_, e) in wanted.items() if e}, name


def _is_of(identity: str, server: str) -> bool:
    return by_definition.server_in(identity) == server


async def test_of_two_copies_each_second_counts_once(prometheus: Prometheus, database: Engine) -> None:
    await followed(prometheus.url, database, LATE)
    engines = rows(file_of(database), "engine_minute")
    tokens = {n: [r["generation_tokens"] for (i, _), r in engines.items() if _is_of(i, n)] for n in copies()}
    assert tokens["by-two"] == [45, 60, 163 - 115, 60, 295 - 223]
    assert tokens["ahead"] == [45, 60, 130 - 115, 60, 60], "b said 130 at 170: a had said 115"
    assert [event for event in everything(file_of(database))["events"] if '"ahead"' in event[0]] == []


async def test_a_late_monitor_has_the_rows_of_one_that_followed(
    prometheus: Prometheus, database: Engine, other: Engine
) -> None:
    await followed(prometheus.url, database, LATE, selector=MANY)
    minutes = (*range(8, 14), *range(20, 24), *range(34, 40), 45, 46, 47, 50, 51)
    await followed(prometheus.url, other, *(START + 30.0 + 60 * n for n in minutes), LATE, selector=MANY)
    assert everything(file_of(other)) == everything(file_of(database))


async def test_victoria_metrics_gives_the_same_rows(
    prometheus: Prometheus, database: Engine, other: Engine, tmp_path: Path
) -> None:
    await followed(prometheus.url, database, LATE)
    with VictoriaMetrics("", tmp_path) as victoria:
        victoria.load(written(all_lives(), tmp_path / "history.om"))
        await followed(victoria.url, other, LATE)
    assert everything(file_of(other)) == everything(file_of(database))


async def test_postgresql_holds_the_same(prometheus: Prometheus, database: Engine, postgres_url: str) -> None:
    engine = open_database(postgres_url)
    upgrade(engine)
    await followed(prometheus.url, engine, LATE, selector=FEW)
    await followed(prometheus.url, database, LATE, selector=FEW)
    asked = text(
        "SELECT s.server, m.start, m.samples, m.covered_seconds, m.increase_seconds, m.generation_tokens "
        "FROM engine_minute m JOIN series s ON s.id = m.series_id ORDER BY s.identity, m.start"
    )
    with engine.connect() as there, database.connect() as here:
        assert list(map(tuple, there.execute(asked))) == list(map(tuple, here.execute(asked)))
    engine.dispose()


async def test_samples_that_come_late_replace_what_was_read_without_them(database: Engine, tmp_path: Path) -> None:
    scrapes = steady("late")[:48]
    late, early = scrapes[26:32], [*scrapes[:26], *scrapes[32:]]
    found = []
    with VictoriaMetrics("", tmp_path) as victoria:
        async with following(victoria.url, database) as (follower, client):
            for told, client.at in ((early, START + 630.0), (late, START + 690.0)):
                victoria.load(written({ONLY: told}, tmp_path / "history.om"))
                while await follower.step():
                    pass
                engines = rows(file_of(database), "engine_minute")
                found.append([engines[identity, start] for identity, start in sorted(engines) if start >= START + 360])
    assert [row["samples"] for row in found[0]] == [2, 4, 4], "of minutes 6, 8 and 9: there is none of minute 7"
    assert [row["samples"] for row in found[1]] == [4, 4, 4, 4, 4]
    assert [row["covered_seconds"] for row in found[1]] == [60, 60, 60, 60, 60]


async def test_too_much_is_asked_for_in_smaller_pieces(prometheus: Prometheus, database: Engine, other: Engine) -> None:
    def hinders(question: str, seconds: float) -> None:
        if seconds > 1500:
            raise TooMuch("too many samples")

    await followed(prometheus.url, database, LATE, selector=FEW)
    follower = await followed(prometheus.url, other, LATE, selector=FEW, hinders=hinders)
    assert follower.problems() == []
    assert everything(file_of(other)) == everything(file_of(database))


async def test_a_target_that_cannot_be_read_holds_up_no_other_and_is_read_later(
    prometheus: Prometheus, database: Engine, other: Engine
) -> None:
    poisoned = True

    def hinders(question: str, seconds: float) -> None:
        if poisoned and "growing" in question and "count_over_time" not in question:
            raise SourceError("bad data")

    async def at_once(seconds: float) -> None:
        pass

    await followed(prometheus.url, database, LATE + 600.0, selector=FEW)
    async with following(prometheus.url, other, selector=FEW, hinders=hinders, sleep=at_once) as (follower, client):
        for client.at in (END - 570.0, LATE):
            while await follower.step():
                pass
        [told] = follower.problems()
        assert told.startswith("minutes of growing on n1 from 2026-11-30 09:55 UTC to 2026-11-30 11:16 UTC ")
        assert told.endswith("could not be read, and are tried again: bad data")
        assert _servers(other) == _servers(database) - {"growing"}
        known = Store(other).progress(source_key(config_of(prometheus.url, selector=FEW)))
        assert known is not None
        assert known.until <= START, "nobody takes it for read"
        poisoned = False
        client.at += 600
        while await follower.step():
            pass
        assert follower.problems() == []
    assert everything(file_of(other)) == everything(file_of(database))


def _servers(database: Engine) -> set[str]:
    return {by_definition.server_in(identity) for identity, _ in rows(file_of(database), "target_minute")}


async def test_it_waits_while_nobody_answers_and_then_goes_on(prometheus: Prometheus, database: Engine) -> None:
    pauses: list[float] = []
    told: list[list[str]] = []

    def hinders(question: str, seconds: float) -> None:
        if question != "time()" and len(pauses) < 4:
            raise Busy("too many requests", 5.0)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        told.append(follower.problems())
        if len(pauses) > 4:
            raise asyncio.CancelledError

    async with following(prometheus.url, database, selector=FEW, hinders=hinders, sleep=sleep) as (follower, client):
        client.at = START + 330.0
        with pytest.raises(asyncio.CancelledError):
            await follower.run()
        assert pauses == [5.0, 5.0, 5.0, 8.0, 60.0]
        assert told == [["too many requests"]] * 4 + [[]]
        assert follower.lag() == 30
    assert len(rows(file_of(database), "target_minute")) > 0


async def test_the_lag_is_right_before_while_and_after_it_catches_up(prometheus: Prometheus, database: Engine) -> None:
    async with following(prometheus.url, database, selector=FEW, backfill=3 * 3600.0) as (follower, client):
        assert follower.lag() == 0
        client.at = LATE
        lags = [follower.lag()]
        while await follower.step():
            lags.append(follower.lag())
    assert lags[0] == LATE, "nothing is known yet: since it began"
    assert lags[1:] == sorted(lags[1:], reverse=True)
    assert lags[-1] == LATE % 60 + 60 * (LATE % 60 < 30)


async def test_a_longer_backfill_than_before_reads_the_older_part_too(
    prometheus: Prometheus, database: Engine, other: Engine
) -> None:
    await followed(prometheus.url, database, LATE, selector=FEW)
    await followed(prometheus.url, other, LATE, selector=FEW, backfill=600.0)
    before = rows(file_of(other), "target_minute")
    await followed(prometheus.url, other, LATE, selector=FEW)
    assert everything(file_of(other)) == everything(file_of(database))
    assert len(rows(file_of(other), "target_minute")) > len(before)


@pytest.mark.parametrize("since", [LATE - 1800, LATE - 3600])
async def test_the_older_part_has_whole_hours_and_days_though_minutes_are_deleted_meanwhile(
    prometheus: Prometheus, database: Engine, other: Engine, since: float
) -> None:
    """What was read before the older part was wanted began within an hour, as releases before wrote it."""
    await followed(prometheus.url, database, LATE, selector=FEW, backfill=4 * 3600.0)
    rolled_up(database)
    await followed(prometheus.url, other, LATE, selector=FEW, backfill=LATE - since)
    source = source_key(config_of(prometheus.url, selector=FEW))
    with other.begin() as connection:
        connection.execute(text(f"UPDATE progress SET since = {since // 60 * 60:.0f}"))
        for table in ("engine_minute", "target_minute"):
            connection.execute(text(f"DELETE FROM {table} WHERE start < {since // 60 * 60:.0f}"))
    rolled_up(other)

    class Forgetting(Store):
        def write_windows(self, windows: Any, events: Any, progress: Any) -> None:
            super().write_windows(windows, events, progress)
            rolled_up(other)
            forget(other, Retention(86_400.0, 86_400.0), LATE + 400 * 86_400)

    async with following(prometheus.url, other, selector=FEW, store=Forgetting, backfill=4 * 3600.0) as (of, client):
        of._pace.seconds = 900
        client.at = LATE
        while await of.step():
            pass
    for table in ("engine_hour", "target_hour", "target_day"):
        assert rows(file_of(other), table) == rows(file_of(database), table)
    mark = Store(other).progress(source)
    assert mark is not None
    assert mark.since % 3600 == 0


def rolled_up(database: Engine) -> None:
    while roll_up(database, LATE + 2 * 86_400):
        pass


async def test_where_it_begins_is_marked_before_anything_is_stored(prometheus: Prometheus, database: Engine) -> None:
    """Retention keeps what follows a mark, and may run between the first two pieces."""
    marks: list[Any] = []

    class Watched(Store):
        def write_windows(self, windows: Any, events: Any, progress: Any) -> None:
            if windows and not marks:
                marks.append(self.progress(source_key(config_of(prometheus.url, selector=FEW))))
            super().write_windows(windows, events, progress)

    async with following(prometheus.url, database, selector=FEW, store=Watched, backfill=1800.0) as (follower, client):
        client.at = LATE
        await follower.step()
    assert [(mark.since, mark.until) for mark in marks] == [(START, START)], "a full hour"


async def test_it_goes_on_where_the_last_one_ended(prometheus: Prometheus, database: Engine) -> None:
    await followed(prometheus.url, database, START + 1830.0, selector=FEW)
    ranges: list[float] = []

    def hinders(question: str, seconds: float) -> None:
        ranges.append(seconds)

    await followed(prometheus.url, database, START + 1890.0, selector=FEW, hinders=hinders)
    assert max(ranges) == 360 + 240, "the new minute and the five before"


async def test_a_write_is_ended_when_it_is_cancelled_in_the_middle(prometheus: Prometheus, database: Engine) -> None:
    begun, loop = asyncio.Event(), asyncio.get_running_loop()
    written_windows = []

    class Slow(Store):
        def write_windows(self, windows: Any, events: Any, progress: Any) -> None:
            if windows:
                loop.call_soon_threadsafe(begun.set)
            super().write_windows(windows, events, progress)
            written_windows.extend(windows)

    async with following(prometheus.url, database, selector=FEW, store=Slow) as (follower, client):
        client.at = LATE
        running = asyncio.create_task(follower.run())
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        stored = rows(file_of(database), "target_minute")
        assert len(stored) == sum(1 for w in written_windows for of in w.rows if len(of) == 2)


async def test_a_history_that_is_replaced_meanwhile_is_read_again(prometheus: Prometheus, database: Engine) -> None:
    async def at_once(seconds: float) -> None:
        if not follower.problems() and follower.lag() < 120:
            raise asyncio.CancelledError

    async with following(prometheus.url, database, selector=FEW, sleep=at_once) as (follower, client):
        client.at = START + 1830.0
        while await follower.step():
            pass
        file_of(database).unlink()
        client.at = START + 1890.0
        with pytest.raises(asyncio.CancelledError):
            await follower.run()
    starts = {start for _, start in rows(file_of(database), "target_minute")}
    assert starts == set(range(START, START + 1860, 60))


async def test_gpus_and_which_servers_run_on_them_are_kept(database: Engine, tmp_path: Path) -> None:
    """The server moves from GPU 0 to GPU 1 at 15:00, when it is restarted."""
    server, scrapes = server_of("moved"), []
    for at, _ in read(server, moments()):
        on = {"0": "moved"} if at < 900 else {"1": "moved"}
        told = gathered(START + at, *(reading(gpu, {ENERGY: 300 * at}) for gpu in "01"), node="n1", on=on)
        gpus = [(Part(s), v) for gpu in told.gpus for s, v in gpu.values.items()]
        available = Part(Series("inferwatch_gpu_available", (("node", "n1"),))), 1.0
        scrapes.append(scrape(at, [*server.read(), available, *gpus]))
    with prometheus_with({ONLY: scrapes}, tmp_path) as prometheus:
        await followed(prometheus.url, database, LATE)
    stored = rows(file_of(database), "gpu_minute")
    assert [row["energy_joules"] for (of, start), row in stored.items() if start == START + 600] == [18_000, 18_000]
    found = everything(file_of(database))
    [moved] = [event for event in found["events"] if event[2] == "gpus"]
    assert moved[1:] == (START + 922.5, "gpus", f"{uuid('0')} {H100['name']}", f"{uuid('1')} {H100['name']}")
    [engine] = [told for told in found["series"] if told[1] == "engine"]
    assert engine[9]["gpu"] == H100["name"]


async def test_a_monitor_that_starts_before_its_prometheus_says_so_and_goes_on(
    prometheus: Prometheus, tmp_path: Path
) -> None:
    config = MonitorConfig(prometheus=config_of(prometheus.url, backfill=600.0))
    monitor = assemble(config, database_url=sqlite_url(tmp_path / "of-monitor.sqlite"))
    recorder = monitor.recorder
    prometheus.stop()
    running = asyncio.create_task(recorder.run())
    try:
        [told] = await asyncio.to_thread(until, recorder.history_problems)
        assert "connection_refused" in told
        assert recorder.lag() < 60, "since it began: what is stored is not known"
        await asyncio.to_thread(prometheus.start)
        await asyncio.to_thread(until, lambda: not recorder.history_problems())
        assert recorder.lag() < 121
    finally:
        prometheus.start()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        monitor.close()
