"""Charts as data: what is to be seen, not how it is drawn. Moments are unix seconds.

Chart
├── TimeSeries     lines with bounds as bands, or windows stacked on each other
├── Bars           one number for each name
├── Heatmap        how many fell between which bounds, over time
├── StateTimeline  which state each row was in, over time
└── Scatter        one number against another, with curves to compare with
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.page.charts.units import Unit

MOST_LINES = 20
"""So many can be told apart by colour and dashes."""


@dataclass(frozen=True, slots=True)
class Point:
    """One window. A band is drawn where both bounds are known; an infinite `upper` means "at least"."""

    start: float
    seconds: float
    value: float
    lower: float | None = None
    upper: float | None = None

    @property
    def end(self) -> float:
        return self.start + self.seconds


@dataclass(frozen=True, slots=True)
class Line:
    """`points` in order of time. A window that is missing is a gap.

    Without a `colour` (as CSS has it) of its own, colour and dashes go by its place among the lines.
    """

    name: str
    points: tuple[Point, ...]
    colour: str = ""
    dashes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened: an upright line, and what it was."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Threshold:
    value: float
    text: str


class Form(StrEnum):
    LINES = "lines"
    STACK = "stack"
    """Windows as bars on each other: for what adds up."""


@dataclass(frozen=True, slots=True)
class Size:
    """Pixels at the size at which letters are as large as the page's."""

    width: int = 720
    height: int = 220


@dataclass(frozen=True, slots=True)
class TimeSeries:
    title: str
    unit: Unit
    since: float
    until: float
    lines: tuple[Line, ...]
    form: Form = Form.LINES
    marks: tuple[Mark, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    top: float | None = None
    """Where the axis ends at least, such as 1 for a share."""
    bare: bool = False
    """Without axes and legend: beside a number that says it all."""
    size: Size = Size()


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    value: float
    text: str = ""
    """Beside the value when pointed at."""
    colour: str = "var(--data)"


@dataclass(frozen=True, slots=True)
class Bars:
    title: str
    unit: Unit
    bars: tuple[Bar, ...]
    size: Size = Size()


@dataclass(frozen=True, slots=True)
class Column:
    """How many fell into each bucket in one window: of `counts` the first lies below the first bound, the last beyond
    the last."""

    start: float
    seconds: float
    counts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Heatmap:
    title: str
    unit: Unit
    counted: Unit
    since: float
    until: float
    bounds: tuple[float, ...]
    columns: tuple[Column, ...]
    size: Size = Size()


class Look(StrEnum):
    """As the page's colours are called."""

    GOOD = "good"
    QUIET = "quiet"
    WARNING = "warning"
    BAD = "bad"
    UNKNOWN = "track"


@dataclass(frozen=True, slots=True)
class State:
    name: str
    look: Look


@dataclass(frozen=True, slots=True)
class Span:
    start: float
    end: float
    state: State


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class StateTimeline:
    title: str
    since: float
    until: float
    rows: tuple[Row, ...]
    size: Size = Size()


@dataclass(frozen=True, slots=True)
class Pair:
    x: float
    y: float
    text: str = ""
    lower: float | None = None
    upper: float | None = None
    """Of y."""


@dataclass(frozen=True, slots=True)
class Group:
    """A curve connects its pairs with a dashed line; without it they are dots.

    Without a `colour` (as CSS has it) of its own, that goes by its place among the groups.
    """

    name: str
    pairs: tuple[Pair, ...]
    curve: bool = False
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Measure:
    title: str
    unit: Unit
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Scatter:
    title: str
    x: Measure
    y: Measure
    groups: tuple[Group, ...]
    size: Size = Size()


Chart = TimeSeries | Bars | Heatmap | StateTimeline | Scatter


def values(chart: Chart) -> int:
    """How many numbers are to be drawn."""
    match chart:
        case TimeSeries():
            return sum(len(line.points) for line in chart.lines) + len(chart.marks)
        case Bars():
            return len(chart.bars)
        case Heatmap():
            return len(chart.columns) * (len(chart.bounds) + 1)
        case StateTimeline():
            return sum(len(row.spans) for row in chart.rows)
        case Scatter():
            return sum(len(group.pairs) for group in chart.groups)
