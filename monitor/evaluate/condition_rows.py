"""The rows that conditions judge: minutes of the last hours, hours before, and what servers say of themselves."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from sqlalchemy import Connection, Engine, select

from alerts.burn import HOUR, MINUTE
from alerts.conditions import CONDITIONS
from alerts.conditions.condition import Condition
from alerts.conditions.expression import Expression
from alerts.conditions.rows import Key, Minute, MinuteRows, Reading, SeriesRows, key
from exporters.observation import Labels, labels
from exporters.schema import METRICS, Scope
from monitor.evaluate.facts import Facts
from monitor.evaluate.plausible import MOST, counted, plausible
from monitor.fleet import Fleet
from monitor.history import tables
from monitor.history.cells import Columns
from monitor.history.columns import (
    STORED,
    Column,
    CounterColumn,
    GaugeColumns,
    HistogramColumn,
    OpenCounterColumn,
)
from monitor.history.database import reading
from monitor.history.encoding import decode
from monitor.history.native import bounds
from monitor.history.planning import Span
from monitor.history.scan import scan
from monitor.history.tables import Tier

_BY_MINUTES = 3 * HOUR
_AGAIN = 5 * MINUTE
"""Minutes so new are read again: some of their rows may have come late."""
SCOPES = (Scope.TARGET, Scope.ENGINE, Scope.GPU)


def metrics_of(expression: Expression) -> set[str]:
    found: set[str] = set()
    for field in dataclasses.fields(expression):  # type: ignore[arg-type]  # every expression is a dataclass
        value = getattr(expression, field.name)
        if field.name == "metric":
            found.add(value)
        elif isinstance(value, Expression):
            found |= metrics_of(value)
    return found


_WANTED = {m.removesuffix("_sum").removesuffix("_count") for c in CONDITIONS.values() for m in metrics_of(c.expression)}
_COLUMNS: Mapping[Scope, tuple[Column, ...]] = {
    scope: tuple(c for m in sorted(_WANTED & STORED.keys()) if METRICS[m].scope is scope for c in STORED[m])
    for scope in SCOPES
}


@dataclasses.dataclass(frozen=True, slots=True)
class Judgeable:
    """`minutes` and `hours` are the ends of those in which anything was observed."""

    rows: MinuteRows
    minutes: frozenset[int]
    hours: frozenset[int]


@dataclasses.dataclass(slots=True)
class _Kept:
    of: Labels
    rows: dict[int, Minute] = dataclasses.field(default_factory=dict)


class ConditionRows:
    """Reads what is new each time. Not to be asked from several threads at once."""

    def __init__(self, database: Engine, fleet: Fleet) -> None:
        self._database = database
        self._facts = Facts(fleet)
        self._series: dict[int, _Kept] = {}
        self._read_until: int | None = None
        self.known_since: dict[Labels, float] = {}
        """By target: when the history has it first, as of the last reading."""

    def notice(self, minute: int) -> None:
        """What the history does not know, as that of the minute which ended last: to be called in every one."""
        self._facts.notice(minute)

    def upto(self, at: int, reach: int, since: int) -> Judgeable:
        """Enough for evaluations that look back `reach` seconds from `at`, the end of a minute.

        What the history does not know is told of minutes from `since` on. Raises ReadError.
        """
        first_minute = (at - _BY_MINUTES) // HOUR * HOUR
        with reading(self._database) as connection:
            self._know(connection)
            unread = first_minute if self._read_until is None else max(first_minute, self._read_until - _AGAIN)
            self._take(connection, [Span(Tier.MINUTE, unread // MINUTE * MINUTE, at)])
            known, hours = self._hours(), range((at - reach) // HOUR * HOUR, first_minute, HOUR)
            missing = [h for h in hours if h not in known]
            self._take(connection, [Span(Tier.HOUR, h, h + HOUR) for h in missing])
        self._forget((at - reach) // HOUR * HOUR, first_minute)
        self._read_until = at
        stored = (SeriesRows(kept.of, kept.rows.values()) for kept in self._series.values() if kept.rows)
        rows = MinuteRows([*stored, *self._facts.rows(min(since, unread), at)])
        ends = {(row.end, row.seconds) for kept in self._series.values() for row in kept.rows.values()}
        minutes = frozenset(end for end, seconds in ends if seconds == MINUTE)
        return Judgeable(rows, minutes, frozenset(-(-end // HOUR) * HOUR for end, _ in ends))

    def _know(self, connection: Connection) -> None:
        c = tables.series.c
        for row in connection.execute(select(c.id, c.identity, c.scope, c.first_seen)):
            kept = self._series.setdefault(row.id, _Kept(labels(json.loads(row.identity))))
            if row.scope == Scope.TARGET.value and row.first_seen is not None:
                self.known_since[kept.of] = row.first_seen

    def _hours(self) -> set[int]:
        return {start for kept in self._series.values() for start, row in kept.rows.items() if row.seconds == HOUR}

    def _forget(self, first: int, first_minute: int) -> None:
        for kept in self._series.values():
            gone = [s for s, r in kept.rows.items() if s < (first_minute if r.seconds == MINUTE else first)]
            for start in gone:
                del kept.rows[start]

    def _take(self, connection: Connection, spans: Sequence[Span]) -> None:
        c = tables.series.c
        known = bounds(connection)
        for scope in SCOPES:
            ids = np.array(connection.scalars(select(c.id).where(c.scope == scope.value)).all(), np.int64)
            names = dict.fromkeys(("covered_seconds", *(n for column in _COLUMNS[scope] for n in column.names)))
            rows = scan(connection, scope, spans, list(names), ids)
            for place, minute in _minutes(scope, rows, known):
                self._series[int(ids[place])].rows[minute.start] = minute


def _minutes(scope: Scope, rows: Columns, known: Mapping[int, tuple[float, ...]]) -> Iterator[tuple[int, Minute]]:
    gauges: list[dict[Key, Reading]] = [{} for _ in rows["start"]]
    counters: list[dict[Key, float]] = [{} for _ in rows["start"]]
    for column in _COLUMNS[scope]:
        if isinstance(column, GaugeColumns):
            average, most = plausible(rows[column.average]), plausible(rows[column.maximum])
            for row in np.flatnonzero(~np.isnan(average) & ~np.isnan(most)).tolist():
                reading = Reading(float(average[row]), float(most[row]))
                gauges[row][_key(column.metric.name, column.label)] = reading
        else:
            for row, more in _counted(column, rows, known):
                counters[row] |= more
    fixed = (rows[name].tolist() for name in ("series", "start", "covered_seconds", "length"))
    for n, (place, start, covered, length) in enumerate(zip(*fixed, strict=True)):
        yield place, Minute(start, covered, gauges[n], counters[n], length)


def _counted(
    column: CounterColumn | OpenCounterColumn | HistogramColumn,
    rows: Columns,
    known: Mapping[int, tuple[float, ...]],
) -> Iterator[tuple[int, dict[Key, float]]]:
    name, values = column.metric.name, rows[column.name]
    if isinstance(column, CounterColumn):
        for row in np.flatnonzero(~np.isnan(counted(values))).tolist():
            yield row, {_key(name, column.label): float(values[row])}
        return
    for row, value in enumerate(values):
        if value is not None and isinstance(column, OpenCounterColumn):
            told = json.loads(value).items()
            yield row, {_key(name, label): float(many) for label, many in told if 0 <= many <= MOST}
        elif value is not None:
            yield row, _summed(name, value, known)


def _summed(name: str, value: bytes, known: Mapping[int, tuple[float, ...]]) -> dict[Key, float]:
    parts = decode(value, known)
    found = {key(f"{name}_count"): sum(part.count for part in parts)}
    sums = [part.sum for part in parts if part.sum is not None]
    total = {key(f"{name}_sum"): sum(sums)} if len(sums) == len(parts) else {}
    return {of: many for of, many in (found | total).items() if 0 <= many <= MOST}


def _key(metric: str, label: str) -> Key:
    return key(metric, **dict(zip(METRICS[metric].labels, label.split(",") if label else (), strict=False)))


def longest(conditions: Iterable[Condition]) -> int:
    return max(c.expression.reach for c in conditions)
