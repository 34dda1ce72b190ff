from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from demo.fleet import Fleet, Service
from demo.lengths import Fixed
from demo.model import Limits
from demo.serve import Served, example, serve
from demo.server import Spec
from demo.transport import FleetTransport, gpu_url, server_url
from demo.virtual import VirtualLoop
from demo.workload import Mix, Rate

START = 1_796_000_000.0


@dataclass
class Clock:
    now: float = START

    def __call__(self) -> float:
        return self.now


def fleet() -> Fleet:
    specs = [Spec(name, "rack-1", "vllm", "0.32.0", "m", (n,), Limits()) for n, name in enumerate("ab")]
    return Fleet(
        specs, [Service("chat", ("a", "b"), Mix("mix", Fixed(50), Fixed(20)), Rate(2.0))], {"rack-1": 2}, seed=1,
        start=START,
    )  # fmt: skip


@asynccontextmanager
async def served(clock: Clock) -> AsyncIterator[tuple[Served, httpx.AsyncClient]]:
    async with serve(fleet(), clock) as places, httpx.AsyncClient(timeout=60) as client:
        yield places, client


async def post(client: httpx.AsyncClient, places: Served, body: object) -> httpx.Response:
    return await client.post(places.faults, json=body)


async def test_each_server_and_each_hosts_gpus_have_an_address() -> None:
    clock = Clock()
    async with served(clock) as (places, client):
        clock.now += 60
        pages = [await client.get(f"{places.servers[name]}/metrics") for name in "ab"]
        gpus = await client.get(places.gpu_pages["rack-1"])
        missing = await client.get(f"{places.servers['a']}/nothing")
        refused = await client.post(f"{places.servers['a']}/metrics")
    assert all("vllm:generation_tokens_total{" in page.text for page in pages)
    assert "DCGM_FI_DEV_GPU_UTIL{" in gpus.text
    assert (missing.status_code, refused.status_code) == (404, 405)


async def test_the_example_can_be_typed_as_it_is_printed() -> None:
    async with served(Clock()) as (places, client):
        order = json.loads(example(places).split("'")[3])
        answer = await post(client, places, order)
    assert (answer.status_code, answer.json()[0]["state"]) == (201, "planned")


async def test_a_fault_is_ordered_listed_and_ended() -> None:
    clock = Clock()
    async with served(clock) as (places, client):
        (ordered,) = (await post(client, places, {"kind": "down", "target": "a"})).json()
        clock.now += 1
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{places.servers['a']}/metrics")
        (listed,) = (await client.get(places.faults)).json()["faults"]
        ended = (await client.delete(f"{places.faults}/{ordered['number']}")).json()
        back = await client.get(f"{places.servers['a']}/metrics")
    assert listed == {
        "number": 1, "kind": "down", "target": "a", "begins": START, "ends": START + 900, "state": "active",
    }  # fmt: skip
    assert (ended["ends"], ended["state"]) == (START + 1, "over")
    assert back.status_code == 200


async def test_a_server_that_is_down_refuses_connections_until_it_is_back_at_the_same_address() -> None:
    clock = Clock()
    async with served(clock) as (places, client):
        page = f"{places.servers['a']}/metrics"
        before = await client.get(page)
        await post(client, places, {"kind": "restart", "target": "a", "down": 30})
        with pytest.raises(httpx.ConnectError):
            await client.get(page)
        other = await client.get(f"{places.servers['b']}/metrics")
        clock.now += 31
        await post(client, places, [])
        after = await client.get(page)
    assert (before.status_code, other.status_code, after.status_code) == (200, 200, 200)


async def test_kinds_parameters_and_targets_are_told() -> None:
    async with served(Clock()) as (places, client):
        told = (await client.get(places.faults)).json()
    assert told["targets"] == {
        "server": ["a", "b"], "service": ["chat"], "replicas": ["chat"], "gpu": ["rack-1/0", "rack-1/1"],
    }  # fmt: skip
    overload: dict[str, Any] = told["kinds"]["overload"]
    assert overload["on"] == "server"
    assert overload["parameters"]["load"].endswith("a number from 0.1 to 20 (default 1.5)")
    assert overload["parameters"]["factor"].endswith("a number from 1.1 to 200 (no default)")


