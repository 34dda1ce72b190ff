"""Rolls minutes up to hours and hours to days, again where finer rows came later.

Whoever writes minutes marks their hour as due in the same transaction. A roll-up takes the mark away first and then
reads: a writer that is not done yet is waited for, and one that comes later marks the hour again. So a window without a
mark is whole. An hour that is rolled up marks its day.

An hour of which some minutes are deleted already keeps its row: a row is never replaced by one with fewer readings.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Engine, Table, delete, select

from exporters.histogram import Histogram
from exporters.schema import Scope
from monitor.history import tables
from monitor.history.bulk import Row, upsert_rows
from monitor.history.columns import COLUMNS, QUANTILE_COLUMNS, HistogramColumn
from monitor.history.database import HistoryError, for_writing
from monitor.history.encoding import decode
from monitor.history.merge import merged, quantiles
from monitor.history.native import bounds
from monitor.history.tables import Tier, rows_table
from monitor.history.trouble import explaining
from monitor.history.upsert import Upsert

SETTLING_SECONDS = 600
"""Waited after a window's end for late samples: twice as long as minutes are read again from Prometheus. What is later
still rolls the window up once more."""

_PER_TURN = 24
_FINER = {Tier.HOUR: Tier.MINUTE, Tier.DAY: Tier.HOUR}
_WITH_QUANTILES = {column.phase.name for column in QUANTILE_COLUMNS}
_MERGED_HISTOGRAMS = {
    column.phase.name: column.name
    for column in COLUMNS[Scope.ENGINE]
    if isinstance(column, HistogramColumn) and column.phase.name in _WITH_QUANTILES
}
"""Columns by phase."""
_NO_QUANTILES = quantiles({})
_TARGET = (tables.series.c.node, tables.series.c.server, tables.series.c.labels)
"""What a target shares with its engines."""


class RollupError(HistoryError):
    """Windows stay due; those before are rolled up."""


def stale(connection: Connection, tier: Tier, since: int, until: int) -> set[int]:
    """Starts in [since, until) of the tier's windows whose rows are not there yet, or not whole."""
    due = tables.rollup_due
    coarser = [t.value for t in _FINER if t.seconds <= tier.seconds]
    wanted = select(due.c.start).where(due.c.tier.in_(coarser), due.c.start >= since, due.c.start < until)
    return {start // tier.seconds * tier.seconds for start in connection.scalars(wanted)}


def roll_up(engine: Engine, now: float, pause: Callable[[], bool] = lambda: False) -> int:
    """What is due and has settled by `now`, the oldest first, up to a day's worth; returns how many windows.

    `pause` is called after each, so that other writers get their turn, and says whether to stop. Raises RollupError.
    """
    done = 0
    with explaining(engine.url, RollupError, "could not roll up the history"):
        for tier in _FINER:
            for start in _ripe(engine, tier, now):
                done += _roll_up(engine, tier, start)
                if pause():
                    return done
    return done


def _ripe(engine: Engine, tier: Tier, now: float) -> list[int]:
    due = tables.rollup_due
    wanted = select(due.c.start).where(due.c.tier == tier.value, due.c.start + tier.seconds + SETTLING_SECONDS <= now)
    with engine.connect() as connection:
        starts = connection.scalars(wanted.order_by(due.c.start).limit(_PER_TURN)).all()
        if tier is Tier.HOUR:
            return list(starts)
        return [start for start in starts if not stale(connection, Tier.HOUR, start, start + tier.seconds)]


def _roll_up(engine: Engine, tier: Tier, start: int) -> bool:
    """In one transaction; False where another process has done it already."""
    due = tables.rollup_due
    with for_writing(engine).begin() as connection:
        mark = delete(due).where(due.c.tier == tier.value, due.c.start == start)
        if not connection.execute(mark).rowcount:
            return False
        for scope in (Scope.ENGINE, Scope.GPU):
            _write(connection, scope, tier, _merged(connection, scope, tier, start))
        told = _quantiles(connection, tier, start)
        targets = _merged(connection, Scope.TARGET, tier, start)
        _write(connection, Scope.TARGET, tier, (row | told.get(row["series_id"], _NO_QUANTILES) for row in targets))
        upsert = Upsert(connection)
        upsert.due([start], Tier.DAY) if tier is Tier.HOUR else upsert.budgets_due([start])
    return True


def _merged(connection: Connection, scope: Scope, tier: Tier, start: int) -> Iterator[dict[str, Any]]:
    finer = rows_table(scope, _FINER[tier])
    wanted = _of_all_series(finer, scope, start, tier).order_by(finer.c.series_id, finer.c.start)
    names = [column.name for column in finer.columns]
    rows = connection.execute(wanted).yield_per(1000)
    for series_id, of_series in groupby(rows, key=itemgetter(0)):
        by_column = dict(zip(names, zip(*of_series, strict=True), strict=True))
        yield {"series_id": series_id, "start": start, **merged(scope, by_column)}


def _of_all_series(table: Table, scope: Scope, start: int, tier: Tier) -> Any:
    """Series are named, since the key that finds the rows begins with them."""
    known = select(tables.series.c.id).where(tables.series.c.scope == scope.value)
    return select(table).where(
        table.c.series_id.in_(known), table.c.start >= start, table.c.start < start + tier.seconds
    )


def _write(connection: Connection, scope: Scope, tier: Tier, rows: Iterable[Mapping[str, Any]]) -> None:
    table = rows_table(scope, tier)
    names = [column.name for column in table.columns]
    as_tuples: list[Row] = [tuple(row[name] for name in names) for row in rows]
    upsert_rows(connection, table, as_tuples)


def _quantiles(connection: Connection, tier: Tier, start: int) -> dict[int, dict[str, float | None]]:
    """By the target's series, from the rows of its engines as they stand now."""
    engines: defaultdict[tuple[str, str, str], defaultdict[str, list[Histogram]]] = defaultdict(
        lambda: defaultdict(list)
    )
    table, series = rows_table(Scope.ENGINE, tier), tables.series
    wanted = select(*_TARGET, *(table.c[name] for name in _MERGED_HISTOGRAMS.values()))
    wanted = wanted.join_from(series, table, table.c.series_id == series.c.id).where(table.c.start == start)
    native = bounds(connection)
    for row in connection.execute(wanted.order_by(series.c.id)):
        of_target = engines[_target(row)]
        for phase, data in zip(_MERGED_HISTOGRAMS, row[len(_TARGET) :], strict=True):
            of_target[phase] += decode(data or b"", native)
    targets = select(*_TARGET, series.c.id).where(series.c.scope == Scope.TARGET.value)
    return {row.id: quantiles(engines[_target(row)]) for row in connection.execute(targets) if _target(row) in engines}


def _target(row: Any) -> tuple[str, str, str]:
    return row.node, row.server, json.dumps(row.labels, sort_keys=True)
