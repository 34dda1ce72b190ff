"""What a dashboard shows, said without Grafana: rows of panels, each with its queries, unit and words.

Widths are in columns of 24, heights in rows of 30 pixels. `dashboards/grafana.py` makes Grafana's JSON of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

COLUMNS = 24


class Dialect(StrEnum):
    POSTGRES = "postgres"
    SQLITE = "sqlite"


class Unit(StrEnum):
    """As Grafana names them. Where it has no word for a unit (tokens per second), the title or the axis says it."""

    NONE = "none"
    NUMBER = "short"
    RATIO = "percentunit"
    SECONDS = "s"
    BYTES = "bytes"
    BYTES_PER_SECOND = "binBps"
    REQUESTS_PER_SECOND = "reqps"
    WATTS = "watt"
    JOULES = "joule"
    CELSIUS = "celsius"
    HERTZ = "hertz"
    TIMESTAMP = "dateTimeAsIso"
    """Milliseconds since 1970."""
    AGO = "dateTimeFromNow"
    """Likewise."""


class Colour(StrEnum):
    """The palette of Okabe and Ito: told apart also by people who are colour-blind, on light and on dark."""

    ORANGE = "#E69F00"
    SKY = "#56B4E9"
    GREEN = "#009E73"
    YELLOW = "#F0E442"
    BLUE = "#0072B2"
    RED = "#D55E00"
    PINK = "#CC79A7"
    GREY = "#999999"


GOOD, WARNING, BAD, NEUTRAL = Colour.GREEN, Colour.ORANGE, Colour.RED, Colour.GREY


class Line(StrEnum):
    DASHED = "dash"
    DOTTED = "dot"


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL. `legend` names labels in double braces."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """The same question in each dialect. With `series` the answer has `time`, names and values; else it is a table."""

    postgres: str
    sqlite: str
    series: bool = True

    def text(self, dialect: Dialect) -> str:
        return self.postgres if dialect is Dialect.POSTGRES else self.sqlite


@dataclass(frozen=True, slots=True)
class Threshold:
    """From `value` on; None is whatever is below the others."""

    value: float | None
    colour: Colour


@dataclass(frozen=True, slots=True)
class Shown:
    """A value that is shown as a word. None stands for no value."""

    value: float | None
    text: str
    colour: Colour


@dataclass(frozen=True, slots=True)
class Look:
    """How the series whose names match `pattern` (a regular expression) are drawn. None: as the others."""

    pattern: str
    colour: Colour | None = None
    line: Line | None = None
    thresholds: tuple[Threshold, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """To another dashboard, with its variables and the time range.

    `values` are the variables to set: from a label of what was clicked (`label:server`) or as it is.
    """

    title: str
    to: str
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """Of a table: the label, or the letter of the query whose value it holds; hidden ones are not named."""

    name: str
    title: str
    unit: Unit | None = None
    thresholds: tuple[Threshold, ...] = ()
    shown: tuple[Shown, ...] = ()
    link: Link | None = None
    width: int | None = None
    """Pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """`description` says what is shown, what it means when it is empty, and what the numbers do not say."""

    is_instant: ClassVar[bool] = False
    """Whether it asks for now alone: the last value of a range may be hours old."""
    title: str
    description: str
    unit: Unit | None = None
    queries: tuple[Query, ...] | tuple[SqlQuery, ...] = ()
    width: int = 8
    height: int = 8
    decimals: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    thresholds: tuple[Threshold, ...] = ()
    shown: tuple[Shown, ...] = ()
    looks: tuple[Look, ...] = ()
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat(Panel):
    """Numbers in large type, one for each series."""

    is_instant: ClassVar[bool] = True
    width: int = 4
    height: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSeries(Panel):
    axis: str = ""
    """What the axis counts, where the unit does not say it."""
    is_stacked: bool = False
    bars: bool = False
    steps: bool = False
    limits_drawn: bool = False
    """Thresholds as lines."""
    legend_values: tuple[str, ...] = ("last", "max")
    longest_step: int = 0
    """Seconds; a line ends where the next value comes later than that. 0: where one is null, as Prometheus tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge(Panel):
    """A value within a known range."""

    is_instant: ClassVar[bool] = True
    width: int = 4
    height: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BarGauge(Panel):
    """Bars side by side, one for each series."""

    is_instant: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Panel):
    """The answers of the queries side by side, joined by the labels that all of them have."""

    is_instant: ClassVar[bool] = True
    unit: Unit | None = Unit.NONE
    """Of columns that have no other."""
    columns: tuple[Column, ...] = ()
    sort_by: str = ""
    """A column's title."""
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Heatmap(Panel):
    """Counts of a histogram's buckets over time; the unit is that of the buckets' bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTimeline(Panel):
    """States as coloured bars over time, by `shown`."""

    unit: Unit | None = Unit.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart(Panel):
    """One group of bars for each row of a table; `category` is the column that names the rows.

    With `series_by` there is one value in a row, and that column says which bar of its group it is.
    """

    is_instant: ClassVar[bool] = True
    category: str = ""
    series_by: str = ""
    is_stacked: bool = False
    axis: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter(Panel):
    """Points: the first query's values across, those of the others with the same labels up, a colour for each query."""

    x_title: str = ""
    y_title: str = ""
    x_unit: Unit = Unit.NUMBER


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Panel):
    """Markdown."""

    content: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]
    is_collapsed: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice above the dashboard: from `query` (Grafana's own functions of PromQL, or SQL), or among `options`.

    Several may be chosen, and all of them, unless it is `single`.
    """

    name: str
    label: str
    query: str = ""
    regex: str = ""
    options: tuple[tuple[str, str], ...] = ()
    """Text and value; the first is chosen at the start."""
    single: bool = False
    all_value: str = ""
    """A regular expression for all of them; without it their names stand for them, one by one."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """Marks at the moments at which `query` has values."""

    name: str
    query: Query | SqlQuery
    title: str
    """Names labels in double braces."""
    colour: Colour
    text: str = ""


@dataclass(frozen=True, slots=True)
class Dashboard:
    uid: str
    title: str
    description: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()
    links: tuple[Link, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    tags: tuple[str, ...] = ("inferwatch",)
    since: str = "now-6h"
    refresh: str = "1m"
    is_sql: bool = False
    """Reads the history's database rather than Prometheus."""
    own_labels: tuple[str, ...] = ()
    """That its objectives are grouped by, beside those of the schema."""

    def panels(self) -> Iterator[Panel]:
        for row in self.rows:
            yield from row.panels
