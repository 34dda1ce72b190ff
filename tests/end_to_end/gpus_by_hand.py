"""The rows of GPUs once more, as `by_hand` has those of servers.

A GPU that is lost has a row all the same. Its counters count since the driver was loaded, so that one that is first
read later, or was away for more than five minutes, is only a base line; an XID that is new counts whole, where XIDs of
the GPU are counted already.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from exporters.schema import METRICS, Type
from tests.end_to_end.by_hand import LOOKBACK, MEMORY, Own, Row, Told, column, covered, gauges, window_of
from tests.end_to_end.samples import Scrape

_XIDS = "gpu_xid_errors_total"


@dataclass
class Reading:
    at: float
    up: bool = False
    gauges: dict[Own, float] = field(default_factory=dict)
    counters: dict[Own, float] = field(default_factory=dict)
    driver: str = ""


def told(scrapes: Sequence[Scrape], until: int) -> Told:
    """Of one node."""
    found = Told()
    for of, readings in _by_gpu(scrapes).items():
        added = _added(readings)
        found.events += [(of, *event) for event in _events(readings) if window_of(event[0]) < until]
        for start in range(window_of(readings[0].at), until, 60):
            row = _row(readings, added, start)
            if row is not None:
                found.gpus[of, start] = row
        seen = [r.at for r in readings if r.up and window_of(r.at) < until]
        found.seen[of] = seen[0], seen[-1]
    return found


def _by_gpu(scrapes: Iterable[Scrape]) -> dict[str, list[Reading]]:
    found: defaultdict[str, dict[float, Reading]] = defaultdict(dict)
    for scrape in scrapes:
        for name, labels, value in scrape.samples:
            if not name.startswith("gpu_"):
                continue
            rest = dict(labels)
            own = [rest.pop(label, "") for label in METRICS[name].labels]
            reading = found[json.dumps(rest, sort_keys=True)].setdefault(scrape.at, Reading(scrape.at))
            if name == "gpu_info":
                reading.driver = dict(labels)["driver"]
                continue
            kind = reading.counters if METRICS[name].type is Type.COUNTER else reading.gauges
            kind[name, ",".join(own)] = value
            reading.up |= name == "gpu_up" and value == 1
    return {of: list(readings.values()) for of, readings in found.items()}


def _added(readings: Sequence[Reading]) -> dict[float, tuple[float, dict[Own, float]]]:
    """By moment: in which time, and how much."""
    known: dict[Own, tuple[float, float]] = {}
    steps: dict[float, tuple[float, dict[Own, float]]] = {}
    before: float | None = None
    for now in readings:
        known = {own: told for own, told in known.items() if now.at - told[0] <= LOOKBACK}
        counts_xids = any(own[0] == _XIDS for own in known)
        added: dict[Own, float] = {}
        for own, value in now.counters.items():
            if own in known:
                last = known[own][1]
                added[own] = value - last if value >= last else value
            elif own[0] == _XIDS and counts_xids:
                added[own] = value
            known[own] = now.at, value
        if added and before is not None:
            steps[now.at] = now.at - before, added
        before = now.at if now.counters else before
    return steps


def _row(readings: Sequence[Reading], added: Mapping[float, tuple[float, dict[Own, float]]], start: int) -> Row | None:
    inside = [r for r in readings if start < r.at <= start + 60]
    if not inside:
        is_gap = any(start - MEMORY < r.at <= start for r in readings)
        return {"samples": 0, "covered_seconds": 0.0, "increase_seconds": 0.0} if is_gap else None
    row = gauges([r.gauges for r in inside]) | {"covered_seconds": covered(readings, start, lambda _: True)}
    steps = [added[r.at] for r in inside if r.at in added]
    row["increase_seconds"] = sum((seconds for seconds, _ in steps), 0.0)
    xids: dict[str, float] = {}
    for own, value in ((own, value) for _, step in steps for own, value in step.items()):
        if own[0] == _XIDS:
            xids[own[1]] = xids.get(own[1], 0.0) + value
        else:
            row[column(own)] = row.get(column(own), 0.0) + value
    return row | ({"xid_errors": xids} if xids else {})


def _events(readings: Sequence[Reading]) -> list[tuple[float, str, str, str]]:
    found: list[tuple[float, str, str, str]] = []
    known: dict[str, str] = {}
    for now in readings:
        told = {"state": "up" if now.up else "down"} | ({"driver": now.driver} if now.driver else {})
        found += [(now.at, kind, known[kind], text) for kind, text in told.items() if known.get(kind, text) != text]
        known |= told
    return found
