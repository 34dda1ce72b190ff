"""How one value of a GPU can be read. A reading has several ways, the best first; a way that does not work here says so
by raising NVML's error, as every NVML call does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from exporters.gpu.errors import FUNCTION_NOT_FOUND
from exporters.gpu.fields import FieldReader, Member
from exporters.gpu.gpm import Gpm

MOST_SAMPLED_SECONDS = 60.0
"""A state seen now says nothing of a longer time before."""


class Value(NamedTuple):
    """In the schema's unit; `label` is the value of the metric's own label."""

    metric: str
    value: float
    label: str = ""


Key = tuple[str, str]
"""Metric and value of its own label."""


@dataclass(slots=True)
class Context:
    """One GPU or MIG instance, once read. `elapsed`: seconds since the last time, 0 the first time."""

    nvml: Any
    handle: Any
    fields: FieldReader
    gpm: Gpm
    elapsed: float
    sums: dict[Key, float]
    """What is summed up from reading to reading."""
    _reasons: int | None = field(default=None, init=False)

    def throttle_reasons(self) -> int:
        """Why clocks are held down now, a bit each; asked once."""
        if self._reasons is None:
            self._reasons = _throttle_reasons(self.nvml, self.handle)
        return self._reasons


def _throttle_reasons(nvml: Any, handle: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except nvml.NVMLError as error:
        if error.value != FUNCTION_NOT_FOUND:
            raise
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


class Way(Protocol):
    @property
    def source(self) -> str: ...

    @property
    def quality(self) -> str: ...

    def read(self, context: Context) -> Iterator[Value]:
        """Raises NVML's errors."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    source: str
    function: Callable[[Any, Any], Iterator[Value]]
    quality: str = "exact"

    def read(self, context: Context) -> Iterator[Value]:
        return self.function(context.nvml, context.handle)


@dataclass(frozen=True, slots=True)
class FieldSum:
    """Fields of `nvmlDeviceGetFieldValues` that add up, e.g. one for each link; read all in one call."""

    metric: str
    members: tuple[Member, ...]
    label: str = ""
    scale: float = 1.0
    wide: bool = False
    """Whether only 64-bit counters are taken: others wrap between two readings."""
    quality: str = "exact"

    @property
    def source(self) -> str:
        return "nvmlDeviceGetFieldValues " + "+".join(map(str, dict.fromkeys(m.field for m in self.members)))

    def read(self, context: Context) -> Iterator[Value]:
        yield Value(self.metric, context.fields.total(self.members, wide=self.wide) * self.scale, self.label)


@dataclass(frozen=True, slots=True)
class Share:
    """A percentage of GPM."""

    metric: str
    number: int
    quality: str = "exact"

    @property
    def source(self) -> str:
        return f"GPM {self.number}"

    def read(self, context: Context) -> Iterator[Value]:
        yield Value(self.metric, context.gpm.value(self.number) / 100)


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of GPM in MiB/s, the mean between two readings, summed up to a counter."""

    metric: str
    label: str
    number: int
    quality: str = "derived"

    @property
    def source(self) -> str:
        return f"GPM {self.number} × time"

    def read(self, context: Context) -> Iterator[Value]:
        added = context.gpm.value(self.number) * 2**20 * context.gpm.span
        yield Value(self.metric, _summed(context.sums, (self.metric, self.label), added), self.label)


@dataclass(frozen=True, slots=True)
class Sampled:
    """Seconds in a state, from what it is at each reading."""

    metric: str
    label: str
    bit: int
    quality: str = "approximate"

    @property
    def source(self) -> str:
        return f"clock reasons {self.bit:#x} × time"

    def read(self, context: Context) -> Iterator[Value]:
        held = bool(context.throttle_reasons() & self.bit)
        added = min(context.elapsed, MOST_SAMPLED_SECONDS) if held else 0.0
        yield Value(self.metric, _summed(context.sums, (self.metric, self.label), added), self.label)


def _summed(sums: dict[Key, float], key: Key, added: float) -> float:
    sums[key] = sums.get(key, 0.0) + added
    return sums[key]


@dataclass(frozen=True, slots=True)
class Reading:
    """One value or a few that belong together; `metric` names it where nothing else does."""

    metric: str
    ways: tuple[Way, ...]
    label: str = ""

    @property
    def name(self) -> str:
        return f"{self.metric}{{{self.label}}}" if self.label else self.metric
