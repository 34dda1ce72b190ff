"""The fleet as it is now: the latest observation of every server, and one row of figures for each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from threading import Lock

from pydantic import BaseModel

from exporters.observation import Observation, Series
from exporters.schema import E2E, PHASES, QUANTILE_WINDOW_SECONDS, TTFT, Phase
from monitor.gpus import GpuFleet
from monitor.readings import facts, of_metric, replicas, total
from monitor.recent import RecentSteps
from monitor.remarks import FieldOut, FindingOut

RATE_WINDOW_SECONDS = 60.0
STALE_AFTER_SECONDS = 90.0
_LASTING_FACTS = ("framework", "frontend", "version", "model", "role")
FORGET_AFTER_SECONDS = 3600.0
"""A server of which nothing was heard for so long was taken out of the configuration."""


class QuantileOut(BaseModel, frozen=True):
    """The true quantile lies between `lower` and `upper`; without `upper` it is at least `lower`."""

    estimate: float
    lower: float
    upper: float | None
    at_least: bool
    window_seconds: float


class ServerRow(BaseModel, frozen=True):
    """One server now. None is "not known", never zero.

    A server that cannot be read has no figures; framework, frontend, version, model and role stay as last seen.
    """

    node: str
    server: str
    framework: str | None = None
    frontend: str | None = None
    version: str | None = None
    model: str | None = None
    """Several served models are joined by ", "."""
    role: str | None = None
    state: str | None = None
    up: bool
    available: bool
    engines: int
    last_seen: float | None = None
    """Unix seconds of the last answer."""
    running: float | None = None
    running_limit: float | None = None
    waiting: float | None = None
    kv_utilization: float | None = None
    """Mean over the engines, weighted by capacity where it is known of all."""
    kv_utilization_max: float | None = None
    kv_capacity_tokens: float | None = None
    hit_ratio: float | None = None
    """Over the last 5 minutes."""
    prompt_tokens_per_second: float | None = None
    generation_tokens_per_second: float | None = None
    ttft_p99: QuantileOut | None = None
    e2e_p99: QuantileOut | None = None
    unfinished: float | None = None
    preemptions_5m: float | None = None
    labels: dict[str, str] = {}
    findings: list[FindingOut] = []
    fields: list[FieldOut] = []
    simulated: str | None = None


class _Target:
    """What is remembered of one server."""

    def __init__(self, first: Observation) -> None:
        self.latest = first
        self.last_seen: float | None = None
        self.facts: dict[str, str] = {}
        self.sources: set[str] = set()
        self.recent = RecentSteps(QUANTILE_WINDOW_SECONDS)
        self.update(first)

    def update(self, observation: Observation) -> None:
        self.latest = observation
        if observation.up:
            self.last_seen = observation.at
        if observation.available:
            self.facts = {name: text for name, text in facts(observation).items() if name in _LASTING_FACTS}
        if observation.is_complete:
            self.recent.advance(observation)
        self._figured = _known(self._figures()) if observation.available else {}
        self._row = self._told()

    def row(self, now: float, stale_after: float) -> ServerRow:
        age = now - self.latest.at
        if age <= stale_after:
            return self._row
        findings = [_silent(age), *self._row.findings]
        unknown = dict.fromkeys(self._figured)
        return self._row.model_copy(update={**unknown, "up": False, "available": False, "findings": findings})

    def _told(self) -> ServerRow:
        """Once for each observation: whoever looks, and however often, has it for nothing."""
        observation = self.latest
        row = ServerRow(
            node=observation.node,
            server=observation.server,
            up=observation.up,
            available=observation.available,
            engines=len(replicas(observation)),
            last_seen=self.last_seen,
            labels=dict(observation.user_labels),
            findings=[FindingOut.of(f) for f in observation.findings],
            fields=[FieldOut.of(f) for f in observation.fields],
            simulated="simulated" if dict(observation.user_labels).get("source") == "simulated" else None,
        )
        return row.model_copy(update={**self.facts, **self._figured})

    def _figures(self) -> dict[str, object]:
        values, recent = self.latest.values, self.recent
        return {
            "state": facts(self.latest).get("state"),
            "running": _sum(values, "llm_requests_running"),
            "running_limit": _sum(values, "llm_requests_running_limit"),
            "waiting": _sum(values, "llm_requests_waiting"),
            "kv_utilization": _kv_utilization(values),
            "kv_utilization_max": max(_all(values, "llm_kv_cache_utilization_ratio"), default=None),
            "kv_capacity_tokens": _sum(values, "llm_kv_cache_capacity_tokens"),
            "hit_ratio": self._hit_ratio(),
            "prompt_tokens_per_second": recent.rate("llm_prompt_tokens_total", RATE_WINDOW_SECONDS),
            "generation_tokens_per_second": recent.rate("llm_generation_tokens_total", RATE_WINDOW_SECONDS),
            "ttft_p99": self._quantile(TTFT, 0.99),
            "e2e_p99": self._quantile(E2E, 0.99),
            "unfinished": _sum(values, "llm_requests_unfinished"),
            "preemptions_5m": recent.increase("llm_preemptions_total"),
        }

    def _hit_ratio(self) -> float | None:
        """Of one engine the sidecar's own figure; of several only counters tell, since ratios have no weights."""
        exported = _all(self.latest.values, "llm_prefix_cache_hit_ratio")
        if len(exported) == 1:
            return exported[0]
        queries = self.recent.increase("llm_prefix_cache_query_tokens_total")
        hits = self.recent.increase("llm_prefix_cache_hit_tokens_total")
        return hits / queries if hits is not None and queries and hits <= queries else None

    def _quantile(self, phase: Phase, q: float) -> QuantileOut | None:
        """Of one engine the sidecar's own figure, whose window may reach further back; of several the merged one."""
        if len(replicas(self.latest)) == 1 and (exported := _exported_quantile(self.latest.values, phase, q)):
            return exported
        found = self.recent.quantile(phase, q)
        if found is None:
            return None
        return _quantile_out(found.estimate, found.lower, found.upper, self.recent.seconds)


