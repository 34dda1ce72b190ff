"""The history of a fleet over one window, as findings look at it: steps of one length, side by side. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from alerts.burn import MINUTE
from alerts.slo.spec import Slo
from exporters.flags import Flag, Purpose, flags_of
from exporters.schema import PHASES
from exporters.tables import FRONTENDS
from monitor.advise.model import Asked, Evidence, Target
from monitor.advise.worth import Worth
from monitor.history.answer import Point
from monitor.history.question import MAX_POINTS

UP, AVAILABLE = Asked("llm_up", "avg"), Asked("llm_metrics_available", "avg")
KV, KV_HIGHEST = Asked("llm_kv_cache_utilization_ratio", "avg"), Asked("llm_kv_cache_utilization_ratio", "max")
RUNNING, RUNNING_HIGHEST = Asked("llm_requests_running", "avg"), Asked("llm_requests_running", "max")
QUEUED_HIGHEST = Asked("llm_requests_waiting", "max")
WAITING, LIMIT = Asked("llm_requests_waiting", "avg"), Asked("llm_requests_running_limit", "avg")
FINISHED, REJECTED = Asked("llm_requests_finished_total", "sum"), Asked("llm_requests_rejected_total", "sum")
GENERATED, PROMPTED = Asked("llm_generation_tokens_total", "sum"), Asked("llm_prompt_tokens_total", "sum")
PREEMPTED = Asked("llm_preemptions_total", "sum")
QUERIED = Asked("llm_prefix_cache_query_tokens_total", "sum")
HIT = Asked("llm_prefix_cache_hit_tokens_total", "sum")
DRAFTED = Asked("llm_spec_decode_draft_tokens_total", "sum")
ACCEPTED = Asked("llm_spec_decode_accepted_tokens_total", "sum")
ADAPTERS = Asked("llm_lora_adapters_running", "max")
PROMPT_P90 = Asked("llm_prompt_length_tokens", "quantile", 0.9)
PROMPT_P50 = Asked("llm_prompt_length_tokens", "quantile", 0.5)
GENERATION_P50 = Asked("llm_generation_length_tokens", "quantile", 0.5)
GPU_BUSY, GPU_BUSY_HIGHEST = Asked("gpu_utilization_ratio", "avg"), Asked("gpu_utilization_ratio", "max")
GPU_USED, GPU_MEMORY = Asked("gpu_memory_used_bytes", "max"), Asked("gpu_memory_total_bytes", "max")

OF_TARGETS = (UP, AVAILABLE)
OF_SERVERS = (
    KV, KV_HIGHEST, RUNNING, RUNNING_HIGHEST, WAITING, QUEUED_HIGHEST, LIMIT, FINISHED, REJECTED, GENERATED, PROMPTED,
    PREEMPTED, QUERIED, HIT, DRAFTED, ACCEPTED, ADAPTERS, PROMPT_P90, PROMPT_P50, GENERATION_P50,
)  # fmt: skip
OF_ENGINES = (RUNNING, RUNNING_HIGHEST, WAITING, QUEUED_HIGHEST, FINISHED)
OF_GPUS = (GPU_BUSY, GPU_BUSY_HIGHEST, GPU_USED, GPU_MEMORY)

SHORTEST = 5 * MINUTE
"""Of the steps that advice looks at."""

Points = Mapping[int, Point]
"""By their start."""
Told = Mapping[Asked, Points]


@dataclass(frozen=True)
class Steps:
    """What was told of something, step by step. A step without an observation is not there; all that is told of one
    step is of one length."""

    told: Told

    @cached_property
    def lengths(self) -> Mapping[int, int]:
        """Of each step in seconds, by its start."""
        return {start: point.seconds for points in self.told.values() for start, point in points.items()}

    def steps_of(self, seconds: int) -> list[int]:
        """Those of this length, in order of time."""
        return sorted(start for start, length in self.lengths.items() if length == seconds)

    def of(self, asked: Asked) -> Points:
        return self.told.get(asked, {})

    def has(self, asked: Asked) -> bool:
        return bool(self.of(asked))

    def at(self, asked: Asked, start: int) -> float | None:
        point = self.of(asked).get(start)
        return None if point is None else point.value

    def total(self, asked: Asked, starts: Collection[int] | None = None) -> float | None:
        """The sum of increases; None where none is known."""
        found = [point.value for point in self._chosen(asked, starts)]
        return math.fsum(found) if found else None

    def mean(self, asked: Asked, starts: Collection[int] | None = None) -> float | None:
        """By the time that was observed."""
        points = list(self._chosen(asked, starts))
        weights = [point.covered_seconds or point.seconds for point in points]
        if not points:
            return None
        return math.fsum(p.value * w for p, w in zip(points, weights, strict=True)) / math.fsum(weights)

    def highest(self, asked: Asked, starts: Collection[int] | None = None) -> float | None:
        return max((point.value for point in self._chosen(asked, starts)), default=None)

    def ratio(self, part: Asked, whole: Asked, starts: Collection[int] | None = None) -> float | None:
        """Of sums, over the steps that have both; None where the whole is nothing."""
        both = self.of(part).keys() & self.of(whole).keys()
        both = both if starts is None else both & set(starts)
        below = self.total(whole, both)
        return (self.total(part, both) or 0.0) / below if below else None

    def seconds(self, asked: Asked, starts: Collection[int] | None = None) -> float:
        """How long it was observed."""
        return math.fsum(point.covered_seconds for point in self._chosen(asked, starts))

    def length(self, starts: Iterable[int]) -> float:
        """Of these steps together."""
        return math.fsum(self.lengths.get(start, 0) for start in starts)

    def _chosen(self, asked: Asked, starts: Collection[int] | None) -> Iterable[Point]:
        points = self.of(asked)
        return points.values() if starts is None else [points[start] for start in starts if start in points]


@dataclass(frozen=True)
class Server(Steps):
    """One served model of one server. `facts` is what it says of itself, `labels` are those that people gave it."""

    node: str = ""
    name: str = ""
    framework: str = ""
    model: str = ""
    role: str = "unified"
    facts: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    worth: Mapping[str, Worth] = field(default_factory=dict)
    """By metric; one that is not there is as good as it says."""
    engines: Mapping[str, Steps] = field(default_factory=dict)
    still: Collection[int] = frozenset()
    """Steps in which it stood still for a while though requests were there: they say nothing of its load."""

    @property
    def target(self) -> Target:
        return Target(self.node, self.name, self.framework, self.model, self.version)

    @property
    def version(self) -> str:
        return self.facts.get("version", "")

    @property
    def where(self) -> dict[str, str]:
        """That selects it in a question."""
        every = {"node": self.node, "server": self.name, "model": self.model, "role": self.role}
        return {name: value for name, value in every.items() if value}

    def flags(self, purpose: Purpose) -> tuple[Flag, ...]:
        frontend = FRONTENDS.get(self.facts.get("frontend", ""))
        return () if frontend is None else tuple(flags_of(frontend.flags, purpose, self.version))

    def worth_of(self, asked: Asked) -> Worth:
        return self.worth.get(asked.metric, Worth())

    @cached_property
    def busy(self) -> frozenset[int]:
        """Steps in which it did anything: what a gauge that sticks says of the others is long over."""
        return frozenset(
            start for asked in (GENERATED, FINISHED) for start, point in self.of(asked).items() if point.value > 0
        )

    def live(self, asked: Asked, start: int) -> float | None:
        """A gauge; None where it sticks and the server was idle, and where it stood still."""
        sticks = self.worth_of(asked).sticks and start not in self.busy
        return None if sticks or start in self.still else self.at(asked, start)

    def is_selected(self, slo: Slo) -> bool:
        every = {**self.labels, "node": self.node, "server": self.name, "framework": self.framework}
        every |= {"model": self.model, "role": self.role}
        return all(every.get(name, "") in values for name, values in slo.select.items())


@dataclass(frozen=True)
class Gpu(Steps):
    node: str = ""
    uuid: str = ""
    number: str = ""
    type: str = ""
    servers: tuple[str, ...] = ()
    """Names of those on its node that run on it, as far as that is known."""

    @property
    def target(self) -> Target:
        return Target(self.node, gpu=self.number)

    @property
    def where(self) -> dict[str, str]:
        return {"node": self.node, "uuid": self.uuid}


@dataclass(frozen=True)
class Process(Steps):
    """A target as a whole: whether it is up, and can be read. `frontend` is "" where it never could be."""

    node: str = ""
    name: str = ""
    frontend: str = ""
    framework: str = ""
    version: str = ""
    remarks: Mapping[str, str] | None = None
    """What its sidecar found lately, by reason, and what to do; None where no sidecar is asked."""

    @property
    def target(self) -> Target:
        return Target(self.node, self.name, self.framework, version=self.version)

    @property
    def where(self) -> dict[str, str]:
        return {"node": self.node, "server": self.name}


@dataclass(frozen=True)
class World:
    """From `since` to `until` in steps of `step` seconds; some of them are told in shorter ones."""

    since: int
    until: int
    step: int
    servers: Sequence[Server] = ()
    gpus: Sequence[Gpu] = ()
    processes: Sequence[Process] = ()
    slos: Sequence[Slo] = ()

    def gpus_of(self, server: Server | Process) -> list[Gpu]:
        return [gpu for gpu in self.gpus if gpu.node == server.node and server.name in gpu.servers]

    def evidence(
        self, of: Server | Gpu | Process, what: str, asked: Asked, value: float, unit: str, starts: Collection[int]
    ) -> Evidence:
        """Over the steps from the first to the last of `starts`."""
        known = [start for start in starts if start in of.lengths]
        first, last = min(known), max(known)
        until = min(last + of.lengths[last], self.until)
        lengths = sorted({of.lengths[start] for start in known})
        step = next((each for each in lengths if (until - first) / each <= MAX_POINTS), self.step)
        return Evidence(what, value, unit, asked, first, until, step, of.where, steps=tuple(lengths))


def of_slos(slos: Iterable[Slo]) -> list[Asked]:
    """The quantile that a latency objective is about: that share of requests is at most as slow."""
    return list(dict.fromkeys(asked for slo in slos if (asked := quantile_of(slo)) is not None))


def quantile_of(slo: Slo) -> Asked | None:
    latency = slo.indicator.latency
    return None if latency is None else Asked(PHASES[latency.phase].metric, "quantile", float(slo.objective))


def runs(starts: Iterable[int], step: int) -> list[list[int]]:
    """Steps that follow each other, in order of time."""
    found: list[list[int]] = []
    for start in sorted(starts):
        if found and start == found[-1][-1] + step:
            found[-1].append(start)
        else:
            found.append([start])
    return found
