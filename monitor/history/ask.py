"""Questions to the history: any stored metric, over any window, in steps, by any label."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from monitor.history import life
from monitor.history.answer import Answer, Point, answers
from monitor.history.cells import columns
from monitor.history.chosen import Chosen, chosen
from monitor.history.database import reading
from monitor.history.minutes import Event
from monitor.history.native import bounds
from monitor.history.planning import Part, plan
from monitor.history.question import Aggregation, Question, question, refuse_too_many
from monitor.history.rollup import stale
from monitor.history.scan import kept_since, scan
from monitor.history.tables import Tier

__all__ = ["Answer", "History", "Point", "Told"]

_AT_ONCE = 100_000
"""Rows in memory, about."""


@dataclass(frozen=True, slots=True)
class Told:
    """Answers in order of their labels. A part is a stretch of time that was answered in steps of one length."""

    parts: tuple[Part, ...]
    answers: list[Answer]


class History:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def engine(self) -> Engine:
        """Of the database, for what reads its rows in a way of its own."""
        return self._engine

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

        `group_by` and `where` take identity labels, user labels, what servers and GPUs say of themselves (as they said
        last) and the metric's own labels; an own label that is not grouped by is summed over. Raises QuestionError and
        ReadError.
        """
        return self.answer(question(metric, q, since, until, step, group_by, where or {}, aggregation))

    def answer(self, asked: Question) -> list[Answer]:
        """Raises as `tell`."""
        return self.tell(asked).answers

    def tell(self, asked: Question) -> Told:
        """Raises QuestionError where labels are not known or there would be too many points, and ReadError."""
        refuse_too_many(asked)
        found: defaultdict[tuple[str, ...], list[Point]] = defaultdict(list)
        with self.reading() as connection:
            series = chosen(connection, asked)
            planned = _plan(connection, asked)
            refuse_too_many(asked, series.groups(asked))
            for told in _pieces(connection, asked, series, planned):
                for answer in told:
                    found[tuple(answer.labels.values())] += answer.points
        names = asked.group_by
        return Told(tuple(planned), [Answer(dict(zip(names, of, strict=True)), found[of]) for of in sorted(found)])

    def pieces(self, asked: Question) -> Iterator[list[Answer]]:
        """The answers in pieces of time, the oldest first, however many points there are. Raises as `tell`."""
        with self.reading() as connection:
            yield from _pieces(connection, asked, chosen(connection, asked), _plan(connection, asked))

    def events(self, wanted: life.Wanted) -> list[Event]:
        """The newest first. Raises ReadError."""
        with self.reading() as connection:
            return life.events(connection, wanted)

    def seen_server(self, node: str, server: str) -> life.Seen:
        """Raises ReadError."""
        with self.reading() as connection:
            return life.seen_server(connection, node, server)

    def seen_gpus(self) -> dict[tuple[str, str], life.Seen]:
        """By node and uuid. Raises ReadError."""
        with self.reading() as connection:
            return life.seen_gpus(connection)

    def reading(self) -> AbstractContextManager[Connection]:
        """All that is read is of one moment, whatever is written or rolled up meanwhile. Raises ReadError."""
        return reading(self._engine)


def _plan(connection: Connection, asked: Question) -> list[Part]:
    since, until = asked.since // Tier.DAY.seconds * Tier.DAY.seconds, math.ceil(asked.until)
    due = {tier: stale(connection, tier, since, until) for tier in (Tier.HOUR, Tier.DAY)}
    return plan(asked.since, until, asked.step, due, kept_since(connection))


def _pieces(connection: Connection, asked: Question, series: Chosen, parts: Iterable[Part]) -> Iterator[list[Answer]]:
    if not len(series.ids):
        return
    native = bounds(connection) if asked.aggregation is Aggregation.QUANTILE else {}
    for part in parts:
        for piece in part.pieces(max(1, _AT_ONCE // len(series.ids))):
            rows = scan(connection, asked.metric.scope, piece.spans, columns(asked), series.ids)
            yield answers(asked, series, piece, rows, native)
