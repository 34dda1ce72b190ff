"""What colours, dashes and shapes stand for: the same in the drawing and beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from monitor.page.charts.model import Chart, Form, Group, Line, Look, Scatter, StateTimeline, TimeSeries

COLOURS = ("--line-1", "--line-2", "--line-3", "--line-4", "--text")
"""CSS variables of the page."""
DASHES = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3))
"""Colours and dashes change together: as many lines differ as the product of their numbers."""
SHAPES = ("circle", "square", "triangle-up", "diamond")
_CURVES = ((5, 4), (2, 3), (11, 3), (9, 3, 2, 3))
OPACITY = {Look.GOOD: 0.55, Look.QUIET: 0.7, Look.WARNING: 0.85, Look.BAD: 1.0, Look.UNKNOWN: 1.0}
"""Of states: what is well steps back."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Has `dashes` where it is a line, a `shape` where it is a dot, else it is an area."""

    name: str
    colour: str
    dashes: tuple[int, ...] | None = None
    shape: str | None = None
    opacity: float = 1.0


def colours(those: Sequence[Line | Group]) -> list[str]:
    return [each.colour or f"var({COLOURS[i % len(COLOURS)]})" for i, each in enumerate(those)]


def dashes(lines: Sequence[Line]) -> list[tuple[int, ...]]:
    return [each.dashes or DASHES[0 if each.colour else i % len(DASHES)] for i, each in enumerate(lines)]


def curves(groups: Sequence[Group]) -> list[tuple[int, ...] | None]:
    """Their dashes, by their place among the curves; None for dots."""
    place = count()
    return [_CURVES[next(place) % len(_CURVES)] if group.curve else None for group in groups]


def shape(number: int) -> str:
    return SHAPES[number % len(SHAPES)]


def legend(chart: Chart) -> tuple[Entry, ...]:
    """Nothing where there is nothing to tell apart."""
    match chart:
        case TimeSeries():
            entries = _lines(chart)
        case Scatter():
            entries = [
                Entry(group.name, colour, dashed, None if dashed else shape(i))
                for i, (group, colour, dashed) in enumerate(
                    zip(chart.groups, colours(chart.groups), curves(chart.groups), strict=True)
                )
            ]
        case StateTimeline():
            states = sorted({span.state for row in chart.rows for span in row.spans}, key=lambda state: state.name)
            entries = [Entry(s.name, f"var(--{s.look})", opacity=OPACITY[s.look]) for s in states]
        case _:
            entries = []
    return tuple(entry for entry in entries if entry.name)


def _lines(chart: TimeSeries) -> Sequence[Entry]:
    stacked, lines = chart.form is Form.STACK, chart.lines
    each = zip(lines, colours(lines), dashes(lines), strict=True)
    return [Entry(line.name, colour, None if stacked else dashed) for line, colour, dashed in each]
