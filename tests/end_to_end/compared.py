"""What is stored, beside what was worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tests.end_to_end.by_hand import Row, Table, Told
from tests.monitor.history.stored import Stored, everything, rows

_OF_KEY = ("series_id", "start")


def differences(of: Stored, told: Told, until: int) -> list[str]:
    """In windows that start before `until`; the first hundred, as texts."""
    found = everything(of)
    events = sorted((e for e in found["events"] if e[1] <= until), key=lambda e: e[:3])
    seen = {s[0]: (s[-2], s[-1]) for s in found["series"] if s[-1] is not None}
    return [
        *_differences("target_minute", rows(of, "target_minute"), told.targets, until),
        *_differences("gpu_minute", rows(of, "gpu_minute"), told.gpus, until),
        *_differences("engine_minute", rows(of, "engine_minute"), told.engines, until),
        *([] if events == sorted(told.events, key=lambda e: e[:3]) else [f"events: {events} != {told.events}"]),
        *([] if seen == told.seen else [f"first and last seen: {seen} != {told.seen}"]),
    ][:100]


def rolled_up(of: Stored, table: str, mine: Table, until: int) -> list[str]:
    """But for the quantiles, which are not merged."""
    return list(_differences(table, rows(of, table), mine, until))


def _differences(table: str, stored: Mapping[tuple[str, int], Row], mine: Table, until: int) -> list[str]:
    theirs = {key: row for key, row in stored.items() if key[1] < until}
    found = [f"{table}: {key} is missing" for key in mine.keys() - theirs.keys()]
    found += [f"{table}: {key} should not be" for key in theirs.keys() - mine.keys()]
    for key in sorted(theirs.keys() & mine.keys()):
        names = [*theirs[key], *(mine[key].keys() - theirs[key].keys())]
        found += [
            f"{table}: {key} {name}: {theirs[key].get(name)} instead of {mine[key].get(name)}"
            for name in names
            if name not in _OF_KEY and "_p50" not in name and "_p99" not in name
            if not _same(name, theirs[key].get(name), mine[key].get(name))
        ]
    return found


def _same(name: str, theirs: Any, mine: Any) -> bool:
    """To the last bit; but for sums of seconds, which are added up in another order."""
    if name.endswith("_histogram") and theirs is not None and mine is not None:
        stored = {h.bounds: (h.counts, h.sum) for h in theirs}
        return stored.keys() == mine.keys() and all(
            stored[b][0] == counts and math.isclose(stored[b][1], total, rel_tol=1e-9, abs_tol=1e-6)
            for b, (counts, total) in mine.items()
        )
    if isinstance(theirs, float) and isinstance(mine, float):
        return math.isclose(theirs, mine, rel_tol=1e-12)
    return bool(theirs == mine)