class Fleet:
    """Safe to ask from one thread while another updates it.

    A server of which nothing was heard for `stale_after` seconds is not known to be up: its source is silent. So it is
    with `gpus`.
    """

    def __init__(self, stale_after: float = STALE_AFTER_SECONDS) -> None:
        self.gpus = GpuFleet(stale_after, FORGET_AFTER_SECONDS)
        self.not_recorded: frozenset[tuple[str, str]] = frozenset()
        """Nodes and servers whose history nobody writes."""
        self._stale_after = stale_after
        self._targets: dict[tuple[str, str], _Target] = {}
        self._lock = Lock()
        self._updating = Lock()
        """Apart from the other, so that nobody who asks waits for figures being worked out."""

    def update(self, observations: Iterable[Observation], source: str | None = None) -> None:
        """An observation that is not newer than the one known is ignored.

        With `source` these are all servers that it has now: others that only it knew are dropped.
        """
        with self._updating:
            seen = [self._take(observation) for observation in observations]
            if source is not None:
                self._belong(source, seen)

    def _take(self, observation: Observation) -> _Target:
        key = observation.node, observation.server
        known = self._targets.get(key)
        if known is None:
            known = _Target(observation)
            with self._lock:
                self._targets[key] = known
        elif observation.at > known.latest.at:
            known.update(observation)
        return known

    def _belong(self, source: str, seen: Iterable[_Target]) -> None:
        before = [target for target in self._targets.values() if source in target.sources]
        for target in before:
            target.sources.discard(source)
        for target in seen:
            target.sources.add(source)
        gone = {id(target) for target in before if not target.sources}
        with self._lock:
            self._targets = {key: target for key, target in self._targets.items() if id(target) not in gone}

    def rows(self, now: float) -> list[ServerRow]:
        """Sorted by node and server; `now` is in unix seconds."""
        with self._lock:
            self._targets = {
                key: target for key, target in self._targets.items() if now - target.latest.at <= FORGET_AFTER_SECONDS
            }
            known = sorted(self._targets.items())
        return [self._told(key, target.row(now, self._stale_after)) for key, target in known]

    def _told(self, key: tuple[str, str], row: ServerRow) -> ServerRow:
        if key not in self.not_recorded:
            return row
        return row.model_copy(update={"findings": [*row.findings, _NOT_RECORDED]})

    def row(self, node: str, server: str, now: float) -> ServerRow | None:
        return next((r for r in self.rows(now) if (r.node, r.server) == (node, server)), None)

    def latest(self, node: str, server: str) -> Observation | None:
        with self._lock:
            target = self._targets.get((node, server))
        return None if target is None else target.latest


def _known(figures: Mapping[str, object]) -> dict[str, object]:
    """A sum beyond all numbers is none."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in figures.items()
    }


def _all(values: Mapping[Series, float], metric: str) -> list[float]:
    return [v for _, v in of_metric(values, metric)]


def _sum(values: Mapping[Series, float], metric: str) -> float | None:
    return total(_all(values, metric))


def _kv_utilization(values: Mapping[Series, float]) -> float | None:
    utilization = {s.labels: v for s, v in of_metric(values, "llm_kv_cache_utilization_ratio")}
    capacity = {s.labels: v for s, v in of_metric(values, "llm_kv_cache_capacity_tokens")}
    if not utilization:
        return None
    weights = {labels: capacity.get(labels, 0.0) for labels in utilization}
    if not all(weights.values()):
        weights = dict.fromkeys(utilization, 1.0)
    return sum(utilization[labels] * weight for labels, weight in weights.items()) / sum(weights.values())


def _exported_quantile(values: Mapping[Series, float], phase: Phase, q: float) -> QuantileOut | None:
    found = {
        s.label("bound"): v
        for s, v in of_metric(values, "llm_latency_quantile_seconds")
        if PHASES.get(s.label("phase")) is phase and float(s.label("q")) == q
    }
    if found.keys() != {"estimate", "lower", "upper"}:
        return None
    return _quantile_out(found["estimate"], found["lower"], found["upper"], QUANTILE_WINDOW_SECONDS)


def _quantile_out(estimate: float, lower: float, upper: float, window: float) -> QuantileOut:
    known = upper if math.isfinite(upper) else None
    return QuantileOut(estimate=estimate, lower=lower, upper=known, at_least=known is None, window_seconds=window)


_NOT_RECORDED = FindingOut(
    reason="not_recorded",
    severity="error",
    message="Nobody writes the history of this server.",
    remedy="Another inferwatch writes this history and does not read this server: give this one a database of its own "
    "(`history`), or both the same servers.",
    detail="",
)


def _silent(seconds: float) -> FindingOut:
    return FindingOut(
        reason="no_observation",
        severity="error",
        message="Nothing was heard of this server lately.",
        remedy="Check the sidecar that watches it, and that the server is still in the sidecar's configuration.",
        detail=f"last observation {seconds:.0f} s ago",
    )
