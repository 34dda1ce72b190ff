"""A small fleet made by hand: a server of each kind that the page has to show, with an hour of made-up history."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from exporters.findings import Finding, finding
from exporters.histogram import Histogram
from exporters.observation import FieldStatus, Labels, Observation, Series, labels
from exporters.schema import E2E, IDENTITY, METRICS, QUEUE, TTFT, Scope
from monitor.fleet import Fleet
from monitor.history.ask import Answer, Point
from monitor.history.life import Wanted
from monitor.history.minutes import Event

NOW = 1_796_031_695.0
"""2026-11-30 09:41:35 UTC"""
HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}"


def clock() -> float:
    return NOW


Wave = Callable[[int], float | None]
Known = tuple[float, float, float]
"""Estimate, lower and upper bound."""
_USUAL: dict[tuple[str, str], Known] = {
    ("ttft", "0.5"): (0.068, 0.06, 0.08),
    ("itl", "0.5"): (0.019, 0.01, 0.025),
    ("itl", "0.99"): (0.064, 0.05, 0.075),
    ("tpot", "0.5"): (0.021, 0.01, 0.025),
    ("tpot", "0.99"): (0.041, 0.025, 0.05),
    ("e2e", "0.5"): (3.4, 2.5, 5),
    ("queue", "0.5"): (0.15, 0, 0.3),
    ("queue", "0.99"): (0.41, 0.3, 0.5),
}


@dataclass(frozen=True)
class Engine:
    """What one engine reports; rates are per second."""

    running: float = 12
    waiting: float = 0
    kv: float = 0.42
    prompt: float = 2400
    generation: float = 610
    hits: float | None = 0.46
    ttft: Known | None = (0.31, 0.25, 0.5)
    e2e: Known | None = (6.2, 5, 10)
    capacity: float | None = 181_000

    def quantiles(self) -> dict[tuple[str, str], Known]:
        if self.ttft is None or self.e2e is None:
            return {}
        return {**_USUAL, ("ttft", "0.99"): self.ttft, ("e2e", "0.99"): self.e2e}


@dataclass(frozen=True)
class Server:
    server: str
    node: str = "gpu-07"
    model: str = "Qwen2.5-7B-Instruct"
    version: str = "0.32.0"
    state: str = "awake"
    engines: tuple[Engine, ...] = (Engine(),)
    up: bool = True
    available: bool = True
    findings: tuple[Finding, ...] = ()
    fields: tuple[FieldStatus, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    waves: Mapping[str, Wave] = field(default_factory=dict)
    """The last hour by metric: the value of each minute, None for a gap."""
    changes: tuple[tuple[float, str, str | None, str | None], ...] = ()
    """What changed: seconds before now, kind, before and after."""

    def observations(self, now: float) -> list[Observation]:
        """Two, half a minute apart, so that there are rates."""
        return [self._observation(at, at - now + 30) for at in (now - 30, now)] if self.available else self._dumb(now)

    def _dumb(self, now: float) -> list[Observation]:
        seen = Observation(self.node, self.server, now - 300, True, True, user_labels=self._user())
        known = Observation(
            self.node, self.server, now, self.up, False, findings=self.findings, user_labels=self._user()
        )
        return [self._observation(seen.at, 0), known]

    def _user(self) -> Labels:
        return labels(self.labels)

    def _observation(self, at: float, elapsed: float) -> Observation:
        values: dict[Series, float] = {}
        histograms: dict[Series, Histogram] = {}
        for index, engine in enumerate(self.engines):
            values.update(self._values(str(index), engine, elapsed))
            histograms.update(self._histograms(str(index), engine, elapsed))
        return Observation(
            self.node, self.server, at, True, True, values, histograms, NOW - 86_400, self.findings, self.fields,
            self._user(),
        )  # fmt: skip

    def series(self, metric: str, engine: str, **own: str) -> Series:
        base = {
            "node": self.node, "server": self.server, "framework": "vllm", "model": self.model, "role": "unified",
            "engine": engine,
        }  # fmt: skip
        scope = METRICS[metric].scope
        identity = {name: base[name] for name in IDENTITY[Scope.ENGINE if scope is Scope.ENGINE else Scope.TARGET]}
        return Series(metric, labels({**identity, **self.labels, **own}))

    def _values(self, engine: str, e: Engine, elapsed: float) -> dict[Series, float]:
        plain = {
            "llm_requests_running": e.running,
            "llm_requests_waiting": e.waiting,
            "llm_requests_running_limit": 256.0,
            "llm_kv_cache_utilization_ratio": e.kv,
            "llm_kv_cache_capacity_tokens": e.capacity,
            "llm_prefix_cache_hit_ratio": e.hits,
            "llm_prompt_tokens_total": 4_812_300 + e.prompt * elapsed,
            "llm_generation_tokens_total": 1_240_811 + e.generation * elapsed,
            "llm_prefix_cache_query_tokens_total": None if e.hits is None else 4_812_300 + e.prompt * elapsed,
            "llm_prefix_cache_hit_tokens_total": None if e.hits is None else (4_812_300 + e.prompt * elapsed) * e.hits,
            "llm_preemptions_total": 3.0,
            "llm_process_start_time_seconds": NOW - 86_400,
        }
        found = {self.series(name, engine): value for name, value in plain.items() if value is not None}
        for reason, count in (("stop", 8120.0), ("length", 411.0), ("abort", 0.0)):
            found[self.series("llm_requests_finished_total", engine, reason=reason)] = count
        info = {"version": self.version, "frontend": "vllm", "wire_model": f"org/{self.model}", "dtype": "bfloat16"}
        found[self.series("llm_server_info", engine, **info)] = 1
        found[self.series("llm_server_state", engine, state=self.state)] = 1
        for (phase, q), told in e.quantiles().items():
            for bound, value in zip(("estimate", "lower", "upper"), told, strict=True):
                found[self.series("llm_latency_quantile_seconds", engine, phase=phase, q=q, bound=bound)] = value
        return found

    def _histograms(self, engine: str, e: Engine, elapsed: float) -> dict[Series, Histogram]:
        """With one observation a second, four in a hundred of them in the bucket that the P99's bounds name."""
        n = 8531.0
        return {
            self.series(TTFT.metric, engine): _filled((0.001, 0.08, 0.1, 0.25, 0.5, 20, 40), n, e.ttft, elapsed),
            self.series(E2E.metric, engine): _filled((0.3, 5, 10, 30, 60), n, e.e2e, elapsed),
            self.series(QUEUE.metric, engine): Histogram((0.3, 0.5), (n, n, n), 0.0),
        }


