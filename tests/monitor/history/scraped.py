"""A life of one server as its sidecar tells it, scrape by scrape, and what a Prometheus makes of it: by hand, so that
what is asked of the real ones can be tried on thousands of lives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from exporters.histogram import Histogram, on_grid
from exporters.observation import Series, labels
from exporters.schema import METRICS, TTFT, Type
from monitor.sources.prometheus.readings import Copy, Scrape, ServerSample
from monitor.sources.rebuild import Part
from tests.monitor.observations import series

START = 1_796_032_800
"""A full minute, and a full hour."""

ONLY: Copy = (("instance", "n1:9840"), ("job", "inferwatch"))

Copies = Mapping[Copy, Sequence[Scrape[ServerSample]]]
_LIGHT = ("llm_up", "llm_metrics_available", "llm_server_info", "llm_server_state", "inferwatch_finding")


@dataclass
class Server:
    """`read` says what its page tells now."""

    name: str = "s1"
    start_time: float | None = None
    version: str = "1"
    bounds: tuple[float, ...] = (0.1, 1.0, 10.0)
    running: float = 0.0
    counters: dict[Series, float] = field(default_factory=dict)
    buckets: list[float] = field(default_factory=lambda: [0.0] * 4)
    """Each by itself."""
    seconds: float = 0.0

    def restart(self, start_time: float | None, bounds: tuple[float, ...] | None = None) -> None:
        self.start_time, self.bounds = start_time, bounds or self.bounds
        self.counters = dict.fromkeys(self.counters, 0.0)
        self.buckets, self.seconds = [0.0] * (len(self.bounds) + 1), 0.0

    def work(self, by: int) -> None:
        """Every counter grows by another share of it."""
        self.running = float(by % 7)
        self.counters = {s: v + by * (n + 1) for n, (s, v) in enumerate(self.counters.items())}
        self.buckets[by % len(self.buckets)] += by
        self.seconds += by / 4

    def read(self) -> list[ServerSample]:
        values = {
            self._series("llm_server_info", version=self.version): 1.0,
            self._series("llm_server_state", state="awake"): 1.0,
            self._series("llm_requests_running"): self.running,
            **self.counters,
        }
        if self.start_time is not None:
            values[self._series("llm_process_start_time_seconds")] = self.start_time
        target = _target(self.name, up=1, available=1)
        return [*target, *(_value(s, v) for s, v in values.items()), *self._latency()]

    def _latency(self) -> list[ServerSample]:
        cumulative = [sum(self.buckets[: n + 1]) for n in range(len(self.buckets))]
        native = Histogram(self.bounds, tuple(cumulative), self.seconds)
        of = self._series(TTFT.metric)
        grid = on_grid(native, TTFT.grid)
        bounds = ",".join(map(str, self.bounds))
        return [
            *((Part(of, "bucket", b), c) for b, c in zip((*TTFT.grid, math.inf), grid.counts, strict=True)),
            (Part(of, "sum"), self.seconds),
            (Part(of, "count"), native.count),
            _value(self._series("llm_latency_overflow_total", phase="ttft"), native.overflow),
            _value(self._series("llm_latency_native_bounds_info", phase="ttft", bounds=bounds), 1.0),
        ]

    def _series(self, metric: str, **labels: str) -> Series:
        return series(metric, server=self.name, **labels)


def down(server: str = "s1") -> list[ServerSample]:
    return _target(server, up=0, available=0)


def unreadable(server: str = "s1") -> list[ServerSample]:
    return _target(server, up=1, available=0)


def empty() -> list[ServerSample]:
    """The page of a server that is known and shows nothing yet."""
    told = {"node": "n1", "server": "s1", "reason": "empty_body", "severity": "info"}
    info = series("llm_server_info", frontend="sglang")
    return [*unreadable(), _value(info, 1.0), _value(Series("inferwatch_finding", labels(told)), 1.0)]


def _target(server: str, *, up: float, available: float) -> list[ServerSample]:
    return [
        _value(series("llm_up", server=server), up),
        _value(series("llm_metrics_available", server=server), available),
    ]


def _value(of: Series, value: float) -> ServerSample:
    return Part(of), value


def is_gauge(part: Part) -> bool:
    return METRICS[part.series.metric].type is Type.GAUGE


def within(copies: Copies, after: float, until: float) -> dict[Copy, list[Scrape[ServerSample]]]:
    return {copy: [s for s in scrapes if after < s.at <= until] for copy, scrapes in copies.items()}


def gauges(copies: Copies, since: int, until: int) -> dict[Copy, list[Scrape[ServerSample]]]:
    """As raw samples."""
    around = within(copies, since - 600, until + 300)
    return {copy: [Scrape(s.at, [x for x in s.samples if is_gauge(x[0])]) for s in of] for copy, of in around.items()}


def memory(copies: Copies, since: int) -> dict[Copy, list[Scrape[ServerSample]]]:
    """What an hour before tells of presence and facts."""
    before = within(copies, since - 3600, since - 600)
    return {
        copy: [Scrape(s.at, [x for x in s.samples if x[0].series.metric in _LIGHT]) for s in of]
        for copy, of in before.items()
    }


def counters(copies: Copies, after: float, until: float) -> dict[Copy, list[Scrape[ServerSample]]]:
    return {
        copy: [Scrape(s.at, [(p, v) for p, v in s.samples if not is_gauge(p)]) for s in scrapes]
        for copy, scrapes in within(copies, after, until).items()
    }


def minutes(copies: Copies, since: int, until: int) -> dict[Copy, list[Scrape[ServerSample]]]:
    """`last_over_time` at each end of a minute. What the left edge is to a server differs: here it is left out."""
    found: dict[Copy, list[Scrape[ServerSample]]] = {}
    for copy, scrapes in copies.items():
        ends = range(since - 240, until + 1, 60)
        last = {end: _last(s for s in scrapes if end - 59.999 < s.at <= end) for end in ends}
        found[copy] = [Scrape(float(end), list(samples.items())) for end, samples in last.items() if samples]
    return found


def _last(scrapes: Iterable[Scrape[ServerSample]]) -> dict[Part, float]:
    return {part: value for scrape in scrapes for part, value in scrape.samples if not is_gauge(part)}


def resets(copies: Copies, since: int, until: int) -> set[int]:
    """Windows in whose last six minutes anything that only grows fell."""
    fell: list[float] = []
    for scrapes in copies.values():
        known: dict[Part, tuple[float, float]] = {}
        for scrape in scrapes:
            for part, value in scrape.samples:
                if is_gauge(part) or part.part == "sum":
                    continue
                at, before = known.get(part, (-math.inf, 0.0))
                if value < before and scrape.at - at <= 360:
                    fell.append(scrape.at)
                known[part] = scrape.at, value
    return {start for start in range(since, until, 60) if any(start - 300 <= at <= start + 60 for at in fell)}
