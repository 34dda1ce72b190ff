"""From NVIDIA's binding on the stub library, over a sidecar of its own, to the history and the API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from monitor.app import create_app
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.database import open_database, sqlite_url, upgrade
from monitor.history.store import Store
from monitor.recorder import Recorder
from monitor.sources.sidecar_url import SidecarUrl
from tests.exporters.gpu import scripted
from tests.exporters.gpu.scripted import MIB, Script, gpu, host, uuid
from tests.exporters.process import Process
from tests.exporters.servers import pages, response, serving
from tests.monitor.history.stored import rows

START = 1_796_032_800.0
BUS = {"err": 15}
PAGE = 'vllm:num_requests_running{engine="0",model_name="m"} 1\n'


class Rack:
    """A sidecar process whose GPUs do what is said, and a monitor with a clock that stands still."""

    now = START

    def __init__(self, folder: Path, library: Path, server: str) -> None:
        self._script = folder / "script"
        self.say(host(gpu(0), gpu(1)))
        config = folder / "inferwatch.yml"
        servers = f"servers: [{{name: a, url: '{server}'}}]\ngpus: {{servers: {{a: [0]}}}}\n"
        config.write_text(f"node: rack-1\nlisten: {{port: 0}}\n{servers}")
        environment = {"LD_LIBRARY_PATH": str(library), "NVML_SCRIPT": str(self._script)}
        self.sidecar = Process("--config", str(config), folder=folder, environment=environment)
        port = self.sidecar.until(r"listening on http://127\.0\.0\.1:(\d+)")[1]
        self.database = open_database(sqlite_url(folder / "history.sqlite"))
        upgrade(self.database)
        self.source = SidecarUrl(f"http://127.0.0.1:{port}", 30.0, clock=self.clock)
        self.fleet = Fleet()
        self.recorder = Recorder([self.source], self.fleet, Store(self.database), interval=15, clock=self.clock)

    def clock(self) -> float:
        return self.now

    def say(self, script: Script) -> None:
        scripted.write(self._script, script)

    async def read(self, *after: float) -> None:
        """At so many seconds after the start."""
        for seconds in after:
            self.now = START + seconds
            await self.recorder.observe(self.source)

    async def close(self) -> None:
        await self.source.aclose()
        self.database.dispose()
        self.sidecar.close()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scripted.compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
async def rack(tmp_path: Path, library: Path) -> AsyncIterator[Rack]:
    async with serving(pages({"/metrics": response(PAGE)})) as server:
        made = Rack(tmp_path, library, server.url)
        yield made
        await made.close()


def minutes(database: Engine, number: int) -> dict[float, dict[str, float]]:
    """Of one GPU, by seconds after the start."""
    found = rows(Path(database.url.database or ""), "gpu_minute")
    return {start - START: row for (identity, start), row in found.items() if uuid(number) in identity}


async def test_what_a_gpu_does_in_a_minute_is_a_row_of_the_history(rack: Rack) -> None:
    await rack.read(15)
    rack.say(host(gpu(0, energy=123_456_789 + 9_000_000, power=600_000), gpu(1)))
    await rack.read(30)
    rack.say(host(gpu(0, energy=123_456_789 + 19_500_000, power=700_000, field_74=8_000_000_000), gpu(1)))
    await rack.read(45, 75)
    [row] = minutes(rack.database, 0).values()
    assert (row["samples"], row["covered_seconds"], row["increase_seconds"], row["up_avg"]) == (3, 45, 30, 1)
    assert row["power_watts_avg"] == pytest.approx((642.25 + 600 + 700) / 3)
    assert row["power_watts_max"] == 700
    assert row["energy_joules"] == pytest.approx(19_500), "9 kJ, then 10.5 kJ"
    assert row["throttled_seconds_power"] == 5, "from 3 s to 8 s"
    assert (row["memory_used_bytes_avg"], row["temperature_celsius_memory_max"]) == (70_000 * MIB, 79)
    assert (row["clock_hertz_sm_avg"], row["ecc_errors_corrected"]) == (1_755e6, 0)


async def test_the_hour_of_a_gpu_can_be_asked_and_stands_on_the_page_of_its_server(rack: Rack) -> None:
    await rack.read(15, 30, 45, 75)
    app = create_app(rack.fleet, History(rack.database), clock=rack.clock)
    asked = {"metric": "gpu_power_watts", "group_by": "uuid", "since": "10m"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as api:
        answers = (await api.get("/api/v1/history", params=asked)).json()["answers"]
        page = (await api.get("/servers/rack-1/a")).text
    assert [(a["labels"]["uuid"], [p["value"] for p in a["points"]]) for a in answers] == [
        (uuid(0), [642.25]),
        (uuid(1), [642.25]),
    ]
    assert "Power, last hour: latest 642 W" in page
    assert "Utilisation, last hour: latest 93 %" in page


async def test_a_gpu_that_is_lost_is_a_row_and_an_event_and_its_server_keeps_it(rack: Rack) -> None:
    await rack.read(15, 30)
    rack.say(host(gpu(0) | {(0, key): code for key, code in BUS.items()}, gpu(1)))
    await rack.read(45, 60, 75)
    assert [row["up_avg"] for row in minutes(rack.database, 0).values()] == [0.5]
    assert [row["up_avg"] for row in minutes(rack.database, 1).values()] == [1]
    app = create_app(rack.fleet, History(rack.database), clock=rack.clock)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as api:
        events = (await api.get("/api/v1/events", params={"node": "rack-1"})).json()
        lost, other = (await api.get("/api/v1/gpus")).json()["gpus"]
    assert [(e["at"] - START, e["uuid"], e["text"]) for e in events] == [(45, uuid(0), "does not answer")]
    assert (lost["up"], lost["first_seen"], lost["last_seen"]) == (False, START + 15, START + 30)
    assert (other["up"], other["last_seen"]) == (True, START + 75)
    with rack.database.connect() as connection:
        told = connection.exec_driver_sql("SELECT info FROM series WHERE scope = 'target'").scalar_one()
    assert json.loads(told) == {"gpu": "NVIDIA H100 80GB HBM3", "gpus": f"{uuid(0)} NVIDIA H100 80GB HBM3"}