async def test_what_is_wrong_with_an_order_is_answered() -> None:
    async with served(Clock()) as (places, client):
        unknown = await post(client, places, [{"kind": "hang", "target": "a"}, {"kind": "hang", "target": "c"}])
        form = await client.post(places.faults, data={"kind": "hang"})
        broken = await client.post(places.faults, content=b"{", headers={"Content-Type": "application/json"})
        deep = await client.post(places.faults, content=b"[" * 20_000, headers={"Content-Type": "application/json"})
        twice = await client.post(
            places.faults,
            content=b'[{"kind": "hang", "target": "a", "target": "b"}]',
            headers={"Content-Type": "application/json"},
        )
        nobody = await client.delete(f"{places.faults}/7")
        no_number = await client.delete(f"{places.faults}/x")
        endless = await client.delete(f"{places.faults}/{'9' * 5000}")
        elsewhere = await client.put(places.faults, json={})
        listed = (await client.get(places.faults)).json()["faults"]
    assert unknown.status_code == form.status_code == broken.status_code == nobody.status_code == 422
    assert unknown.json()["error"] == "[1].target: 'c': allowed: a, b"
    assert form.json()["error"].startswith(
        "Content-Type: 'application/x-www-form-urlencoded': allowed: application/json"
    )
    assert broken.json()["error"].startswith("body: '{': allowed: JSON (")
    assert (twice.status_code, twice.json()["error"]) == (
        422,
        "body: 'target': allowed: each name once in an object",
    )
    assert (deep.status_code, deep.json()["error"][:9]) == (422, "body: '[[")
    assert nobody.json()["error"] == "number: 7: allowed: none: there is no fault"
    assert no_number.json()["error"] == "number: 'x': allowed: the number of a fault"
    assert endless.json()["error"].endswith("999': allowed: the number of a fault")
    assert elsewhere.status_code == 405
    assert "allowed: GET /faults, POST /faults, DELETE /faults/NUMBER, GET /truth" in elsewhere.json()["error"]
    assert listed == []


async def told_by_its_head(places: Served, *lines: str) -> tuple[int, Any]:
    """Of an order without a body."""
    place = httpx.URL(places.faults)
    reader, writer = await asyncio.open_connection(place.host, place.port)
    writer.write("\r\n".join(["POST /faults HTTP/1.1", "Content-Type: application/json", *lines, "", ""]).encode())
    writer.write_eof()
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), json.loads(body)


async def test_an_order_that_is_too_long_is_refused_before_it_is_read() -> None:
    async with served(Clock()) as (places, client):
        headers = {"Content-Type": "application/json"}
        endless = await told_by_its_head(places, "Content-Length: 99999999")
        long = await client.post(places.faults, headers=headers, content=b" " * 3_000_000)
        allowed = await client.post(places.faults, headers=headers, content=b" " * 65_534 + b"[]")
    assert endless == (413, {"error": "Content-Length: 99999999: allowed: at most 65536 bytes"})
    assert (long.status_code, allowed.status_code) == (413, 201)


async def test_an_order_says_how_long_it_is() -> None:
    async with served(Clock()) as (places, _):
        chunked = await told_by_its_head(places, "Transfer-Encoding: chunked")
        odd = await told_by_its_head(places, "Content-Length: -1")
    assert chunked == (411, {"error": "Transfer-Encoding: 'chunked': allowed: Content-Length instead"})
    assert odd == (400, {"error": "Content-Length: '-1': allowed: a number of bytes"})


async def test_a_server_that_is_silent_keeps_its_caller_waiting_and_no_other() -> None:
    async with served(Clock()) as (places, client):
        await post(client, places, {"kind": "silent", "target": "a"})
        waiting = asyncio.create_task(client.get(f"{places.servers['a']}/metrics", timeout=60))
        assert (await client.get(f"{places.servers['b']}/metrics")).status_code == 200
        assert not waiting.done()
        waiting.cancel()


async def test_a_page_that_breaks_off_says_how_long_it_was_to_be() -> None:
    async with served(Clock()) as (places, client):
        await post(client, places, {"kind": "truncated_body", "target": "a", "share": 0.5})
        with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
            await client.get(f"{places.servers['a']}/metrics")


def in_process(
    *orders: dict[str, object], url: str, at: float = 60.0
) -> tuple[httpx.Response | type[Exception], float]:
    """What comes of asking without a port, and how many seconds that took."""

    async def ask() -> tuple[httpx.Response | type[Exception], float]:
        loop, made = asyncio.get_running_loop(), fleet()
        made.order(list(orders), START)
        await asyncio.sleep(at)
        began = loop.time()
        async with httpx.AsyncClient(transport=FleetTransport(made)) as client:
            try:
                answer: httpx.Response | type[Exception] = await asyncio.wait_for(client.get(url), 30)
            except (httpx.HTTPError, TimeoutError) as error:
                answer = type(error)
        return answer, loop.time() - began

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(START)) as runner:
        return runner.run(ask())


PAGE = f"{server_url('a')}/metrics"


@pytest.mark.parametrize(
    ("kind", "came", "seconds"),
    [
        ("down", httpx.ConnectError, 0),
        ("silent", TimeoutError, 30),
        ("truncated_body", httpx.RemoteProtocolError, 0),
        ("slow_body", 200, 5),
        ("unauthorized", 401, 0),
    ],
)
def test_without_a_port_faults_are_the_same(kind: str, came: object, seconds: float) -> None:
    answer, took = in_process({"kind": kind, "target": "a"}, url=PAGE)
    assert (answer.status_code if isinstance(answer, httpx.Response) else answer) == came
    assert took == pytest.approx(seconds, abs=0.01)


def test_without_a_port_servers_and_hosts_are_found_by_their_names() -> None:
    for url, status in ((PAGE, 200), (gpu_url("rack-1"), 200), (f"{server_url('a')}/x", 404)):
        answer, _ = in_process(url=url)
        assert isinstance(answer, httpx.Response)
        assert answer.status_code == status
    assert in_process(url=f"{server_url('c')}/metrics")[0] is httpx.ConnectError
