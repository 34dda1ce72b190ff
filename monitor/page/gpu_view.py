"""The strip of GPUs, grouped by node, ready to be put into HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from monitor.fleet import ServerRow
from monitor.gpus import GpuHost, GpuRow
from monitor.page import quantities
from monitor.page.condition import Condition, worst_first
from monitor.page.figures import Figure
from monitor.page.fleet_view import server_path
from monitor.page.trends import Trend, Trends
from monitor.remarks import FindingOut

NOT_IDLE = "share of time in which any kernel ran: it says “not idle”, never “how full”"
_GIB = 2**30
_XID = re.compile(r"\bXID ([0-9]+)")
_USUAL_THROTTLING = ("power", "sync_boost")
"""Full load does this to a healthy GPU."""
_WORDS = {
    "gpu_lost": "lost",
    "gpu_timeout": "does not answer",
    "no_observation": "silent",
    "gpu_reset_required": "needs a reset",
    "gpu_recovery_needed": "needs recovery",
    "gpu_power_cable": "power cable",
    "gpu_fabric_not_ready": "NVLink fabric",
    "gpu_inforom_corrupted": "infoROM corrupted",
    "gpu_ecc_uncorrected": "ECC errors",
    "gpu_row_remap_pending": "rows to be remapped",
    "gpu_row_remap_failed": "rows not remapped",
    "gpu_xid_hardware": "XID",
    "gpu_xid_recovered": "XID",
    "gpu_xid_application": "XID",
    "gpu_xid_other": "XID",
}
"""By reason of a finding; the others are remarks on the readings and stand below the strip only."""
_LOOKS = {"error": ("cross", "bad"), "warning": ("warning", "warning")}
Hours = Mapping[str, Mapping[str, Trend]]
"""The last hour by uuid."""
_UP = Condition("up", "check", "good")
_DOWN = Condition("down", "cross", "bad")


@dataclass(frozen=True, slots=True)
class Mark:
    condition: Condition
    note: str = ""


@dataclass(frozen=True, slots=True)
class ServerLink:
    """Without `href` the fleet does not know this server."""

    name: str
    href: str | None


@dataclass(frozen=True, slots=True)
class GpuLine:
    row: GpuRow
    marks: tuple[Mark, ...]
    utilization: Figure
    memory: Figure
    memory_share: float | None
    power: Figure
    temperature: Figure
    servers: tuple[ServerLink, ...]
    trends: Mapping[str, Trend]
    """Empty where there is no room for them."""
    instances: tuple[GpuLine, ...] = ()

    @property
    def is_instance(self) -> bool:
        return self.row.parent is not None


@dataclass(frozen=True, slots=True)
class GpuFinding:
    """`gpus` are their numbers; empty where it is of the host as a whole."""

    gpus: str
    finding: FindingOut


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """`unavailable` says why there is no GPU to show."""

    node: str
    lines: tuple[GpuLine, ...]
    findings: tuple[GpuFinding, ...]
    """Worst first, remarks left out."""
    unavailable: FindingOut | None = None


def gpu_view(hosts: Sequence[GpuHost], rows: Sequence[GpuRow], servers: Sequence[ServerRow]) -> tuple[NodeGpus, ...]:
    """By node, those without any behind. Empty where no host's GPUs are read."""
    by_node = {node: list(of) for node, of in groupby(rows, key=lambda row: row.node)}
    known = {(row.node, row.server) for row in servers}
    nodes = [_node(host, by_node.get(host.node, []), known) for host in hosts]
    return tuple(sorted(nodes, key=lambda node: not node.lines))


def own_gpus(rows: Sequence[GpuRow], row: ServerRow) -> list[GpuRow]:
    return [gpu for gpu in rows if gpu.node == row.node and row.server in gpu.servers]


def gpus_of_server(own: Sequence[GpuRow], row: ServerRow, trends: Trends, now: float) -> tuple[NodeGpus, ...]:
    """Its GPUs and instances, with their last hour; empty where none is known to be its own."""
    if not own:
        return ()
    hours = {gpu.uuid: trends.of(gpu.node, gpu.uuid, now) for gpu in own}
    return (NodeGpus(row.node, _lines(own, {(row.node, row.server)}, hours), _findings((), own)),)


def _node(host: GpuHost, rows: Sequence[GpuRow], known: set[tuple[str, str]]) -> NodeGpus:
    if rows:
        return NodeGpus(host.node, _lines(rows, known, {}), _findings(host.findings, rows))
    return NodeGpus(host.node, (), (), next(iter(worst_first(host.findings)), None))


def _lines(rows: Sequence[GpuRow], known: set[tuple[str, str]], hours: Hours) -> tuple[GpuLine, ...]:
    """Instances beneath their GPU; by themselves where it is not among the rows."""
    parents = {row.uuid for row in rows}
    below: dict[str, list[GpuRow]] = {}
    for row in rows:
        if row.parent in parents:
            below.setdefault(row.parent or "", []).append(row)
    return tuple(_line(row, below.get(row.uuid, ()), known, hours) for row in rows if row.parent not in parents)


