"""The rows of one target from its pages, by the definition alone: written apart from the code that it checks.

A minute's delta is the last value at or before its end minus the last at or before its start, summed over resets, per
series; a base line is no older than five minutes. Gauges: mean and maximum of the readings in the minute.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from monitor.sources.prometheus.readings import Scrape, ServerSample

Row = dict[str, Any]


@dataclass
class Page:
    at: float
    up: float = 0.0
    available: float = 0.0
    start: float | None = None
    running: float | None = None
    counters: dict[str, float] = field(default_factory=dict)
    """Buckets, sum and count are counters too; `le` is part of the name."""
    bounds: list[float] = field(default_factory=list)


def page(scrape: Scrape[ServerSample]) -> Page:
    told = Page(scrape.at)
    for (series, part, bound), value in scrape.samples:
        name, reason = series.metric, series.label("reason")
        if name == "llm_up":
            told.up = value
        elif name == "llm_metrics_available":
            told.available = value
        elif name == "llm_process_start_time_seconds":
            told.start = value
        elif name == "llm_requests_running":
            told.running = value
        elif name == "llm_latency_native_bounds_info":
            told.bounds = [float(b) for b in series.label("bounds").split(",")]
        elif part or name.endswith("_total"):
            told.counters[f"{name} {part} {bound} {reason}"] = value
    return told


TTFT = "llm_time_to_first_token_seconds"


def minute(pages: list[Page], start: int) -> tuple[Row | None, Row | None]:
    """Of the target, and of its engine."""
    inside = [p for p in pages if start < p.at <= start + 60]
    if not inside:
        recent = any(start - 3600 < p.at <= start for p in pages)
        return ({"samples": 0, "up": None, "covered": 0.0} if recent else None), None
    read = [p for p in inside if p.available]
    target = {
        "samples": len(inside),
        "up": sum(p.up for p in inside) / len(inside),
        "covered": covered(pages, start, lambda _: True),
    }
    if not read:
        return target, None
    running = [p.running for p in read if p.running is not None]
    engine = {
        "samples": len(read),
        "running_avg": sum(running) / len(running),
        "running_max": max(running),
        "covered": covered(pages, start, lambda p: bool(p.available)),
        **deltas([p for p in pages if p.available], start),
    }
    return target, engine


def covered(pages: list[Page], start: int, counts: Any) -> float:
    usual = sorted(b.at - a.at for a, b in pairwise(pages) if start - 300 < a.at and b.at <= start + 60)
    longest = min(2 * usual[(len(usual) - 1) // 2], 300) if usual else 0
    pairs = [(a, b) for a, b in pairwise(pages) if counts(a) and counts(b) and b.at - a.at <= longest]
    # A window is told only by pairs of which one lies in it.
    mine = [(a, b) for a, b in pairs if start < a.at <= start + 60 or start < b.at <= start + 60]
    return sum(max(min(b.at, start + 60) - max(a.at, start), 0) for a, b in mine)


def deltas(pages: list[Page], start: int) -> Row:
    """Of the pages that could be read."""
    added: defaultdict[str, float] = defaultdict(float)
    histograms: defaultdict[tuple[float, ...], defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    seconds, known = 0.0, False
    values: dict[str, float] = {}
    before: Page | None = None
    for p in pages:
        if p.at > start + 60:
            break
        if before is not None and p.at - before.at > 300:
            before, values = None, {}
        if before is not None:
            is_other = p.start is not None and before.start is not None and abs(p.start - before.start) > 1
            fell = {k for k, v in p.counters.items() if v < values.get(k, v)}
            is_other_histogram = is_other or p.bounds != before.bounds or any(TTFT in k for k in fell)
            if p.at > start:
                known, seconds = True, seconds + p.at - before.at
                for k, v in p.counters.items():
                    reset = is_other or k in fell or (TTFT in k and is_other_histogram)
                    step = v if reset else v - values.get(k, 0.0)
                    if TTFT in k:
                        histograms[tuple(p.bounds)][k] += step
                    else:
                        added[k] += step
            if is_other or fell:
                values = {}
        before = p
        values |= p.counters
    if not known:
        return {"tokens": None, "stop": None, "length": None, "ttft": None, "seconds": 0.0}
    return {
        "tokens": added.get("llm_generation_tokens_total  0.0 "),
        "stop": added.get("llm_requests_finished_total  0.0 stop"),
        "length": added.get("llm_requests_finished_total  0.0 length"),
        "ttft": [_histogram(bounds, parts) for bounds, parts in histograms.items()],
        "seconds": seconds,
    }


def _histogram(bounds: tuple[float, ...], parts: dict[str, float]) -> Any:
    counts = [parts[f"{TTFT} bucket {b} "] for b in bounds] + [parts[f"{TTFT} count 0.0 "]]
    return list(bounds), counts, parts[f"{TTFT} sum 0.0 "]


def stored_target(row: Row) -> Row:
    return {"samples": row["samples"], "up": row["up_avg"], "covered": row["covered_seconds"]}


def stored_engine(row: Row) -> Row:
    histogram = row["ttft_histogram"]
    return {
        "samples": row["samples"],
        "running_avg": row["requests_running_avg"],
        "running_max": row["requests_running_max"],
        "covered": row["covered_seconds"],
        "tokens": row["generation_tokens"],
        "stop": row["requests_finished_stop"],
        "length": row["requests_finished_length"],
        "ttft": histogram and [(list(h.bounds), list(h.counts), h.sum) for h in histogram],
        "seconds": row["increase_seconds"],
    }


def server_in(identity: str) -> str:
    server: str = json.loads(identity)["server"]
    return server
