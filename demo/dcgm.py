"""The page of a dcgm-exporter 3.3 whose GPUs are simulated: H100 SXM5 with 80 GB.

Its counters are the default ones and those that docs/gpus.md names. It does not tell which server runs on a GPU:
outside Kubernetes, dcgm-exporter cannot.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import NamedTuple

from demo.model import Answer

_DRIVER = "570.124.06"
_MODEL = "NVIDIA H100 80GB HBM3"
_BUSES = ("1B", "43", "52", "61", "9D", "C3", "D1", "DF")
_SPACE = uuid.UUID("5f0e6f2a-6f63-4a0b-9a5e-1d1f0c7c2a10")

_TOTAL_MIB, _RESERVED_MIB = 81_559, 551
POWER_LIMIT_WATTS = 700.0
_IDLE_WATTS, _IDLE_STEP = 76.0, 5.0
_IDLE_MHZ, _BOOST_MHZ, _HOT_MHZ, _MEMORY_MHZ = 345, 1980, 1095, 2619
_HOT_SHARE = _HOT_MHZ / _BOOST_MHZ
_ROOM_CELSIUS, _CELSIUS_PER_WATT, _HOT_CELSIUS = 30.0, 0.052, 38.0
_THERMAL_SECONDS = 45.0
_XID_WINDOW = 300.0

_SNIFFED = "text/plain; charset=utf-8"
_INDEX = b'<html><head><title>GPU Exporter</title></head><body><a href="./metrics">Metrics</a></body></html>'
_OTHERS = {
    "/": Answer(200, "text/html; charset=utf-8", _INDEX),
    "/health": Answer(200, _SNIFFED, b"KO"),  # that is what a healthy one says
}
_NOT_FOUND = Answer(404, _SNIFFED, b"404 page not found\n")


class Load(NamedTuple):
    """What a GPU did since it was asked before: the share of time with work, and how full the batch was meanwhile."""

    busy: float
    batch: float


_IDLE = Load(0.0, 0.0)


@dataclass(slots=True)
class Gpu:
    """A GPU, and what is wrong with it: whoever brings a fault changes the attributes below `used_mib`."""

    number: int
    uuid: str
    pci_bus_id: str
    used_mib: int
    """Taken by a server at its start."""

    is_lost: bool = False
    is_hot: bool = False
    """Too hot: the driver holds its clocks down."""
    ecc_corrected: int = 0
    ecc_uncorrected: int = 0
    rows_corrected: int = 0
    rows_uncorrected: int = 0
    is_remap_pending: bool = False
    has_remap_failed: bool = False
    link_crc_errors: int = 0
    link_replays: int = 0
    link_recoveries: int = 0
    xids: list[tuple[float, int]] = field(default_factory=list)
    """(when, number)."""

    load: Load = _IDLE
    watts: float = field(init=False)
    joules: float = 0.0
    celsius: float = field(init=False)
    power_held_seconds: float = 0.0
    heat_held_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.watts = _watts(self.number, _IDLE, is_hot=False)
        self.celsius = _settled(self.watts, is_hot=False)

    def report_xid(self, number: int, now: float) -> None:
        self.xids.append((now, number))

    def work(self, load: Load, seconds: float) -> None:
        """`seconds` with this load: power is its mean over them, and energy their product."""
        self.load = load
        self.watts = _watts(self.number, load, self.is_hot)
        self.joules += self.watts * seconds
        goal = _settled(self.watts, self.is_hot)
        self.celsius = goal + (self.celsius - goal) * exp(-seconds / _THERMAL_SECONDS)
        if self.is_hot:
            self.heat_held_seconds += seconds
        elif self.watts > 0.97 * POWER_LIMIT_WATTS:
            self.power_held_seconds += seconds


def _watts(number: int, load: Load, is_hot: bool) -> float:
    """Decoding for one user already takes nearly half of what a full batch takes on top of the idle GPU."""
    idle = _IDLE_WATTS + _IDLE_STEP * (number % 8)
    return idle + (POWER_LIMIT_WATTS - idle) * load.busy * (0.45 + 0.55 * load.batch) * (_HOT_SHARE if is_hot else 1.0)


def _settled(watts: float, is_hot: bool) -> float:
    """The temperature that it comes to."""
    return _ROOM_CELSIUS + _CELSIUS_PER_WATT * watts + (_HOT_CELSIUS if is_hot else 0.0)


def _clock(gpu: Gpu) -> int:
    if gpu.is_hot:
        return _HOT_MHZ
    return _BOOST_MHZ if gpu.load.busy > 0 else _IDLE_MHZ


def _dram(gpu: Gpu) -> float:
    """Weights are read in each step, however few requests it is for."""
    return gpu.load.busy * (0.55 + 0.25 * gpu.load.batch)


def _sm(gpu: Gpu) -> float:
    return gpu.load.busy * (0.5 + 0.4 * gpu.load.batch)


def _tensor(gpu: Gpu) -> float:
    return gpu.load.busy * (0.03 + 0.42 * gpu.load.batch)


def _last_xid(gpu: Gpu) -> int:
    return gpu.xids[-1][1] if gpu.xids else 0


def _zero(_: Gpu) -> int:
    return 0


Reading = Callable[[Gpu], float]


class _Counter(NamedTuple):
    name: str
    kind: str
    read: Reading


def _device(kind: str, **by_name: Reading) -> list[_Counter]:
    return [_Counter(f"DCGM_FI_DEV_{name}", kind, read) for name, read in by_name.items()]


def _activity(**by_name: Reading) -> list[_Counter]:
    return [_Counter(f"DCGM_FI_PROF_{name}", "gauge", read) for name, read in by_name.items()]


_COUNTERS: Sequence[_Counter] = (
    *_device("gauge", SM_CLOCK=_clock, MEM_CLOCK=lambda _: _MEMORY_MHZ),
    *_device("gauge", MEMORY_TEMP=lambda g: round(g.celsius + 8 + 6 * _dram(g)), GPU_TEMP=lambda g: round(g.celsius)),
    *_device("gauge", POWER_USAGE=lambda g: float(g.watts), ENFORCED_POWER_LIMIT=lambda _: POWER_LIMIT_WATTS),
    *_device("counter", TOTAL_ENERGY_CONSUMPTION=lambda g: int(g.joules * 1000), PCIE_REPLAY_COUNTER=_zero),
    *_device("gauge", GPU_UTIL=lambda g: round(100 * g.load.busy), MEM_COPY_UTIL=lambda g: round(100 * _dram(g)),
             ENC_UTIL=_zero, DEC_UTIL=_zero, XID_ERRORS=_last_xid),
    *_device("counter", POWER_VIOLATION=lambda g: int(g.power_held_seconds * 1e9),
             THERMAL_VIOLATION=lambda g: int(g.heat_held_seconds * 1e9), SYNC_BOOST_VIOLATION=_zero,
             BOARD_LIMIT_VIOLATION=_zero, LOW_UTIL_VIOLATION=_zero, RELIABILITY_VIOLATION=_zero),
    *_device("gauge", FB_FREE=lambda g: _TOTAL_MIB - _RESERVED_MIB - g.used_mib, FB_USED=lambda g: g.used_mib,
             FB_RESERVED=lambda _: _RESERVED_MIB),
    *_device("counter", ECC_SBE_VOL_TOTAL=lambda g: g.ecc_corrected, ECC_DBE_VOL_TOTAL=lambda g: g.ecc_uncorrected,
             ECC_SBE_AGG_TOTAL=lambda g: g.ecc_corrected, ECC_DBE_AGG_TOTAL=lambda g: g.ecc_uncorrected,
             NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL=lambda g: g.link_crc_errors, NVLINK_CRC_DATA_ERROR_COUNT_TOTAL=_zero,
             NVLINK_REPLAY_ERROR_COUNT_TOTAL=lambda g: g.link_replays,
             NVLINK_RECOVERY_ERROR_COUNT_TOTAL=lambda g: g.link_recoveries,
             NVLINK_BANDWIDTH_TOTAL=lambda g: round(90_000 * _sm(g))),  # in MB/s, whatever it is declared to be
    *_device("gauge", VGPU_LICENSE_STATUS=_zero),
    *_device("counter", UNCORRECTABLE_REMAPPED_ROWS=lambda g: g.rows_uncorrected,
             CORRECTABLE_REMAPPED_ROWS=lambda g: g.rows_corrected),
    *_device("gauge", ROW_REMAP_FAILURE=lambda g: int(g.has_remap_failed),
             ROW_REMAP_PENDING=lambda g: int(g.is_remap_pending)),
    *_activity(GR_ENGINE_ACTIVE=lambda g: float(g.load.busy), SM_ACTIVE=_sm, SM_OCCUPANCY=lambda g: 0.3 * _sm(g),
               PIPE_TENSOR_ACTIVE=_tensor, DRAM_ACTIVE=_dram,
               PCIE_TX_BYTES=lambda g: round(4e7 * g.load.busy), PCIE_RX_BYTES=lambda g: round(2.2e8 * g.load.busy)),
)  # fmt: skip
_XID_COUNT = "DCGM_EXP_XID_ERRORS_COUNT"


class DcgmExporter:
    """`used_mib` of each GPU, in their order. `load(gpu, now)` is asked once for each reading of each GPU.

    The page is read anew when it is asked for, but not within `every` seconds.
    """

    def __init__(
        self, node: str, used_mib: Iterable[int], load: Callable[[int, float], Load], started: float, every: float = 1.0
    ) -> None:
        self.gpus = [_gpu(node, number, used) for number, used in enumerate(used_mib)]
        self._load = load
        self._every = every
        self._read_at = [started] * len(self.gpus)
        self._labels = [_labels(node, gpu) for gpu in self.gpus]
        self._lines = [self._heads(counter.name) for counter in _COUNTERS]

    def answer(self, path: str, now: float) -> Answer:
        if path == "/metrics":
            return Answer(200, _SNIFFED, self.text(now).encode())
        return _OTHERS.get(path, _NOT_FOUND)

    def text(self, now: float) -> str:
        for gpu in self.gpus:
            self._read(gpu, now)
        here = [gpu for gpu in self.gpus if not gpu.is_lost]
        if not here:
            return ""
        families = [_family(c, lines, here) for c, lines in zip(_COUNTERS, self._lines, strict=True)]
        return "".join([*families, _head(_XID_COUNT, "gauge"), *(self._xids_lately(gpu, now) for gpu in here)])

    def _read(self, gpu: Gpu, now: float) -> None:
        """A lost GPU takes no power that anybody knows of; its load is asked for all the same, so that it is no later
        reading's."""
        seconds = now - self._read_at[gpu.number]
        if seconds >= self._every:
            self._read_at[gpu.number] = now
            load = self._load(gpu.number, now)
            if not gpu.is_lost:
                gpu.work(load, seconds)

    def _heads(self, name: str) -> list[str]:
        return [f"{name}{{{labels}}} " for labels in self._labels]

    def _xids_lately(self, gpu: Gpu, now: float) -> str:
        lately = [number for when, number in gpu.xids if now - _XID_WINDOW < when <= now]
        head = f'{_XID_COUNT}{{{self._labels[gpu.number]},window_size_in_ms="{_XID_WINDOW * 1000:.0f}"'
        lines = [f'{head},xid="{number}"}} {lately.count(number)}\n' for number in sorted(set(lately))]
        return "".join(lines) or f"{head}}} 0\n"


def _gpu(node: str, number: int, used_mib: int) -> Gpu:
    bus = f"{number // len(_BUSES):08X}:{_BUSES[number % len(_BUSES)]}:00.0"
    return Gpu(number, f"GPU-{uuid.uuid5(_SPACE, f'{node}/{number}')}", bus, used_mib)


def _labels(node: str, gpu: Gpu) -> str:
    pairs = {
        "gpu": gpu.number, "UUID": gpu.uuid, "pci_bus_id": gpu.pci_bus_id, "device": f"nvidia{gpu.number}",
        "modelName": _MODEL, "Hostname": node, "DCGM_FI_DRIVER_VERSION": _DRIVER,
    }  # fmt: skip
    return ",".join(f'{name}="{value}"' for name, value in pairs.items())


def _family(counter: _Counter, lines: Sequence[str], gpus: Iterable[Gpu]) -> str:
    rows = [f"{lines[gpu.number]}{_number(counter.read(gpu))}\n" for gpu in gpus]
    return "".join([_head(counter.name, counter.kind), *rows])


def _head(name: str, kind: str) -> str:
    return f"# HELP {name} {name}\n# TYPE {name} {kind}\n"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6f}"
