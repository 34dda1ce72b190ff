"""What one collection of a host's GPUs comes to, whichever source it is read from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from exporters.findings import Finding
from exporters.gpu.observation import GpuObservation
from exporters.gpu.ways import Key
from exporters.observation import FieldStatus, Series, labels
from exporters.schema import METRICS

_DOMAIN = re.compile(r"^0*([0-9a-f]{4}:)")


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU or MIG instance at one moment; nothing of its host and of servers yet.

    `gpu` is its number on this host, `info` what `gpu_info` tells, `parent` the uuid of the GPU that an instance is
    part of. `xids` is None where nobody watches for them.
    """

    uuid: str
    gpu: str
    up: bool
    values: Mapping[Key, float] = field(default_factory=dict)
    info: Mapping[str, str] = field(default_factory=dict)
    parent: str = ""
    xids: Mapping[int, int] | None = None
    findings: tuple[Finding, ...] = ()
    fields: tuple[FieldStatus, ...] = ()
    pids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Gathered:
    """`available` is False where no GPU could be asked, with a finding why; `findings` are those of the host as a
    whole, `failed` counts errors by name, `dropped` samples by reason."""

    at: float
    available: bool
    gpus: tuple[GpuObservation, ...] = ()
    findings: tuple[Finding, ...] = ()
    failed: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    duration: float = 0.0


def observation_of(node: str, at: float, reading: GpuReading, servers: Mapping[str, str]) -> GpuObservation:
    """`servers`: how it is known of each server that it runs on this GPU."""
    identity = {"node": node, "uuid": reading.uuid, "gpu": reading.gpu}

    def series(metric: str, **more: str) -> Series:
        return Series(metric, labels({**identity, **more}))

    values = {series("gpu_up"): float(reading.up)}
    if reading.info:
        values[series("gpu_info", **reading.info, parent=reading.parent)] = 1.0
    for server, source in servers.items():
        values[series("gpu_server_info", server=server, source=source)] = 1.0
    for (metric, label), value in reading.values.items():
        values[series(metric, **_own_label(metric, label))] = value
    for xid, count in (reading.xids or {}).items():
        values[series("gpu_xid_errors_total", xid=str(xid))] = float(count)
    return GpuObservation(
        node, reading.uuid, reading.gpu, at, reading.up, values, reading.parent, reading.findings, reading.fields
    )


def pci_address(bus_id: str) -> str:
    """As the kernel writes it: NVML's domain has eight digits."""
    return _DOMAIN.sub(r"\1", bus_id.lower())


def _own_label(metric: str, value: str) -> dict[str, str]:
    return {METRICS[metric].labels[0]: value} if value else {}
