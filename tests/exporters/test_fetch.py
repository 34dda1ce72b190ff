from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from exporters import fetch as fetch_module
from exporters import tls
from exporters.fetch import FORM_TYPE, JSON_TYPE, Answer, Body, Failure, ask, fetch, post, transport
from exporters.findings import KINDS
from tests.exporters.held import Watched, held_time
from tests.exporters.servers import (
    CERTIFICATE,
    Handler,
    answering,
    https_context,
    pages,
    response,
    serving,
    silence,
    unused_url,
)

TEXT = "vllm:num_requests_running 1.0\n"
LONG = 120.0
"""Never reached: a deadline that a test does not mean to hit."""

Get = Callable[..., Awaitable[Body | Failure]]


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncBaseTransport]:
    made = transport(tls.context())
    yield made
    await made.aclose()


@pytest.fixture
def get(client: httpx.AsyncBaseTransport) -> Get:
    async def call(url: str, seconds: float = LONG, **more: object) -> Body | Failure:
        deadline = asyncio.get_running_loop().time() + seconds
        settings = {"max_bytes": 10_000, **more}
        return await fetch(client, url, deadline=deadline, **settings)  # type: ignore[arg-type]

    return call


async def failure(get: Get, handler: Handler, seconds: float = LONG, **more: object) -> Failure:
    async with serving(handler) as served:
        got = await get(f"{served.url}/metrics", seconds, **more)
    assert isinstance(got, Failure), got
    assert got.reason in KINDS
    return got


async def test_a_page_comes_with_its_type_and_status(get: Get) -> None:
    async with serving(pages({"/metrics": response(TEXT)})) as served:
        got = await get(f"{served.url}/metrics")
    assert isinstance(got, Body)
    assert (got.text, got.status) == (TEXT, 200)
    assert got.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert got.duration > 0


async def test_a_request_says_who_asks_and_for_what(get: Get) -> None:
    async with serving(pages({"/metrics": response(TEXT)})) as served:
        await get(f"{served.url}/metrics")
        assert served.header("accept") == "text/plain;version=0.0.4"
        assert (served.header("user-agent") or "").startswith("inferwatch/")
        assert served.header("authorization") is None
        await get(f"{served.url}/metrics", accept=JSON_TYPE, bearer_token="s3cret")
        assert served.header("accept") == "application/json"
        assert served.header("authorization") == "Bearer s3cret"


async def test_an_empty_page_is_a_body(get: Get) -> None:
    async with serving(pages({"/metrics": response()})) as served:
        got = await get(f"{served.url}/metrics")
    assert isinstance(got, Body)
    assert not got.text


async def test_a_connection_serves_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_module, "_KEEP_ALIVE_SECONDS", LONG)
    client = transport(tls.context())
    async with serving(pages({"/metrics": response(TEXT)})) as served:
        for _ in range(3):
            assert isinstance(await told(client, f"{served.url}/metrics"), Answer)
        assert served.connections == 1
    await client.aclose()


async def test_a_closed_port_is_a_refusal(get: Get) -> None:
    got = await get(unused_url())
    assert isinstance(got, Failure)
    assert (got.reason, got.answered) == ("connection_refused", False)


async def test_a_name_that_does_not_exist_cannot_be_reached(get: Get) -> None:
    got = await get("http://no-such-host.invalid:8000/metrics")
    assert isinstance(got, Failure)
    assert (got.reason, got.answered) == ("connect_failed", False)
    assert got.detail.startswith("no-such-host.invalid:8000: ")


async def test_a_host_name_that_cannot_be_written_cannot_be_reached(get: Get) -> None:
    got = await get(f"http://{'a' * 70}.example:8000/metrics")
    assert isinstance(got, Failure)
    assert got.reason == "connect_failed"


async def test_silence_before_the_headers_is_a_timeout(get: Get) -> None:
    got = await failure(get, silence, 0.1)
    assert (got.reason, got.answered, got.detail) == ("timeout", False, "before the server answered")


