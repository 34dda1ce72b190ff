"""The state of a target's minutes as bytes, so that the next process goes on exactly where the last one wrote."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from exporters.histogram import Histogram
from exporters.observation import Labels, Series
from monitor.history.minutes import Base, Key, Mean, Minute, State, Window

log = logging.getLogger(__name__)

_VERSION = 1
"""Raised when the meaning changes: a checkpoint of another version is not read."""


def dump(state: State) -> bytes:
    document = {
        "version": _VERSION,
        "at": state.at,
        "read": sorted(state.read),
        "facts": state.facts,
        "window": state.window and {"start": state.window.start, "rows": _rows(state.window)},
        "base": state.base and _base(state.base),
    }
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode())


def load(data: bytes) -> State | None:
    """None where it was written by a release that counts otherwise, or is damaged: then the next reading is a base line
    only."""
    try:
        document = json.loads(zlib.decompress(data))
        return _state(document) if document["version"] == _VERSION else None
    except (zlib.error, ValueError, LookupError, TypeError) as cause:
        log.warning("history: the checkpoint of a server is damaged, and is left out: %s", cause)
        return None


def _state(document: Mapping[str, Any]) -> State:
    window, base = document["window"], document["base"]
    return State(
        at=document["at"],
        window=window and Window(window["start"], {_labels(k): _minute(row) for k, row in window["rows"]}),
        base=base and _base_of(base),
        read=frozenset(map(_labels, document["read"])),
        facts=document["facts"],
    )


def _rows(window: Window) -> list[tuple[Labels, dict[str, Any]]]:
    return [
        (
            of,
            {
                "samples": row.samples,
                "seen": (row.first_seen, row.last_seen),
                "covered_seconds": row.covered_seconds,
                "increase_seconds": row.increase_seconds,
                "gauges": [(*key, m.sum, m.count, m.maximum) for key, m in row.gauges.items()],
                "counters": [(*key, value) for key, value in row.counters.items()],
                "histograms": {phase: list(map(_numbers, parts)) for phase, parts in row.histograms.items()},
                "info": row.info,
            },
        )
        for of, row in window.rows.items()
    ]


def _minute(row: Mapping[str, Any]) -> Minute:
    return Minute(
        samples=row["samples"],
        first_seen=row["seen"][0],
        last_seen=row["seen"][1],
        covered_seconds=row["covered_seconds"],
        increase_seconds=row["increase_seconds"],
        gauges=_gauges(row["gauges"]),
        counters={(metric, label): value for metric, label, value in row["counters"]},
        histograms={phase: list(map(_histogram, parts)) for phase, parts in row["histograms"].items()},
        info=row["info"],
    )


def _gauges(known: Any) -> dict[Key, Mean]:
    """By metric alone where an earlier release wrote them: no gauge had an own label then."""
    if isinstance(known, Mapping):
        return {(metric, ""): Mean(*numbers) for metric, numbers in known.items()}
    return {(metric, label): Mean(*numbers) for metric, label, *numbers in known}


def _base(base: Base) -> dict[str, Any]:
    return {
        "at": base.at,
        "start_time": base.start_time,
        "values": [(s.metric, s.labels, value) for s, value in base.values.items()],
        "histograms": [(s.metric, s.labels, _numbers(h)) for s, h in base.histograms.items()],
        "absent": [(s.metric, s.labels, at) for s, at in base.absent.items()],
        "knows_zero": base.knows_zero,
    }


def _base_of(base: Mapping[str, Any]) -> Base:
    values, histograms = _values(base["values"]), _histograms(base["histograms"])
    absent, knows_zero = _values(base.get("absent", ())), base.get("knows_zero", True)
    return Base(base["at"], base["start_time"], values, histograms, absent, knows_zero)


def _numbers(histogram: Histogram) -> tuple[Any, ...]:
    return histogram.bounds, histogram.counts, histogram.sum


def _histogram(numbers: tuple[Any, ...]) -> Histogram:
    bounds, counts, total = numbers
    return Histogram(tuple(bounds), tuple(counts), total)


def _labels(pairs: Iterable[Iterable[str]]) -> Labels:
    return tuple((name, value) for name, value in pairs)


def _values(items: Iterable[tuple[str, Any, float]]) -> dict[Series, float]:
    return {Series(metric, _labels(pairs)): value for metric, pairs, value in items}


def _histograms(items: Iterable[tuple[str, Any, Any]]) -> dict[Series, Histogram]:
    return {Series(metric, _labels(pairs)): _histogram(numbers) for metric, pairs, numbers in items}
