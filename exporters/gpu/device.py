"""One GPU as NVML gives it, with the MIG instances that it may be split into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from exporters.findings import Finding, finding
from exporters.gpu import health, mig, readings
from exporters.gpu.attempts import Attempts, raise_for
from exporters.gpu.errors import IN_USE, NOT_SUPPORTED
from exporters.gpu.fields import FieldReader, Member
from exporters.gpu.gathered import GpuReading
from exporters.gpu.gpm import Gpm, is_supported
from exporters.gpu.ways import Context, Key, Reading
from exporters.schema import METRICS

_LINK_COUNT = Member(91)


@dataclass(frozen=True, slots=True)
class Facts:
    """What does not change. GPUs are known by `uuid`: the driver may number them differently after a restart."""

    uuid: str
    index: str
    info: dict[str, str]


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """The GPU first, its instances behind; `failed` counts errors by name."""

    units: tuple[GpuReading, ...]
    failed: Counter[str]


class _Unit:
    """What is remembered of the GPU, or of one instance, from one reading to the next."""

    def __init__(self, nvml: Any, handle: Any, name: str, wanted: Sequence[Reading], gpm: Gpm) -> None:
        self.gpm = gpm
        self._nvml = nvml
        self._handle = handle
        self._attempts = Attempts(wanted, name)
        self._fields = FieldReader(nvml)
        self._sums: dict[Key, float] = {}
        self._read_at: float | None = None

    def read(self, now: float, facts: Facts, parent: str = "") -> tuple[GpuReading, Counter[str]]:
        """Raises GpuLost and DriverGone."""
        elapsed = 0.0 if self._read_at is None else max(now - self._read_at, 0.0)
        self._read_at = now
        try:
            self.gpm.read(now)
            self._fields.read(self._handle, self._attempts.fields())
        except self._nvml.NVMLError as error:
            raise_for(error)
            raise
        context = Context(self._nvml, self._handle, self._fields, self.gpm, elapsed, self._sums)
        got = self._attempts.read(context)
        reading = GpuReading(
            uuid=facts.uuid,
            gpu=facts.index,
            up=True,
            values={key: value for key, value in got.values.items() if key[0] in METRICS},
            info=facts.info,
            parent=parent,
            findings=(*health.findings_of(got.values), *self._findings()),
            fields=self._attempts.statuses(),
            pids=frozenset(int(pid) for (name, _), pid in got.values.items() if name == readings.PROCESS),
        )
        return reading, got.failed

    def _findings(self) -> list[Finding]:
        in_use = [finding("gpu_activity_in_use")] if self.gpm.off == IN_USE else []
        return [*self._attempts.findings(), *in_use]


class Device:
    """`read` runs in one thread at a time, not always the same one. `monotonic` tells seconds."""

    def __init__(self, nvml: Any, handle: Any, facts: Facts, monotonic: Callable[[], float]) -> None:
        """Raises GpuLost and DriverGone."""
        self.facts = facts
        self.handle = handle
        self._nvml = nvml
        self._monotonic = monotonic
        self._links = _links(nvml, handle)
        self._no_activity = _no_activity(nvml, handle)
        self._can_split = True
        self._split = False
        self._whole = self._whole_unit()
        self._parts: dict[str, _Unit] = {}

    def read(self) -> DeviceReading:
        """Raises GpuLost and DriverGone."""
        if (split := self._is_split()) != self._split:
            # What a GPU does not have is so for its mode.
            self.close()
            self._split = split
            self._whole = self._whole_unit()
        now = self._monotonic()
        reading, failed = self._whole.read(now, self.facts)
        units = [reading]
        for instance in self._instances():
            part, failed_of_part = self._parts[instance.uuid].read(now, self._facts_of(instance), self.facts.uuid)
            units.append(part)
            failed += failed_of_part
        return DeviceReading(tuple(units), failed)

    def close(self) -> None:
        for unit in (self._whole, *self._parts.values()):
            unit.gpm.close()
        self._parts = {}

    def _whole_unit(self) -> _Unit:
        def take(sample: Any) -> None:
            self._nvml.nvmlGpmSampleGet(self.handle, sample)

        gpm = Gpm(self._nvml, take, readings.GPM_NUMBERS)
        if error := NOT_SUPPORTED if self._split else self._no_activity:
            gpm.stop(error)
        wanted = readings.of_gpu(self._links, split=self._split)
        return _Unit(self._nvml, self.handle, self.facts.uuid, wanted, gpm)

    def _is_split(self) -> bool:
        if not self._can_split:
            return False
        try:
            return mig.is_on(self._nvml, self.handle)
        except self._nvml.NVMLError as error:
            raise_for(error)
            self._can_split = not mig.is_never(error)
            return self._split

    def _instances(self) -> list[mig.Instance]:
        if not self._split:
            return []
        try:
            found = mig.instances(self._nvml, self.handle)
        except self._nvml.NVMLError as error:
            raise_for(error)
            return []
        parts = Counter(instance.gpu_instance for instance in found)
        for gone in set(self._parts) - {i.uuid for i in found}:
            self._parts.pop(gone).gpm.close()
        for instance in found:
            if instance.uuid not in self._parts:
                self._parts[instance.uuid] = self._part_unit(instance, alone=parts[instance.gpu_instance] == 1)
        return found

    def _part_unit(self, instance: mig.Instance, *, alone: bool) -> _Unit:
        """Activity is that of the GPU instance: said only of a MIG instance that has it to itself."""

        def take(sample: Any) -> None:
            self._nvml.nvmlGpmMigSampleGet(self.handle, instance.gpu_instance, sample)

        gpm = Gpm(self._nvml, take, readings.GPM_NUMBERS_OF_INSTANCES)
        if error := self._no_activity if alone else NOT_SUPPORTED:
            gpm.stop(error)
        return _Unit(self._nvml, instance.handle, instance.uuid, readings.OF_INSTANCES, gpm)

    def _facts_of(self, instance: mig.Instance) -> Facts:
        info = {**self.facts.info, "name": instance.name, "mig_profile": instance.profile}
        return Facts(instance.uuid, f"{self.facts.index}:{instance.number}", info)


def _links(nvml: Any, handle: Any) -> int:
    fields = FieldReader(nvml)
    try:
        fields.read(handle, [_LINK_COUNT])
        return int(fields.total([_LINK_COUNT]))
    except nvml.NVMLError as error:
        raise_for(error)
        return 0


def _no_activity(nvml: Any, handle: Any) -> int:
    """NVML's error, 0 where GPM can be used."""
    try:
        return 0 if is_supported(nvml, handle) else NOT_SUPPORTED
    except nvml.NVMLError as error:
        raise_for(error)
        return int(error.value)
