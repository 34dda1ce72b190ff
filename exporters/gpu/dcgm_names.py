"""The names of dcgm-exporter's page. A reading has had up to three: that of release 1 (lower case), that of DCGM 2 to
4, and the one that its catalogue gives now; value and unit are the same under each, whatever the name says.

Not here, since what they count cannot be told or is a rate: `…PCIE_…_BYTES`, `…NVLINK_BANDWIDTH_TOTAL` and its kin.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Name:
    """The first name that a page has counts; readings of one metric and label add up. `largest` is in the page's unit,
    for readings that cannot be larger."""

    metric: str
    names: tuple[str, ...]
    label: str = ""
    scale: float = 1.0
    largest: float | None = None


_MIB, _MHZ, _NS = 2.0**20, 1e6, 1e-9


def _dev(old: str, middle: str, new: str = "") -> tuple[str, ...]:
    names = (f"DCGM_FI_DEV_{new}" if new else "", f"DCGM_FI_DEV_{middle}", f"dcgm_{old}" if old else "")
    return tuple(name for name in names if name)


def _prof(middle: str, new: str) -> tuple[str, ...]:
    return f"DCGM_FI_PROF_{new}", f"DCGM_FI_PROF_{middle}", f"dcgm_fi_prof_{middle.lower()}"


def _throttled(reason: str, violation: str, nanoseconds: str = "") -> Name:
    names = _dev(f"{violation.lower()}_violation", f"{violation}_VIOLATION", nanoseconds)
    return Name("gpu_throttled_seconds_total", names, reason, _NS)


def _reason_ns(reason: str, name: str) -> Name:
    return Name("gpu_throttled_seconds_total", (f"DCGM_FI_DEV_CLOCKS_EVENT_REASON_{name}_NS",), reason, _NS)


NAMES = (
    Name("gpu_utilization_ratio", _dev("gpu_utilization", "GPU_UTIL", "GPU_UTIL_RATIO"), scale=0.01, largest=100),
    Name("gpu_memory_used_bytes", _dev("fb_used", "FB_USED"), scale=_MIB),
    Name("gpu_memory_total_bytes", _dev("fb_total", "FB_TOTAL"), scale=_MIB),
    Name("gpu_power_watts", _dev("power_usage", "POWER_USAGE", "BOARD_POWER_WATTS")),
    Name("gpu_power_limit_watts", _dev("enforced_power_limit", "ENFORCED_POWER_LIMIT",
                                       "BOARD_POWER_LIMIT_ENFORCED_WATTS")),
    Name("gpu_energy_joules_total", _dev("total_energy_consumption", "TOTAL_ENERGY_CONSUMPTION"), scale=1e-3),
    Name("gpu_temperature_celsius", _dev("gpu_temp", "GPU_TEMP", "GPU_TEMP_CELSIUS"), "core"),
    Name("gpu_temperature_celsius", _dev("memory_temp", "MEMORY_TEMP", "MEMORY_TEMP_CELSIUS"), "memory"),
    Name("gpu_clock_hertz", _dev("sm_clock", "SM_CLOCK"), "sm", _MHZ),
    Name("gpu_clock_hertz", _dev("memory_clock", "MEM_CLOCK"), "memory", _MHZ),
    Name("gpu_sm_active_ratio", _prof("SM_ACTIVE", "SM_UTIL_RATIO"), largest=1),
    Name("gpu_sm_occupancy_ratio", _prof("SM_OCCUPANCY", "SM_OCCUPANCY_RATIO"), largest=1),
    Name("gpu_tensor_active_ratio", _prof("PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO"), largest=1),
    Name("gpu_dram_active_ratio", _prof("DRAM_ACTIVE", "DRAM_UTIL_RATIO"), largest=1),
    _throttled("power", "POWER", "CLOCKS_EVENT_REASON_SW_POWER_CAP_NS"),
    _throttled("thermal", "THERMAL"),
    _throttled("sync_boost", "SYNC_BOOST", "CLOCKS_EVENT_REASON_SYNC_BOOST_NS"),
    _throttled("board_limit", "BOARD_LIMIT"),
    _throttled("reliability", "RELIABILITY"),
    _reason_ns("sw_thermal", "SW_THERM_SLOWDOWN"),
    _reason_ns("hw_thermal", "HW_THERM_SLOWDOWN"),
    _reason_ns("power_brake", "HW_POWER_BRAKE_SLOWDOWN"),
    Name("gpu_ecc_errors_total", _dev("ecc_sbe_volatile_total", "ECC_SBE_VOL_TOTAL"), "corrected"),
    Name("gpu_ecc_errors_total", _dev("ecc_dbe_volatile_total", "ECC_DBE_VOL_TOTAL"), "uncorrected"),
    Name("gpu_remapped_rows_total", _dev("", "CORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_CORRECTABLE_TOTAL"), "corrected"),
    Name("gpu_remapped_rows_total", _dev("", "UNCORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_UNCORRECTABLE_TOTAL"),
         "uncorrected"),
    Name("gpu_remapped_rows_total", _dev("", "ROW_REMAP_PENDING"), "pending"),
    Name("gpu_remapped_rows_total", _dev("", "ROW_REMAP_FAILURE", "ROW_REMAP_FAILED"), "failed"),
    Name("gpu_nvlink_errors_total", _dev("nvlink_replay_error_count_total", "NVLINK_REPLAY_ERROR_COUNT_TOTAL",
                                         "NVLINK_REPLAY_ERROR_TOTAL"), "replay"),
    Name("gpu_nvlink_errors_total", _dev("nvlink_recovery_error_count_total", "NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
                                         "NVLINK_RECOVERY_ERROR_TOTAL"), "recovery"),
    Name("gpu_nvlink_errors_total", _dev("nvlink_flit_crc_error_count_total", "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
                                         "NVLINK_CRC_FLIT_ERROR_TOTAL"), "crc"),
    Name("gpu_nvlink_errors_total", _dev("nvlink_data_crc_error_count_total", "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
                                         "NVLINK_CRC_DATA_ERROR_TOTAL"), "crc"),
)  # fmt: skip

FB_FREE = Name("gpu_memory_total_bytes", _dev("fb_free", "FB_FREE"), scale=_MIB)
FB_RESERVED = Name("gpu_memory_total_bytes", _dev("", "FB_RESERVED"), scale=_MIB)
XID = Name("gpu_xid_errors_total", _dev("xid_errors", "XID_ERRORS", "XID_ERROR"))
XID_COUNT = Name("gpu_xid_errors_total", ("DCGM_EXP_XID_ERRORS_COUNT",))

OF_INSTANCES = frozenset({
    "gpu_memory_used_bytes", "gpu_memory_total_bytes", "gpu_sm_active_ratio", "gpu_sm_occupancy_ratio",
    "gpu_tensor_active_ratio", "gpu_dram_active_ratio",
})  # fmt: skip
"""What an instance has of its own. The page repeats the whole GPU's other readings on each of its instances."""
NOT_OF_SPLIT = OF_INSTANCES | {"gpu_utilization_ratio"}
"""What a GPU that is split does not have as a whole."""
