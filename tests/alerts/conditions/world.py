"""A small world of series, read every 30 seconds: as promtool's input, and as minute rows by their definition."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from alerts.conditions.rows import Key, Minute, MinuteRows, Reading, SeriesRows
from exporters.observation import Labels, labels
from exporters.schema import METRICS, Type

STEP = 30
Samples = list[float | None]
World = Mapping[str, Samples]
"""Samples by series, as `name{label="value"}`."""


def held(value: float, minutes: float) -> Samples:
    return [value] * round(minutes * 60 / STEP)


def gone(minutes: float) -> Samples:
    return [None] * round(minutes * 60 / STEP)


def rising(per_minute: float, minutes: float, start: float = 0) -> Samples:
    return [start + per_minute * STEP / 60 * i for i in range(round(minutes * 60 / STEP))]


@dataclass(frozen=True, slots=True)
class Fires:
    """From the evaluation at minute `start` on, and no more at that of minute `end`."""

    start: int
    end: int | None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    says: str
    condition: str
    world: World
    fires: tuple[Fires, ...] = ()
    since: int | None = None
    """The minute up to which nothing was wrong, of the case that tells how long it takes until the first alert."""

    @property
    def minutes(self) -> int:
        return (max(map(len, self.world.values())) - 1) * STEP // 60

    def __str__(self) -> str:
        return f"{self.condition}: {self.says}"


def parsed(series: str) -> tuple[str, dict[str, str]]:
    name, _, rest = series.partition("{")
    return name, dict(re.findall(r'(\w+)="([^"]*)"', rest))


def promtool_values(samples: Samples) -> str:
    """A series that vanishes from a page is marked so by Prometheus."""
    parts, before = [], False
    for value, run in groupby(samples):
        count = len(list(run))
        if value is None:
            parts.append(f"stale _x{count - 1}" if before and count > 1 else "stale" if before else f"_x{count}")
        else:
            parts.append(f"{value!r}x{count - 1}" if count > 1 else repr(value))
        before = value is not None
    return " ".join(parts)


def minute_rows(world: World) -> MinuteRows:
    by_identity: defaultdict[Labels, list[tuple[Key, Samples]]] = defaultdict(list)
    for series, samples in world.items():
        name, found = parsed(series)
        own = METRICS[name].labels if name in METRICS else ()
        identity = labels({k: v for k, v in found.items() if k not in own})
        by_identity[identity].append(((name, labels({k: v for k, v in found.items() if k in own})), samples))
    return MinuteRows(SeriesRows(of, _minutes(found)) for of, found in by_identity.items())


def _minutes(series: Sequence[tuple[Key, Samples]]) -> Iterable[Minute]:
    xids = [samples for key, samples in series if key[0] == "gpu_xid_errors_total"]
    rises = {k: _rises(s, xids if k[0] == "gpu_xid_errors_total" else ()) for k, s in series if _counts(k)}
    for end in range(0, (max(len(samples) for _, samples in series) - 1) * STEP + 1, 60):
        inside = [i for i in (end // STEP - 1, end // STEP) if i >= 0]
        read = {key: [v for i in inside if i < len(s) and (v := s[i]) is not None] for key, s in series}
        if not any(read.values()):
            continue
        gauges = {k: Reading(sum(v) / len(v), max(v)) for k, v in read.items() if v and not _counts(k)}
        added = {k: [r for i in inside if i < len(rise) and (r := rise[i]) is not None] for k, rise in rises.items()}
        counters = {key: sum(found) for key, found in added.items() if found}
        yield Minute(end - 60, STEP * max(map(len, read.values())), gauges, counters)


def _counts(key: Key) -> bool:
    metric = METRICS.get(key[0])
    return key[0].endswith(("_seconds_sum", "_seconds_count")) or (metric is not None and metric.type is Type.COUNTER)


def _rises(samples: Samples, siblings: Sequence[Samples]) -> Samples:
    """From reading to reading; what fell counts whole, and an XID that is new where others are counted already."""
    rises: Samples = []
    for i, value in enumerate(samples):
        before = next((v for v in reversed(samples[max(0, i - 10) : i]) if v is not None), None)
        if value is None:
            rises.append(None)
        elif before is not None:
            rises.append(value - before if value >= before else value)
        else:
            rises.append(value if any(s[i - 1] is not None for s in siblings if i and s is not samples) else None)
    return rises
