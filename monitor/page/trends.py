"""The last hour of every server or GPU as sparklines, asked of the history."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from exporters.schema import TTFT
from monitor.history.ask import Answer
from monitor.history.ask import Point as Window
from monitor.history.database import HistoryError
from monitor.history.life import Wanted
from monitor.history.minutes import Event
from monitor.page import quantities, sparkline
from monitor.page.sparkline import Point, Shade, Sparkline

log = logging.getLogger(__name__)

SPAN_SECONDS = 3600
STEP_SECONDS = 60
KEEP_SECONDS = 15.0
"""The history gains a point a minute: all who look at the page share one answer."""
_PATIENCE_SECONDS = 2.0 * STEP_SECONDS
"""A minute is stored with the first reading after it."""

Name = tuple[str, str]
"""Node, and the server's name or the GPU's uuid."""


class Asks(Protocol):
    """What the page needs of the history."""

    def ask(
        self, metric: str, q: float | None, since: float, until: float, step: float, group_by: Sequence[str] = ()
    ) -> list[Answer]: ...

    def events(self, wanted: Wanted) -> list[Event]: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """What one line draws. `say` puts a value and its unit into words."""

    name: str
    title: str
    metric: str
    say: Callable[[float], str]
    q: float | None = None
    top: float | None = None
    unit: float = 1.0
    """In the unit of the schema: what is drawn and said is the value by this."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is followed: the labels that name it, and the metric that has a value above 0 whenever it could be read."""

    labels: tuple[str, str]
    read: str
    kinds: tuple[Kind, ...]


def _gib(value: float) -> str:
    return f"{value:.0f} GiB"


def _watts(value: float) -> str:
    return f"{value:,.0f} W"


KINDS = (
    Kind("generation", "Generated tokens per second", "llm_generation_tokens_total", quantities.rate),
    Kind("waiting", "Requests waiting", "llm_requests_waiting", quantities.count),
    Kind("kv", "KV cache in use", "llm_kv_cache_utilization_ratio", quantities.percent, top=1.0),
    Kind("ttft", "Time to first token, P99", TTFT.metric, quantities.duration, q=0.99),
)
GPU_KINDS = (
    Kind("utilization", "Utilisation", "gpu_utilization_ratio", quantities.percent, top=1.0),
    Kind("memory", "Memory in use", "gpu_memory_used_bytes", _gib, unit=2.0**30),
    Kind("power", "Power", "gpu_power_watts", _watts),
)
SERVERS = Subject(("node", "server"), "llm_metrics_available", KINDS)
GPUS = Subject(("node", "uuid"), "gpu_up", GPU_KINDS)


@dataclass(frozen=True, slots=True)
class Trend:
    """Without a `line` there is nothing to draw, and `text` says why."""

    text: str
    scale: str = ""
    line: Sparkline | None = None
    shade: str = ""
    """Where nothing could be read: a path."""


def trend(kind: Kind, points: Sequence[Point], unread: Shade, since: float, until: float) -> Trend:
    line = sparkline.draw(points, since, until, top=kind.top)
    if line is None:
        return Trend(f"{kind.title}: nothing recorded in the last hour")
    return Trend(_in_words(kind, line, unread), kind.say(line.top), line, unread.path)


def _in_words(kind: Kind, line: Sparkline, unread: Shade) -> str:
    parts = [
        f"{kind.title}, last hour: latest {kind.say(line.latest)}",
        f"lowest {kind.say(line.lowest)}",
        f"highest {'at least ' if line.marks else ''}{kind.say(line.highest)}",
        f"scale 0 to {kind.say(line.top)}",
    ]
    if line.gaps:
        parts.append(f"{line.gaps} gap{'s' if line.gaps > 1 else ''}")
    if unread.seconds:
        parts.append(f"no data for {quantities.duration(unread.seconds)}")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class _Told:
    """What the history said at `at`, drawn once for all who look; None where it could not be read."""

    at: float
    trends: Mapping[str, Mapping[Name, Trend] | None]


class Trends:
    """Sparklines of every one of a kind, asked again when the last answer is `KEEP_SECONDS` old."""

    def __init__(self, history: Asks, subject: Subject = SERVERS) -> None:
        self._history = history
        self._subject = subject
        self._told = _Told(-math.inf, {})

    def of(self, node: str, name: str, now: float) -> dict[str, Trend]:
        told = self._fresh(now)
        return {kind.name: _trend(kind, told, (node, name)) for kind in self._subject.kinds}

    def _fresh(self, now: float) -> _Told:
        if now - self._told.at >= KEEP_SECONDS:
            until = math.floor(now / STEP_SECONDS) * STEP_SECONDS
            unread = self._unread(until)
            self._told = _Told(now, {kind.name: self._trends(kind, unread, until) for kind in self._subject.kinds})
        return self._told

    def _unread(self, until: int) -> dict[Name, Shade]:
        read = self._ask(self._subject.read, None, until) or {}
        span = (until - SPAN_SECONDS, until)
        return {
            name: sparkline.shade([p for p in points if p.value > 0], *span, _PATIENCE_SECONDS)
            for name, points in read.items()
        }

    def _trends(self, kind: Kind, unread: Mapping[Name, Shade], until: int) -> dict[Name, Trend] | None:
        told = self._ask(kind.metric, kind.q, until, kind.unit)
        if told is None:
            return None
        span = (until - SPAN_SECONDS, until)
        return {name: trend(kind, points, unread.get(name, Shade("", 0)), *span) for name, points in told.items()}

    def _ask(self, metric: str, q: float | None, until: int, unit: float = 1.0) -> dict[Name, list[Point]] | None:
        """A history that cannot be read costs the sparklines, not the page."""
        try:
            answers = self._history.ask(metric, q, until - SPAN_SECONDS, until, STEP_SECONDS, self._subject.labels)
        except HistoryError as cause:
            log.warning("could not read the history of %s: %s", metric, cause)
            return None
        node, name = self._subject.labels
        return {(a.labels[node], a.labels[name]): [_point(w, unit) for w in a.points] for a in answers}


def _trend(kind: Kind, told: _Told, name: Name) -> Trend:
    trends = told.trends[kind.name]
    if trends is None:
        return Trend(f"{kind.title}: the history could not be read, see the monitor's log")
    return trends.get(name) or Trend(f"{kind.title}: nothing recorded in the last hour")


def _point(window: Window, unit: float) -> Point:
    return Point(window.start, window.seconds, window.value / unit, beyond=window.upper == math.inf)