async def test_a_body_that_drips_is_cut_at_the_deadline(client: httpx.AsyncBaseTransport) -> None:
    async def drip(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(response(TEXT, length=10_000))
        while True:
            writer.write(b"#")
            await writer.drain()
            await asyncio.sleep(0)

    async with serving(drip) as served:
        with held_time() as held:
            dripping = Watched(client, lambda size: held.pass_by(0.25 if size > len(TEXT) else 0))
            got = await fetch(dripping, f"{served.url}/metrics", deadline=held.now + 1.0, max_bytes=10_000)
    assert isinstance(got, Failure)
    assert (got.reason, got.status, got.detail) == ("timeout", 200, "before the body was complete")


async def test_headers_that_drip_are_cut_at_the_deadline(get: Get) -> None:
    async def drip(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-More: 1\r\n")
            await writer.drain()
            await asyncio.sleep(0.005)

    assert (await failure(get, drip, 0.2)).reason == "timeout"


async def test_a_deadline_that_is_over_asks_nothing(get: Get) -> None:
    async with serving(pages({"/metrics": response(TEXT)})) as served:
        got = await get(f"{served.url}/metrics", -1.0)
        assert isinstance(got, Failure)
        assert got.reason == "timeout"
        assert served.paths == []


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
UNFRAMED = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n"

BROKEN: dict[str, tuple[bytes, str, int | None]] = {
    "shorter than its length": (response(TEXT, length=500), "truncated", 200),
    "without its last chunk": (CHUNKED + b"6\r\nvllm:n\r\n", "truncated", 200),
    "in the middle of a chunk": (CHUNKED + b"ff\r\nvllm:n", "truncated", 200),
    "in the middle of a line": (UNFRAMED + b"vllm:num_requests_running 1", "truncated", 200),
    "cut gzip": (response(gzip.compress(TEXT.encode())[:-9], headers={"Content-Encoding": "gzip"}), "truncated", 200),
    "no gzip": (response(TEXT, headers={"Content-Encoding": "gzip"}), "protocol_error", 200),
    "an encoding nobody asked for": (response(TEXT, headers={"Content-Encoding": "br"}), "protocol_error", 200),
    "two lengths": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\n" + TEXT.encode(), "protocol_error", None),
    "no number as length": (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "protocol_error", None),
    "another protocol": (b"SSH-2.0-OpenSSH_9.2\r\n", "protocol_error", None),
    "a TLS alert": (b"\x15\x03\x01\x00\x02\x02\x46", "protocol_error", None),
    "endless headers": (b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 300_000, "protocol_error", None),
    "nothing at all": (b"", "protocol_error", None),
    "half a status line": (b"HTTP/1.1 2", "protocol_error", None),
    "Latin-1": (response("vllm:x{a=\"\xe9\"} 1\n".encode("latin-1")), "encoding", 200),
    "UTF-16": (response(TEXT.encode("utf-16")), "encoding", 200),
    "401": (response("{}", status=401), "unauthorized", 401),
    "403": (response("{}", status=403), "unauthorized", 403),
    "404": (response("{}", status=404), "not_found", 404),
    "405": (response("{}", status=405), "unexpected_status", 405),
    "429": (response("{}", status=429), "unexpected_status", 429),
    "500": (response("{}", status=500), "server_error", 500),
    "503": (response("{}", status=503), "server_error", 503),
    "304": (response("", status=304), "unexpected_status", 304),
    "a redirect to nowhere": (response("", status=302), "unexpected_status", 302),
    "a redirect to no URL": (
        response("", status=302, headers={"Location": "http://[broken/"}), "unexpected_status", 302),
    "a redirect to another scheme": (
        response("", status=301, headers={"Location": "file:///etc/passwd"}), "unexpected_status", 301),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "reason", "status"), BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_answer_is_classified(get: Get, answer: bytes, reason: str, status: int | None) -> None:
    got = await failure(get, answering(answer))
    assert (got.reason, got.status) == (reason, status)


async def test_a_connection_reset_within_the_body_is_a_truncation(get: Get) -> None:
    async def reset(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(response(TEXT, length=5000))
        await writer.drain()
        writer.transport.abort()

    assert (await failure(get, reset)).reason == "truncated"


async def test_a_connection_reset_before_an_answer_is_no_http(get: Get) -> None:
    async def reset(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    got = await failure(get, reset)
    assert (got.reason, got.answered) == ("protocol_error", False)


async def test_an_unframed_page_that_ends_with_a_line_is_whole(get: Get) -> None:
    async with serving(answering(UNFRAMED + TEXT.encode())) as served:
        got = await get(f"{served.url}/metrics")
    assert isinstance(got, Body)
    assert got.text == TEXT


async def test_a_page_above_the_limit_is_refused(get: Get) -> None:
    got = await failure(get, answering(response(b"#" * 10_001)))
    assert (got.reason, got.status) == ("too_large", 200)


async def test_a_page_at_the_limit_is_taken(get: Get) -> None:
    async with serving(answering(response(b"#" * 10_000))) as served:
        assert isinstance(await get(f"{served.url}/metrics"), Body)


async def test_an_endless_body_is_cut_at_the_limit(get: Get) -> None:
    sent = 0

    async def endless(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(CHUNKED)
        while True:
            writer.write(b"1000\r\n" + b"#" * 4096 + b"\r\n")
            sent += 4096
            await writer.drain()

    assert (await failure(get, endless)).reason == "too_large"
    assert sent < 50_000_000


async def test_gzip_is_read(get: Get) -> None:
    twice = gzip.compress(TEXT.encode()) + gzip.compress(TEXT.encode())
    async with serving(answering(response(twice, headers={"Content-Encoding": "gzip"}))) as served:
        got = await get(f"{served.url}/metrics")
    assert isinstance(got, Body)
    assert got.text == TEXT * 2


async def test_a_gzip_bomb_is_cut_before_it_is_inflated(get: Get) -> None:
    """300 kB that inflate to 300 MB: memory stays far below that."""
    import tracemalloc

    bomb = gzip.compress(b"\0" * 300_000_000, compresslevel=9)
    async with serving(answering(response(bomb, headers={"Content-Encoding": "gzip"}))) as served:
        tracemalloc.start()
        try:
            got = await get(f"{served.url}/metrics", max_bytes=1_000_000)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert isinstance(got, Failure)
    assert got.reason == "too_large"
    assert peak < 20_000_000


async def test_a_redirect_within_the_server_is_followed(get: Get) -> None:
    moved = response("", status=307, headers={"Location": "/metrics/"})
    async with serving(pages({"/metrics": moved, "/metrics/": response(TEXT)})) as served:
        got = await get(f"{served.url}/metrics")
    assert isinstance(got, Body)
    assert got.text == TEXT


async def test_a_redirect_to_another_server_is_not_followed_and_says_where(get: Get) -> None:
    async with serving(pages({"/metrics": response(TEXT)})) as elsewhere:
        moved = response("", status=301, headers={"Location": f"{elsewhere.url}/metrics"})
        got = await failure(get, pages({"/metrics": moved}), bearer_token="s3cret")
        assert elsewhere.paths == []
    assert (got.reason, got.status) == ("unexpected_status", 301)
    assert elsewhere.url in got.detail


async def test_a_redirect_that_is_told_shows_no_secret(get: Get) -> None:
    location = "http://me:s3cr3t@elsewhere/login?next=/metrics&token=s3cr3t"
    got = await failure(get, pages({"/metrics": response("", status=302, headers={"Location": location})}))
    assert "'http://(not shown)@elsewhere/login?(not shown)'" in got.detail
    assert "s3cr3t" not in got.detail


async def test_a_circle_of_redirects_ends(get: Get) -> None:
    got = await failure(get, pages({"/metrics": response("", status=302, headers={"Location": "/metrics"})}))
    assert got.reason == "unexpected_status"


async def test_cookies_are_neither_kept_nor_sent(get: Get) -> None:
    async with serving(pages({"/metrics": response(TEXT, headers={"Set-Cookie": "a=b"})})) as served:
        await get(f"{served.url}/metrics")
        await get(f"{served.url}/metrics")
        assert served.header("cookie") is None


async def test_the_environments_proxy_is_not_used(get: Get, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", unused_url())
    monkeypatch.setenv("ALL_PROXY", unused_url())
    async with serving(pages({"/metrics": response(TEXT)})) as served:
        assert isinstance(await get(f"{served.url}/metrics"), Body)


async def test_a_cut_exchange_leaves_no_connection_behind(get: Get) -> None:
    closed = asyncio.Event()

    async def hang(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.pass_by(0.5)
        await reader.read()
        closed.set()

    async with serving(hang) as served:
        with held_time() as held:
            await get(f"{served.url}/metrics", 0.5)
        async with asyncio.timeout(LONG):
            await closed.wait()


@pytest.fixture
def https() -> ssl.SSLContext:
    return https_context()


async def test_a_self_signed_certificate_is_not_trusted(get: Get, https: ssl.SSLContext) -> None:
    async with serving(pages({"/metrics": response(TEXT)}), https) as served:
        got = await get(f"{served.url}/metrics")
    assert isinstance(got, Failure)
    assert (got.reason, got.answered) == ("tls_error", False)
    assert "self-signed certificate" in got.detail or "self signed certificate" in got.detail


@pytest.mark.parametrize("trusted", [True, False], ids=["by its file", "without looking"])
async def test_a_self_signed_certificate_can_be_accepted(https: ssl.SSLContext, trusted: bool) -> None:
    context = tls.context(ca_file=CERTIFICATE) if trusted else tls.context(insecure=True)
    client = transport(context)
    async with serving(pages({"/metrics": response(TEXT)}), https) as served:
        deadline = asyncio.get_running_loop().time() + LONG
        got = await fetch(client, f"{served.url}/metrics", deadline=deadline, max_bytes=1000)
        await client.aclose()
    assert isinstance(got, Body)


async def test_https_towards_a_plain_server_is_a_tls_error(get: Get) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(5)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        got = await get(f"https://127.0.0.1:{port}/metrics")
    assert isinstance(got, Failure)
    assert got.reason == "tls_error"


def test_equal_tls_settings_share_one_context() -> None:
    assert tls.context() is tls.context()
    assert tls.context(insecure=True) is not tls.context()


class Heard:
    def __init__(self, enough: int = 10**9) -> None:
        self.enough = enough
        self.status = 0
        self.content_type = ""
        self.text = b""

    def head(self, status: int, content_type: str) -> None:
        self.status, self.content_type = status, content_type

    def part(self, raw: bytes) -> bool:
        self.text += raw
        return len(self.text) >= self.enough


async def sent(client: httpx.AsyncBaseTransport, url: str, heard: Heard, seconds: float = LONG) -> Failure | None:
    deadline = asyncio.get_running_loop().time() + seconds
    return await post(client, url, b'{"n": 1}', heard, deadline=deadline, max_bytes=10_000, bearer_token="t")


async def test_an_answer_to_a_post_is_handed_over_whatever_its_status(client: httpx.AsyncBaseTransport) -> None:
    heard = Heard()
    async with serving(answering(response(TEXT, status=429, content_type="x/y"))) as served:
        assert await sent(client, f"{served.url}/v1", heard) is None
        assert served.heads[0].startswith("POST /v1 HTTP/1.1")
        wanted = {"content-type": "application/json", "content-length": "8", "authorization": "Bearer t"}
        assert {name: served.header(name) for name in wanted} == wanted
    assert (heard.status, heard.content_type, heard.text) == (429, "x/y", TEXT.encode())


async def test_a_receiver_that_has_enough_ends_the_exchange(client: httpx.AsyncBaseTransport) -> None:
    heard = Heard(enough=5)
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\nenough", close=False)) as served:
        assert await sent(client, served.url, heard) is None
    assert heard.text == b"enough"


@pytest.mark.parametrize(
    ("answer", "reason", "status"),
    [
        (b"", "protocol_error", None),
        (response("x" * 10_001), "too_large", 200),
        (response(gzip.compress(b"x" * 10_001), headers={"Content-Encoding": "gzip"}), "too_large", 200),
        (response("x", length=2), "truncated", 200),
    ],
)
async def test_a_broken_answer_to_a_post_is_classified(
    client: httpx.AsyncBaseTransport, answer: bytes, reason: str, status: int | None
) -> None:
    async with serving(answering(answer)) as served:
        failure = await sent(client, served.url, Heard())
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.status) == (reason, status)


async def test_silence_after_a_post_is_a_timeout(client: httpx.AsyncBaseTransport) -> None:
    async with serving(silence) as served:
        failure = await sent(client, served.url, Heard(), 0.05)
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.answered) == ("timeout", False)


async def told(client: httpx.AsyncBaseTransport, url: str, seconds: float = LONG, **more: object) -> Answer | Failure:
    deadline = asyncio.get_running_loop().time() + seconds
    return await ask(client, url, deadline=deadline, max_bytes=10_000, **more)  # type: ignore[arg-type]


async def test_a_refused_question_still_has_its_answer(client: httpx.AsyncBaseTransport) -> None:
    refusal = response("{}", status=503, content_type=JSON_TYPE, headers={"Retry-After": "7"})
    async with serving(answering(refusal)) as served:
        assert await told(client, f"{served.url}/q?a=b") == Answer(503, b"{}", JSON_TYPE, "7")
        assert served.heads[0].startswith("GET /q?a=b HTTP/1.1")


async def test_a_form_goes_by_post_with_headers_of_its_own(client: httpx.AsyncBaseTransport) -> None:
    async with serving(answering(response("ok"))) as served:
        assert await told(client, served.url, form=b"a=b", headers={"X-Scope-OrgID": "t"}) == Answer(
            200, b"ok", "text/plain; version=0.0.4; charset=utf-8"
        )
        wanted = {"content-type": FORM_TYPE, "content-length": "3", "x-scope-orgid": "t", "accept": JSON_TYPE}
        assert served.heads[0].startswith("POST / ")
        assert {name: served.header(name) for name in wanted} == wanted


async def test_a_redirect_of_a_question_is_its_answer(client: httpx.AsyncBaseTransport) -> None:
    async with serving(answering(response("", status=302, headers={"Location": "/login"}))) as served:
        got = await told(client, served.url)
        assert isinstance(got, Answer)
        assert (got.status, served.paths) == (302, ["/"])


async def test_an_answer_may_be_packed_and_is_bounded_unpacked(client: httpx.AsyncBaseTransport) -> None:
    for size, reason in ((10_000, None), (10_001, "too_large")):
        packed = response(gzip.compress(b"x" * size), headers={"Content-Encoding": "gzip"})
        async with serving(answering(packed)) as served:
            got = await told(client, served.url)
            assert served.header("accept-encoding") == "gzip"
        assert got.reason == reason if isinstance(got, Failure) else len(got.body) == size


async def test_an_answer_that_does_not_come_is_classified(client: httpx.AsyncBaseTransport) -> None:
    async with serving(silence) as served:
        got = await told(client, served.url, 0.05)
    assert isinstance(got, Failure)
    assert (got.reason, got.status) == ("timeout", None)
    got = await told(client, unused_url())
    assert isinstance(got, Failure)
    assert got.reason == "connection_refused"
