"""Minutes of servers in a database, as the recorder writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Engine

from exporters.histogram import Histogram
from exporters.observation import Labels, labels
from exporters.schema import PHASE_OF_METRIC
from monitor.history.minutes import Event, Mean, Minute, Window
from tests.monitor.evaluate.minutes import START, target, up, write

VLLM = {"frontend": "vllm", "version": "0.32.0", "block_size": "16", "prefix_caching": "true"}
HEALTHY: Mapping[str, float] = {
    "llm_kv_cache_utilization_ratio": 0.4, "llm_requests_running": 20.0, "llm_requests_waiting": 0.0,
    "llm_generation_tokens_total": 15_000.0, "llm_prompt_tokens_total": 30_000.0, "llm_preemptions_total": 0.0,
    "llm_prefix_cache_query_tokens_total": 30_000.0, "llm_prefix_cache_hit_tokens_total": 12_000.0,
    "llm_requests_finished_total/stop": 60.0,
}  # fmt: skip
"""Of each minute, by metric and the value of its own label."""
BOUNDS = (0.25, 1.0, 5.0)
Rows = Mapping[Labels, Minute]


def engine(
    server: str = "s1", *, node: str = "n1", framework: str = "vllm", model: str = "m", number: int = 0, **more: str
) -> Labels:
    own = {"framework": framework, "model": model, "role": "unified", "engine": str(number)}
    return labels({"node": node, "server": server} | own | more)


def minute(
    changed: Mapping[str, float | None] | None = None,
    counts: Mapping[str, tuple[float, ...]] | None = None,
    info: Mapping[str, str] | None = None,
) -> Minute:
    """`counts` are by metric, one for each bucket of `BOUNDS`; None of `changed` is not there."""
    row = Minute(samples=4, covered_seconds=60.0, increase_seconds=60.0, first_seen=float(START), last_seen=START + 1e9)
    row.info = dict(VLLM if info is None else info)
    for name, value in {**HEALTHY, **(changed or {})}.items():
        metric, _, own = name.partition("/")
        if value is None:
            continue
        if metric.endswith("_total"):
            row.counters[metric, own] = value
        else:
            row.gauges[metric, own] = Mean(4 * value, 4, value)
    for metric, buckets in (counts or {}).items():
        sums = tuple(float(sum(buckets[: n + 1])) for n in range(len(buckets)))
        row.histograms[PHASE_OF_METRIC[metric].name] = [Histogram(BOUNDS, sums, None)]
    return row


def gpu(uuid: str, used: float, busy: float = 0.7, node: str = "n1") -> tuple[Labels, Minute]:
    row = Minute(samples=4, covered_seconds=60.0, increase_seconds=60.0, info={"name": "NVIDIA H100 80GB HBM3"})
    for metric, value in (
        ("gpu_utilization_ratio", busy), ("gpu_memory_used_bytes", used), ("gpu_memory_total_bytes", 80 * 2.0**30),
    ):  # fmt: skip
        row.gauges[metric, ""] = Mean(4 * value, 4, value)
    return labels({"node": node, "uuid": uuid, "gpu": uuid[-1]}), row


def process(server: str = "s1", *, available: float = 1.0, gpus: str = "") -> tuple[Labels, Minute]:
    row = up()
    row.gauges["llm_metrics_available", ""] = Mean(4 * available, 4, available)
    row.info = {"gpus": gpus} if gpus else {}
    return target(server), row


def store(database: Engine, many: int, rows: Rows, begin: int = 0, events: Iterable[Event] = ()) -> None:
    """So many minutes, all alike, from minute `begin` on."""
    write(database, [Window(START + 60 * n, dict(rows)) for n in range(begin, begin + many)], events)
