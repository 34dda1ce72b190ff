"""Worlds made by hand: an hour of servers in steps of five minutes, all alike unless said otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from alerts.slo.spec import Slo
from monitor.advise.findings import advise
from monitor.advise.model import Asked, Finding
from monitor.advise.world import (
    AVAILABLE,
    FINISHED,
    GENERATED,
    GPU_BUSY,
    GPU_MEMORY,
    GPU_USED,
    HIT,
    KV,
    KV_HIGHEST,
    PREEMPTED,
    PROMPTED,
    QUERIED,
    RUNNING,
    RUNNING_HIGHEST,
    UP,
    WAITING,
    Gpu,
    Process,
    Server,
    World,
)
from monitor.history.answer import Point

START = 1_796_083_200
"""Midnight of 2026-12-01, UTC."""
STEP, STEPS = 300, 12
END = START + STEPS * STEP
GIB = 2.0**30

Value = float | tuple[float, float, float] | None
"""A number, one with its bounds, or nothing in that step."""
Values = Value | Sequence[Value]

HEALTHY: Mapping[Asked, Values] = {
    KV: 0.4, KV_HIGHEST: 0.5, RUNNING: 20.0, RUNNING_HIGHEST: 30.0, WAITING: 0.5, FINISHED: 600.0, GENERATED: 150_000.0,
    PROMPTED: 300_000.0, PREEMPTED: 0.0, QUERIED: 300_000.0, HIT: 120_000.0,
}  # fmt: skip
VLLM = {"frontend": "vllm", "version": "0.32.0", "block_size": "16", "prefix_caching": "true"}


def points(values: Values) -> dict[int, Point]:
    each = values if isinstance(values, list) else [values] * STEPS
    told = {START + STEP * n: value for n, value in enumerate(each)}
    return {start: _point(start, value) for start, value in told.items() if value is not None}


def _point(start: int, value: Any) -> Point:
    number, lower, upper = value if isinstance(value, tuple) else (value, None, None)
    return Point(start, STEP, number, lower, upper, float(STEP), 1)


def told(values: Mapping[Asked, Values]) -> dict[Asked, dict[int, Point]]:
    return {asked: found for asked, given in values.items() if (found := points(given))}


def server(changed: Mapping[Asked, Values] | None = None, name: str = "s1", **more: Any) -> Server:
    """A healthy vLLM server, but for what is changed."""
    given: dict[str, Any] = {"node": "n1", "framework": "vllm", "model": "m", "facts": VLLM} | more
    return Server(told({**HEALTHY, **(changed or {})}), name=name, **given)


def gpu(changed: Mapping[Asked, Values] | None = None, number: str = "0", servers: tuple[str, ...] = ("s1",)) -> Gpu:
    healthy = {GPU_BUSY: 0.7, GPU_USED: 74 * GIB, GPU_MEMORY: 80 * GIB}
    return Gpu(told({**healthy, **(changed or {})}), node="n1", uuid=f"GPU-{number}", number=number, servers=servers)


def process(changed: Mapping[Asked, Values] | None = None, **more: Any) -> Process:
    given: dict[str, Any] = {"node": "n1", "name": "s1", "frontend": "vllm", "framework": "vllm", "version": "0.32.0"}
    return Process(told({UP: 1.0, AVAILABLE: 1.0, **(changed or {})}), **(given | more))


def world(*servers: Server, slos: Sequence[Slo] = (), step: int = STEP, **more: Any) -> World:
    return World(START, END, step, servers, slos=slos, **more)


def findings(of: World) -> list[Finding]:
    return list(advise(of).findings)


def names(of: World) -> list[str]:
    return [finding.name for finding in findings(of)]


def missing(of: World, name: str) -> list[str]:
    return [lack.needs for lack in advise(of).missing if lack.name == name]


def numbers(of: Finding) -> dict[str, float]:
    return {evidence.what: evidence.value for evidence in of.evidence}


OFTEN_IDLE: Values = [0.0] * 6 + [40.0, 48.0, 64.0] * 2
"""Requests that run; half of the time none."""
