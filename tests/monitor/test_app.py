import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from exporters.config import Config, Server
from exporters.sidecar import Sidecar
from monitor.app import create_app
from monitor.assembly import assemble
from monitor.config import HistorySection, MonitorConfig, Sources
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.database import DatabaseError, open_database, upgrade
from monitor.history.store import Store
from monitor.recorder import Recorder
from monitor.sources.in_process import InProcess
from tests.exporters.servers import pages, response, serving

PAGE = (Path(__file__).parents[1] / "captures" / "vllm" / "0.32.0" / "A-1-mid12.prom").read_text()


@asynccontextmanager
async def client_of(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client,
    ):
        yield client


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


async def test_everything_runs_in_one_process(tmp_path: Path) -> None:
    async with serving(pages({"/metrics": response(PAGE)})) as served:
        sidecar = Sidecar(Config(node="n1", servers=(Server.model_validate({"url": served.url, "name": "a"}),)))
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


def test_a_history_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path}/h.sqlite")
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(DatabaseError, match=r"'9999'; it was written by a newer release"):
        upgrade(engine)
    engine.dispose()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "h.sqlite").write_text("no database at all, but long enough to be taken for one" * 30)
    engine = open_database(f"sqlite:///{tmp_path}/h.sqlite")
    with pytest.raises(DatabaseError, match="file is not a database"):
        upgrade(engine)
    engine.dispose()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseError, match=re.escape(f"could not make the history's folder {tmp_path}/file/x")):
        open_database(f"sqlite:///{tmp_path}/file/x/h.sqlite")
