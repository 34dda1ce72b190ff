"""Writing minutes, encoded and upserted, against the same rows as dictionaries through SQLAlchemy Core; and their size.

The minute is one of a busy server: recorded pages of vLLM, between which 320 requests came and went.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine
from sqlalchemy.dialects import postgresql, sqlite

from bench.normalise import CAPTURES
from bench.paired import Paired, seconds
from exporters.collected import Outcome, observation_of
from exporters.normalise import Identity, Normaliser
from exporters.observation import Labels
from exporters.tables import FRONTENDS
from monitor.history.database import for_writing, open_database, sqlite_url, upgrade
from monitor.history.minutes import State, Window, advance
from monitor.history.postgres import is_postgres
from monitor.history.rows import row_values, scope_of
from monitor.history.store import Store
from monitor.history.tables import Tier, rows_table
from monitor.history.upsert import Ids, Progress, Upsert
from tests.servers.postgres import postgres_cluster

AIM_ROWS_PER_SECOND = 15_000
AIM_MB = 0.8
LEAST_RATIO = 1.1
DAY = 86_400
START = 20_000 * DAY
_PAGES = ("A-0-fresh", "A-1-mid02", "A-1-mid05", "A-1-mid08", "A-2-after")
_SERVERS, _MINUTES, _PAIRS = 64, 10, 12
ROWS = 2 * _SERVERS * _MINUTES
"""Of an engine and of its target."""
_SERVERS_OF_A_DAY = 8


@dataclass(frozen=True, slots=True)
class Result:
    ours: float
    peer: float
    """Rows per second."""
    ratio: float
    """Median of the ratios of paired runs."""
    megabytes: float
    """Per server and day, tables and indexes."""

    @property
    def good(self) -> bool:
        return self.ratio >= LEAST_RATIO


def busy_minute() -> Window:
    who = Identity("node", "server")
    normaliser, state = Normaliser(FRONTENDS["vllm"], who), State()
    for number, page in enumerate(_PAGES):
        text = (CAPTURES / "vllm" / "0.32.0" / f"{page}.prom").read_text()
        outcome = Outcome(float(START + 12 * (number + 1)), up=True, reading=normaliser.normalise(text))
        advance(state, observation_of(outcome, who, 0.1), 30)
    if state.window is None:
        raise ValueError("the pages make no minute")
    return state.window


class Fleet:
    """Servers that are all as busy."""

    def __init__(self, servers: int) -> None:
        minute = busy_minute()
        self._rows = [{_named(of, number): row for of, row in minute.rows.items()} for number in range(servers)]

    def windows(self, start: int, minutes: int) -> list[Window]:
        return [Window(start + 60 * n, dict(rows)) for n in range(minutes) for rows in self._rows]


def _named(of: Labels, number: int) -> Labels:
    names = {"node": f"node-{number // 8}", "server": f"server-{number}"}
    return tuple((name, names.get(name, value)) for name, value in of)


def measure() -> Iterator[tuple[str, Result]]:
    """By the name of the database. PostgreSQL waits for the disk at every commit; without one it is left out."""
    with TemporaryDirectory() as folder:
        yield "SQLite", _measure(sqlite_url(Path(folder) / f"{number}.sqlite") for number in range(3))
    with suppress(pytest.skip.Exception), postgres_cluster(durable=True) as cluster, ExitStack() as stack:
        yield "PostgreSQL", _measure(stack.enter_context(cluster.new_database()) for _ in range(3))


def _measure(urls: Iterable[str]) -> Result:
    engines = [open_database(url) for url in urls]
    for engine in engines:
        upgrade(engine)
    found = _speed(*engines[:2], megabytes=megabytes_per_server_day(engines[2]))
    for engine in engines:
        engine.dispose()
    return found


def _speed(ours: Engine, theirs: Engine, *, megabytes: float) -> Result:
    fleet, store, peer = Fleet(_SERVERS), Store(ours), _Peer(theirs)
    for each in (store, peer.store):
        each.write_windows(fleet.windows(START, 1), [], _progress(START))
    pairs = []
    for number in range(_PAIRS):
        windows = fleet.windows(START + 60 * (1 + number * _MINUTES), _MINUTES)
        write = partial(store.write_windows, windows, [], _progress(START))
        pairs.append((seconds(write), seconds(partial(peer.write, windows))))
    found = Paired.of(pairs)
    return Result(ROWS / found.ours, ROWS / found.peer, found.ratio, megabytes)


def _progress(until: int) -> Progress:
    return Progress("bench", START, until)


class _Peer:
    """As one would write it first."""

    def __init__(self, engine: Engine) -> None:
        self.store = Store(engine)  # makes the partitions
        self._engine = engine
        self._ids = Ids()

    def write(self, windows: Sequence[Window]) -> None:
        with for_writing(self._engine).begin() as connection:
            upsert = Upsert(connection)
            rows: defaultdict[sa.Table, list[dict[str, Any]]] = defaultdict(list)
            for window in windows:
                for of, minute in window.rows.items():
                    table = rows_table(scope_of(of), Tier.MINUTE)
                    values = row_values(scope_of(of), minute, lambda bounds: self._ids.of_bounds(upsert, bounds))
                    key = (self._ids.of_series(upsert, of), window.start)
                    rows[table].append(dict(zip(table.columns.keys(), (*key, *values), strict=True)))
            for table, of_table in rows.items():
                connection.execute(_core_upsert(table, postgres=is_postgres(connection)), of_table)


def _core_upsert(table: sa.Table, *, postgres: bool) -> sa.Executable:
    plain = sa.table(table.name, *(sa.column(c.name) for c in table.columns))
    insert: sqlite.Insert | postgresql.Insert = (postgresql if postgres else sqlite).insert(plain)
    new = insert.excluded
    changed = {c.name: new[c.name] for c in table.columns if not c.primary_key}
    return insert.on_conflict_do_update(
        index_elements=["series_id", "start"], set_=changed, where=new.samples >= plain.c.samples
    )


def megabytes_per_server_day(engine: Engine) -> float:
    """Of an empty database: tables and indexes."""
    fleet, store = Fleet(_SERVERS_OF_A_DAY), Store(engine)
    before = _size(engine)
    for hour in range(24):
        start = START + 3600 * hour
        store.write_windows(fleet.windows(start, 60), [], _progress(start + 3600))
    return (_size(engine) - before) / _SERVERS_OF_A_DAY / 1e6


def _size(engine: Engine) -> int:
    query = (
        "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname LIKE '%%minute_p%%'"
        if is_postgres(engine)
        else "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    )
    with engine.connect() as connection:
        return int(connection.exec_driver_sql(query).scalar() or 0)
