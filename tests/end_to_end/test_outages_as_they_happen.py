"""In real time, with real programs: a Prometheus is stopped, and the network to another is cut, while monitors follow
them on both databases. What the first did not scrape is a gap; of what the second scraped meanwhile nothing is missing.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from monitor.history.database import sqlite_url
from tests.end_to_end import by_hand
from tests.end_to_end.compared import differences
from tests.end_to_end.histories import read_until
from tests.end_to_end.processes import DEADLINE, free_port, running, until
from tests.end_to_end.product import Product
from tests.end_to_end.real_prometheus import prometheus_of, sidecar_of
from tests.end_to_end.recorded import serving
from tests.end_to_end.samples import Scrape, kept
from tests.end_to_end.test_history_as_it_happens import DELAY, NAMES, Working, opened, sleep_until
from tests.monitor.history.stored import everything
from tests.servers.postgres import Postgres
from tests.servers.prometheus import Prometheus
from tests.servers.wire import Wire

OUTAGE = float(os.environ.get("OUTAGE", "10"))  # seconds; for longer: OUTAGE=180
LONGEST_PAUSE = 60.0
"""Seconds from one attempt of a monitor to the next."""
PATIENCE = LONGEST_PAUSE + DEADLINE
DATABASES = ("sqlite", "postgresql")


@dataclass(frozen=True)
class Watched:
    """A monitor, and what was asked of it before it ended."""

    history: Engine
    until: int
    """As far as it read."""
    log: str
    points: dict[int, Any]
    """Of generated tokens, by the start of their minute."""


@dataclass(frozen=True)
class Lived:
    begun: float
    ended: float
    """Of the outages: nothing was there between these moments."""
    longest: float
    """Seconds in which anybody can have noticed them."""
    until: int
    stopped: dict[str, Watched]
    cut_off: dict[str, Watched]
    undisturbed: Watched
    scraped: dict[str, dict[str, list[Scrape]]]
    """By the Prometheus that was stopped, and by the other."""


@contextmanager
def watching(folder: Path, source: str, url: str) -> Iterator[Product]:
    folder.mkdir()
    plain = make_url(url).set(drivername=make_url(url).get_backend_name()).render_as_string(hide_password=False)
    port, file = free_port(), folder / "monitor.yml"
    config = {
        "listen": {"port": port},
        "scrape": {"interval": "2s"},
        "history": {"url": plain},
        "prometheus": {"url": source, "delay": DELAY, "backfill": 900.0},
    }
    file.write_text(yaml.safe_dump(config))
    with running([sys.executable, "-m", "inferwatch", "serve", "--config", str(file)], folder) as process:
        product = Product(f"http://127.0.0.1:{port}", process)
        until(lambda: product.get("/healthz"), process, within=PATIENCE)
        yield product


@dataclass
class Watching:
    product: Product
    history: Engine

    def reads(self, moment: float, within: float = PATIENCE) -> None:
        until(lambda: read_until(self.history) >= moment, self.product.process, within=within)

    def told(self, text: str) -> None:
        until(lambda: text in self.product.process.output(), self.product.process, within=PATIENCE)

    def over(self) -> Watched:
        asked = {"metric": "llm_generation_tokens_total", "aggregation": "sum", "where": "server=counted", "step": "60"}
        (answer,) = self.product.get("/api/v1/history?" + "&".join(f"{k}={v}" for k, v in asked.items())).json()[
            "answers"
        ]
        self.product.process.end()
        log, points = self.product.process.output(), {p["start"]: p for p in answer["points"]}
        return Watched(self.history, read_until(self.history), log, points)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Lived]:
    folder = tmp_path_factory.mktemp("outages")
    with ExitStack() as stack:

        def watched(name: str, source: str, kind: str) -> Watching:
            url = stack.enter_context(postgres.new_database()) if kind == "postgresql" else in_folder(folder / name)
            product = stack.enter_context(watching(folder / name, source, url))
            return Watching(product, stack.enter_context(opened(url)))

        sidecar = stack.enter_context(working(folder))
        of_stopped, of_other = (stack.enter_context(scraping(sidecar, folder / name)) for name in ("one", "other"))
        wire = stack.enter_context(Wire(int(of_other.url.rpartition(":")[2])))
        stopped = {kind: watched(f"stopped-{kind}", of_stopped.url, kind) for kind in DATABASES}
        cut_off = {kind: watched(f"cut-off-{kind}", f"http://127.0.0.1:{wire.port}", kind) for kind in DATABASES}
        undisturbed = watched("undisturbed", of_other.url, "sqlite")
        watchers = [*stopped.values(), *cut_off.values(), undisturbed]
        for each in watchers:
            each.reads(time.time() - 90)
        earliest = time.time()
        of_stopped.stop()
        wire.cut()
        begun = time.time()
        for each in (*stopped.values(), *cut_off.values()):
            each.told("connection_refused")
        sleep_until(time.time() + OUTAGE)
        ended = time.time()
        wire.mend()
        of_stopped.start()
        for each in (*stopped.values(), *cut_off.values()):
            each.told("answers again")
        longest = time.time() - earliest
        for each in watchers:
            each.reads(ended // 60 * 60)
        end = (int(time.time()) // 60 + 1) * 60
        sleep_until(end + DELAY)
        for each in watchers:
            each.reads(end)
        yield Lived(
            begun,
            ended,
            longest,
            end,
            {kind: each.over() for kind, each in stopped.items()},
            {kind: each.over() for kind, each in cut_off.items()},
            undisturbed.over(),
            {name: kept(of, NAMES, 900, time.time()) for name, of in (("stopped", of_stopped), ("other", of_other))},
        )


def in_folder(folder: Path) -> str:
    return sqlite_url(folder / "history.sqlite")


@contextmanager
def working(folder: Path) -> Iterator[str]:
    """The URL of a sidecar that reads two servers with work to do."""
    of = Working()
    with serving(of.counted) as counted, serving(of.recorded) as recorded:
        ports = {"counted": counted, "recorded": recorded}
        servers: list[dict[str, object]] = [{"name": n, "url": f"http://127.0.0.1:{port}"} for n, port in ports.items()]
        thread = Thread(target=of.work, daemon=True)
        thread.start()
        try:
            with sidecar_of(servers, folder) as sidecar:
                yield sidecar
        finally:
            of.over.set()


@contextmanager
def scraping(sidecar: str, folder: Path) -> Iterator[Prometheus]:
    folder.mkdir()
    with prometheus_of(sidecar, folder, server="counted", every="1s") as prometheus:
        yield prometheus


def expected(scraped: dict[str, list[Scrape]], end: int) -> by_hand.Told:
    found = by_hand.Told()
    for of in scraped.values():
        found |= by_hand.told(of, end)
    return found


def of_all(lived: Lived, watched: Watched) -> dict[str, Any]:
    """What is stored of the minutes that all have read; but for when something was seen last."""
    found = everything(watched.history)
    end = min(each.until for each in (*lived.cut_off.values(), lived.undisturbed))
    for table in ("engine_minute", "target_minute"):
        found[table] = {key: row for key, row in found[table].items() if key[1] < end}
    return found | {
        "series": [row[:-1] for row in found["series"]], "events": [e for e in found["events"] if e[1] <= end],
    }  # fmt: skip


def minutes_within(lived: Lived) -> list[int]:
    """Starts of whole ones."""
    return [start for start in range(0, lived.until, 60) if lived.begun <= start and start + 60 <= lived.ended]


@pytest.mark.parametrize("kind", DATABASES)
def test_what_a_stopped_prometheus_scraped_is_all_there(lived: Lived, kind: str) -> None:
    of = lived.stopped[kind]
    assert differences(of.history, expected(lived.scraped["stopped"], of.until), of.until) == []


@pytest.mark.parametrize("kind", DATABASES)
def test_what_a_stopped_prometheus_did_not_scrape_is_a_gap(lived: Lived, kind: str) -> None:
    of = lived.stopped[kind]
    stored = {start: row for (_, start), row in everything(of.history)["target_minute"].items()}
    for start in minutes_within(lived):
        assert (stored[start]["samples"], stored[start]["covered_seconds"], stored[start]["up_avg"]) == (0, 0, None)
        assert start not in of.points
    touched = range(int(lived.begun) // 60 * 60, int(lived.ended), 60)
    in_all = sum(stored[start]["covered_seconds"] for start in touched)
    assert in_all <= 60 * len(touched) - (lived.ended - lived.begun) + 3


@pytest.mark.parametrize("kind", DATABASES)
def test_an_outage_is_a_line_of_the_log_or_two_and_its_end_another(lived: Lived, kind: str) -> None:
    for of in (lived.stopped[kind], lived.cut_off[kind]):
        *away, again = re.findall(r" (?:(?:WARNING|ERROR) |INFO Prometheus at )(.*)", of.log)
        assert len(away) in {1, 2}, "a question that was under way ends in another way"
        assert re.match(r"could not ask Prometheus at .*: connection_refused", away[-1])
        lasted = re.search(r"answers again: it did not for (\d+):(\d+):(\d+)$", again)
        assert lasted is not None
        hours, minutes, seconds = map(int, lasted.groups())
        assert OUTAGE - 2 <= hours * 3600 + minutes * 60 + seconds <= lived.longest + 1
    assert "ERROR" not in lived.undisturbed.log


@pytest.mark.parametrize("kind", DATABASES)
def test_while_only_the_network_was_cut_nothing_is_lost(lived: Lived, kind: str) -> None:
    of = lived.cut_off[kind]
    assert differences(of.history, expected(lived.scraped["other"], of.until), of.until) == []
    assert of_all(lived, of) == of_all(lived, lived.undisturbed)
    points = of.points
    for start in minutes_within(lived):
        assert points[start]["covered_seconds"] == 60
        assert points[start]["value"] > 0
    both = points.keys() & lived.undisturbed.points.keys()
    assert {start: points[start] for start in both} == {start: lived.undisturbed.points[start] for start in both}
    assert {start for start in (*points, *lived.undisturbed.points) if start < lived.until} <= both
