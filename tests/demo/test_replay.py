from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from demo import replay

RECORDINGS = {recording.name: recording for recording in replay.recordings()}


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def client_of(recording: replay.Recording, clock: Clock) -> AsyncIterator[httpx.AsyncClient]:
    async with replay.serve(recording, clock=clock) as url, httpx.AsyncClient(base_url=url) as client:
        yield client


def recorded(*bodies: bytes, endpoints: dict[str, replay.Answer] | None = None) -> replay.Recording:
    return replay.Recording("r", 15.0, bodies, endpoints or {})


def total(body: bytes, metric: str) -> float:
    families = text_string_to_metric_families(body.decode())
    return sum(s.value for family in families for s in family.samples if s.name == metric)


def increases(recording: replay.Recording) -> list[float]:
    values = [total(body, "vllm:generation_tokens_total") for body in recording.bodies]
    return [later - earlier for earlier, later in pairwise(values)]


async def test_bodies_come_in_order_one_step_each_and_start_over_at_the_end() -> None:
    clock = Clock()
    async with client_of(recorded(b"one 1\n", b"two 2\n"), clock) as client:
        seen = []
        for seconds in (0.0, 14.9, 15.0, 29.9, 30.0, 45.0):
            clock.now = 1000.0 + seconds
            seen.append((await client.get("/metrics")).text)
    assert seen == ["one 1\n", "one 1\n", "two 2\n", "two 2\n", "one 1\n", "two 2\n"]


async def test_a_body_is_served_byte_for_byte_and_with_the_type_that_vllm_states() -> None:
    recording = RECORDINGS["replay-vllm"]
    async with client_of(recording, Clock()) as client:
        response = await client.get("/metrics")
    assert response.content == (replay.CAPTURES / "vllm-0.32.0-A" / "0-fresh.prom").read_bytes()
    assert response.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"


async def test_the_recorded_side_endpoints_answer_as_the_server_did() -> None:
    async with client_of(RECORDINGS["replay-vllm"], Clock()) as client:
        assert (await client.get("/version")).json() == {"version": "0.32.0"}
        models = (await client.get("/v1/models")).json()["data"]
        health = await client.get("/health")
        server_info = await client.get("/server_info")
    assert [model["id"] for model in models] == ["tiny-qwen", "tiny-alias", "ada1", "ada2"]
    assert (health.status_code, health.content, health.headers.get("content-type")) == (200, b"", None)
    assert server_info.status_code == 404


@pytest.mark.parametrize("path", ["/metrics/", "/load%20during%20mid2", "/nothing"])
async def test_what_was_not_recorded_is_not_found(path: str) -> None:
    async with client_of(RECORDINGS["replay-vllm"], Clock()) as client:
        assert (await client.get(path)).status_code == 404


async def test_one_connection_serves_many_requests_and_a_query_is_ignored() -> None:
    async with client_of(recorded(b"a 1\n"), Clock()) as client:
        answers = [await client.get("/metrics?name[]=b") for _ in range(3)]
        head = await client.head("/metrics")
    assert [answer.text for answer in answers] == ["a 1\n"] * 3
    assert (head.status_code, head.headers["content-length"], head.content) == (200, "4", b"")


async def test_other_methods_are_refused() -> None:
    async with client_of(recorded(b"a 1\n"), Clock()) as client:
        refused = await client.post("/v1/completions", json={"prompt": "x"})
        assert (refused.status_code, refused.headers["connection"]) == (405, "close")
        assert (await client.get("/metrics")).status_code == 200


@pytest.mark.parametrize(
    "sent", [b"", b"\r\n\r\n", b"GET / HTTP/1.1\r\n", b"x" * 100_000, b"GET /\xff\xfe HTTP/1.1\r\n\r\n"]
)
async def test_a_broken_request_ends_its_own_connection_only(sent: bytes) -> None:
    async with client_of(recorded(b"a 1\n"), Clock()) as client:
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(sent)
        writer.write_eof()
        await _read_to_end(reader)
        writer.close()
        assert (await client.get("/metrics")).text == "a 1\n"


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def test_leaving_ends_open_connections_and_frees_the_port() -> None:
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(replay.serve(recorded(b"a 1\n")))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=url))
        await client.get("/metrics")
        port = client.base_url.port
        assert port is not None
        async with replay.serve(recorded(b"b 1\n")) as other:
            assert other != url
        await stack.pop_all().aclose()
    async with replay.serve(recorded(b"c 1\n"), port=port) as again:
        assert again == url


@pytest.mark.parametrize("name", RECORDINGS)
def test_counters_rise_within_a_recording(name: str) -> None:
    steps = increases(RECORDINGS[name])
    assert steps[0] > 0
    assert all(step >= 0 for step in steps)


def test_starting_over_looks_like_a_restart() -> None:
    for recording in RECORDINGS.values():
        first, last = (total(recording.bodies[i], "vllm:generation_tokens_total") for i in (0, -1))
        assert first < last


def test_the_second_recording_has_two_data_parallel_engines() -> None:
    running = [
        sample.labels["engine"]
        for family in text_string_to_metric_families(RECORDINGS["replay-vllm-dp2"].bodies[1].decode())
        for sample in family.samples
        if sample.name == "vllm:num_requests_running"
    ]
    assert sorted(running) == ["0", "1"]


@pytest.mark.parametrize("folder", sorted(p.name for p in replay.CAPTURES.iterdir() if p.is_dir()))
def test_every_shipped_capture_says_where_it_comes_from(folder: str) -> None:
    assert f"| {folder} |" in (replay.CAPTURES / "ORIGIN.md").read_text(encoding="utf-8")
