"""Questions to the history: any stored metric, over any window, in steps, by any label."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, Table, select
from sqlalchemy.exc import SQLAlchemyError

from exporters.observation import Labels
from exporters.schema import IDENTITY, Scope
from monitor.history import life, tables
from monitor.history.aggregate import Cell, aggregate, covered
from monitor.history.cells import Bounds, Row, cells, columns
from monitor.history.database import ReadError
from monitor.history.minutes import Event
from monitor.history.question import Aggregation, Question, UnknownLabel, closest, question
from monitor.history.trouble import explained


@dataclass(frozen=True, slots=True)
class Point:
    """What the window (start, start + seconds] came to; a window without observations has no point."""

    start: int
    seconds: int
    value: float
    lower: float | None
    upper: float | None
    """Only quantiles have bounds; the upper one is infinite where it is not known."""
    covered_seconds: float
    """Really observed, on average over the series behind the point."""
    series: int
    """How many those are."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Points of one group, in order of time; `labels` are those that were grouped by."""

    labels: dict[str, str]
    points: list[Point]


class History:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as cause:
            raise ReadError(f"could not read the history at {explained(self._engine.url, cause)}") from cause

    def ask(
        self,
        metric: str,
        q: float | None,
        since: float,
        until: float,
        step: float,
        group_by: Sequence[str] = (),
        where: Mapping[str, str] | None = None,
        aggregation: str | None = None,
    ) -> list[Answer]:
        """Steps are aligned to multiples of `step` seconds since 1970, and `since` is rounded down to one.

        `group_by` and `where` take identity labels, user labels and the metric's own labels; an own label that is not
        grouped by is summed over. Raises QuestionError and ReadError.
        """
        return self.answer(question(metric, q, since, until, step, group_by, where or {}, aggregation))

    def answer(self, asked: Question) -> list[Answer]:
        """Raises QuestionError where labels are not known, and ReadError."""
        known = self._series(asked)
        _check_labels(asked, known.values())
        groups: defaultdict[Labels, defaultdict[int, list[Cell]]] = defaultdict(lambda: defaultdict(list))
        for group, cell in self._cells(asked, known):
            groups[group][cell.start // asked.step * asked.step].append(cell)
        answers = (Answer(dict(group), _points(asked, steps)) for group, steps in sorted(groups.items()))
        return [answer for answer in answers if answer.points]

    def events(self, wanted: life.Wanted) -> list[Event]:
        """The newest first. Raises ReadError."""
        with self._connection() as connection:
            return life.events(connection, wanted)

    def seen_server(self, node: str, server: str) -> life.Seen:
        """Raises ReadError."""
        with self._connection() as connection:
            return life.seen_server(connection, node, server)

    def seen_gpus(self) -> dict[tuple[str, str], life.Seen]:
        """By node and uuid. Raises ReadError."""
        with self._connection() as connection:
            return life.seen_gpus(connection)

    def _series(self, asked: Question) -> dict[int, dict[str, str]]:
        """Labels of all series of the metric's scope, by id."""
        table = tables.series
        names = IDENTITY[asked.metric.scope]
        columns = [table.c.id, table.c.labels, *(table.c[name] for name in names)]
        wanted = select(*columns).where(table.c.scope == asked.metric.scope.value)
        with self._connection() as connection:
            rows = connection.execute(wanted).mappings().all()
        return {r["id"]: {**r["labels"], **{name: r[name] or "" for name in names}} for r in rows}

    def _cells(self, asked: Question, known: Mapping[int, dict[str, str]]) -> Iterator[tuple[Labels, Cell]]:
        """Each with the labels of its group."""
        own = asked.metric.labels
        where = {name: value for name, value in asked.where.items() if name not in own}
        chosen = [of for of, given in known.items() if all(given.get(n, "") == v for n, v in where.items())]
        bounds = self._bounds(asked)
        for row in self._rows(asked, chosen):
            for label, cell in cells(asked, row, bounds):
                given = known[cell.series] | dict.fromkeys(own, label)
                if all(given[name] == asked.where[name] for name in own if name in asked.where):
                    yield tuple((name, given.get(name, "")) for name in asked.group_by), cell

    def _rows(self, asked: Question, chosen: Sequence[int]) -> Iterator[Row]:
        table = _table(asked)
        wanted = select(table.c.series_id, table.c.start, *(table.c[name] for name in columns(asked)))
        wanted = wanted.where(table.c.start >= asked.since, table.c.start < asked.until)
        wanted = wanted.where(table.c.series_id.in_(chosen)).order_by(table.c.start)
        with self._connection() as connection:
            yield from connection.execute(wanted).yield_per(1000).mappings()

    def _bounds(self, asked: Question) -> Bounds:
        if asked.aggregation is not Aggregation.QUANTILE:
            return {}
        with self._connection() as connection:
            rows = connection.execute(select(tables.bounds.c.id, tables.bounds.c.bounds)).all()
        return {of: tuple(map(float, text.split(","))) if text else () for of, text in rows}


def _check_labels(asked: Question, known: Iterable[Mapping[str, str]]) -> None:
    """Names only: a value that nothing has is an empty answer."""
    allowed = {*IDENTITY[asked.metric.scope], *asked.metric.labels, *(name for given in known for name in given)}
    for parameter, names in (("group_by", asked.group_by), ("where", asked.where)):
        for name in names:
            if name not in allowed:
                near = closest(name, allowed)
                raise UnknownLabel(parameter, f"{asked.metric.name} has no label {name!r}", sorted(allowed), near)


def _table(asked: Question) -> Table:
    return tables.engine_minute if asked.metric.scope is Scope.ENGINE else tables.target_minute


def _points(asked: Question, steps: Mapping[int, Sequence[Cell]]) -> list[Point]:
    points = []
    for start, gathered in sorted(steps.items()):
        found = aggregate(asked, gathered)
        if found is not None:
            seconds, series = covered(gathered)
            points.append(Point(start, asked.step, found.value, found.lower, found.upper, seconds, series))
    return points
