"""Rows become points: each group in each step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from monitor.history.aggregate import Bounds, Entries, Told, aggregate, ratios
from monitor.history.cells import Columns, Fractions, Values, fractions, values
from monitor.history.chosen import Chosen, Groups
from monitor.history.packed import Floats, Ints
from monitor.history.planning import Part
from monitor.history.question import Question
from monitor.history.scan import LENGTH


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


@dataclass(frozen=True, slots=True)
class _Cells:
    """Groups and steps with anything in them, numbered in that order; and to which each row that counts belongs."""

    keys: Ints
    of_rows: list[tuple[Ints, Ints]]
    """Numbers of rows and of their cells: once for each way in which the rows count."""

    @property
    def many(self) -> int:
        return len(self.keys)


def answers(asked: Question, series: Chosen, part: Part, rows: Columns, bounds: Bounds) -> list[Answer]:
    """Of the rows that lie in this part, in order of labels. Nothing depends on the order in which rows are stored."""
    groups = Groups(asked, series.labels)
    found = [each for each in values(asked, rows, part.step) if groups.takes(each.label)]
    made_of = fractions(asked, rows, part.step)
    counted = [(each.row, groups.of(each.label)) for each in found]
    if made_of is not None:
        counted.append((made_of.row, groups.of("")))
    cells = _cells(part, rows, counted)
    entries = _entries(rows, found, cells)
    with np.errstate(over="ignore", invalid="ignore"):  # no point where a sum is beyond all numbers
        told = aggregate(asked, entries, cells.many, series.lives, bounds)
        if made_of is not None:
            told = _rather(made_of, told, cells)
    return list(_answers(asked, part, groups, cells, told, _covered(rows, cells)))


def _cells(part: Part, rows: Columns, counted: list[tuple[Ints, Ints]]) -> _Cells:
    step = rows["start"] // part.step - part.since // part.step
    keys = [groups[rows["series"][row]] * part.steps + step[row] for row, groups in counted]
    different, number = np.unique(np.concatenate([*keys, np.zeros(0, np.int64)]), return_inverse=True)
    ends = np.cumsum([len(each) for each in keys])
    return _Cells(different, [(row, n) for (row, _), n in zip(counted, np.split(number, ends), strict=False)])


def _entries(rows: Columns, found: list[Values], cells: _Cells) -> Entries:
    """In order of series and time under each value of the own label."""
    row = _joined([each.row for each in found], np.int64)
    cell = _joined([number for _, number in cells.of_rows[: len(found)]], np.int64)
    return Entries(
        cell=cell,
        row=row,
        series=rows["series"][row],
        start=rows["start"][row],
        length=rows[LENGTH][row],
        value=_joined([each.value for each in found], np.float64),
        readings=_joined([_given(each, each.readings) for each in found], np.float64),
        seconds=_joined([_given(each, each.seconds) for each in found], np.float64),
        weight=_joined([_given(each, each.weight) for each in found], np.float64),
    )


def _given(of: Values, numbers: Floats | None) -> Floats:
    return np.full(len(of.row), np.nan) if numbers is None else numbers


def _joined(arrays: list[np.ndarray[Any, Any]], kind: type) -> np.ndarray[Any, Any]:
    return np.concatenate(arrays) if arrays else np.zeros(0, kind)


def _rather(made_of: Fractions, told: Told, cells: _Cells) -> Told:
    """Ratios by what they are made of, wherever that was counted."""
    _, cell = cells.of_rows[-1]
    counted = np.bincount(cell, minlength=cells.many) > 0
    return Told(np.where(counted, ratios(cell, made_of.part, made_of.whole, cells.many), told.value))


def _covered(rows: Columns, cells: _Cells) -> tuple[Floats, Ints]:
    """Of each cell: seconds observed, on average over its series; and how many those are."""
    many = max(1, len(rows["start"]))
    both = [number * many + row for row, number in cells.of_rows]
    cell, row = np.divmod(both[0] if len(both) == 1 else np.unique(_joined(both, np.int64)), many)
    known = int(rows["series"].max(initial=0)) + 1
    series = np.bincount(np.unique(cell * known + rows["series"][row]) // known, minlength=cells.many)
    return np.bincount(cell, rows["covered_seconds"][row], cells.many) / np.maximum(series, 1), series


def _answers(
    asked: Question, part: Part, groups: Groups, cells: _Cells, told: Told, covered: tuple[Floats, Ints]
) -> Iterator[Answer]:
    bounds = [[None] * cells.many if each is None else each.tolist() for each in (told.lower, told.upper)]
    columns = (cells.keys.tolist(), told.value.tolist(), *bounds, *(each.tolist() for each in covered))
    points: defaultdict[int, list[Point]] = defaultdict(list)
    for key, value, lower, upper, seconds, series in zip(*columns, strict=True):
        if math.isfinite(value):
            group, step = divmod(key, part.steps)
            start, length = part.window(step)
            points[group].append(Point(start, length, value, lower, upper, seconds, series))
    for names, group in sorted(groups.numbers.items()):
        if group in points:
            yield Answer(dict(zip(asked.group_by, names, strict=True)), points[group])
