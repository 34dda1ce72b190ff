"""Servers that count, scrape by scrape, as their sidecar shows them, for hours: the same samples for PromQL and SQL."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from exporters.exposition import format_bound
from exporters.histogram import Histogram, on_grid
from exporters.schema import DEFAULT_BOUNDS, PHASES
from exporters.tables import FRONTENDS

EVERY = 30
TTFT = PHASES["ttft"]


@dataclass
class Serving:
    """`work` says by the minute how many requests take how long, how they end, and what its gauges show."""

    server: str
    frontend: str
    model: str
    work: Callable[[int, random.Random], Work]
    up_from: int = 0
    """Minute of its first scrape."""
    restarts: Sequence[int] = ()
    down: Sequence[int] = ()
    """Minutes in which it does not answer."""
    away: Sequence[int] = ()
    """Minutes in which its sidecar's page is missing."""
    tells_latencies: bool = True
    version: str = "1"
    every: int = EVERY
    first: int = 0
    """Seconds between its scrapes, and from the start to the first of them."""
    burst: Callable[[int], Work | None] = lambda second: None
    """All that comes just before the scrape of that second, beside its work."""
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    counts: list[float] = field(default_factory=list)
    ends: dict[str, float] = field(default_factory=dict)

    @property
    def bounds(self) -> tuple[float, ...]:
        return tuple(map(float, DEFAULT_BOUNDS["ttft"][self.frontend]))

    def lines(self, start: int, minutes: int) -> Iterator[str]:
        self._reset()
        for second in range(self.first, minutes * 60 + 1, self.every):
            minute, at = second // 60, start + second
            if minute < self.up_from:
                continue
            if minute in self.restarts and second % 60 < self.every:
                self._reset()
            work = self.work(minute, self.chance)
            if minute in self.away:
                continue
            if minute in self.down:
                yield from self._target(at, 0)
                continue
            self._count(work, self.every / 60)
            self._count(self.burst(second) or Work(), 1.0)
            yield from self._target(at, 1)
            yield from self._engine(at, work)

    def _reset(self) -> None:
        self.counts = [0.0] * (len(self.bounds) + 1)
        self.ends = {"stop": 0.0, "error": 0.0, "abort": 0.0, "length": 0.0, "unknown": 0.0}

    def _count(self, work: Work, share: float) -> None:
        for seconds, many in work.latencies.items():
            bucket = next((i for i, b in enumerate(self.bounds) if seconds <= b), len(self.bounds))
            self.counts[bucket] += many * share
        for reason, many in work.ends.items():
            self.ends[reason] += many * share

    def _target(self, at: int, up: int) -> Iterator[str]:
        for name in ("llm_up", "llm_metrics_available"):
            yield _line(name, {"server": self.server}, up, at)

    def _engine(self, at: int, work: Work) -> Iterator[str]:
        own = {"server": self.server, "framework": FRONTENDS[self.frontend].framework, "model": self.model}
        own |= {"role": "unified", "engine": "0"}
        yield _line("llm_server_info", {**own, "version": self.version, "frontend": self.frontend}, 1, at)
        yield _line("llm_server_state", {**own, "state": "awake"}, 1, at)
        yield _line("llm_requests_running", own, 1, at)
        yield _line("llm_kv_cache_utilization_ratio", own, work.kv, at)
        if self.frontend == "lmdeploy":
            yield _line("llm_requests_waiting_api", own, work.waiting, at)
        for reason, many in self.ends.items():
            yield _line("llm_requests_finished_total", {**own, "reason": reason}, many, at)
        if self.tells_latencies:
            yield from self._histogram(own, at)

    def _histogram(self, own: Mapping[str, str], at: int) -> Iterator[str]:
        native = Histogram(self.bounds, tuple(sum(self.counts[: n + 1]) for n in range(len(self.counts))), 1.0)
        grid = on_grid(native, TTFT.grid)
        for bound, many in zip((*TTFT.grid, math.inf), grid.counts, strict=True):
            yield _line(f"{TTFT.metric}_bucket", {**own, "le": format_bound(bound)}, many, at)
        yield _line(f"{TTFT.metric}_count", own, native.count, at)
        yield _line(f"{TTFT.metric}_sum", own, native.count, at)
        yield _line("llm_latency_overflow_total", {**own, "phase": "ttft"}, native.overflow, at)
        told = ",".join(map(format_bound, self.bounds))
        yield _line("llm_latency_native_bounds_info", {**own, "phase": "ttft", "bounds": told}, 1, at)


@dataclass(frozen=True)
class Work:
    """Within a minute."""

    latencies: Mapping[float, float] = field(default_factory=dict)
    ends: Mapping[str, float] = field(default_factory=dict)
    kv: float = 0.5
    waiting: float = 0.0


def _line(name: str, own: Mapping[str, str], value: float, at: int) -> str:
    labels = {"job": "inferwatch", "instance": "n1:9840", "node": "n1", **own}
    told = ",".join(f'{k}="{v}"' for k, v in labels.items())
    return f"{name}{{{told}}} {value} {at}"


def written(servers: Iterable[Serving], file: Path, start: int, minutes: int) -> Path:
    with file.open("w") as out:
        for server in servers:
            for line in server.lines(start, minutes):
                out.write(line + "\n")
        out.write("# EOF\n")
    return file