def _filled(bounds: tuple[float, ...], before: float, told: Known | None, elapsed: float) -> Histogram:
    """`before` observations in the first bucket, then one a second."""
    if told is None:
        return Histogram(bounds, (before,) * (len(bounds) + 1), 0.4 * before)
    estimate, lower, _ = told
    added = (elapsed if bound > lower else 0.96 * elapsed if bound == lower else 0.0 for bound in bounds)
    return Histogram(bounds, (*(before + n for n in added), before + elapsed), 0.4 * before + estimate * elapsed)


def missing(name: str, reason: str) -> FieldStatus:
    return FieldStatus(name, "", "unavailable", reason)


def exact(name: str, source: str) -> FieldStatus:
    return FieldStatus(name, source, "exact")


FIELDS = (
    exact("llm_requests_running", "vllm:num_requests_running"),
    exact("llm_requests_waiting", "vllm:num_requests_waiting"),
    exact("llm_kv_cache_utilization_ratio", "vllm:kv_cache_usage_perc"),
    exact("llm_prompt_tokens_total", "vllm:prompt_tokens_total"),
    exact("llm_generation_tokens_total", "vllm:generation_tokens_total"),
    FieldStatus(QUEUE.metric, "vllm:request_queue_time_seconds", "approximate", "without the API process's queue"),
    missing("llm_requests_rejected_total", "vLLM does not count refused requests"),
)


