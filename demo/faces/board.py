"""A release's families as a table, and the signals that move them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from demo.faces.exposition import Family, Histogram, Kind, Labels, Page, Value


@dataclass(frozen=True, slots=True)
class Row:
    """Some series of a family; a family may have several rows, and a signal may move several rows.

    `group` is whose labels are added to its own. It is there from the start, or from the first time on that its signal
    moves. `value` is what it begins with.
    """

    name: str
    kind: Kind
    signal: str
    group: str
    labels: Labels = field(default_factory=dict)
    bounds: Sequence[float] = ()
    value: float = 0.0
    at_start: bool = False


class Board:
    """The families of a page, in the order of their rows."""

    def __init__(self, page: Page, rows: Iterable[Row]) -> None:
        self.rows = tuple(rows)
        self.values: dict[str, Family[Value]] = {}
        self.histograms: dict[str, Family[Histogram]] = {}
        for row in self.rows:
            self._add(page, row)

    def _add(self, page: Page, row: Row) -> None:
        if row.name in self.values or row.name in self.histograms:
            return
        if row.kind == "gauge":
            self.values[row.name] = page.gauge(row.name)
        elif row.kind == "counter":
            self.values[row.name] = page.counter(row.name)
        elif row.kind == "histogram":
            self.histograms[row.name] = page.histogram(row.name, row.bounds)
        else:
            self.histograms[row.name] = page.summary(row.name)


class Signals:
    """Moves the rows of some groups; each group has one or several sets of labels, whose series all move alike.

    A signal without rows moves nothing: not every release shows everything.
    """

    def __init__(self, board: Board, **groups: Sequence[Labels]) -> None:
        self._board = board
        self._groups: Mapping[str, Sequence[Labels]] = groups
        self._rows: dict[str, list[Row]] = {}
        self._values: dict[str, list[Value]] = {}
        self._histograms: dict[str, list[Histogram]] = {}
        for row in board.rows:
            if row.group in groups:
                self._rows.setdefault(row.signal, []).append(row)
        for signal, rows in self._rows.items():
            if any(row.at_start for row in rows):
                self.begin(signal)

    def begin(self, signal: str) -> None:
        """Its series are there from now on, if they were not before."""
        if signal in self._values:
            return
        self._values[signal], self._histograms[signal] = [], []
        for row in self._rows.get(signal, ()):
            for labels in self._groups[row.group]:
                self._bear(row, {**row.labels, **labels})

    def _bear(self, row: Row, labels: Labels) -> None:
        if row.name in self._board.histograms:
            self._histograms[row.signal].append(self._board.histograms[row.name].labelled(**labels))
        else:
            value = self._board.values[row.name].labelled(**labels)
            if row.value:  # other signals may have moved it already
                value.set(row.value)
            self._values[row.signal].append(value)

    def add(self, signal: str, amount: float = 1.0) -> None:
        if signal not in self._values:
            self.begin(signal)
        for value in self._values[signal]:
            value.add(amount)

    def set(self, signal: str, amount: float) -> None:
        if signal not in self._values:
            self.begin(signal)
        for value in self._values[signal]:
            value.set(amount)

    def observe(self, signal: str, amount: float, count: int = 1) -> None:
        if signal not in self._histograms:
            self.begin(signal)
        for histogram in self._histograms[signal]:
            histogram.observe(amount, count)
