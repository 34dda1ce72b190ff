"""What NVML's error codes mean for the reading that got them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Verdict(Enum):
    NEVER = auto()
    """This way does not work with this GPU, mode and driver: another way, or never again."""
    DENIED = auto()
    """Dropped, and said once."""
    NOT_NOW = auto()
    """No value at the moment, and nothing is wrong."""
    FAILED = auto()
    """No value at the moment: counted, tried again."""
    LOST = auto()
    """The GPU is gone; the others are not."""
    OVER = auto()
    """The driver is gone: nothing answers any more until NVML is started again."""


@dataclass(frozen=True, slots=True)
class Code:
    """`finding` is there where the code itself tells of something to act on."""

    name: str
    verdict: Verdict
    meaning: str
    finding: str = ""


UNINITIALIZED, NOT_SUPPORTED, NO_DATA, IN_USE, FUNCTION_NOT_FOUND = 1, 3, 21, 19, 13
GPU_IS_LOST = 15

_NEVER, _DENIED, _NOT_NOW = Verdict.NEVER, Verdict.DENIED, Verdict.NOT_NOW
_FAILED, _LOST, _OVER = Verdict.FAILED, Verdict.LOST, Verdict.OVER

CODES: dict[int, Code] = {
    UNINITIALIZED: Code("uninitialized", _OVER, "NVML is not running", "gpu_no_driver"),
    2: Code("invalid_argument", _NEVER, "the driver does not know this reading"),
    NOT_SUPPORTED: Code("not_supported", _NEVER, "this GPU does not have it, or not in its present mode"),
    4: Code("no_permission", _DENIED, "this process may not read it", "gpu_no_permission"),
    6: Code("not_found", _NOT_NOW, "nothing there at the moment"),
    7: Code("insufficient_size", _NOT_NOW, "it grew while it was read"),
    8: Code("insufficient_power", _FAILED, "a power cable is not attached properly", "gpu_power_cable"),
    9: Code("driver_not_loaded", _OVER, "the driver is not loaded", "gpu_no_driver"),
    10: Code("timeout", _NOT_NOW, "nothing came in time"),
    11: Code("irq_issue", _FAILED, "the driver has trouble with this GPU's interrupts"),
    12: Code("library_not_found", _OVER, "the driver's library is not here", "gpu_no_driver"),
    FUNCTION_NOT_FOUND: Code("function_not_found", _NEVER, "the driver is too old for it", "gpu_old_driver"),
    14: Code("corrupted_inforom", _FAILED, "the GPU's own memory of facts is corrupted", "gpu_inforom_corrupted"),
    GPU_IS_LOST: Code("gpu_is_lost", _LOST, "the GPU is off the bus or does not answer", "gpu_lost"),
    16: Code("reset_required", _FAILED, "the GPU needs a reset", "gpu_reset_required"),
    17: Code("operating_system", _FAILED, "the operating system refused"),
    18: Code("version_mismatch", _OVER, "the driver's files and its loaded module differ", "gpu_driver_mismatch"),
    IN_USE: Code("in_use", _FAILED, "somebody else holds this counter"),
    20: Code("memory", _FAILED, "the driver was out of memory"),
    NO_DATA: Code("no_data", _NOT_NOW, "no sample yet"),
    22: Code("vgpu_ecc_not_supported", _NEVER, "not on a virtual GPU with ECC"),
    23: Code("insufficient_resources", _FAILED, "the driver was out of resources"),
    25: Code("version_of_argument", _NEVER, "the driver does not know this form of it"),
    26: Code("deprecated", _NEVER, "the driver no longer has it"),
    27: Code("not_ready", _NOT_NOW, "not ready yet"),
    28: Code("gpu_not_found", _LOST, "the GPU is not there any more", "gpu_lost"),
    29: Code("invalid_state", _NOT_NOW, "not in this state"),
    999: Code("unknown", _FAILED, "the driver does not say why"),
}

OTHER = Code("other", _FAILED, "an error that is not known here")
FAILURES = tuple(code.name for code in (*CODES.values(), OTHER) if code.verdict is _FAILED)


def code_of(number: int) -> Code:
    return CODES.get(number, OTHER)


class GpuLost(Exception):
    """This GPU does not answer any more."""


class DriverGone(Exception):
    """Nothing answers any more. `reason` is one of `findings.GPU_KINDS`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    @classmethod
    def by(cls, number: int) -> DriverGone:
        code = code_of(number)
        return cls(code.finding or "gpu_unreadable", f"NVML error {number}: {code.meaning}")
