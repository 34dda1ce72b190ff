from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine

from exporters.config import Config, Server
from exporters.observation import Observation
from exporters.sidecar import Sidecar
from monitor.alert_history.store import AlertStore, Wanted
from monitor.app import create_app
from monitor.assembly import assemble
from monitor.config import HistorySection, MonitorConfig, Sources
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.database import DatabaseError
from monitor.history.retention import Retention
from monitor.history.store import Store
from monitor.history.upkeep import Upkeep
from monitor.recorder import Recorder
from monitor.sources import SourceError
from monitor.sources.in_process import InProcess
from tests.end_to_end.processes import DEADLINE
from tests.exporters.servers import pages, response, serving
from tests.monitor.observations import observation

PAGE = (Path(__file__).parents[1] / "captures" / "vllm" / "0.32.0" / "A-1-mid12.prom").read_text()


@asynccontextmanager
async def client_of(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client,
    ):
        yield client


@dataclass
class FixedSource:
    says: list[Observation]
    name: str = "fixed"
    is_recorded: bool = True

    async def observe(self) -> list[Observation]:
        return self.says

    async def aclose(self) -> None:
        """Nothing to close."""


def families(text: str) -> dict[str, float]:
    return {f.name: f.samples[0].value for f in text_string_to_metric_families(text)}


async def test_the_monitor_alone_exposes_its_own_metrics_only(store: Store, history: History) -> None:
    recorder = Recorder([], Fleet(), store, interval=15, clock=lambda: 1000.0)
    async with client_of(create_app(Fleet(), history, recorder=recorder, node="n1")) as client:
        page = await client.get("/metrics")
        assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert families(page.text) == {"inferwatch_build_info": 1, "inferwatch_history_lag_seconds": 0}
        assert 'inferwatch_history_lag_seconds{node="n1"} 0.0' in page.text
        assert (await client.get("/healthz")).text == "ok\n"


async def test_the_size_of_the_history_is_told_once_it_is_known(
    database: Engine, store: Store, history: History
) -> None:
    upkeep = Upkeep(database, Retention(3600))
    upkeep.turn(1000)
    recorder = Recorder([], Fleet(), store, interval=15, upkeep=upkeep)
    async with client_of(create_app(Fleet(), history, recorder=recorder)) as client:
        found = families((await client.get("/metrics")).text)
    with database.connect() as connection:
        pages, of_bytes = (connection.exec_driver_sql(f"PRAGMA page_{of}").scalar_one() for of in ("count", "size"))
    assert found["inferwatch_history_size_bytes"] == pages * of_bytes


async def test_everything_runs_in_one_process(tmp_path: Path) -> None:
    async with serving(pages({"/metrics": response(PAGE)})) as served:
        server = Server.model_validate({"url": served.url, "name": "a", "timeout": DEADLINE})
        sidecar = Sidecar(Config(node="n1", servers=(server,)))
        source = InProcess(sidecar)
        monitor = assemble(MonitorConfig(), [source], database_url=f"sqlite:///{tmp_path}/history.sqlite")
        await monitor.recorder.observe(source)
        app = create_app(monitor.fleet, monitor.history, recorder=monitor.recorder, sidecar=sidecar, node="n1")
        async with client_of(app) as client:
            [row] = (await client.get("/api/v1/servers")).json()
            assert (row["server"], row["running"], row["waiting"]) == ("a", 12, 4)
            found = families((await client.get("/metrics")).text)
            assert found["llm_up"] == 1
            assert "inferwatch_history_lag_seconds" in found
            assert (await client.get("/debug/a")).status_code == 200
            assert "GPU" in (await client.get("/debug/gpus")).text
            assert "tiny-qwen" in (await client.get("/")).text
            assert (await client.get("/probe?target=http://elsewhere:1")).status_code == 403
        assert sidecar.targets() == [], "closed with the app"
        monitor.close()


async def test_sidecars_of_the_configuration_become_sources(tmp_path: Path) -> None:
    config = MonitorConfig(
        sources=Sources(sidecars=("http://gpu-1:9840",)), history=HistorySection(path=tmp_path / "deep" / "h.sqlite")
    )
    monitor = assemble(config)
    assert (tmp_path / "deep" / "h.sqlite").is_file()
    assert [s.name for s in monitor.recorder.sources] == ["http://gpu-1:9840"]
    monitor.close()


