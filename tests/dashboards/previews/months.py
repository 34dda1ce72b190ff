"""A month of a made-up fleet, written by the store and rolled up: eight minutes a day, with sums known by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from alerts.slo.spec import Slo
from exporters.histogram import Histogram
from exporters.observation import Labels, labels
from exporters.schema import E2E, ITL, QUEUE, TTFT
from monitor.evaluate.daily import Daily
from monitor.evaluate.objectives import Objectives
from monitor.history.columns import COLUMNS
from monitor.history.database import upgrade
from monitor.history.minutes import Event, Mean, Minute, Window
from monitor.history.partitions import make_partitions, partition_of
from monitor.history.rollup import roll_up
from monitor.history.store import Store
from monitor.history.tables import Tier, rows_table
from monitor.history.upsert import Progress

HOUR, DAY = 3600, 86_400
START = 1_796_083_200
"""Midnight of 2026-12-01, UTC."""
DAYS = 28
UNTIL = START + DAYS * DAY
MINUTES = 8
"""That there are of each day."""
AWAY = 9
"""The day on which the monitor did not run."""
OUT, OUT_MINUTES = 12, 90
"""The day on which the batch server was down for so long, beside the minutes that there are of it."""
FIRST_TOKEN = {"latency": {"phase": "ttft", "below": 1.0}}
WEEKEND = 0.5
"""So much of a working day's load."""


@dataclass(frozen=True, slots=True)
class Server:
    node: str
    name: str
    framework: str
    tokens: float
    """Generated in each minute of a working day; four times as many prompt tokens, half of them found in the cache."""
    ttft: tuple[float, float]
    """The bucket into which most of its requests fall; some take up to twice as long as its end."""
    kv: float
    capacity: float | None


SERVERS = (
    Server("gpu-1", "chat-a", "vllm", 90_000, (0.1, 0.25), 0.62, 400_000),
    Server("gpu-1", "chat-b", "vllm", 60_000, (0.25, 0.5), 0.44, 200_000),
    Server("gpu-2", "code", "sglang", 120_000, (0.1, 0.2), 0.71, 500_000),
    Server("gpu-3", "batch", "lmdeploy", 30_000, (0.5, 1.0), 0.35, None),
    Server("gpu-4", "search", "tensorrt_llm", 75_000, (0.05, 0.1), 0.55, 300_000),
)
GPUS = (("gpu-1", 0, "NVIDIA H100", True), ("gpu-1", 1, "NVIDIA H100", True), ("gpu-2", 0, "NVIDIA H200", True),
        ("gpu-3", 0, "NVIDIA A100", False))  # fmt: skip
"""Node, number, type, and whether it counts its energy."""
WATTS = 500.0
REQUESTS = 100.0


def load(day: int) -> float:
    """2026-12-01 is a Tuesday."""
    return WEEKEND if (day + 1) % 7 in {5, 6} else 1.0


def ttft(server: Server, day: int) -> tuple[float, float]:
    """Twice as slow in the last week, after the upgrade."""
    slower = 2.0 if day >= UPGRADED and server.framework == "vllm" else 1.0
    return server.ttft[0] * slower, server.ttft[1] * slower


def slow(server: Server, day: int) -> int:
    """How many of its 100 requests a minute."""
    return 2 + (3 * day + SERVERS.index(server)) % 5


UPGRADED = 21


