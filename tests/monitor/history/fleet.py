"""Minutes of a made-up fleet, with sums that are known by hand: all minutes of an engine are the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from exporters.histogram import Histogram
from exporters.observation import Labels, labels
from exporters.schema import E2E, TTFT
from monitor.history.minutes import Mean, Minute, Window
from monitor.history.store import Store
from monitor.history.upsert import Progress

HOUR, DAY = 3600, 86_400
START = 1_796_083_200
"""Midnight of 2026-12-01, UTC."""
OLD_BOUNDS, NEW_BOUNDS = (0.1, 1.0), (0.25, 0.5, 2.0)


def target(server: str = "s1") -> Labels:
    return labels({"node": "n1", "server": server})


def engine(number: int = 0, server: str = "s1") -> Labels:
    more = {"framework": "vllm", "model": "m-a", "role": "unified", "engine": str(number)}
    return labels({"node": "n1", "server": server, **more})


def gpu(number: int = 0) -> Labels:
    return labels({"node": "n1", "uuid": f"GPU-{number}", "gpu": str(number)})


def engine_minute(tokens: float = 100.0, bounds: tuple[float, ...] = OLD_BOUNDS, samples: int = 4) -> Minute:
    """One request in the first bucket, two in the next, and one beyond the largest bound."""
    row = Minute(samples=samples, covered_seconds=60.0, increase_seconds=60.0, first_seen=1.0, last_seen=2.0)
    for _ in range(samples):
        row.gauges.setdefault(("llm_requests_running", ""), Mean()).add(tokens / 100)
    row.counters = {("llm_generation_tokens_total", ""): tokens, ("llm_requests_rejected_total", "queue_full"): 1.0}
    counts = (1.0, *(3.0 for _ in bounds[1:]), 4.0)
    row.histograms = {TTFT.name: [Histogram(bounds, counts, 5.0)], E2E.name: [Histogram(bounds, (0.0,) * len(counts))]}
    return row


def target_minute(samples: int = 4) -> Minute:
    row = Minute(samples=samples, covered_seconds=60.0)
    for _ in range(samples):
        row.gauges.setdefault(("llm_up", ""), Mean()).add(1.0)
    return row


def gpu_minute(joules: float = 6000.0) -> Minute:
    row = Minute(samples=4, covered_seconds=60.0, increase_seconds=60.0)
    row.counters = {("gpu_energy_joules_total", ""): joules, ("gpu_xid_errors_total", "79"): 1.0}
    return row


def server_minute(
    start: int, server: str = "s1", tokens: float = 100.0, bounds: tuple[float, ...] = OLD_BOUNDS
) -> Window:
    """With two engines of which the second makes twice as many tokens."""
    return Window(
        start,
        {
            target(server): target_minute(),
            engine(0, server): engine_minute(tokens, bounds),
            engine(1, server): engine_minute(2 * tokens, bounds),
        },
    )


def write(store: Store, windows: Iterable[Window]) -> None:
    store.write_windows(list(windows), [], Progress("test", 0, 0))


def load_test(imported_at: float) -> dict[str, Any]:
    """The row of a run that somebody handed in."""
    texts = {"tool": "guidellm", "file": "a.json", "framework": "vllm", "version": "", "model": "m-a", "gpu": ""}
    return {"digest": f"{imported_at}", "number": 0, "imported_at": imported_at, "concurrency": 16.0, **texts} | {
        "measures": {"tokens_per_second": 11_200.5},
        "workload": {"prompt_tokens": None},
    }