def test_a_history_that_cannot_be_used_holds_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "h.sqlite").write_text("no database at all, but long enough to be taken for one" * 30)
    for _ in range(2):
        with pytest.raises(DatabaseError, match="file is not a database"):
            assemble(MonitorConfig(), database_url=f"sqlite:///{tmp_path}/h.sqlite")


def put_folder_in_place_of(file: Path) -> None:
    file.unlink()
    file.mkdir()


def take_away(folder: Path) -> None:
    folder.rmdir()


async def test_page_and_api_tell_why_a_source_cannot_be_read(store: Store, history: History) -> None:
    class Broken(FixedSource):
        async def observe(self) -> list[Observation]:
            raise SourceError("could not ask Prometheus: see `prometheus.url`")

    bad, good = Broken([], name="http://bad"), FixedSource([], name="http://good")
    recorder = Recorder([bad, good], Fleet(), store, interval=15)
    async with client_of(create_app(Fleet(), history, recorder=recorder)) as client:
        for source in (bad, good):
            await recorder.observe(source)
        page = (await client.get("/fragments/fleet")).text
        assert "<strong>Source:</strong> could not ask Prometheus: see <code>prometheus.url</code>" in page
        assert (await client.get("/api/v1/sources")).json() == [
            {"name": "http://bad", "readable": False, "problem": "could not ask Prometheus: see `prometheus.url`"},
            {"name": "http://good", "readable": True, "problem": None},
        ]


async def test_a_source_that_nobody_asked_yet_is_not_said_to_be_readable(store: Store, history: History) -> None:
    good = FixedSource([], name="http://good")
    recorder = Recorder([good], Fleet(), store, interval=15)
    app = create_app(Fleet(), history, recorder=recorder)
    # Not with its lifespan: it would begin to read by the clock.
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        for readable in (None, True):
            told = (await client.get("/api/v1/sources")).json()
            assert told == [{"name": "http://good", "readable": readable, "problem": None}]
            await recorder.observe(good)


async def test_a_server_named_as_a_sidecar_is_told_everywhere_and_counts_as_down(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    at = 1_796_032_800.0
    async with serving(pages({"/metrics": response(PAGE)})) as served:
        config = MonitorConfig(sources=Sources(sidecars=(served.url,)), history=HistorySection(path=tmp_path / "h"))
        monitor = assemble(config, clock=lambda: at)
        [source] = monitor.recorder.sources
        for _ in range(8):
            await monitor.recorder.observe(source)
            monitor.watch.turn()
            at += 60
        app = create_app(monitor.fleet, monitor.history, recorder=monitor.recorder)
        # Not with its lifespan: it would begin to read by the clock.
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
            [row] = (await client.get("/api/v1/sources")).json()
            page = (await client.get("/")).text
        await source.aclose()
    assert (row["name"], row["readable"]) == (served.url, False)
    assert "this is vllm itself: name it under `servers` of a sidecar" in row["problem"]
    assert "this is vllm itself: name it under <code>servers</code> of a sidecar" in page
    assert [r.getMessage() for r in caplog.records if "vllm itself" in r.getMessage()] == [
        f"{served.url}: {row['problem']}"
    ]
    [down] = AlertStore(monitor.database).find(Wanted(100, at, name="SidecarDown"))
    assert (down.labels["instance"], down.ends_at) == (served.url.removeprefix("http://"), None)
    monitor.close()


async def test_the_page_tells_that_the_history_cannot_be_written(database: Engine, history: History) -> None:
    recorder = Recorder([], Fleet(), Store(database), interval=15)
    quiet = FixedSource([observation(30)])
    path = Path(database.url.database or "")
    async with client_of(create_app(Fleet(), history, recorder=recorder)) as client:
        assert "History:" not in (await client.get("/")).text
        await recorder.observe(quiet)
        put_folder_in_place_of(path)
        await recorder.observe(quiet)
        told = (await client.get("/fragments/fleet")).text
        assert "<strong>History:</strong>" in told
        assert "could not use the history at" in told
        take_away(path)
        await recorder.observe(quiet)
        told = (await client.get("/")).text
        assert "could not use" not in told
        assert "was deleted while inferwatch ran: what it held is lost; the history goes on without it" in told
