"""The sidecar with GPUs: as a process of its own on the stub library, and as an object where there is no GPU."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from exporters.app import create_app
from exporters.config import Config
from exporters.exposition import read_samples
from exporters.sidecar import Sidecar
from tests.exporters.gpu import scripted
from tests.exporters.gpu.scripted import Script, gpu, host, uuid
from tests.exporters.held import held_time
from tests.exporters.process import LONG, Process
from tests.exporters.servers import pages, response, serving, silence

POWER = "nvmlDeviceGetPowerUsage"
SCRAPE = {"scrape": {"timeout": LONG}}


class Running:
    """A sidecar process, and the script of its GPUs."""

    def __init__(self, folder: Path, library: Path, config: str) -> None:
        self._script = folder / "script"
        path = folder / "inferwatch.yml"
        path.write_text(f"node: rack-1\nlisten: {{port: 0}}\nscrape: {{timeout: {LONG:g}s}}\n{config}")
        self.say(host(gpu(0), gpu(1)))
        environment = {"LD_LIBRARY_PATH": str(library), "NVML_SCRIPT": str(self._script)}
        self.process = Process("--config", str(path), folder=folder, environment=environment)

    def say(self, script: Script) -> None:
        scripted.write(self._script, script)

    def samples(self, metric: str) -> dict[str, float]:
        """By uuid."""
        read = read_samples(self.process.get("/metrics"))
        return {s.labels.get("uuid", ""): s.value for s in read if s.name == metric}


@pytest.fixture
def running(tmp_path: Path, library: Path) -> Iterator[Running]:
    made = Running(tmp_path, library, "gpus: {servers: {a: [1]}}\n")
    yield made
    made.process.close()


def test_gpus_stand_on_the_page_beside_the_servers(running: Running) -> None:
    assert running.samples("gpu_power_watts") == {uuid(0): 642.25, uuid(1): 642.25}
    running.say(host(gpu(0, power=100_000), gpu(1) | {(1, "err"): 15}))
    assert running.samples("gpu_power_watts") == {uuid(0): 100}
    assert running.samples("gpu_up") == {uuid(0): 1, uuid(1): 0}
    assert running.samples("gpu_server_info") == {uuid(1): 1}
    assert running.samples("inferwatch_gpu_finding") == {uuid(1): 1}
    assert running.samples("inferwatch_gpu_available") == {"": 1}


def test_a_call_that_hangs_does_not_hold_up_the_page(running: Running) -> None:
    running.samples("gpu_up")
    running.say(host(gpu(0), gpu(1) | {(1, f"hang.{POWER}"): 3_600_000}))
    end, text, up = time.monotonic() + LONG, "", dict[str, float]()
    # Where the sidecar stands still, the other one may be late too.
    while up.get(uuid(0)) != 1 and time.monotonic() < end:
        text = running.process.get("/metrics", {"X-Prometheus-Scrape-Timeout-Seconds": "2"})
        up = {s.labels["uuid"]: s.value for s in read_samples(text) if s.name == "gpu_up"}
    assert up == {uuid(0): 1, uuid(1): 0}
    assert 'reason="gpu_timeout"' in text
    assert running.process.stop() == 0


def test_the_debug_page_says_where_readings_come_from_and_why_one_is_missing(running: Running) -> None:
    running.say(host(gpu(0), gpu(1) | {(1, f"err.{POWER}"): 3}))
    text = running.process.get("/debug/gpus")
    assert "<td>nvmlDeviceGetUtilizationRates</td>" in text
    assert "this GPU does not have it, or not in its present mode" in text
    assert "gpu_power_watts{gpu=&quot;0&quot;" in text


def test_the_sidecar_stays_small_with_gpus_and_ends_in_order(running: Running) -> None:
    for _ in range(3):
        assert len(running.samples("gpu_up")) == 2
    assert running.process.resident_kb() < 80_000
    assert running.process.stop() == 0
    assert "Traceback" not in running.process.text()


@pytest.fixture
async def made() -> AsyncIterator[list[Sidecar]]:
    sidecars: list[Sidecar] = []
    yield sidecars
    for each in sidecars:
        await each.aclose()


def sidecar(made: list[Sidecar], **config: object) -> Sidecar:
    settings = {"node": "rack-1", **SCRAPE, **config}
    made.append(Sidecar(Config.model_validate(settings), clock=lambda: 1_800_000_000.0))
    return made[-1]


async def text_of(of: Sidecar) -> str:
    return of.page(await of.collect())


async def test_a_host_without_a_driver_says_so_and_the_rest_runs(
    made: list[Sidecar], caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(pages({"/metrics": response("vllm:num_requests_running 1\n")})) as served:
        here = sidecar(made, servers=[{"url": served.url}])
        with caplog.at_level("INFO"):
            text = await text_of(here)
            text = await text_of(here)
    assert 'llm_up{node="rack-1"' in text
    assert 'inferwatch_gpu_available{node="rack-1"} 0.0' in text
    assert 'inferwatch_gpu_finding{node="rack-1",reason="gpu_none",severity="info"} 1.0' in text
    assert len([r for r in caplog.records if r.message.startswith("gpu: unavailable, libnvidia-ml.so.1")]) == 1
    assert here.gpus() == []
    assert here.gpu_readings is not None


async def test_gpus_that_are_not_wanted_are_not_on_the_page(made: list[Sidecar]) -> None:
    here = sidecar(made, gpus={"source": "off"})
    assert "gpu_" not in await text_of(here)
    assert (here.gpus(), here.gpu_readings) == ([], None)


async def test_a_probe_tells_of_its_server_alone(made: list[Sidecar]) -> None:
    here = sidecar(made, probe={"allow": ["127.0.0.1:*"]})
    async with serving(pages({})) as served:
        assert "gpu_" not in here.page([await here.probe(served.url)], own=False)


DCGM = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 66\nDCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a"} -1\n'


async def test_gpus_are_read_from_dcgm_exporter_where_the_configuration_says_so(made: list[Sidecar]) -> None:
    async with serving(pages({"/metrics": response(DCGM)})) as served:
        here = sidecar(made, gpus={"dcgm": served.url, "servers": {"a": [0]}})
        text = await text_of(here)
    assert 'gpu_temperature_celsius{gpu="0",node="rack-1",sensor="core",uuid="GPU-a"} 66.0' in text
    assert 'gpu_server_info{gpu="0",node="rack-1",server="a",source="config",uuid="GPU-a"} 1.0' in text
    assert 'inferwatch_gpu_dropped_samples_total{node="rack-1",reason="negative"} 1.0' in text
    assert [g.uuid for g in here.gpus()] == ["GPU-a"]


async def test_who_asks_meanwhile_joins_the_reading_that_is_under_way(made: list[Sidecar]) -> None:
    async with serving(pages({"/metrics": response(DCGM)})) as served:
        here = sidecar(made, gpus={"dcgm": served.url})
        await asyncio.gather(*(here.collect() for _ in range(5)))
        assert served.count("/metrics") == 1


async def test_a_page_that_does_not_come_is_late_and_nobody_waits(made: list[Sidecar]) -> None:
    async with serving(silence) as served:
        here = sidecar(made, gpus={"dcgm": served.url})
        with held_time() as held:
            collecting = asyncio.create_task(here.collect(0.2))
            await served.asked.wait()
            while not collecting.done():
                held.pass_by(0.001)
                await asyncio.sleep(0)
    assert here.gpu_readings is not None
    assert not here.gpu_readings.available
    assert [(f.reason, f.detail) for f in here.gpu_readings.findings] == [
        ("gpu_page_unreadable", "timeout: before the server answered")
    ]


async def test_a_reload_takes_a_new_source_and_keeps_one_that_did_not_change(made: list[Sidecar]) -> None:
    async with serving(pages({"/metrics": response(DCGM)})) as served:
        wanted = {"dcgm": served.url}
        here = sidecar(made, gpus={"source": "off"})
        here.reload(Config.model_validate({"node": "rack-1", "gpus": wanted, **SCRAPE}))
        await here.collect()
        before = here.gpu_readings
        here.reload(
            Config.model_validate({"node": "rack-1", "gpus": wanted, "scrape": {"interval": 5, "timeout": LONG}})
        )
        assert here.gpu_readings is before
        here.reload(Config.model_validate({"node": "rack-2", "gpus": wanted, **SCRAPE}))
        await here.collect()
        assert [g.node for g in here.gpus()] == ["rack-2"]
        here.reload(Config.model_validate({"gpus": {"source": "off"}}))
        assert here.gpus() == []


async def test_the_debug_page_shows_gpus_and_escapes_what_the_page_wrote() -> None:
    evil = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="<script>alert(1)</script>"} 66\n'
    async with serving(pages({"/metrics": response(evil)})) as served:
        here = Sidecar(Config.model_validate({"gpus": {"dcgm": served.url}, **SCRAPE}))
        app = create_app(here)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://sidecar") as client,
        ):
            text = (await client.get("/debug/gpus")).text
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "add DCGM_FI_DEV_ENFORCED_POWER_LIMIT" in text or "ENFORCED_POWER_LIMIT" in text


async def test_the_debug_page_of_a_host_whose_gpus_are_not_read_says_so() -> None:
    app = create_app(Sidecar(Config.model_validate({"gpus": {"source": "off"}})))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://sidecar") as client,
    ):
        assert "No GPUs are read here" in (await client.get("/debug/gpus")).text
