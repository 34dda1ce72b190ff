"""A lost GPU as the cause of what is wrong with a server: the alert of the one holds back that of the other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from alerts.alertmanager import INHIBITIONS
from alerts.conditions.gpus import LOST
from alerts.conditions.servers import DOWN
from monitor.fleet import ServerRow
from monitor.gpus import GpuRow

HELD = frozenset(name for each in INHIBITIONS if each.cause == LOST.name for name in each.held)
_OF_UP = HELD - {DOWN.name}
"""Those that may be true of a server that answers."""


def cause(row: ServerRow, alerts: Collection[str], gpus: Iterable[GpuRow]) -> str:
    """Why it is down or stuck; empty where no GPU of its node is lost, or only such as other servers ran on. That it is
    down fires for a while after it is up again, which then says nothing."""
    if row.up and not _OF_UP & set(alerts):
        return ""
    lost = [gpu for gpu in gpus if gpu.node == row.node and _is_lost(gpu)]
    if own := [gpu for gpu in lost if row.server in gpu.last_servers]:
        return _told(own, "", "this server was on {}")
    unknown = [gpu for gpu in lost if not gpu.last_servers and gpu.parent is None]
    return _told(unknown, " of this node", "which servers were on {} is not known") if unknown else ""


def _told(gpus: Sequence[GpuRow], where: str, whose: str) -> str:
    numbers = [gpu.gpu for gpu in gpus]
    if len(numbers) == 1:
        return f"GPU {numbers[0]}{where} is lost, and {whose.format('it')}."
    listed = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
    return f"GPUs {listed}{where} are lost, and {whose.format('them')}."


def _is_lost(gpu: GpuRow) -> bool:
    """One of a host that is silent is merely not known to be up."""
    return not gpu.up and all(found.reason != "no_observation" for found in gpu.findings)
