"""Gauges that say of an idle server what they said of a busy one."""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf

from exporters.table import Frontend
from exporters.tables import FRONTENDS

WORK = ("llm_requests_finished_total", "llm_generation_tokens_total")
"""Counters of which one rises in a minute in which a server works."""


def always(metric: str) -> tuple[Frontend, ...]:
    """Those of which every release does so: their minutes are judged only where they show work."""
    return tuple(f for f in FRONTENDS.values() if (idle := list(_idle_seconds(f, metric))) and all(map(isinf, idle)))


def in_some_releases(metric: str) -> tuple[Frontend, ...]:
    found = (f for f in FRONTENDS.values() if any(map(isinf, _idle_seconds(f, metric))))
    return tuple(f for f in found if f not in always(metric))


def _idle_seconds(frontend: Frontend, metric: str) -> Iterator[float]:
    return (refresh.idle_seconds for refresh in frontend.rhythm.gauges if metric in refresh.metrics)
