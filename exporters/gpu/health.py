"""What is wrong with a GPU by its own account."""

from __future__ import annotations

from collections.abc import Mapping

from exporters.findings import Finding, finding
from exporters.gpu.ways import Key

RECOVERY, FABRIC, FABRIC_STATUS = "recovery_action", "fabric_state", "fabric_status"
"""Readings that are told by findings and are no metrics."""

_ACTIONS = {
    1: "reset the GPU", 2: "reboot the node", 3: "drain peer-to-peer traffic", 4: "drain the GPU and reset it",
    5: "recover the IMEX domain", 6: "reset the bus", 7: "reboot the system",
}  # fmt: skip
_FABRIC_STATES = {1: "not started", 2: "in progress"}
_FABRIC_COMPLETED = 3


def findings_of(values: Mapping[Key, float]) -> list[Finding]:
    found = []
    if (count := values.get(("gpu_ecc_errors_total", "uncorrected"), 0)) > 0:
        found.append(finding("gpu_ecc_uncorrected", f"{count:.0f} since the driver was loaded"))
    rows = (kind for kind in ("failed", "pending") if values.get(("gpu_remapped_rows_total", kind), 0) > 0)
    found += [finding(f"gpu_row_remap_{kind}") for kind in rows]
    if action := values.get((RECOVERY, ""), 0):
        found.append(finding("gpu_recovery_needed", _ACTIONS.get(int(action), f"action {action:.0f}")))
    if trouble := _fabric(values.get((FABRIC, ""), 0), values.get((FABRIC_STATUS, ""), 0)):
        found.append(finding("gpu_fabric_not_ready", trouble))
    return found


def _fabric(state: float, status: float) -> str:
    if state == _FABRIC_COMPLETED:
        return f"completed with error {status:.0f}" if status else ""
    return _FABRIC_STATES.get(int(state), "")
