"""What is read of a GPU, and by which ways: all units are turned into the schema's here."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from exporters.gpu.fields import ALL_LINKS, Member
from exporters.gpu.health import FABRIC, FABRIC_STATUS, RECOVERY
from exporters.gpu.ways import Call, FieldSum, Rate, Reading, Sampled, Share, Value, Way

PROCESS = "process"
"""The reading that yields the process ids on a GPU; no metric."""

GPM_NUMBERS = (2, 3, 5, 10, 20, 21, 60, 61)
GPM_NUMBERS_OF_INSTANCES = (2, 3, 5, 10)

_NS = 1e-9
_KIB = 1024.0
_MHZ = 1e6


def _utilization(nvml: Any, handle: Any) -> Iterator[Value]:
    yield Value("gpu_utilization_ratio", nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)


def _memory_v2(nvml: Any, handle: Any) -> Iterator[Value]:
    """Some drivers count the reserved part into `used`, some do not: what is not free and not reserved is used."""
    memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    yield Value("gpu_memory_used_bytes", max(memory.total - memory.free - memory.reserved, 0))
    yield Value("gpu_memory_total_bytes", memory.total)


def _memory_v1(nvml: Any, handle: Any) -> Iterator[Value]:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    yield Value("gpu_memory_used_bytes", memory.used)
    yield Value("gpu_memory_total_bytes", memory.total)


def _power(nvml: Any, handle: Any) -> Iterator[Value]:
    yield Value("gpu_power_watts", nvml.nvmlDeviceGetPowerUsage(handle) / 1000)


def _power_limit(nvml: Any, handle: Any) -> Iterator[Value]:
    yield Value("gpu_power_limit_watts", nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000)


def _energy(nvml: Any, handle: Any) -> Iterator[Value]:
    yield Value("gpu_energy_joules_total", nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000)


def _temperature(nvml: Any, handle: Any) -> Iterator[Value]:
    yield Value("gpu_temperature_celsius", nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU), "core")


def _temperature_v(nvml: Any, handle: Any) -> Iterator[Value]:
    yield Value("gpu_temperature_celsius", nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU), "core")


def _ecc(nvml: Any, handle: Any) -> Iterator[Value]:
    for kind, number in (("corrected", 0), ("uncorrected", 1)):
        count = nvml.nvmlDeviceGetTotalEccErrors(handle, number, nvml.NVML_VOLATILE_ECC)
        yield Value("gpu_ecc_errors_total", count, kind)


def _remapped(nvml: Any, handle: Any) -> Iterator[Value]:
    kinds = ("corrected", "uncorrected", "pending", "failed")
    for kind, count in zip(kinds, nvml.nvmlDeviceGetRemappedRows(handle), strict=True):
        yield Value("gpu_remapped_rows_total", count, kind)


def _fabric(nvml: Any, handle: Any) -> Iterator[Value]:
    return _fabric_of(nvml, handle, nvml.c_nvmlGpuFabricInfo_v3_t())


def _fabric_v2(nvml: Any, handle: Any) -> Iterator[Value]:
    return _fabric_of(nvml, handle, nvml.c_nvmlGpuFabricInfo_v2_t())


def _fabric_of(nvml: Any, handle: Any, info: Any) -> Iterator[Value]:
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    yield Value(FABRIC, info.state)
    yield Value(FABRIC_STATUS, info.status)


def _processes(name: str) -> Call:
    def read(nvml: Any, handle: Any) -> Iterator[Value]:
        for process in getattr(nvml, name)(handle):
            yield Value(PROCESS, process.pid, str(process.pid))

    return Call(name, read)


def _clock(domain: str, number: int) -> Reading:
    def read(nvml: Any, handle: Any) -> Iterator[Value]:
        yield Value("gpu_clock_hertz", nvml.nvmlDeviceGetClockInfo(handle, number) * _MHZ, domain)

    return Reading("gpu_clock_hertz", (Call("nvmlDeviceGetClockInfo", read),), domain)


def _throttled(reason: str, field: int, *, policy: int | None = None, bit: int | None = None) -> Reading:
    """The driver's own count of nanoseconds where it has one; else what each reading finds, summed up."""
    ways: list[Way] = [FieldSum("gpu_throttled_seconds_total", (Member(field),), reason, _NS)]
    if policy is not None:

        def read(nvml: Any, handle: Any) -> Iterator[Value]:
            status = nvml.nvmlDeviceGetViolationStatus(handle, policy)
            yield Value("gpu_throttled_seconds_total", status.violationTime * _NS, reason)

        ways.append(Call("nvmlDeviceGetViolationStatus", read))
    if bit is not None:
        ways.append(Sampled("gpu_throttled_seconds_total", reason, bit))
    return Reading("gpu_throttled_seconds_total", tuple(ways), reason)