def _wave(level: float, swing: float, phase: float) -> Wave:
    """Two slow sines and a little zigzag: repeatable, and it looks like traffic."""
    return lambda m: max(
        0.0, level + swing * (0.6 * math.sin(m / 9 + phase) + 0.3 * math.sin(m / 3.1 + 2 * phase) + 0.1 * (-1) ** m)
    )


def _after(start: int, wave: Wave) -> Wave:
    return lambda m: wave(m) if m >= start else None


def _without(first: int, last: int, wave: Wave) -> Wave:
    return lambda m: None if first <= m <= last else wave(m)


def _until(end: int, wave: Wave, then: float | None = None) -> Wave:
    return lambda m: wave(m) if m < end else then


def waves(generation: Wave, waiting: Wave, kv: Wave, ttft: Wave) -> dict[str, Wave]:
    """There was something to read wherever the cache was."""
    return {
        "llm_metrics_available": lambda m: None if kv(m) is None else 1.0,
        "llm_generation_tokens_total": generation,
        "llm_requests_waiting": waiting,
        "llm_kv_cache_utilization_ratio": kv,
        TTFT.metric: ttft,
    }


CALM = waves(
    _wave(620, 90, 0.4), lambda m: 2.0 if m in (9, 10, 41) else 0.0, _wave(0.42, 0.07, 2), _wave(0.31, 0.08, 3)
)
OVERLOADED = waves(
    _wave(1900, 120, 1),
    lambda m: max(0.0, (m - 30) * 2.1 + 6 * math.sin(m / 2)),
    lambda m: min(0.97, 0.6 + m / 130),
    lambda m: 0.4 if m < 32 else 0.4 + (m - 32) ** 1.7 / 9,
)

FLEET = (
    Server(
        "chat-a", labels={"team": "search"}, waves=CALM, fields=FIELDS, engines=(Engine(),),
    ),
    Server(
        "chat-b", node="gpu-08", labels={"team": "search"}, fields=FIELDS,
        engines=(Engine(running=256, waiting=63, kv=0.97, prompt=7900, generation=1880, hits=0.12,
                        ttft=(31, 20, 40), e2e=(60, 60, math.inf)),),
        waves=OVERLOADED,
    ),
    Server(
        "code", node="gpu-08", model="Qwen2.5-Coder-32B-Instruct", version="0.30.1", labels={"team": "ide"},
        fields=FIELDS,
        engines=(Engine(running=31, kv=0.64, generation=980, prompt=5100, hits=0.81, ttft=(0.118, 0.1, 0.25)),
                 Engine(running=9, kv=0.21, generation=310, prompt=1500, hits=0.78, ttft=(0.09, 0.08, 0.1))),
        waves=waves(_without(34, 37, _wave(1290, 240, 2)), _without(34, 37, _wave(0, 0, 0)),
                    _without(34, 37, _wave(0.45, 0.1, 1)), _without(22, 27, _without(34, 37, _wave(0.12, 0.04, 1)))),
        changes=((1300, "restart", None, None), (1300, "version", "0.30.0", "0.30.1"),
                 (1300, "max_model_len", "8192", "32768"), (700, "state", "sleeping", "awake"),
                 (90_000, "gpus", "GPU-1 NVIDIA L40S", "GPU-0 NVIDIA H100 80GB HBM3")),
    ),
    Server(
        "small", node="gpu-09", model="Llama-3.1-8B-Instruct", version="0.6.6",
        engines=(Engine(running=2, kv=0.03, prompt=120, generation=4.2, hits=None, capacity=None,
                        ttft=(0.0009, 0, 0.001), e2e=(0.21, 0, 0.3)),),
        fields=(*FIELDS, missing("llm_prefix_cache_hit_tokens_total", "vLLM exposes it since release 0.7")),
        findings=(finding("unmapped_families", "vllm:iteration_tokens_total"),),
        waves=waves(_without(18, 29, _wave(4, 2, 0)), _without(18, 29, _wave(0, 0, 0)),
                    _without(18, 29, _wave(0.03, 0.01, 0)), lambda m: 0.001 if m in (12, 44) else None),
    ),
    Server(
        "rerank", node="gpu-09", model="Mistral-7B-Instruct", state="sleeping",
        engines=(Engine(running=0, kv=0, prompt=0, generation=0, hits=None, ttft=None, e2e=None),),
        waves=waves(_until(20, _wave(300, 60, 1), 0.0), _wave(0, 0, 0), _until(20, _wave(0.2, 0.05, 1), 0.0),
                    _until(20, _wave(0.2, 0.05, 1))),
    ),
    Server(
        "batch", node="gpu-10", model="Llama-3.1-70B-Instruct", up=False, available=False,
        findings=(finding("connection_refused", "http://gpu-10:8000/metrics"),),
        waves=waves(_until(55, _wave(2100, 300, 1)), _until(55, _wave(4, 4, 1)), _until(55, _wave(0.7, 0.1, 1)),
                    _until(55, _wave(2.2, 0.9, 1))),
    ),
    Server(
        "staging", node="gpu-11", model="Qwen2.5-7B-Instruct", available=False,
        findings=(finding("stats_disabled", "the page has vllm: families, none of the engine"),),
    ),
)  # fmt: skip
"""From calm to down: every condition and every kind of missing number."""

