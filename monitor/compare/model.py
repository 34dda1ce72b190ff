"""What a comparison says. Tokens per second count prompt and output tokens unless it is said otherwise.

Comparison
└── Cell            one group in one band of concurrency
    ├── Group       what is compared: a framework with its model, type of GPU and role, perhaps before or after a change
    ├── Band        about how many requests were at one server at once: those that ran and those that waited
    ├── Measure     to Estimate, with the interval in which the true value lies
    └── Workload    what it was asked for, which may explain what it did
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

CONFIDENCE = 0.95
LEAST_MINUTES = 10
"""A cell with fewer is not told: the article's own measurements took five minutes of a load that stood still."""


class Measure(StrEnum):
    """What a cell tells, by the name under which programs get it."""

    TOKENS = "tokens_per_second"
    OUTPUT_TOKENS = "output_tokens_per_second"
    TOKENS_PER_GPU = "tokens_per_gpu_second"
    REQUESTS = "requests_per_second"
    TTFT_P50 = "ttft_p50_seconds"
    TTFT_P99 = "ttft_p99_seconds"
    ITL_P50 = "itl_p50_seconds"
    ITL_P99 = "itl_p99_seconds"
    E2E_P50 = "e2e_p50_seconds"
    E2E_P99 = "e2e_p99_seconds"
    HIT_RATIO = "prefix_hit_ratio"
    JOULES = "joules_per_token"
    COST = "cost_per_million_tokens"


PERCENTILES: Mapping[Measure, tuple[str, float]] = {
    Measure.TTFT_P50: ("ttft", 0.5),
    Measure.TTFT_P99: ("ttft", 0.99),
    Measure.ITL_P50: ("itl", 0.5),
    Measure.ITL_P99: ("itl", 0.99),
    Measure.E2E_P50: ("e2e", 0.5),
    Measure.E2E_P99: ("e2e", 0.99),
}
"""Phase and quantile."""

LESS_IS_BETTER = frozenset({*PERCENTILES, Measure.JOULES, Measure.COST})


@dataclass(frozen=True, slots=True, order=True)
class Band:
    """Powers of two: from `low` up to, but without, `high` requests at once at one server, all its engines together."""

    at_once: int

    @property
    def low(self) -> float:
        return self.at_once / math.sqrt(2)

    @property
    def high(self) -> float:
        return self.at_once * math.sqrt(2)


def band_of(at_once: float) -> Band | None:
    """None of a server that is as good as idle."""
    return Band(2 ** math.floor(math.log2(at_once) + 0.5)) if at_once >= Band(1).low else None


@dataclass(frozen=True, slots=True, order=True)
class Group:
    """What is compared. `server` is node and name, where servers are told apart; of an imported run `tool` and `file`
    say where it comes from. What is not known is ""."""

    framework: str
    model: str
    gpu: str = ""
    role: str = "unified"
    version: str = ""
    server: str = ""
    side: str = ""
    """"before" or "after" a change, if there is one."""
    tool: str = ""
    file: str = ""
    simulated: bool = False
    """Its servers are none: never taken together with real ones."""

    @property
    def is_imported(self) -> bool:
        return bool(self.tool)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """What is compared with each other: of one model, type of GPU, role and band."""

    model: str
    gpu: str
    role: str
    band: Band

    @classmethod
    def of(cls, group: Group, band: Band) -> Place:
        return cls(group.model, group.gpu, group.role, band)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What was measured, and between what the true value lies in 95 of 100 such intervals; None where nothing is
    known of that, as with a load test's own figures.

    Of percentiles `lower` and `upper` say between which bounds of buckets the measured one lies, and the interval takes
    them in: `upper` and `high` are infinite where the largest bucket holds it, and `high` of too few requests.
    `no_interval` says why there is none, and is "" where there is one.
    """

    value: float
    low: float | None = None
    high: float | None = None
    lower: float | None = None
    upper: float | None = None
    no_interval: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """What was asked for, and of how much: means over requests, shares, and GPUs of a server, on average. None is not
    known."""

    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    hit_ratio: float | None = None
    abort_ratio: float | None = None
    gpus: float | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """`minutes` are those of servers: two servers in one minute are two. `concurrency` is how many requests were at a
    server at once, on average. What is not in `measures` is not known, and `missing` says why where that can be said.
    """

    group: Group
    band: Band
    minutes: int
    concurrency: float
    measures: Mapping[Measure, Estimate] = field(default_factory=dict)
    workload: Workload = Workload()
    missing: Mapping[Measure, str] = field(default_factory=dict)

    @property
    def is_told(self) -> bool:
        """Whether there are minutes enough; an imported run has no minutes and is told as it is."""
        return self.group.is_imported or self.minutes >= LEAST_MINUTES

    def of(self, measure: Measure) -> Estimate | None:
        return self.measures.get(measure)

    @property
    def without_interval(self) -> Mapping[str, list[Measure]]:
        """Measures, by why they have none."""
        found: defaultdict[str, list[Measure]] = defaultdict(list)
        for measure, estimate in self.measures.items():
            if estimate.no_interval:
                found[estimate.no_interval].append(measure)
        return found


class Verdict(StrEnum):
    """Of a cell beside another one, by one measure."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no difference shown"
    UNKNOWN = "not known"


def verdict(of: Cell, beside: Cell, measure: Measure) -> Verdict:
    """No difference is shown where the intervals overlap: that is not to say that there is none."""
    a, b = of.of(measure), beside.of(measure)
    if a is None or b is None or a.low is None or a.high is None or b.low is None or b.high is None:
        return Verdict.UNKNOWN
    if a.low <= b.high and b.low <= a.high:
        return Verdict.NO_DIFFERENCE
    return Verdict.BETTER if (a.high < b.low) == (measure in LESS_IS_BETTER) else Verdict.WORSE


@dataclass(frozen=True, slots=True)
class Definition:
    """One name that is not the same quantity with all that are compared."""

    metric: str
    said: Mapping[str, str]
    """By frontend."""


@dataclass(frozen=True, slots=True)
class Left:
    """Minutes of servers that were left out, by why."""

    idle: int = 0
    partial: int = 0
    restarted: int = 0
    unsteady: int = 0
    unlike: int = 0


@dataclass(frozen=True)
class Comparison:
    """Moments are unix seconds. Cells are in order of model, GPU type, role, band and framework."""

    since: int
    until: int
    cells: tuple[Cell, ...]
    left: Left = Left()
    notes: tuple[str, ...] = ()
    """What a reader must know: minutes left out, workloads that differ, prices that are not known."""
    definitions: tuple[Definition, ...] = ()
    split: str = ""
    matched: bool = False
    currency: str = ""

    @cached_property
    def told(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.is_told)
