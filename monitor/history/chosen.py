"""The series that a question is about, and the groups they fall into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection, select

from exporters.quote import quoted
from exporters.schema import IDENTITY
from monitor.history import tables
from monitor.history.aggregate import Lives
from monitor.history.packed import Ints
from monitor.history.question import Question, UnknownLabel, closest

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Series in order of their identity, so that nothing depends on the database's ids or on how it sorts text."""

    ids: Ints
    labels: tuple[Labels, ...]
    lives: Lives

    def groups(self, asked: Question) -> int:
        """How many, values of the metric's own label not counted."""
        return len({tuple(labels.get(name, "") for name in asked.group_by) for labels in self.labels})


@dataclass(slots=True)
class Groups:
    """Numbers for the values of the labels that are grouped by, as they come to be known."""

    asked: Question
    series: Sequence[Labels]
    numbers: dict[tuple[str, ...], int] = field(default_factory=dict)

    def of(self, own: str) -> Ints:
        """Of each series, where the metric's own label has this value."""
        given = dict.fromkeys(self.asked.metric.labels, own)
        keys = (tuple((labels | given).get(n, "") for n in self.asked.group_by) for labels in map(dict, self.series))
        return np.fromiter((self.numbers.setdefault(key, len(self.numbers)) for key in keys), np.int64)

    def takes(self, own: str) -> bool:
        """Whether the question is about this value of the metric's own label."""
        return all(self.asked.where.get(name, own) == own for name in self.asked.metric.labels)


def chosen(connection: Connection, asked: Question) -> Chosen:
    """Raises UnknownLabel."""
    table, names = tables.series.c, IDENTITY[asked.metric.scope]
    columns = [table.id, table.identity, table.labels, table.info, table.first_seen, table.last_seen]
    wanted = select(*columns, *(table[name] for name in names)).where(table.scope == asked.metric.scope.value)
    known = sorted(connection.execute(wanted).mappings(), key=lambda row: str(row["identity"]))
    labels = [{**row["info"], **row["labels"], **{name: row[name] or "" for name in names}} for row in known]
    _check_labels(asked, labels)
    where = {name: value for name, value in asked.where.items() if name not in asked.metric.labels}
    taken = [n for n, given in enumerate(labels) if all(given.get(name, "") == v for name, v in where.items())]
    first, last = (
        np.array([end if known[n][seen] is None else known[n][seen] for n in taken], np.float64)
        for seen, end in (("first_seen", -np.inf), ("last_seen", np.inf))
    )
    ids = np.array([known[n]["id"] for n in taken], np.int64)
    return Chosen(ids, tuple(labels[n] for n in taken), Lives(first, last))


def _check_labels(asked: Question, known: Iterable[Labels]) -> None:
    """Names only: a value that nothing has is an empty answer."""
    allowed = {*IDENTITY[asked.metric.scope], *asked.metric.labels, *(name for given in known for name in given)}
    for parameter, names in (("group_by", asked.group_by), ("where", asked.where)):
        for name in names:
            if name not in allowed:
                near = closest(name, allowed)
                raise UnknownLabel(parameter, f"{asked.metric.name} has no label {quoted(name)}", sorted(allowed), near)
