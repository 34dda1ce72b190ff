"""Minutes of a made-up fleet in which every stored metric has a value, from repeatable chance."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import accumulate

from sqlalchemy import Engine

from exporters.histogram import Histogram
from exporters.observation import Labels, labels
from exporters.schema import PHASE_OF_METRIC, Scope
from monitor.history.columns import COLUMNS, GaugeColumns, HistogramColumn, OpenCounterColumn
from monitor.history.minutes import Mean, Minute, Window
from monitor.history.partitions import make_partitions, partition_of
from monitor.history.rollup import roll_up
from monitor.history.store import Store
from monitor.history.tables import Tier, rows_table
from monitor.history.upsert import Progress

HOUR, DAY = 3600, 86_400
START = 1_796_083_200
"""Midnight of 2026-12-01, UTC."""
UNTIL = START + DAY + 5 * HOUR
EVERY = 20 * 60
"""Seconds between the minutes that there are: gaps cost no time."""

SERVERS = (("a:1", "vllm", "alpha"), ("B:1", "sglang", "Beta"), ("ä:1", "lmdeploy", "ärmel"), ("c:1", "vllm", "beta"))
"""Name, framework and team: what languages sort otherwise than bytes."""
BOUNDS = {"vllm": (0.1, 1.0, 5.0), "sglang": (0.25, 0.5, 2.5, 10.0), "lmdeploy": (0.05, 60.0)}


def windows(chance: random.Random, *, steady: bool = False) -> Iterator[Window]:
    """In a steady fleet all gauges are read all the time; of counters some are away now and then."""
    for start in range(START, UNTIL, EVERY):
        for server, framework, team in SERVERS:
            yield Window(
                start, _steadily(dict(_of_server(chance, server, framework, team)), chance if steady else None)
            )
        for gpu in range(2):
            identity = labels({"node": "n1", "uuid": f"GPU-{'aB'[gpu]}", "gpu": str(gpu)})
            row = _row(chance, Scope.GPU, BOUNDS["vllm"])
            row.info = {"name": ("H100", "h200")[gpu], "driver": "570"}
            yield Window(start, _steadily({identity: row}, chance if steady else None))


def _of_server(chance: random.Random, server: str, framework: str, team: str) -> Iterator[tuple[Labels, Minute]]:
    target = {"node": "n1", "server": server, "team": team}
    yield labels(target), _row(chance, Scope.TARGET, ())
    for engine in range(2 if framework == "sglang" else 1):
        more = {"framework": framework, "model": "m", "role": "unified", "engine": str(engine)}
        row = _row(chance, Scope.ENGINE, BOUNDS[framework])
        row.info = {"version": f"1.{engine}", "gpu": "NVIDIA H100" if framework == "vllm" else "nvidia h200"}
        yield labels(target | more), row


def _steadily(rows: dict[Labels, Minute], chance: random.Random | None) -> dict[Labels, Minute]:
    if chance is None:
        return rows
    for row in rows.values():
        row.counters = {key: added for key, added in row.counters.items() if chance.random() < 0.8}
        row.covered_seconds = row.increase_seconds = 60.0
        row.first_seen, row.last_seen = START, UNTIL
        for mean in row.gauges.values():
            mean.sum, mean.count = mean.sum / mean.count * 4, 4
    return rows


def _row(chance: random.Random, scope: Scope, bounds: tuple[float, ...]) -> Minute:
    row = Minute(samples=4, covered_seconds=chance.uniform(40, 60), increase_seconds=chance.uniform(40, 75))
    row.first_seen, row.last_seen = START + chance.random(), UNTIL - chance.random()
    for column in COLUMNS[scope]:
        metric = column.metric.name
        if isinstance(column, GaugeColumns):
            mean = row.gauges.setdefault((metric, column.label), Mean())
            for _ in range(chance.choice((3, 4))):
                mean.add(chance.random())
        elif isinstance(column, HistogramColumn):
            per_bucket = [float(chance.randrange(20)) for _ in (*bounds, 0)]
            total = chance.random()
            row.histograms[PHASE_OF_METRIC[metric].name] = [Histogram(bounds, tuple(accumulate(per_bucket)), total)]
        elif isinstance(column, OpenCounterColumn):
            row.counters |= {(metric, label): chance.uniform(0, 9) for label in ("79", "b", "A")}
        else:
            row.counters[metric, column.label] = chance.uniform(0, 1000)
    return row


def write(database: Engine, found: Sequence[Window]) -> None:
    """In this order."""
    days = {start // DAY * DAY for start in range(START, UNTIL, HOUR)}
    make_partitions(database, [partition_of(rows_table(scope, Tier.MINUTE), day) for scope in COLUMNS for day in days])
    store = Store(database)
    for n in range(0, len(found), 100):
        store.write_windows(found[n : n + 100], [], Progress("test", 0, 0))


def roll_up_all(database: Engine, until: float = UNTIL - HOUR) -> None:
    while roll_up(database, until):
        pass
