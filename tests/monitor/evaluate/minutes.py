"""Minutes of servers made by hand, and objectives over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Engine

from alerts.slo.spec import Slo
from exporters.histogram import Histogram
from exporters.observation import Labels, labels
from exporters.schema import PHASES
from monitor.history.minutes import Event, Mean, Minute, Window
from monitor.history.rollup import roll_up
from monitor.history.store import Store
from monitor.history.upsert import Progress

HOUR, DAY = 3600, 86_400
START = 1_796_083_200
"""Midnight of 2026-12-01, UTC."""
BOUNDS = (0.25, 1.0, 5.0)


def slo(name: str, indicator: Mapping[str, Any], objective: str = "99%", **more: Any) -> Slo:
    return Slo.model_validate({"name": name, "objective": objective, "indicator": indicator} | more)


def latency(phase: str, below: float, **more: Any) -> Slo:
    return slo("fast", {"latency": {"phase": phase, "below": below}}, **more)


def available(**more: Any) -> Slo:
    return slo("available", {"availability": {}}, **more)


def kv_below(limit: float, across: str = "max", way: str = "below", **more: Any) -> Slo:
    metric = "llm_kv_cache_utilization_ratio"
    return slo("kv", {"slices": {"metric": metric, "across": across, "is": way, "value": limit}}, **more)


def target(server: str, **more: str) -> Labels:
    return labels({"node": "n1", "server": server} | more)


def engine(server: str, framework: str = "vllm", model: str = "m", role: str = "unified", number: int = 0) -> Labels:
    more = {"framework": framework, "model": model, "role": role, "engine": str(number)}
    return labels({"node": "n1", "server": server} | more)


def minute(
    *,
    gauges: Mapping[str, float | Sequence[float]] | None = None,
    finished: Mapping[str, float] | None = None,
    rejected: float = 0.0,
    counts: Mapping[str, Sequence[float]] | None = None,
    bounds: tuple[float, ...] = BOUNDS,
) -> Minute:
    """`counts` are by phase, one for each bucket, and not cumulative."""
    row = Minute(samples=4, covered_seconds=60.0, increase_seconds=60.0, first_seen=START - HOUR, last_seen=START)
    for name, given in (gauges or {}).items():
        mean = row.gauges.setdefault((name, ""), Mean())
        for value in given if isinstance(given, Sequence) else [given] * row.samples:
            mean.add(value)
    for reason, many in (finished or {}).items():
        row.counters["llm_requests_finished_total", reason] = many
    if rejected:
        row.counters["llm_requests_rejected_total", "queue_full"] = rejected
    for phase, buckets in (counts or {}).items():
        row.histograms[PHASES[phase].name] = [
            Histogram(bounds, tuple(float(sum(buckets[: n + 1])) for n in range(len(buckets))))
        ]
    return row


def up(is_up: float = 1.0, seen: float = START) -> Minute:
    row = Minute(samples=4, covered_seconds=60.0)
    row.first_seen, row.last_seen = (START - HOUR, seen) if is_up else (None, None)
    for _ in range(4):
        row.gauges.setdefault(("llm_up", ""), Mean()).add(is_up)
    return row


def write(database: Engine, windows: Iterable[Window], events: Iterable[Event] = ()) -> None:
    Store(database).write_windows(list(windows), list(events), Progress("test", 0, 0))


def roll_up_all(database: Engine) -> None:
    while roll_up(database, START + 400 * DAY):
        pass
