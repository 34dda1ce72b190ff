"""A line of recent minutes as SVG paths. A gap in the data is a gap in the line, and a lone minute is a dot."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

WIDTH, HEIGHT = 120.0, 28.0
_SHORTEST_GAP_SECONDS = 30.0
_EDGE = 2.0
"""Room above and below, so that a thick line at the top or bottom is not cut."""


@dataclass(frozen=True, slots=True)
class Point:
    """One window: `start` in unix seconds; `beyond` where the value is only known to be at least that."""

    start: float
    seconds: float
    value: float
    beyond: bool = False

    @property
    def middle(self) -> float:
        return self.start + self.seconds / 2

    @property
    def end(self) -> float:
        return self.start + self.seconds


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Three paths: the line, the lone minutes, and upward ticks where a value is only known to be at least that."""

    path: str
    dots: str
    marks: str
    top: float
    """Value at the upper edge; the lower edge is 0."""
    latest: float
    lowest: float
    highest: float
    gaps: int
    """Interruptions between the first and the last point."""


def draw(points: Sequence[Point], since: float, until: float, *, top: float | None = None) -> Sparkline | None:
    """`points` in order of time; without `top` the scale ends at the next 1, 2 or 5 times a power of ten."""
    inside = [p for p in points if since <= p.middle <= until]
    if not inside:
        return None
    values = [p.value for p in inside]
    scale = top or nice_top(max(values))
    found = runs(inside)
    place = _Place(since, until, scale)
    return Sparkline(
        path="".join(place.line(run) for run in found if len(run) > 1),
        dots="".join(place.dot(run[0]) for run in found if len(run) == 1),
        marks="".join(place.mark(p) for p in inside if p.beyond),
        top=scale,
        latest=values[-1],
        lowest=min(values),
        highest=max(values),
        gaps=len(found) - 1,
    )


@dataclass(frozen=True, slots=True)
class Shade:
    """Areas over the whole height where nothing could be read, and how many seconds those are."""

    path: str
    seconds: float


def shade(read: Sequence[Point], since: float, until: float, patience: float) -> Shade:
    """`read` are the windows in which there was something to read, in order of time; the newest may lag by `patience`
    seconds."""
    inside = [p for p in read if since <= p.middle <= until]
    edges = [since, *(edge for p in inside for edge in (p.start, p.end)), until]
    empty = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a > _SHORTEST_GAP_SECONDS]
    if inside and empty and empty[-1][1] == until and until - inside[-1].end <= patience:
        empty.pop()
    areas = ((x_of(a, since, until), x_of(b, since, until)) for a, b in empty)
    path = "".join(f"M{left} 0H{right}V{_short(HEIGHT)}H{left}z" for left, right in areas)
    return Shade(path, sum(b - a for a, b in empty))


def x_of(at: float, since: float, until: float) -> str:
    return _short((at - since) / (until - since) * WIDTH)


def nice_top(value: float) -> float:
    if value < sys.float_info.min:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    top = next(factor * power for factor in (1, 2, 5, 10) if value <= factor * power * (1 + 1e-9))
    return min(top, sys.float_info.max)


class Window(Protocol):
    @property
    def start(self) -> float: ...
    @property
    def seconds(self) -> float: ...
    @property
    def end(self) -> float: ...


W = TypeVar("W", bound=Window)


def runs(points: Sequence[W]) -> list[list[W]]:
    """Stretches without a gap: each next window starts where the last one ended, give or take half a window."""
    found: list[list[W]] = []
    for point in points:
        if not found or point.start - found[-1][-1].end > found[-1][-1].seconds / 2:
            found.append([])
        found[-1].append(point)
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    since: float
    until: float
    top: float

    def x(self, point: Point) -> float:
        return (point.middle - self.since) / (self.until - self.since) * WIDTH

    def y(self, point: Point) -> float:
        share = min(max(point.value / self.top, 0.0), 1.0)
        return HEIGHT - _EDGE - share * (HEIGHT - 2 * _EDGE)

    def at(self, point: Point) -> str:
        return f"{_short(self.x(point))} {_short(self.y(point))}"

    def line(self, run: Sequence[Point]) -> str:
        return f"M{'L'.join(self.at(p) for p in run)}"

    def dot(self, point: Point) -> str:
        """A line of no length: round caps make it a dot."""
        return f"M{self.at(point)}h0"

    def mark(self, point: Point) -> str:
        return f"M{self.at(point)}v-{_short(_EDGE)}"


def _short(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".") or "0"
