from collections.abc import AsyncIterator

import httpx
import pytest

from monitor.app import create_app
from monitor.fleet import Fleet
from monitor.history.ask import History
from tests.monitor.gpu_data import GIB, busy_host

NOW = 1_796_032_800.0


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


@pytest.fixture
async def client(fleet: Fleet, history: History) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(fleet, history, node="n1", clock=lambda: NOW)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        yield client


async def test_gpus_are_listed_with_instances_and_lost_ones(client: httpx.AsyncClient, fleet: Fleet) -> None:
    assert (await client.get("/api/v1/gpus")).json() == []
    for told in busy_host(NOW):
        fleet.gpus.update("gpu-07", told)
    rows = {row["gpu"]: row for row in (await client.get("/api/v1/gpus")).json()}
    assert list(rows) == ["0", "1", "2", "3", "3:0", "3:1", "4"]
    assert (rows["0"]["power_watts"], rows["0"]["memory_total_bytes"]) == (642.25, 79.6 * GIB)
    assert rows["0"]["servers"] == ["chat-a"]
    assert rows["1"]["throttled"] == {"power": 0.5}
    assert (rows["2"]["up"], rows["2"]["power_watts"]) == (False, None)
    assert rows["2"]["findings"][1]["detail"] == "XID 79: the GPU has fallen off the bus"
    assert rows["3:1"]["parent"] == "GPU-3"
    assert rows["4"]["fields"][0]["reason"] == "not permitted to this process"


async def test_the_description_has_the_shape_of_a_gpu(client: httpx.AsyncClient) -> None:
    described = (await client.get("/openapi.json")).json()
    assert "/api/v1/gpus" in described["paths"]
    assert {"uuid", "utilization", "throttled"} <= described["components"]["schemas"]["GpuRow"]["properties"].keys()