def _pcie(direction: str, field: int, gpm: int) -> Reading:
    """Never `nvmlDeviceGetPcieThroughput`: it blocks for 20 ms, and says nothing of the rest of the time."""
    metric = "gpu_pcie_bytes_total"
    return Reading(
        metric, (FieldSum(metric, (Member(field),), direction, wide=True), Rate(metric, direction, gpm)), direction
    )


def _nvlink(direction: str, field: int, gpm: int, links: int) -> Reading:
    metric = "gpu_nvlink_bytes_total"
    each = tuple(Member(field, link) for link in range(links))
    ways: tuple[Way, ...] = (
        FieldSum(metric, (Member(field, ALL_LINKS),), direction, _KIB),
        FieldSum(metric, each, direction, _KIB),
        Rate(metric, direction, gpm),
    )
    return Reading(metric, ways, direction)


def _nvlink_errors(kind: str, field: int, links: int) -> Reading:
    metric = "gpu_nvlink_errors_total"
    each = tuple(Member(field, link) for link in range(links))
    return Reading(metric, (FieldSum(metric, each, kind),), kind)


def _single(metric: str, source: str, function: Any) -> Reading:
    return Reading(metric, (Call(source, function),))


_MEMORY = Reading(
    "gpu_memory_used_bytes",
    (Call("nvmlDeviceGetMemoryInfo_v2", _memory_v2), Call("nvmlDeviceGetMemoryInfo", _memory_v1)),
)

_ACTIVITY = tuple(
    Reading(metric, (Share(metric, number),))
    for metric, number in (
        ("gpu_sm_active_ratio", 2),
        ("gpu_sm_occupancy_ratio", 3),
        ("gpu_tensor_active_ratio", 5),
        ("gpu_dram_active_ratio", 10),
    )
)

_PROCESSES = (
    Reading(PROCESS, (
        _processes("nvmlDeviceGetComputeRunningProcesses_v3"), _processes("nvmlDeviceGetComputeRunningProcesses_v2"),
    )),
    Reading(PROCESS, (_processes("nvmlDeviceGetMPSComputeRunningProcesses_v3"),), "mps"),
)  # fmt: skip

OF_INSTANCES = (_MEMORY, *_ACTIVITY, *_PROCESSES)

_AGGREGATES = (_single("gpu_utilization_ratio", "nvmlDeviceGetUtilizationRates", _utilization), *OF_INSTANCES)
"""What only instances have where a GPU is split into them: the sum would count it twice."""

_WHOLE = (
    _single("gpu_power_watts", "nvmlDeviceGetPowerUsage", _power),
    _single("gpu_power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", _power_limit),
    Reading("gpu_energy_joules_total", (
        Call("nvmlDeviceGetTotalEnergyConsumption", _energy),
        FieldSum("gpu_energy_joules_total", (Member(83),), scale=1e-3),
    )),
    Reading("gpu_temperature_celsius", (
        Call("nvmlDeviceGetTemperature", _temperature), Call("nvmlDeviceGetTemperatureV", _temperature_v),
    ), "core"),
    Reading("gpu_temperature_celsius", (FieldSum("gpu_temperature_celsius", (Member(82),), "memory"),), "memory"),
    _clock("sm", 1),
    _clock("memory", 2),
    _clock("graphics", 0),
    _throttled("power", 74, policy=0, bit=0x4),
    _throttled("thermal", 75, policy=1),
    _throttled("sync_boost", 76, policy=2, bit=0x10),
    _throttled("board_limit", 77, policy=3),
    _throttled("reliability", 79, policy=5),
    _throttled("sw_thermal", 269, bit=0x20),
    _throttled("hw_thermal", 270, bit=0x40),
    _throttled("power_brake", 271, bit=0x80),
    _single("gpu_ecc_errors_total", "nvmlDeviceGetTotalEccErrors", _ecc),
    _single("gpu_remapped_rows_total", "nvmlDeviceGetRemappedRows", _remapped),
    _pcie("tx", 197, 20),
    _pcie("rx", 198, 21),
    Reading(RECOVERY, (FieldSum(RECOVERY, (Member(230),)),)),
    Reading(FABRIC, (Call("nvmlDeviceGetGpuFabricInfoV", _fabric), Call("nvmlDeviceGetGpuFabricInfoV", _fabric_v2))),
)  # fmt: skip


def of_gpu(links: int, *, split: bool) -> tuple[Reading, ...]:
    """`links`: how many NVLinks it has; `split`: whether MIG is on."""
    linked = () if links == 0 else (
        _nvlink("tx", 138, 61, links),
        _nvlink("rx", 139, 60, links),
        _nvlink_errors("replay", 161, links),
        _nvlink_errors("recovery", 162, links),
        _nvlink_errors("crc", 163, links),
    )  # fmt: skip
    return (*(() if split else _AGGREGATES), *_WHOLE, *linked)
