"""GPUs made by hand: each condition that the page has to show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from exporters.findings import Finding, finding
from exporters.gpu.gathered import Gathered, GpuReading, observation_of
from exporters.gpu.ways import Key
from exporters.observation import FieldStatus

GIB = 2.0**30
H100 = {"name": "NVIDIA H100 80GB HBM3", "driver": "570.124.06"}


def key(metric: str, label: str = "") -> Key:
    return metric, label


WELL: Mapping[Key, float] = {
    key("gpu_utilization_ratio"): 0.93,
    key("gpu_sm_active_ratio"): 0.41,
    key("gpu_memory_used_bytes"): 71.2 * GIB,
    key("gpu_memory_total_bytes"): 79.6 * GIB,
    key("gpu_power_watts"): 642.25,
    key("gpu_power_limit_watts"): 700,
    key("gpu_temperature_celsius", "core"): 54,
    key("gpu_temperature_celsius", "memory"): 61,
    key("gpu_ecc_errors_total", "corrected"): 3,
    key("gpu_ecc_errors_total", "uncorrected"): 0,
}


def uuid(gpu: str) -> str:
    return f"GPU-{gpu}"


def reading(gpu: str, values: Mapping[Key, float] = WELL, **more: object) -> GpuReading:
    return replace(GpuReading(uuid(gpu), gpu, True, values, H100), **more)  # type: ignore[arg-type]


def lost(gpu: str, *why: Finding) -> GpuReading:
    return GpuReading(uuid(gpu), gpu, False, info=H100, findings=(finding("gpu_lost"), *why))


def instance(gpu: str, profile: str, values: Mapping[Key, float]) -> GpuReading:
    info = {"name": f"NVIDIA H100 80GB HBM3 MIG {profile}", "mig_profile": profile}
    return GpuReading(uuid(gpu), gpu, True, values, info, parent=uuid(gpu.partition(":")[0]))


def gathered(
    at: float,
    *readings: GpuReading,
    node: str = "gpu-07",
    on: Mapping[str, str] | None = None,
    findings: tuple[Finding, ...] = (),
    available: bool = True,
) -> Gathered:
    """`on` names the server that runs on a GPU."""
    servers = {gpu: {server: "process"} for gpu, server in (on or {}).items()}
    gpus = tuple(observation_of(node, at, each, servers.get(each.gpu, {})) for each in readings)
    return Gathered(at, available, gpus, findings)


def throttled(**seconds: float) -> dict[Key, float]:
    return {key("gpu_throttled_seconds_total", reason): counted for reason, counted in seconds.items()}


SPLIT = {name: value for name, value in WELL.items() if name[0].startswith(("gpu_power", "gpu_temp", "gpu_ecc"))}
PART = {key("gpu_memory_used_bytes"): 4.5 * GIB, key("gpu_memory_total_bytes"): 9.8 * GIB}
FALLEN = finding("gpu_xid_hardware", "XID 79: the GPU has fallen off the bus")
BAD_MEMORY = finding("gpu_ecc_uncorrected", "2 since the driver was loaded")
NO_POWER = FieldStatus("gpu_power_watts", "nvmlDeviceGetPowerUsage", "unavailable", "not permitted to this process")


def busy_host(at: float) -> tuple[Gathered, Gathered]:
    """Half a minute apart: one GPU well, one at its power limit, one lost, one split, one in all kinds of trouble."""
    without_power = {name: value for name, value in WELL.items() if name[0] != "gpu_power_watts"}

    def at_time(moment: float, power: float, heat: float, second: GpuReading) -> Gathered:
        return gathered(
            moment,
            reading("0"),
            reading("1", {**WELL, **throttled(power=power, hw_thermal=4)}),
            second,
            reading("3", SPLIT),
            instance("3:0", "1g.10gb", PART),
            instance("3:1", "2g.20gb", {**PART, key("gpu_sm_active_ratio"): 0.2}),
            reading("4", {**without_power, **throttled(hw_thermal=heat)}, findings=(BAD_MEMORY,), fields=(NO_POWER,)),
            on={"0": "chat-a", "1": "chat-a", "3:1": "unknown:8000"},
        )

    return at_time(at - 30, 10, 0, reading("2")), at_time(at, 25, 3, lost("2", FALLEN))


def bare_host(at: float, node: str = "cpu-1") -> Gathered:
    return gathered(at, node=node, findings=(finding("gpu_none", "libnvidia-ml.so.1 is not here"),), available=False)
