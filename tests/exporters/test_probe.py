from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporters import tls
from exporters.completion import Problem, Times
from exporters.config import Server, SyntheticRequest
from exporters.fetch import transport
from exporters.observation import labels
from exporters.probe import Asker, Prober, prober
from tests.exporters.held import Watched, held_time
from tests.exporters.servers import Handler, response, serving, silence, unused_url

JSON = "application/json"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
FOUR = b'data: {"choices": [{"index": 0, "text": " four"}]}\n\n'
EMPTY = b'data: {"choices": [{"index": 0, "text": ""}]}\n\n'
DONE = b"data: [DONE]\n\n"
MODELS = response('{"data": [{"id": "llama", "parent": null}]}', content_type=JSON)
PROMPT = "a prompt that is nobody's business"
SHORT = 1.0
"""A time-out that a test means to hit."""
LONG = 120.0
"""Never reached."""

Ask = Callable[..., Awaitable[Times | Problem]]


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def stream(*parts: bytes) -> bytes:
    return HEAD + b"".join(map(chunk, parts))


async def body_of(reader: asyncio.StreamReader) -> dict[str, object]:
    raw = b""
    while True:
        raw += await reader.read(10_000)
        try:
            return dict(json.loads(raw))
        except ValueError:
            continue


@dataclass
class Completing:
    """Answers /v1/models, and completions with `answer`; then closes unless it hangs."""

    answer: bytes = stream(FOUR, DONE) + END
    models: bytes = MODELS
    hangs: bool = False
    asked: list[dict[str, object]] = field(default_factory=list)

    async def __call__(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if path == "/v1/models":
            writer.write(self.models)
            return await writer.drain()
        self.asked.append(await body_of(reader))
        writer.write(self.answer)
        await writer.drain()
        if self.hangs:
            await reader.read()
        writer.close()
        return None


class Clock:
    """Tells when it was looked at, so that a server can go on after its client has."""

    def __init__(self) -> None:
        self.now = 100.0
        self.looked = asyncio.Event()

    def __call__(self) -> float:
        self.looked.set()
        return self.now


@pytest.fixture
async def ask() -> AsyncIterator[Ask]:
    client = transport(tls.context())

    async def once(
        url: str,
        *,
        token: str | None = "",
        clock: Callable[[], float] = time.perf_counter,
        waits: Callable[[int], None] = lambda _: None,
        **more: object,
    ) -> Times | Problem:
        given = SyntheticRequest.model_validate({"prompt": PROMPT, "interval": LONG, "timeout": LONG, **more})
        return await Asker(Watched(client, waits), url, given, lambda: token, clock).ask()

    yield once
    await client.aclose()


async def problem(ask: Ask, handler: Handler, **more: object) -> Problem:
    async with serving(handler) as served:
        result = await ask(served.url, **more)
    assert isinstance(result, Problem), result
    assert result.remedy
    assert PROMPT not in result.detail
    return result


async def cut(ask: Ask, handler: Handler, *, after: int) -> Problem:
    """Where the time is over as soon as so many bytes of the body were taken."""
    with held_time() as held:

        def waits(size: int) -> None:
            if size >= after:
                held.pass_by(SHORT)

        return await problem(ask, handler, timeout=SHORT, model="llama", waits=waits)


async def test_a_few_tokens_are_asked_for_and_timed(ask: Ask) -> None:
    clock = Clock()

    async def handler(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if path == "/v1/models":
            clock.now += 50
            writer.write(MODELS)
            return
        await body_of(reader)
        for seconds, part in ((1, HEAD), (1, chunk(EMPTY)), (2, chunk(FOUR)), (4, chunk(FOUR)), (8, chunk(DONE))):
            clock.now += seconds
            clock.looked.clear()
            writer.write(part)
            if part is not HEAD:
                await clock.looked.wait()
        writer.close()

    async with serving(handler) as served:
        assert await ask(served.url, clock=clock) == Times(first_token=4.0, whole=16.0)


@pytest.mark.parametrize(
    ("given", "path", "asked"),
    [
        ({}, "/v1/completions", {"model": "llama", "prompt": PROMPT, "max_tokens": 4}),
        ({"endpoint": "chat", "max_tokens": 2}, "/v1/chat/completions",
         {"model": "llama", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 2}),
        ({"model": "adapter"}, "/v1/completions", {"model": "adapter", "prompt": PROMPT, "max_tokens": 4}),
    ],
)  # fmt: skip
async def test_the_request_is_the_one_that_is_configured(
    ask: Ask, given: dict[str, object], path: str, asked: dict[str, object]
) -> None:
    server = Completing()
    async with serving(server) as served:
        assert isinstance(await ask(served.url, **given), Times)
        assert served.paths == (["/v1/models"] if "model" not in given else []) + [path]
    assert server.asked == [{**asked, "stream": True}]


async def test_the_request_says_who_asks_and_carries_the_token(ask: Ask) -> None:
    async with serving(Completing()) as served:
        await ask(f"{served.url}/prefix", model="llama", token="s3cr3t")
        assert served.paths == ["/prefix/v1/completions"]
        assert served.header("authorization") == "Bearer s3cr3t"
        assert (served.header("user-agent") or "").startswith("inferwatch/")
        await ask(served.url, token=None)
        assert [served.header("authorization"), served.count("/v1/models")] == [None, 1]


async def test_a_server_that_was_started_anew_is_asked_for_its_new_model(ask: Ask) -> None:
    server = Completing()
    async with serving(server) as served:
        await ask(served.url)
        server.models = response('{"data": [{"id": "mistral"}]}', content_type=JSON)
        await ask(served.url)
    assert [asked["model"] for asked in server.asked] == ["llama", "mistral"]


async def test_a_refusal_that_comes_as_a_stream_without_a_token_is_no_success(ask: Ask) -> None:
    found = await problem(ask, Completing(stream(EMPTY, DONE) + END))
    assert found.detail == "no token: the stream ended without one (HTTP 200)"


async def test_an_error_in_the_stream_is_a_failure(ask: Ask) -> None:
    error = f'data: {{"error": {{"type": "EngineDeadError", "message": "{PROMPT}"}}}}\n\n'.encode()
    found = await problem(ask, Completing(stream(FOUR, error, DONE) + END))
    assert found.detail == "error in the stream: EngineDeadError"


@pytest.mark.parametrize("status", [302, 307, 400, 401, 404, 429, 500, 503])
async def test_a_status_that_is_no_success_is_told_and_not_followed(ask: Ask, status: int) -> None:
    body = json.dumps({"error": {"message": PROMPT}})
    answer = response(body, status=status, content_type=JSON, headers={"Location": "/elsewhere"})
    server = Completing(answer)
    assert (await problem(ask, server)).detail == f"HTTP {status}"
    assert len(server.asked) == 1


async def test_a_refusal_whose_body_never_ends_is_a_refusal(ask: Ask) -> None:
    answer = response("x", status=503, length=100)
    assert (await cut(ask, Completing(answer, hangs=True), after=1)).detail == "HTTP 503"
    assert (await problem(ask, Completing(response(b"x" * 10**6, status=503)))).detail == "HTTP 503"


async def test_a_model_that_is_not_there_is_told(ask: Ask) -> None:
    body = '{"object": "error", "message": "The model `lama` does not exist.", "code": 404}'
    found = await problem(ask, Completing(response(body, status=404, content_type=JSON)), model="lama")
    assert found.detail == "HTTP 404: the server does not know the model"


@pytest.mark.parametrize(
    ("models", "detail", "remedy"),
    [
        (response(status=404), "model not known: /v1/models: HTTP 404", "synthetic_request.model"),
        (response(status=401), "model not known: /v1/models: HTTP 401", "bearer_token_file"),
        (response("{}", content_type=JSON), "model not known: /v1/models lists none", "synthetic_request.model"),
        (response("<html>"), "model not known: /v1/models is no JSON", "synthetic_request.model"),
    ],
)
async def test_without_a_model_nothing_is_sent(ask: Ask, models: bytes, detail: str, remedy: str) -> None:
    server = Completing(models=models)
    found = await problem(ask, server)
    assert found.detail == detail
    assert remedy in found.remedy
    assert server.asked == []


@pytest.mark.parametrize("more", [{}, {"model": "llama"}])
async def test_a_server_that_is_down_is_a_failure(ask: Ask, more: dict[str, object]) -> None:
    url = unused_url()
    found = await ask(url, **more)
    assert isinstance(found, Problem)
    assert found.detail == f"connection_refused: {url.removeprefix('http://')}"


@pytest.mark.parametrize(
    ("handler", "more"),
    [(silence, {}), (silence, {"model": "llama"}), (Completing(b"", hangs=True), {"model": "llama"})],
)
async def test_a_server_that_never_answers_is_a_timeout(ask: Ask, handler: Handler, more: dict[str, object]) -> None:
    assert (await problem(ask, handler, timeout=SHORT, **more)).detail == "timeout: no answer within 1 s"


@pytest.mark.parametrize(
    ("parts", "detail"),
    [
        ((), "timeout: no token within 1 s"),
        ((EMPTY, b": still there\n\n"), "timeout: no token within 1 s"),
        ((FOUR,), "timeout: the stream did not end within 1 s"),
    ],
)
async def test_a_server_that_hangs_is_left(ask: Ask, parts: tuple[bytes, ...], detail: str) -> None:
    hanging = Completing(stream(*parts), hangs=True)
    assert (await cut(ask, hanging, after=len(b"".join(parts)))).detail == detail


async def test_a_stream_that_drips_for_ever_is_cut_at_the_deadline(ask: Ask) -> None:
    async def handler(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        while True:
            writer.write(chunk(b":\n\n"))
            await writer.drain()
            await asyncio.sleep(0)

    found = await cut(ask, handler, after=10)
    assert found.detail == "timeout: no token within 1 s"


@pytest.mark.parametrize("line", [b": " + b"x" * 4000 + b"\n\n", b"data: " + b"x" * 4000])
async def test_an_endless_stream_is_cut_at_the_limit(ask: Ask, line: bytes) -> None:
    async def handler(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        while True:
            writer.write(chunk(line))
            await writer.drain()

    found = await problem(ask, handler, model="llama")
    assert found.detail == "broken stream: too_large: more than 262144 bytes"


async def test_a_server_that_does_not_keep_to_the_tokens_asked_for_is_cut(ask: Ask) -> None:
    async def handler(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        while True:
            writer.write(chunk(FOUR))
            await writer.drain()

    found = await problem(ask, handler, model="llama", max_tokens=3)
    assert found.detail == "endless stream: more than 6 parts, cut off"


@pytest.mark.parametrize("answer", [stream(FOUR), HEAD + chunk(FOUR) + b"ffff\r\ndata"])
async def test_a_stream_that_breaks_off_is_broken(ask: Ask, answer: bytes) -> None:
    assert (await problem(ask, Completing(answer))).detail.startswith("broken stream: truncated: ")


async def test_a_stream_that_ends_in_order_and_without_its_mark_is_broken(ask: Ask) -> None:
    found = await problem(ask, Completing(stream(FOUR) + END))
    assert found.detail == "broken stream: it ended without [DONE]"


async def test_the_end_mark_is_the_end_whatever_the_connection_does(ask: Ask) -> None:
    async with serving(Completing(stream(FOUR, DONE), hangs=True)) as served:
        assert isinstance(await ask(served.url), Times)
    async with serving(Completing(stream(FOUR, DONE))) as served:
        assert isinstance(await ask(served.url), Times)


async def test_an_answer_that_is_no_stream_is_a_failure(ask: Ask) -> None:
    answer = response('{"choices": [{"text": " four"}]}', content_type=JSON)
    assert (await problem(ask, Completing(answer))).detail == "no event stream: the answer's type is 'application/json'"


@pytest.mark.parametrize("answer", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", b""])
async def test_what_is_no_http_is_a_failure(ask: Ask, answer: bytes) -> None:
    await problem(ask, Completing(answer))


@settings(max_examples=25, deadline=None)
@given(answer=st.binary(max_size=200), framed=st.booleans())
def test_no_bytes_whatsoever_raise(answer: bytes, framed: bool) -> None:
    async def run() -> None:
        client = transport(tls.context())
        given = SyntheticRequest(model="llama", interval=LONG, timeout=LONG)
        async with serving(Completing(stream(answer, FOUR) + END if framed else answer)) as served:
            result = await Asker(client, served.url, given, lambda: "").ask()
        await client.aclose()
        assert isinstance(result, Problem)

    asyncio.run(run())


IDENTITY = labels({"node": "rack-1", "server": "gpu-1:8000", "team": "search"})
GOOD, BAD = Times(0.25, 1.5), Problem("HTTP 503", "Wait.")


@dataclass
class World:
    """Time that a test moves, and a server whose answers it sets."""

    now: float = 1_800_000_000.0
    result: Times | Problem = GOOD
    takes: float = 0.0
    asked: list[float] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    rounds: int = 0
    """After so many pauses, time stands still."""
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def clock(self) -> float:
        return self.now

    async def ask(self) -> Times | Problem:
        self.asked.append(self.now)
        self.now += self.takes
        return self.result

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if len(self.pauses) > self.rounds:
            self.done.set()
            await asyncio.Event().wait()
        self.now += seconds

    def prober(self, server: str = "gpu-1:8000") -> Prober:
        identity = labels({**dict(IDENTITY), "server": server})
        return Prober(self.ask, identity, 60.0, self.clock, self.pause)


def told(made: Prober, *, up: bool = True) -> tuple[dict[str, float], list[str]]:
    values, found = made.report(up=up)
    assert {series.labels for series in values} <= {IDENTITY}
    return {series.metric: value for series, value in values.items()}, [f.detail for f in found]


async def test_nothing_is_told_before_the_first_request() -> None:
    assert told(World().prober()) == ({}, [])


async def test_a_request_that_got_its_tokens_tells_its_times() -> None:
    made = World().prober()
    await made.once()
    times = {"llm_probe_time_to_first_token_seconds": 0.25, "llm_probe_duration_seconds": 1.5}
    assert told(made) == ({"llm_probe_success": 1.0, **times}, [])


async def test_a_request_that_failed_tells_no_times_and_why() -> None:
    made = World(result=BAD).prober()
    await made.once()
    assert told(made) == ({"llm_probe_success": 0.0}, ["HTTP 503"])
    (found,) = made.report(up=True)[1]
    assert (found.reason, found.remedy) == ("probe_failed", "Wait.")


async def test_the_last_request_counts() -> None:
    world = World()
    made = world.prober()
    for world.result in (BAD, GOOD):
        await made.once()
    assert told(made)[0]["llm_probe_success"] == 1.0


async def test_what_is_older_than_two_intervals_is_not_told() -> None:
    world = World()
    made = world.prober()
    await made.once()
    world.now += 120
    assert told(made)[0]["llm_probe_success"] == 1.0
    world.now += 0.5
    assert told(made) == ({}, [])


async def test_nothing_is_told_after_the_clock_was_set_back() -> None:
    world = World()
    made = world.prober()
    await made.once()
    world.now -= 3600
    assert told(made) == ({}, [])


async def test_while_the_server_is_down_only_a_failure_is_told() -> None:
    world = World()
    made = world.prober()
    await made.once()
    assert told(made, up=False) == ({}, [])
    world.result = BAD
    await made.once()
    assert told(made, up=False) == ({"llm_probe_success": 0.0}, ["HTTP 503"])


async def test_requests_go_out_once_an_interval_however_long_they_take() -> None:
    world = World(takes=7.0, rounds=3)
    made = world.prober()
    made.start()
    made.start()
    await world.done.wait()
    first, second, third = world.asked
    assert 1_800_000_000 <= first < 1_800_000_060
    assert (second, third) == (first + 60, first + 120)
    assert world.pauses[1:] == [53.0, 53.0, 53.0]
    await made.aclose()


@pytest.mark.parametrize(("takes", "pause"), [(65.0, 0.0), (-3600.0, 60.0)])
async def test_a_clock_that_jumps_makes_no_pause_longer_than_an_interval(takes: float, pause: float) -> None:
    world = World(takes=takes, rounds=2)
    made = world.prober()
    made.start()
    await world.done.wait()
    assert world.pauses[1:] == [pause, pause]
    await made.aclose()


async def test_the_servers_of_a_fleet_have_moments_of_their_own() -> None:
    world = World()
    made = [world.prober(f"gpu-{i}:8000") for i in range(40)]
    for each in made:
        each.start()
    await asyncio.sleep(0)
    assert len(set(world.pauses)) == 40
    by_quarter = [sum(0 <= p - 15 * q < 15 for p in world.pauses) for q in range(4)]
    assert sum(by_quarter) == 40
    assert min(by_quarter) > 0
    for each in made:
        await each.aclose()


async def test_a_defect_of_ours_is_told_and_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> Times | Problem:
        raise KeyError("a defect")

    world = World(rounds=3)
    made = Prober(broken, IDENTITY, 60.0, world.clock, world.pause)
    made.start()
    await world.done.wait()
    assert told(made) == ({"llm_probe_success": 0.0}, ["inferwatch failed: KeyError"])
    assert caplog.text.count("KeyError: 'a defect'") == 3
    await made.aclose()


async def test_a_request_in_flight_ends_with_its_target() -> None:
    gone = asyncio.Event()

    async def handler(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await body_of(reader)
        assert await reader.read() == b""
        gone.set()

    client = transport(tls.context())
    async with serving(handler) as served:
        asker = Asker(client, served.url, SyntheticRequest(model="llama", interval=LONG, timeout=LONG), lambda: "")
        made = Prober(asker.ask, IDENTITY, 60.0, World().clock, World(rounds=1).pause)
        made.start()
        await served.asked.wait()
        await made.aclose()
        await client.aclose()
        await gone.wait()
    assert told(made) == ({}, [])


async def test_it_is_off_by_default() -> None:
    client = transport(tls.context())
    server = Server.model_validate({"url": "http://gpu-1:8000"})
    assert prober(server, "rack-1", client, lambda: "", World().clock) is None
    await client.aclose()