REPLAYED = Server("127.0.0.1:18000", node="laptop", labels={"source": "simulated"}, waves=CALM, fields=FIELDS)
HOSTILE_SERVER = Server(
    HOSTILE, node="n<o>de", model=HOSTILE, version=HOSTILE, labels={"team": HOSTILE},
    findings=(finding("dropped_samples", HOSTILE),), fields=(missing("llm_preemptions_total", HOSTILE),),
)  # fmt: skip


def fleet_of(*servers: Server, now: float = NOW) -> Fleet:
    fleet = Fleet()
    for server in servers:
        for observation in server.observations(now):
            fleet.update([observation])
    return fleet


class Past:
    """Answers what the page asks of the history, from the servers' waves and those of GPUs by node and uuid."""

    def __init__(self, *servers: Server, gpus: Mapping[tuple[str, str], Mapping[str, Wave]] | None = None) -> None:
        self._servers = servers
        self._gpus = gpus or {}
        self.asked: list[str] = []

    def ask(
        self, metric: str, q: float | None, since: float, until: float, step: float, group_by: Sequence[str] = ()
    ) -> list[Answer]:
        self.asked.append(metric)
        servers = {(s.node, s.server): s.waves for s in self._servers}
        known = self._gpus if METRICS[metric].scope is Scope.GPU else servers
        return [
            Answer(dict(zip(group_by, name, strict=True)), _points(waves[metric], int(since), int(until), int(step)))
            for name, waves in known.items()
            if metric in waves
        ]

    def events(self, wanted: Wanted) -> list[Event]:
        """Of servers; the newest first."""
        chosen = (s for s in self._servers if (s.node, s.server) == (wanted.node, wanted.server))
        found = [
            Event((("node", s.node), ("server", s.server)), NOW - ago, kind, before, after)
            for s in chosen
            for ago, kind, before, after in s.changes
        ]
        return sorted(found, key=lambda event: -event.at)


def _points(wave: Wave, since: int, until: int, step: int) -> list[Point]:
    values = ((start, wave(index)) for index, start in enumerate(range(since, until, step)))
    return [Point(start, step, value, None, None, step, 1) for start, value in values if value is not None]
