"""Which alert tells of what is found wrong with a server or a GPU."""

from __future__ import annotations

from collections.abc import Mapping

from alerts.conditions.condition import Condition
from alerts.conditions.gpus import ECC, LOST, ROW_REMAP, UNHEALTHY, XID_HARDWARE
from alerts.conditions.servers import DOWN, METRICS_MISSING
from alerts.conditions.stuck import STUCK
from exporters.findings import GPU_KINDS, KINDS, Severity

_NOBODY_ANSWERS = ("connection_refused", "connect_failed", "protocol_error", "tls_error")
_OF_SERVERS: Mapping[str, tuple[Condition, ...]] = {
    **{reason: (METRICS_MISSING,) for reason, kind in KINDS.items() if kind.severity is Severity.ERROR},
    **dict.fromkeys(_NOBODY_ANSWERS, (DOWN,)),
    "timeout": (DOWN, METRICS_MISSING),
    "unhealthy": (STUCK,),
    "empty_body": (METRICS_MISSING,),
    "probe_failed": (STUCK,),
}
_OF_GPUS: Mapping[str, tuple[Condition, ...]] = {
    **{reason: (UNHEALTHY,) for reason, kind in GPU_KINDS.items() if kind.severity is Severity.ERROR},
    **dict.fromkeys(("gpu_no_driver", "gpu_driver_mismatch", "gpu_timeout", "gpu_lost"), (LOST, UNHEALTHY)),
    "gpu_ecc_uncorrected": (ECC,),
    "gpu_row_remap_failed": (ROW_REMAP,),
    "gpu_xid_hardware": (XID_HARDWARE,),
}
TOLD: Mapping[str, tuple[Condition, ...]] = {**_OF_SERVERS, **_OF_GPUS}
"""By reason: of all errors, and of warnings that lasting ones are told of. Of several the first that fits: a server
that does not answer at all is down; a GPU that was known is lost."""
