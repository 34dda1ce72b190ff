from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from monitor.app import create_app
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.recording import Recording
from monitor.history.store import Store
from tests.monitor.gpu_data import gathered, lost, reading
from tests.monitor.observations import observation, series

NOW = 1_796_032_800.0


@pytest.fixture
async def client(store: Store, history: History) -> AsyncIterator[httpx.AsyncClient]:
    """A server that is updated 2 hours ago, with another flag, while a GPU of its node is lost for a moment."""
    recording, fleet = Recording(store, 15), Fleet()
    for n, (version, length) in enumerate([("0.32.0", "8192"), ("0.33.0", "32768"), ("0.33.0", "32768")]):
        at = NOW - 7200 + 15 * n
        info = series("llm_server_info", version=version, max_model_len=length)
        seen = observation(at, {info: 1}, start_time=1000.0 * (n > 0))
        recording.record([seen], at, gathered(at, lost("0") if n == 1 else reading("0"), node="n1").gpus)
    recording.flush()
    fleet.update([observation(NOW)])
    app = create_app(fleet, history, node="n1", clock=lambda: NOW)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        yield client


async def events(client: httpx.AsyncClient, **params: Any) -> list[tuple[float, str]]:
    response = await client.get("/api/v1/events", params=params)
    assert response.status_code == 200, response.text
    return [(event["at"] - NOW, event["kind"]) for event in response.json()]


async def test_events_are_annotations(client: httpx.AsyncClient) -> None:
    told = (await client.get("/api/v1/events", params={"since": "3h"})).json()
    assert told[0] == {
        "at": NOW - 7170, "kind": "state", "before": "down", "after": "up", "text": "answers again",
        "node": "n1", "server": None, "uuid": "GPU-0", "gpu": "0",
    }  # fmt: skip
    assert told[3] == {
        "at": NOW - 7185, "kind": "restart", "before": None, "after": None, "text": "restarted",
        "node": "n1", "server": "s1", "uuid": None, "gpu": None,
    }  # fmt: skip
    assert [event["text"] for event in told[1:]] == [
        "does not answer",
        "max model len: 8192 → 32768",
        "restarted",
        "version: 0.32.0 → 0.33.0",
    ]


async def test_events_can_be_chosen_by_what_and_when(client: httpx.AsyncClient) -> None:
    assert await events(client, server="s1", kind="version,restart") == [(-7185, "restart"), (-7185, "version")]
    assert await events(client, kind=["state"], limit=1) == [(-7170, "state")]
    assert await events(client, uuid="GPU-0", until=NOW - 7180) == [(-7185, "state")]
    assert await events(client, node="n2") == []
    assert await events(client, server="no\0server") == []
    assert await events(client, since="1h") == []


async def test_events_of_a_server_stand_with_it(client: httpx.AsyncClient) -> None:
    told = (await client.get("/api/v1/servers/n1/s1")).json()
    assert [event["kind"] for event in told["events"]] == ["max_model_len", "restart", "version"]
    assert (told["first_seen"], told["last_seen"]) == (NOW - 7200, NOW)


@pytest.mark.parametrize(
    ("params", "parameter", "meant"),
    [
        ({"kind": "restarts"}, "kind", "restart"),
        ({"since": "yesterday"}, "since", None),
        ({"since": "now", "until": "1h"}, "until", None),
        ({"limit": "0"}, "limit", None),
        ({"serer": "s1"}, "serer", "server"),
    ],
)
async def test_what_is_wrong_is_named(
    client: httpx.AsyncClient, params: dict[str, str], parameter: str, meant: str | None
) -> None:
    response = await client.get("/api/v1/events", params=params)
    assert response.status_code == 400
    told = response.json()
    assert (told["parameter"], told.get("meant")) == (parameter, meant)
    assert told["allowed"]
