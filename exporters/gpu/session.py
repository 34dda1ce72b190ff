"""NVML from its start to its shutdown: the GPUs that it found, and those that it could not open."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from exporters.gpu import binding
from exporters.gpu.attempts import raise_for
from exporters.gpu.away import Unopened
from exporters.gpu.device import Device, Facts
from exporters.gpu.errors import GPU_IS_LOST, DriverGone, GpuLost, code_of
from exporters.gpu.events import Events
from exporters.gpu.gathered import pci_address
from exporters.gpu.xids import XidCounts

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Session:
    nvml: Any
    devices: dict[str, Device]
    unopened: tuple[Unopened, ...]
    events: Events

    def close(self) -> bool:
        """False where a call hangs: then NVML is left as it is. Nobody may be reading a GPU."""
        if not self.events.stop():
            return False
        for device in self.devices.values():
            with suppress(self.nvml.NVMLError):
                device.close()
        _shut_down(self.nvml)
        return True


def start(counts: XidCounts, *, clock: Callable[[], float], monotonic: Callable[[], float]) -> Session:
    """Raises DriverGone where there is nothing to read."""
    nvml = binding.load()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise DriverGone.by(error.value) from error
    try:
        return _found(nvml, counts, clock, monotonic)
    except (GpuLost, nvml.NVMLError) as error:
        _shut_down(nvml)
        raise DriverGone("gpu_unreadable", str(error.__cause__ or error)) from error
    except DriverGone:
        _shut_down(nvml)
        raise


def _found(nvml: Any, counts: XidCounts, clock: Callable[[], float], monotonic: Callable[[], float]) -> Session:
    driver = _driver(nvml)
    devices: dict[str, Device] = {}
    unopened: list[Unopened] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        uuid = ""
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = str(nvml.nvmlDeviceGetUUID(handle))
            devices[uuid] = Device(nvml, handle, _facts(nvml, handle, uuid, index, driver), monotonic)
        except GpuLost:
            unopened.append(Unopened(index, code_of(GPU_IS_LOST), uuid))
        except nvml.NVMLError as error:
            unopened.append(Unopened(index, code_of(error.value), uuid))
    events = Events(nvml, counts, clock)
    events.start(devices.values())
    return Session(nvml, devices, tuple(unopened), events)


def _driver(nvml: Any) -> dict[str, str]:
    info = {"driver": str(nvml.nvmlSystemGetDriverVersion())}
    cuda = _optional(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
    return info | ({"cuda": f"{cuda // 1000}.{cuda % 1000 // 10}"} if cuda else {})


def _facts(nvml: Any, handle: Any, uuid: str, index: int, driver: dict[str, str]) -> Facts:
    pci = _optional(nvml, nvml.nvmlDeviceGetPciInfo_v3, handle)
    info = {
        "name": _optional(nvml, nvml.nvmlDeviceGetName, handle),
        "serial": _optional(nvml, nvml.nvmlDeviceGetSerial, handle),
        "pci_bus_id": None if pci is None else pci_address(str(pci.busId)),
    }
    return Facts(uuid, str(index), {**driver, **{k: str(v) for k, v in info.items() if v}})


def _optional(nvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """None where the driver or the GPU does not have it."""
    try:
        return function(*arguments)
    except nvml.NVMLError as error:
        raise_for(error)
        return None


def _shut_down(nvml: Any) -> None:
    try:
        nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        _log.info("gpu: NVML did not shut down: %s", code_of(error.value).meaning)
