"""The last hour of every server as sparklines, asked of the history."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from exporters.schema import TTFT
from monitor.history.ask import Answer
from monitor.history.ask import Point as Window
from monitor.history.database import HistoryError
from monitor.page import quantities, sparkline
from monitor.page.sparkline import Point, Sparkline

log = logging.getLogger(__name__)

SPAN_SECONDS = 3600
STEP_SECONDS = 60
KEEP_SECONDS = 15.0
"""The history gains a point a minute: all who look at the page share one answer."""

Server = tuple[str, str]
"""Node and name."""


class Asks(Protocol):
    """What the page needs of the history."""

    def ask(
        self, metric: str, q: float | None, since: float, until: float, step: float, group_by: Sequence[str] = ()
    ) -> list[Answer]: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """What one column draws. `say` puts a value and its unit into words."""

    name: str
    title: str
    metric: str
    say: Callable[[float], str]
    q: float | None = None
    top: float | None = None


KINDS = (
    Kind("generation", "Generated tokens per second", "llm_generation_tokens_total", quantities.rate),
    Kind("waiting", "Requests waiting", "llm_requests_waiting", quantities.count),
    Kind("kv", "KV cache in use", "llm_kv_cache_utilization_ratio", quantities.percent, top=1.0),
    Kind("ttft", "Time to first token, P99", TTFT.metric, quantities.duration, q=0.99),
)


@dataclass(frozen=True, slots=True)
class Trend:
    """Without a `line` there is nothing to draw, and `text` says why."""

    text: str
    scale: str = ""
    line: Sparkline | None = None


def trend(kind: Kind, points: Sequence[Point], since: float, until: float) -> Trend:
    line = sparkline.draw(points, since, until, top=kind.top)
    if line is None:
        return Trend(f"{kind.title}: nothing recorded in the last hour")
    return Trend(_in_words(kind, line), kind.say(line.top), line)


def _in_words(kind: Kind, line: Sparkline) -> str:
    parts = [
        f"{kind.title}, last hour: latest {kind.say(line.latest)}",
        f"lowest {kind.say(line.lowest)}",
        f"highest {'at least ' if line.marks else ''}{kind.say(line.highest)}",
        f"scale 0 to {kind.say(line.top)}",
    ]
    if line.gaps:
        parts.append(f"{line.gaps} gap{'s' if line.gaps > 1 else ''}")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class _Told:
    """What the history said at `at`, drawn once for all who look; None where it could not be read."""

    at: float
    trends: Mapping[str, Mapping[Server, Trend] | None]


class Trends:
    """Sparklines of every server, asked again when the last answer is `KEEP_SECONDS` old."""

    def __init__(self, history: Asks) -> None:
        self._history = history
        self._told = _Told(-math.inf, {})

    def of(self, node: str, server: str, now: float) -> dict[str, Trend]:
        told = self._fresh(now)
        return {kind.name: _trend(kind, told, (node, server)) for kind in KINDS}

    def _fresh(self, now: float) -> _Told:
        if now - self._told.at >= KEEP_SECONDS:
            until = math.floor(now / STEP_SECONDS) * STEP_SECONDS
            self._told = _Told(now, {kind.name: self._ask(kind, until) for kind in KINDS})
        return self._told

    def _ask(self, kind: Kind, until: int) -> dict[Server, Trend] | None:
        """A history that cannot be read costs the sparklines, not the page."""
        since = until - SPAN_SECONDS
        try:
            answers = self._history.ask(kind.metric, kind.q, since, until, STEP_SECONDS, ("node", "server"))
        except (HistoryError, SQLAlchemyError) as cause:
            log.warning("could not read the history of %s: %s", kind.metric, cause)
            return None
        return {
            (a.labels["node"], a.labels["server"]): trend(kind, [_point(w) for w in a.points], since, until)
            for a in answers
        }


def _trend(kind: Kind, told: _Told, server: Server) -> Trend:
    trends = told.trends[kind.name]
    if trends is None:
        return Trend(f"{kind.title}: the history could not be read, see the monitor's log")
    return trends.get(server) or Trend(f"{kind.title}: nothing recorded in the last hour")


def _point(window: Window) -> Point:
    return Point(window.start, window.seconds, window.value, beyond=window.upper == math.inf)