def fill(database: Engine) -> None:
    upgrade(database)
    days = range(START, UNTIL, DAY)
    make_partitions(database, [partition_of(rows_table(scope, Tier.MINUTE), day) for scope in COLUMNS for day in days])
    store = Store(database)
    for day in range(DAYS):
        if day != AWAY:
            windows = [_minute_at(day, START + day * DAY + n * DAY // MINUTES) for n in range(MINUTES)]
            store.write_windows(windows, list(_upgrades()) if day == UPGRADED else [], Progress("test", 0, 0))
    store.write_windows([_outage_at(minute) for minute in range(OUT_MINUTES)], [], Progress("test", 0, 0))
    while roll_up(database, UNTIL + HOUR):
        pass
    judged = Daily(database, _objectives())
    for _ in range(2):
        judged.turn(lambda: False)


def _outage_at(minute: int) -> Window:
    """Of the one server of its framework."""
    target = _minute()
    target.gauges["llm_up", ""] = _mean(0.0)
    target.first_seen = target.last_seen = None
    return Window(START + OUT * DAY + 60 + 60 * minute, {labels(_target(SERVERS[3])): target})


def _objectives() -> Objectives:
    found = Objectives(())
    shared: dict[str, Any] = {"window": 30 * DAY, "group_by": ["framework"]}
    found.slos = [
        Slo.model_validate({"name": "first-token", "objective": "95%", "indicator": FIRST_TOKEN} | shared),
        Slo.model_validate({"name": "available", "objective": "99.5%", "indicator": {"availability": {}}} | shared),
    ]
    return found


def fill_apart(database: Engine) -> None:
    """One minute of a prefill server that hands 10 requests of 100 tokens on, to end after 50 more each."""
    make_partitions(database, [partition_of(rows_table(scope, Tier.MINUTE), START) for scope in COLUMNS])
    rows = dict(_apart(role, made) for role, made in (("prefill", 10.0), ("decode", 500.0)))
    Store(database).write_windows([Window(START, rows)], [], Progress("test", 0, 0))
    while roll_up(database, UNTIL):
        pass


def _apart(role: str, generated: float) -> tuple[Labels, Minute]:
    row = _minute()
    row.counters["llm_prompt_tokens_total", ""] = 1000.0
    row.counters["llm_generation_tokens_total", ""] = generated
    row.counters["llm_requests_finished_total", "length" if role == "prefill" else "stop"] = 10.0
    who = {"node": "gpu-1", "server": role, "framework": "vllm", "model": "llama", "role": role, "engine": "0"}
    return labels(who), row


def _minute_at(day: int, start: int) -> Window:
    wave = 1.0 + 0.2 * math.sin(2 * math.pi * (start % DAY) / DAY)
    rows = dict(row for server in SERVERS for row in _of_server(server, day, wave))
    gpus = {_gpu_labels(node, number): _gpu(name, counts, load(day)) for node, number, name, counts in GPUS}
    return Window(start, rows | gpus)


def _of_server(server: Server, day: int, wave: float) -> Iterator[tuple[Labels, Minute]]:
    """`wave` moves gauges alone, so that sums stay plain."""
    target = _minute()
    target.gauges["llm_up", ""] = _mean(1.0)
    yield labels(_target(server)), target
    row, tokens = _minute(), server.tokens * load(day)
    row.info = {"version": "2.0" if day >= UPGRADED else "1.9"}
    row.gauges["llm_kv_cache_utilization_ratio", ""] = _mean(min(1.0, server.kv * load(day) * wave))
    if server.capacity is not None:
        row.gauges["llm_kv_cache_capacity_tokens", ""] = _mean(server.capacity)
    for name, many in (
        ("llm_generation_tokens_total", tokens),
        ("llm_prompt_tokens_total", 4 * tokens),
        ("llm_prefix_cache_query_tokens_total", 4 * tokens),
        ("llm_prefix_cache_hit_tokens_total", 2 * tokens),
    ):
        row.counters[name, ""] = many
    for reason, many in (("stop", 0.9 * REQUESTS), ("length", 0.08 * REQUESTS), ("abort", 0.02 * REQUESTS)):
        row.counters["llm_requests_finished_total", reason] = many * load(day)
    low, high = ttft(server, day)
    counts = (0.0, REQUESTS - slow(server, day), REQUESTS, REQUESTS)
    for phase, times in ((TTFT, 1.0), (E2E, 40.0), (ITL, 0.1), (QUEUE, 0.2)):
        bounds = (low * times, high * times, 2 * high * times)
        row.histograms[phase.name] = [Histogram(bounds, counts, REQUESTS)]
    yield (
        labels(_target(server) | {"framework": server.framework, "model": "llama", "role": "unified", "engine": "0"}),
        row,
    )


def _target(server: Server) -> dict[str, str]:
    return {"node": server.node, "server": server.name}


def _gpu_labels(node: str, number: int) -> Labels:
    return labels({"node": node, "uuid": f"GPU-{node}-{number}", "gpu": str(number)})


def _gpu(name: str, counts: bool, busy: float) -> Minute:
    row = _minute()
    row.info = {"name": name}
    row.gauges["gpu_power_watts", ""] = _mean(WATTS * busy)
    row.gauges["gpu_utilization_ratio", ""] = _mean(0.9 * busy)
    if counts:
        row.counters["gpu_energy_joules_total", ""] = 60 * WATTS * busy
    return row


def _minute() -> Minute:
    return Minute(samples=4, covered_seconds=60.0, increase_seconds=60.0, first_seen=START, last_seen=UNTIL)


def _mean(value: float) -> Mean:
    mean = Mean()
    for _ in range(4):
        mean.add(value)
    return mean


def _upgrades() -> Iterator[Event]:
    at = START + UPGRADED * DAY
    for server in SERVERS:
        if server.framework == "vllm":
            yield Event(labels(_target(server)), at, "restart")
            yield Event(labels(_target(server)), at, "version", "1.9", "2.0")
