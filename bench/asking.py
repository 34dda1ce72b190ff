"""Percentiles of a fleet from its history, against the same merge row by row: select, decode, add up.

64 servers of four frameworks, each hour as busy as the recorded ones: minutes of a day, hours of 30 days.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine

from bench.normalise import CAPTURES
from bench.paired import Paired, seconds
from exporters.collected import Outcome, observation_of
from exporters.histogram import Histogram, quantile
from exporters.normalise import Identity, Normaliser
from exporters.schema import TTFT, Scope
from exporters.tables import FRONTENDS
from monitor.history import tables
from monitor.history.ask import History
from monitor.history.columns import COLUMNS
from monitor.history.database import for_writing, open_database, sqlite_url, upgrade
from monitor.history.encoding import decode
from monitor.history.minutes import State, Window, advance
from monitor.history.partitions import make_partitions, partition_of
from monitor.history.rollup import roll_up
from monitor.history.store import Store
from monitor.history.tables import Tier, rows_table
from monitor.history.upsert import Progress
from tests.servers.postgres import postgres_cluster

HOUR, DAY = 3600, 86_400
UNTIL = 20_000 * DAY
LEAST_RATIO = 3.0
_SERVERS, _PAIRS = 64, 5
PAGES = {
    "vllm": ("0.32.0", ("A-0-fresh", "A-1-mid02", "A-1-mid05", "A-1-mid08", "A-2-after")),
    "sglang": ("0.5.23", ("tp1-0_fresh", "tp1-1_load", "tp1-2_load", "tp1-3_load", "tp1-8_just_drained")),
    "lmdeploy": ("0.18.0", ("fresh", "mid-1", "mid-2", "mid-3", "idle")),
    "trtllm_serve": ("main2026", ("page-fresh", "page-load1", "page-load2", "page-load3", "page-idle")),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """P99 of the time to first token by framework."""

    title: str
    tier: Tier
    since: int
    step: int
    aim_ms: float

    @property
    def histograms(self) -> int:
        return _SERVERS * (UNTIL - self.since) // self.tier.seconds


ASKED = (
    Asked("30 days by 4 hours", Tier.HOUR, UNTIL - 30 * DAY, 4 * HOUR, 150),
    Asked("24 hours by 5 minutes", Tier.MINUTE, UNTIL - DAY, 300, 600),
)


@dataclass(frozen=True, slots=True)
class Result:
    ours_ms: float
    peer_ms: float
    ratio: float
    """Median of the ratios of paired runs."""
    differing: int
    """Points that the two tell differently: none, or the speed means nothing."""

    @property
    def good(self) -> bool:
        return self.ratio >= LEAST_RATIO and not self.differing


def measure() -> Iterator[tuple[str, Asked, Result]]:
    """By the name of the database; without PostgreSQL it is left out."""
    with TemporaryDirectory() as folder:
        yield from _measure("SQLite", sqlite_url(Path(folder) / "history.sqlite"))
    with suppress(pytest.skip.Exception), postgres_cluster() as cluster, cluster.new_database() as url:
        yield from _measure("PostgreSQL", url)


def _measure(name: str, url: str) -> Iterator[tuple[str, Asked, Result]]:
    engine = open_database(url)
    upgrade(engine)
    fill(engine)
    for asked in ASKED:
        yield name, asked, _result(engine, asked)
    engine.dispose()


def _result(engine: Engine, asked: Asked) -> Result:
    ours, peer = partial(_ours, engine, asked), partial(_peer, engine, asked)
    told, expected = ours(), peer()
    found = Paired.of([(seconds(ours), seconds(peer)) for _ in range(_PAIRS)])
    return Result(found.ours * 1e3, found.peer * 1e3, found.ratio, len(told.items() ^ expected.items()) // 2)


Points = dict[tuple[str, int], tuple[float, float | None, float | None]]
"""Estimate and bounds by framework and start of the step."""


def _ours(engine: Engine, asked: Asked) -> Points:
    answers = History(engine).ask(TTFT.metric, 0.99, asked.since, UNTIL, asked.step, ["framework"])
    return {(a.labels["framework"], p.start): (p.value, p.lower, p.upper) for a in answers for p in a.points}


def _peer(engine: Engine, asked: Asked) -> Points:
    """As one would do it first."""
    table, series, bounds = rows_table(Scope.ENGINE, asked.tier), tables.series, tables.bounds
    wanted = sa.select(series.c.framework, table.c.start, table.c.ttft_histogram).join_from(table, series)
    wanted = wanted.where(table.c.start >= asked.since, table.c.start < UNTIL, table.c.ttft_histogram.is_not(None))
    gathered: defaultdict[tuple[str, int], list[Histogram]] = defaultdict(list)
    with engine.connect() as connection:
        native = {r.id: tuple(map(float, r.bounds.split(","))) for r in connection.execute(sa.select(bounds))}
        for framework, start, value in connection.execute(wanted):
            gathered[framework, start // asked.step * asked.step] += decode(value, native)
    found = {key: quantile(histograms, 0.99, TTFT.grid) for key, histograms in gathered.items()}
    return {key: (q.estimate, q.lower, q.upper) for key, q in found.items() if q is not None}


def fill(engine: Engine, scopes: Sequence[Scope] = (Scope.ENGINE,)) -> None:
    """An hour of minutes, rolled up, and copies of both at earlier times."""
    newest = UNTIL - HOUR
    days = (UNTIL - DAY, UNTIL - 2 * DAY)
    make_partitions(engine, [partition_of(rows_table(scope, Tier.MINUTE), day) for scope in COLUMNS for day in days])
    Store(engine).write_windows(list(_hour(newest)), [], Progress("bench", newest, UNTIL))
    roll_up(engine, UNTIL + DAY)
    with for_writing(engine).begin() as connection:
        for tier, many in ((Tier.HOUR, 30 * 24), (Tier.MINUTE, 24)):
            for scope, hours in product(scopes, range(1, many)):
                _copy(connection, rows_table(scope, tier), newest, hours * HOUR)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE")


def _copy(connection: sa.Connection, table: sa.Table, newest: int, earlier: int) -> None:
    moved = [c - earlier if c.name == "start" else c for c in table.c]
    rows = sa.select(*moved).where(table.c.start >= newest).order_by(table.c.start, table.c.series_id)
    connection.execute(sa.insert(table).from_select([c.name for c in table.c], rows))


def _hour(start: int) -> Iterator[Window]:
    """Of each framework the recorded minutes, over and over."""
    recorded = {frontend: list(_recorded(frontend)) for frontend in PAGES}
    for server in range(_SERVERS):
        of_server = recorded[list(PAGES)[server % len(PAGES)]]
        named = {"node": f"node-{server // 8}", "server": f"server-{server}"}
        for minute in range(60):
            window = of_server[(minute + server) % len(of_server)]
            rows = {tuple((name, named.get(name, value)) for name, value in of): row for of, row in window.rows.items()}
            yield Window(start + 60 * minute, rows)


def _recorded(frontend: str) -> Iterator[Window]:
    """A minute for each page, of what came since the page before."""
    (release, pages), state = PAGES[frontend], State()
    who = Identity("node", "server")
    normaliser = Normaliser(FRONTENDS[frontend], who)
    for number, page in enumerate(pages):
        text = (CAPTURES / frontend / release / f"{page}.prom").read_text()
        seen = observation_of(Outcome(30.0 + 60 * number, up=True, reading=normaliser.normalise(text)), who, 0.1)
        finished = advance(state, seen, 120).finished
        if finished is not None and number > 1:
            yield finished
