from collections.abc import AsyncIterator

import httpx
import pytest
from sqlalchemy import Engine

from monitor.app import create_app
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.recording import Recording
from monitor.history.store import Store
from tests.monitor.gpu_data import GIB, bare_host, busy_host, gathered, lost, reading

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
    assert (await client.get("/api/v1/gpus")).json() == {"hosts": [], "gpus": []}
    for told in busy_host(NOW):
        fleet.gpus.update("gpu-07", told)
    rows = {row["gpu"]: row for row in (await client.get("/api/v1/gpus")).json()["gpus"]}
    assert list(rows) == ["0", "1", "2", "3", "3:0", "3:1", "4"]
    assert (rows["0"]["power_watts"], rows["0"]["memory_total_bytes"]) == (642.25, 79.6 * GIB)
    assert rows["0"]["servers"] == ["chat-a"]
    assert rows["1"]["throttled"] == {"power": 0.5}
    assert (rows["2"]["up"], rows["2"]["power_watts"]) == (False, None)
    assert rows["2"]["findings"][1]["detail"] == "XID 79: the GPU has fallen off the bus"
    assert rows["3:1"]["parent"] == "GPU-3"
    assert rows["4"]["fields"][0]["reason"] == "not permitted to this process"


async def test_where_no_gpu_can_be_read_the_host_says_why(client: httpx.AsyncClient, fleet: Fleet) -> None:
    fleet.gpus.update("cpu-1", bare_host(NOW))
    told = (await client.get("/api/v1/gpus")).json()
    [host] = told["hosts"]
    assert (host["node"], host["available"], told["gpus"]) == ("cpu-1", False, [])
    assert host["findings"][0]["detail"] == "libnvidia-ml.so.1 is not here"


async def test_first_and_last_sight_come_from_the_history_too(
    client: httpx.AsyncClient, fleet: Fleet, store: Store
) -> None:
    """The monitor was started anew while GPU 2 was lost."""
    recording = Recording(store, 15)
    for at in (NOW - 7200, NOW - 7185):
        recording.record([], at, gathered(at, reading("0"), reading("2")).gpus)
    recording.flush()
    fleet.gpus.update("gpu-07", gathered(NOW, reading("0"), reading("1"), lost("2")))
    rows = (await client.get("/api/v1/gpus")).json()["gpus"]
    assert [(row["first_seen"], row["last_seen"]) for row in rows] == [
        (NOW - 7200, NOW),
        (None, NOW),
        (NOW - 7200, NOW - 7185),
    ]


async def test_a_history_that_cannot_be_read_costs_first_sight_alone(
    client: httpx.AsyncClient, fleet: Fleet, database: Engine
) -> None:
    fleet.gpus.update("gpu-07", gathered(NOW, reading("0")))
    with database.begin() as connection:
        connection.exec_driver_sql("DROP TABLE series")
    [row] = (await client.get("/api/v1/gpus")).json()["gpus"]
    assert (row["up"], row["first_seen"], row["last_seen"]) == (True, None, NOW)


async def test_the_description_has_the_shape_of_a_gpu(client: httpx.AsyncClient) -> None:
    described = (await client.get("/openapi.json")).json()
    assert "/api/v1/gpus" in described["paths"]
    assert {"uuid", "utilization", "throttled"} <= described["components"]["schemas"]["GpuRow"]["properties"].keys()