def _line(row: GpuRow, instances: Sequence[GpuRow], known: set[tuple[str, str]], hours: Hours) -> GpuLine:
    share = _share(row.memory_used_bytes, row.memory_total_bytes)
    is_split = bool(instances)
    return GpuLine(
        row=row,
        marks=tuple(_marks(row)),
        utilization=_utilization(row, is_split),
        memory=_memory(row, is_split),
        memory_share=share,
        power=_power(row),
        temperature=_temperature(row),
        servers=tuple(_link(row.node, name, known) for name in row.servers),
        trends=hours.get(row.uuid, {}),
        instances=tuple(_line(each, (), known, hours) for each in instances),
    )


def _link(node: str, name: str, known: set[tuple[str, str]]) -> ServerLink:
    return ServerLink(name, server_path(node, name) if (node, name) in known else None)


def _marks(row: GpuRow) -> Iterator[Mark]:
    """Down or up, and what troubles it: always with a word of its own."""
    told = [_finding_mark(f) for f in worst_first(row.findings) if f.reason in _WORDS and f.severity in _LOOKS]
    throttled = list(_throttling(row.throttled or {}))
    if not row.up and not any(mark.condition.look == "bad" for mark in told):
        yield Mark(_DOWN)
    if row.up and not told:
        yield Mark(_UP)
    yield from (*told, *throttled)


def _finding_mark(found: FindingOut) -> Mark:
    word = _WORDS[found.reason]
    if word == "XID" and (numbers := _XID.findall(found.detail)):
        word = f"XID {', '.join(numbers)}"
    return Mark(Condition(word, *_LOOKS[found.severity]), found.detail or found.message)


def _throttling(throttled: Mapping[str, float]) -> Iterator[Mark]:
    worrying = {reason: share for reason, share in throttled.items() if reason not in _USUAL_THROTTLING}
    if worrying:
        reasons = ", ".join(reason.replace("_", " ") for reason in worrying)
        yield Mark(Condition(f"throttled: {reasons}", "warning", "warning"), _shares(worrying))
    elif throttled:
        word = "at its power limit" if "power" in throttled else "clocks kept in step"
        yield Mark(Condition(word, "arrow", "quiet"), _shares(throttled))


def _shares(throttled: Mapping[str, float]) -> str:
    told = (f"{reason.replace('_', ' ')} {quantities.percent(share)}" for reason, share in throttled.items())
    return f"share of the time since the reading before: {', '.join(told)}"


def _findings(of_host: Sequence[FindingOut], rows: Sequence[GpuRow]) -> tuple[GpuFinding, ...]:
    """What is said of several GPUs, or of the host and them, stands there once."""
    said: dict[FindingOut, list[str]] = {f: [] for f in of_host}
    for row in rows:
        for found in row.findings:
            said.setdefault(found, []).append(row.gpu)
    worrying = [f for f in said if f.severity in _LOOKS]
    return tuple(GpuFinding("" if f in of_host else ", ".join(said[f]), f) for f in worst_first(worrying))


def _utilization(row: GpuRow, is_split: bool) -> Figure:
    aside = "" if row.sm_active is None else f"SMs {quantities.percent(row.sm_active)}"
    if row.utilization is None:
        return Figure(None, aside, _why_missing(row, "gpu_utilization_ratio", is_split))
    note = NOT_IDLE if row.sm_active is None else f"{NOT_IDLE}; SMs: share of cycles with work on them"
    return Figure(quantities.percent(row.utilization), aside, note)


def _memory(row: GpuRow, is_split: bool) -> Figure:
    total = "" if row.memory_total_bytes is None else f"/ {_gib(row.memory_total_bytes)} GiB"
    if row.memory_used_bytes is None:
        return Figure(None, total, _why_missing(row, "gpu_memory_used_bytes", is_split))
    used = _gib(row.memory_used_bytes)
    if not total:
        why = _why_missing(row, "gpu_memory_total_bytes", is_split)
        return Figure(f"{used} GiB", note=f"total not known: {why}")
    return Figure(used, total, "servers take their memory at the start: it is no load")


def _power(row: GpuRow) -> Figure:
    limit = "" if row.power_limit_watts is None else f"/ {row.power_limit_watts:.0f} W"
    if row.power_watts is None:
        return Figure(None, limit, _why_missing(row, "gpu_power_watts"))
    if not limit:
        why = _why_missing(row, "gpu_power_limit_watts")
        return Figure(f"{row.power_watts:.0f} W", note=f"limit not known: {why}")
    return Figure(f"{row.power_watts:.0f}", limit, "draw / enforced limit")


def _temperature(row: GpuRow) -> Figure:
    memory = row.memory_temperature_celsius
    aside = "" if memory is None else f"memory {memory:.0f} °C"
    if row.temperature_celsius is None:
        return Figure(None, aside, _why_missing(row, "gpu_temperature_celsius"))
    return Figure(f"{row.temperature_celsius:.0f} °C", aside)


def _why_missing(row: GpuRow, metric: str, is_split: bool = False) -> str:
    """First what explains most."""
    if not row.up:
        return "the GPU does not answer: nothing is known of it now"
    if is_split:
        return "told of its instances, so that sums count nothing twice"
    told = (f for f in row.fields if f.field.partition("{")[0] == metric and f.quality == "unavailable" and f.reason)
    if status := next(told, None):
        return status.reason
    return "only the whole GPU has it" if row.parent else "the GPU does not tell"


def _gib(size: float) -> str:
    return f"{size / _GIB:.1f}"


def _share(used: float | None, total: float | None) -> float | None:
    return min(used / total, 1.0) if used is not None and total else None
