"""Everything for real, and in real time: servers, a sidecar, a Prometheus that scrapes it, a monitor that was there all
along and one that comes late; and two that read the servers themselves, of which the first is killed."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import yaml
from sqlalchemy import Engine, func, select
from sqlalchemy.engine import make_url

from exporters.schema import METRICS, PHASES
from monitor.history import tables
from monitor.history.database import open_database, sqlite_url
from tests.end_to_end import by_hand
from tests.end_to_end.compared import differences
from tests.end_to_end.histories import read_until
from tests.end_to_end.processes import free_port, running, until
from tests.end_to_end.product import Product
from tests.end_to_end.real_prometheus import prometheus_of, sidecar_of
from tests.end_to_end.recorded import VLLM, Pages, serving
from tests.end_to_end.samples import Scrape, kept
from tests.end_to_end.test_from_prometheus import serve
from tests.monitor.history.stored import rows
from tests.servers.postgres import Postgres

MINUTES = int(os.environ.get("MINUTES", "1"))  # whole ones that are watched; more of them: MINUTES=5
RESTART = 60
DELAY = 15.0
"""Seconds for a sample to be there: a machine may stand still between a scrape and its being stored."""


def triangle(k: int) -> int:
    return k * (k + 1) // 2


def tokens(k: int) -> int:
    """As the page of round `k` counts them."""
    return triangle(k) if k < RESTART else triangle(k) - triangle(RESTART)


def counting(k: int) -> bytes:
    """The page of a server that has done `k` rounds of work; its process is another one after `RESTART` rounds. The
    number of finished requests is not shown for some rounds."""
    since, born = (0, 1000.0) if k < RESTART else (RESTART, 2000.0)
    labels = 'engine="0",model_name="m"'
    finished = (
        "" if k % 40 in range(20, 26) else f'vllm:request_success_total{{{labels},finished_reason="stop"}} {k - since}'
    )
    buckets = "\n".join(
        f'vllm:time_to_first_token_seconds_bucket{{{labels},le="{le}"}} {(k - since) * n}'
        for n, le in enumerate(("0.1", "0.5", "1.0", "+Inf"), 1)
    )
    return f"""\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{{labels}}} {k}
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{{labels}}} {tokens(k)}
# TYPE vllm:request_success_total counter
{"" if k % 40 in range(20, 26) else finished}
# TYPE vllm:time_to_first_token_seconds histogram
{buckets}
vllm:time_to_first_token_seconds_count{{{labels}}} {(k - since) * 4}
vllm:time_to_first_token_seconds_sum{{{labels}}} {(k - since) / 4}
# TYPE process_start_time_seconds gauge
process_start_time_seconds {born}
""".encode()


@dataclass
class Working:
    """Two servers: one that counts, and a recorded one."""

    counted: Pages = field(default_factory=lambda: Pages({"/metrics": counting(0), "/health": b""}))
    recorded: Pages = field(default_factory=lambda: Pages({"/health": b""}))
    over: Event = field(default_factory=Event)

    def work(self) -> None:
        bodies = [path.read_bytes() for path in VLLM.pages]
        k = 0
        while not self.over.wait(0.7):
            k += 1
            self.counted.bodies["/metrics"] = counting(k)
            self.recorded.bodies["/metrics"] = bodies[k // 5 % len(bodies)]


_PARTS = [f"{phase.metric}_{part}" for phase in PHASES.values() for part in ("bucket", "sum", "count")]
NAMES = [*(name for name in METRICS if name.startswith("llm_")), *_PARTS]


@contextmanager
def embedded(folder: Path, url: str, servers: list[dict[str, object]]) -> Iterator[Product]:
    """`inferwatch up`, which reads the servers itself and keeps the history there."""
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    config = {"servers": servers, "node": "node-a", "history": {"url": plain}, "scrape": {"interval": "2s"}}
    file = folder / "up.yml"
    file.write_text(yaml.safe_dump(config))
    port = free_port()
    command = [sys.executable, "-m", "inferwatch", "up", "--listen", f"127.0.0.1:{port}", "--config", str(file)]
    with running(command, folder) as process:
        product = Product(f"http://127.0.0.1:{port}", process)
        until(lambda: product.get("/healthz"), process)
        yield product


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    engine = open_database(url)
    yield engine
    engine.dispose()


def newest(database: Engine) -> int | None:
    """Start of the newest minute of an engine."""
    with database.connect() as connection:
        found: int | None = connection.scalar(select(func.max(tables.engine_minute.c.start)))
        return found


def is_held(database: Engine) -> bool:
    """Whether somebody writes what is scraped."""
    with database.connect() as connection:
        return connection.scalar(select(tables.leases.c.holder)) is not None


def sleep_until(moment: float) -> None:
    time.sleep(max(moment - time.time(), 0.0))


@dataclass(frozen=True)
class Lived:
    scrapes: dict[str, list[Scrape]]
    along: Engine
    late: Engine
    embedded: Engine


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Lived]:
    folder = tmp_path_factory.mktemp("lived")
    folders = [folder / name for name in ("sidecar", "prometheus", "along", "late", "first", "second")]
    for each in folders:
        each.mkdir()
    working = Working()
    with ExitStack() as stack:
        ports = {
            "counted": stack.enter_context(serving(working.counted)),
            "recorded": stack.enter_context(serving(working.recorded)),
        }
        servers: list[dict[str, object]] = [{"name": n, "url": f"http://127.0.0.1:{port}"} for n, port in ports.items()]
        thread = Thread(target=working.work, daemon=True)
        thread.start()
        stack.callback(working.over.set)
        url = stack.enter_context(postgres.new_database())
        sidecar = stack.enter_context(sidecar_of(servers, folders[0]))
        database = stack.enter_context(opened(url))
        first = stack.enter_context(embedded(folders[4], url, servers))
        until(lambda: is_held(database), first.process)
        second = stack.enter_context(embedded(folders[5], url, servers))
        prometheus = stack.enter_context(prometheus_of(sidecar, folders[1], server="counted", every="1s"))
        monitors = [stack.enter_context(serve(folders[2], prometheus.url, delay=DELAY, backfill=900.0))]
        begun = (int(time.time()) // 60 + 1) * 60
        sleep_until(begun + 5)
        until(lambda: newest(database) is not None, first.process)
        until(lambda: "stands by" in second.process.output(), second.process)
        first.process.end(signal.SIGKILL)
        end = begun + 60 * MINUTES
        sleep_until(end + 5)
        monitors += [stack.enter_context(serve(folders[3], prometheus.url, delay=DELAY, backfill=900.0))]
        along, late = (stack.enter_context(opened(sqlite_url(f / "state" / "history.sqlite"))) for f in folders[2:4])
        for of in (along, late):
            until(lambda of=of: read_until(of) >= end)  # type: ignore[misc]
        until(lambda: (newest(database) or 0) >= end - 60, second.process)
        for monitor in monitors:
            monitor.process.end()
        yield Lived(kept(prometheus, NAMES, 900, time.time()), along, late, database)


def test_late_and_all_along_are_what_the_definition_gives(lived: Lived) -> None:
    for of in (lived.along, lived.late):
        end = read_until(of)
        mine = by_hand.Told()
        for scrapes in lived.scrapes.values():
            mine |= by_hand.told(scrapes, end)
        assert len({start for _, start in mine.engines}) >= MINUTES + 1
        assert differences(of, mine, end) == []


def test_increases_are_those_of_the_pages(lived: Lived) -> None:
    """A page says by its number of running requests which it is."""
    found = [(scrape.at, k) for scrape in lived.scrapes["counted"] for k in _rounds(scrape)]
    assert max(k for _, k in found) > RESTART
    stored = _counted(lived.late)
    for start in sorted(stored)[1:]:
        before = max((at, k) for at, k in found if at <= start)[1]
        last = max((at, k) for at, k in found if at <= start + 60)[1]
        inside = [k for at, k in found if start < at <= start + 60]
        done = tokens(last) - tokens(before) if last < RESTART or before >= RESTART else None
        if done is None:
            newest_before = max(k for k in [before, *inside] if k < RESTART)
            done = tokens(newest_before) - tokens(before) + tokens(last)
        row = stored[start]
        assert (row["generation_tokens"], row["requests_running_max"]) == (done, last)
        assert row["requests_running_avg"] == sum(inside) / len(inside)


def _rounds(scrape: Scrape) -> list[int]:
    return [int(s.value) for s in scrape.samples if s.name == "llm_requests_running"]


def _counted(of: Engine) -> dict[int, Any]:
    found = rows(of, "engine_minute").items()
    return {start: row for (identity, start), row in found if '"server": "counted"' in identity}


def test_the_second_takes_over_what_the_first_was_killed_with(lived: Lived) -> None:
    """Between the last readings of the first minute and of the last one, nothing is lost or doubled."""
    stored = _counted(lived.embedded)
    first, last = min(stored), max(stored)
    assert list(stored) == list(range(first, last + 60, 60))
    a, b = (int(stored[start]["requests_running_max"]) for start in (first, last))
    added = sum(row["generation_tokens"] for start, row in stored.items() if start > first)
    assert a < b
    if b < RESTART or a >= RESTART:
        assert added == tokens(b) - tokens(a)
    else:
        assert tokens(b) <= added <= tokens(b) + tokens(RESTART - 1) - tokens(a)
