"""XIDs, the driver's error numbers: which of them speak of the hardware, and which of the program that ran."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from exporters.findings import Finding, finding

FINDING_SECONDS = 300.0
"""How long an XID is a finding; its counter keeps it."""


class Class(StrEnum):
    HARDWARE = "gpu_xid_hardware"
    RECOVERED = "gpu_xid_recovered"
    APPLICATION = "gpu_xid_application"
    OTHER = "gpu_xid_other"


@dataclass(frozen=True, slots=True)
class Xid:
    kind: Class
    meaning: str


_H, _R, _A = Class.HARDWARE, Class.RECOVERED, Class.APPLICATION

# Numbers and meanings: NVIDIA's "XID Errors"; which of them condemn the hardware: as DCGM's health watches do.
XIDS: dict[int, Xid] = {
    13: Xid(_A, "exception in a kernel, e.g. an index out of bounds"),
    31: Xid(_A, "memory page fault: an access to an address that is not mapped"),
    43: Xid(_A, "the program's work was stopped"),
    45: Xid(_A, "the program's channels were cleaned up, after an earlier error or at its end"),
    48: Xid(_H, "double-bit ECC error"),
    61: Xid(_R, "internal microcontroller warning"),
    62: Xid(_H, "internal microcontroller halted"),
    63: Xid(_R, "a memory row was marked for remapping"),
    64: Xid(_H, "a memory row could not be remapped"),
    74: Xid(_H, "NVLink error"),
    79: Xid(_H, "the GPU has fallen off the bus"),
    92: Xid(_R, "many single-bit ECC errors"),
    94: Xid(_R, "uncorrected ECC error, contained: only the program it hit must restart"),
    95: Xid(_H, "uncorrected ECC error, not contained"),
    119: Xid(_H, "the GPU's system processor did not answer"),
    120: Xid(_H, "the GPU's system processor failed"),
    140: Xid(_H, "unrecovered ECC error"),
    143: Xid(_H, "the GPU could not be initialised"),
}
"""Those whose counters start at 0 on every GPU that is watched, so that the first event is an increase."""

_UNKNOWN = Xid(Class.OTHER, "see NVIDIA's list of XID errors")


def known(number: int) -> Xid:
    return XIDS.get(number, _UNKNOWN)


class XidCounts:
    """XIDs by GPU, for as long as this process runs; counted in one thread and read in others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[int]] = {}
        self._last: defaultdict[str, dict[int, float]] = defaultdict(dict)

    def watch(self, uuid: str) -> None:
        with self._lock:
            self._counts.setdefault(uuid, Counter(dict.fromkeys(XIDS, 0)))

    def add(self, uuid: str, xid: int, at: float, times: int = 1) -> None:
        self.watch(uuid)
        with self._lock:
            self._counts[uuid][xid] += times
            self._last[uuid][xid] = at

    def of(self, uuid: str) -> Mapping[int, int] | None:
        """None while nobody watches this GPU's events."""
        with self._lock:
            counts = self._counts.get(uuid)
            return None if counts is None else dict(counts)

    def findings(self, uuid: str, now: float) -> list[Finding]:
        """One for each class that had an event of late."""
        with self._lock:
            recent = {xid: at for xid, at in self._last[uuid].items() if now - at < FINDING_SECONDS}
        by_kind: defaultdict[Class, list[str]] = defaultdict(list)
        for xid in sorted(recent):
            by_kind[known(xid).kind].append(f"XID {xid}: {known(xid).meaning}")
        return [finding(kind.value, "; ".join(told)) for kind, told in by_kind.items()]
