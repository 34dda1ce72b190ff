"""What the fleet's table shows, ready to be put into HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import quote

from monitor.fleet import ServerRow
from monitor.gpus import GpuRow
from monitor.page.alert_view import Firing
from monitor.page.cause import cause
from monitor.page.condition import (
    Condition,
    Summary,
    condition,
    last_answer,
    summary,
    title,
    trouble,
    worst_first,
)
from monitor.page.figures import Figures, figures
from monitor.page.trends import Trend, Trends
from monitor.remarks import FindingOut

_FRAMEWORKS = {"vllm": "vLLM", "sglang": "SGLang", "lmdeploy": "LMDeploy", "tensorrt_llm": "TensorRT-LLM"}
KV_NEARLY_FULL = 0.9
_LOOKS = {"error": "bad", "warning": "warning"}
"""Of findings, the worst first."""
_RANKS = {"bad": 2, "warning": 3}
"""Of alerts, among what `trouble` tells."""


@dataclass(frozen=True, slots=True)
class ServerLine:
    row: ServerRow
    href: str
    framework: str | None
    condition: Condition
    last_answer: str
    figures: Figures
    kv_share: float | None
    """Of the fullest engine: it is the one that preempts."""
    trends: Mapping[str, Trend]
    problems: tuple[FindingOut, ...]
    """Worst first."""
    notes: tuple[FindingOut, ...]
    firing: tuple[Firing, ...] = ()
    """Pages first."""
    cause: str = ""
    """What probably is behind it."""

    @property
    def look(self) -> str:
        """Of the row's edge: how bad the worst is that is said of the server."""
        if self.condition.look in ("bad", "warning"):
            return self.condition.look
        looks = {alert.condition.look for alert in self.firing}
        looks |= {_LOOKS[problem.severity] for problem in self.problems}
        return next((look for look in _LOOKS.values() if look in looks), self.condition.look)

    @property
    def rank(self) -> int:
        """The worst first: down, without metrics, with an error or a page, with a warning or a ticket, well."""
        own = trouble(self.row)
        return min(own, _RANKS[self.look]) if self.firing else own

    @property
    def kv_nearly_full(self) -> bool:
        return self.kv_share is not None and self.kv_share >= KV_NEARLY_FULL


@dataclass(frozen=True, slots=True)
class FleetView:
    title: str
    summary: Summary
    lines: tuple[ServerLine, ...]
    unreal: tuple[str, ...]
    """Sources of data that no live server gave: replay, simulated."""


def fleet_view(
    rows: Sequence[ServerRow],
    trends: Trends,
    now: float,
    firing: Mapping[tuple[str, str], tuple[Firing, ...]] = MappingProxyType({}),
    gpus: Sequence[GpuRow] = (),
) -> FleetView:
    """`firing` are alerts by node and server."""
    told = summary(rows)
    lines = (server_line(row, trends, now, firing.get((row.node, row.server), ()), gpus) for row in rows)
    return FleetView(
        title=title(told),
        summary=told,
        lines=tuple(sorted(lines, key=lambda line: (line.rank, line.row.node, line.row.server))),
        unreal=tuple(sorted({row.simulated for row in rows if row.simulated})),
    )


def server_line(
    row: ServerRow, trends: Trends, now: float, firing: tuple[Firing, ...] = (), gpus: Sequence[GpuRow] = ()
) -> ServerLine:
    findings = worst_first(row.findings)
    share = row.kv_utilization if row.kv_utilization_max is None else row.kv_utilization_max
    return ServerLine(
        row=row,
        href=server_path(row.node, row.server),
        framework=_FRAMEWORKS.get(row.framework or "", row.framework),
        condition=condition(row),
        last_answer=last_answer(row, now),
        figures=figures(row),
        kv_share=share,
        trends=trends.of(row.node, row.server, now),
        problems=tuple(f for f in findings if f.severity != "info"),
        notes=tuple(f for f in findings if f.severity == "info"),
        firing=firing,
        cause=cause(row, [alert.name for alert in firing], gpus),
    )


def server_path(node: str, server: str) -> str:
    return f"/servers/{quote(node, safe='')}/{quote(server, safe='')}"
