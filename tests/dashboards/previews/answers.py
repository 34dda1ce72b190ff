"""What data sources answer, in one form for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import Engine

from dashboards.model import Annotation, Panel, SqlQuery
from tests.dashboards.previews.grafana_sql import Chosen, answer


@dataclass(frozen=True, slots=True)
class Series:
    """Values at moments, in order of time; a moment without a value has none here."""

    name: str
    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        return self.points[-1][1]


@dataclass(frozen=True, slots=True)
class Mark:
    at: float
    text: str


class Source(Protocol):
    """`step` is the seconds from one value of a series to the next; each stands for the time from `before` its
    moment on."""

    @property
    def since(self) -> int: ...
    @property
    def until(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def before(self) -> float: ...

    def series(self, panel: Panel) -> list[list[Series]]:
        """A list for each query."""
        ...

    def table(self, panel: Panel) -> list[dict[str, Any]]: ...

    def marks(self, annotation: Annotation) -> list[Mark]: ...


@dataclass(frozen=True, slots=True)
class Sql:
    database: Engine
    since: int
    until: int
    step: int
    chosen: Chosen
    before: float = 0.0

    def series(self, panel: Panel) -> list[list[Series]]:
        return [self._series(query) for query in panel.queries if isinstance(query, SqlQuery)]

    def _series(self, query: SqlQuery) -> list[Series]:
        found = self._rows(query)
        if not query.series:
            return [Series(n, {}, ((self.until, v),)) for row in found for n, v in row.items() if v is not None]
        by_name: dict[str, list[tuple[float, float]]] = {}
        for row in found:
            by_name.setdefault(row["metric"], []).append((seconds(row["time"]), row["Value"]))
        return [Series(name, {}, tuple(points)) for name, points in sorted(by_name.items())]

    def table(self, panel: Panel) -> list[dict[str, Any]]:
        return [row for query in panel.queries if isinstance(query, SqlQuery) for row in self._rows(query)]

    def marks(self, annotation: Annotation) -> list[Mark]:
        assert isinstance(annotation.query, SqlQuery)
        return [Mark(seconds(row["time"]), f"{row['title']}\n{row['text']}") for row in self._rows(annotation.query)]

    def _rows(self, query: SqlQuery) -> Sequence[dict[str, Any]]:
        return answer(self.database, query, self.since, self.until, self.chosen)


def seconds(time: object) -> float:
    return time.timestamp() if isinstance(time, datetime) else float(str(time))
