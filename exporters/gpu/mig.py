"""MIG: one GPU split into instances, each with memory and activity of its own, and nothing else of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from exporters.gpu.attempts import raise_for
from exporters.gpu.errors import Verdict, code_of

_PROFILE = re.compile(r"\bMIG (\S+)$")


@dataclass(frozen=True, slots=True)
class Instance:
    """`number` counts on its GPU; `gpu_instance` is what activity is measured of, and may hold several instances."""

    handle: Any
    uuid: str
    number: int
    gpu_instance: int
    name: str
    profile: str


def is_on(nvml: Any, handle: Any) -> bool:
    """Raises NVML's errors."""
    current, _pending = nvml.nvmlDeviceGetMigMode(handle)
    return bool(current)


def instances(nvml: Any, parent: Any) -> list[Instance]:
    """Those that there are now. Raises GpuLost, DriverGone, and NVML's errors where the list cannot be had."""
    found = (_instance(nvml, parent, i) for i in range(nvml.nvmlDeviceGetMaxMigDeviceCount(parent)))
    return [instance for instance in found if instance is not None]


def _instance(nvml: Any, parent: Any, number: int) -> Instance | None:
    try:
        handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, number)
        name = nvml.nvmlDeviceGetName(handle)
        uuid, part = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetGpuInstanceId(handle)
        return Instance(handle, uuid, number, part, name, _profile(nvml, handle, name))
    except nvml.NVMLError as error:
        raise_for(error)
        # Numbers have holes.
        return None


def _profile(nvml: Any, handle: Any, name: str) -> str:
    """`1g.10gb`: by the name, else by what the instance has."""
    if match := _PROFILE.search(name):
        return match[1]
    try:
        has = nvml.nvmlDeviceGetAttributes_v2(handle)
    except nvml.NVMLError as error:
        raise_for(error)
        return ""
    return f"{has.gpuInstanceSliceCount}g.{round(has.memorySizeMB / 1024)}gb"


def is_never(error: Any) -> bool:
    return code_of(error.value).verdict is Verdict.NEVER
