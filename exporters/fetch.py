"""One document of one server, asked for by GET, an answer to a POST as it comes, or a whole answer whatever its status:
bounded in time and size, and every failure classified. Nothing a server does raises.

The only module that knows the HTTP client.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Protocol, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx

from exporters.address import masked

METRICS_TYPE: Final = "text/plain;version=0.0.4"
"""OpenMetrics is not asked for: servers are known to rewrite names in it."""
JSON_TYPE: Final = "application/json"
EVENTS_TYPE: Final = "text/event-stream"
FORM_TYPE: Final = "application/x-www-form-urlencoded"

Client = httpx.AsyncBaseTransport

_Error = TypeVar("_Error", bound=BaseException)
_Taken = TypeVar("_Taken")

_MAX_REDIRECTS = 3
_KEEP_ALIVE_SECONDS = 3.0
"""Below the 5 s after which the servers' HTTP stacks close an idle connection, so none is used as it closes."""
_INFLATE_BYTES = 65536
_RESOLVER_THREADS = 64


@lru_cache(maxsize=1)
def product_version() -> str:
    try:
        return version("inferwatch")
    except PackageNotFoundError:
        return "0"


@dataclass(frozen=True, slots=True)
class Body:
    text: str
    content_type: str
    status: int
    duration: float


@dataclass(frozen=True, slots=True)
class Failure:
    """`reason` is one of `findings.KINDS`. `status` is there if the server answered HTTP at all."""

    reason: str
    detail: str
    status: int | None = None
    duration: float = 0.0

    @property
    def answered(self) -> bool:
        return self.status is not None


@dataclass(frozen=True, slots=True)
class Answer:
    """To a question that may be refused: whatever the status, the body says more."""

    status: int
    body: bytes
    content_type: str = ""
    retry_after: str = ""


Transport = Callable[[ssl.SSLContext], Client]
"""Makes the client of one target."""


def transport(context: ssl.SSLContext) -> httpx.AsyncHTTPTransport:
    """One per target. Proxies, cookies and netrc of the environment play no part."""
    limits = httpx.Limits(max_connections=8, max_keepalive_connections=2, keepalive_expiry=_KEEP_ALIVE_SECONDS)
    return httpx.AsyncHTTPTransport(verify=context, limits=limits, trust_env=False)


def resolve_in_many_threads() -> None:
    """For the running loop: a name that does not resolve blocks a thread for seconds, and the others must not wait."""
    executor = ThreadPoolExecutor(_RESOLVER_THREADS, thread_name_prefix="resolver")
    asyncio.get_running_loop().set_default_executor(executor)


async def fetch(
    client: httpx.AsyncBaseTransport,
    url: str,
    *,
    deadline: float,
    max_bytes: int,
    accept: str = METRICS_TYPE,
    bearer_token: str = "",
) -> Body | Failure:
    """`deadline` is in the running loop's time and covers connecting, headers and body."""
    clock = asyncio.get_running_loop().time
    exchange = _Exchange(client, url, max_bytes, accept, bearer_token)
    start = clock()
    try:
        async with asyncio.timeout_at(deadline):
            text, content_type = await exchange.run()
    except Exception as error:
        reason, detail = _classify(error, url, exchange.status)
        return Failure(reason, detail, exchange.status, clock() - start)
    return Body(text, content_type, exchange.status or 0, clock() - start)


class Receiver(Protocol):
    """Takes the answer to a POST as it comes, whatever its status. Must not raise."""

    def head(self, status: int, content_type: str) -> None: ...

    def part(self, raw: bytes) -> bool:
        """Whether this is enough: the rest is then not read."""
        ...


async def post(
    client: httpx.AsyncBaseTransport,
    url: str,
    content: bytes,
    receiver: Receiver,
    *,
    deadline: float,
    max_bytes: int,
    bearer_token: str = "",
) -> Failure | None:
    """Sends JSON. None where the answer came as far as the receiver wanted it. Redirects are not followed."""
    headers = {**_headers(f"{EVENTS_TYPE}, {JSON_TYPE}", bearer_token), "Content-Type": JSON_TYPE}
    request = httpx.Request("POST", url, headers=headers, content=content, extensions={"timeout": {}})
    return await _taken(client, url, request, deadline, lambda response: _hand_over(response, receiver, max_bytes))


async def ask(
    client: httpx.AsyncBaseTransport,
    url: str,
    *,
    deadline: float,
    max_bytes: int,
    form: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer | Failure:
    """With `form`, URL-encoded unless `headers` say otherwise, by POST. Redirects are answers like others."""
    more = {**({} if form is None else {"Content-Type": FORM_TYPE}), **(headers or {})}
    # Unlike an inference server's, this answer may be large and come from far away.
    heads = {**_headers(JSON_TYPE, ""), "Accept-Encoding": "gzip", **more}
    method = "GET" if form is None else "POST"
    request = httpx.Request(method, url, headers=heads, content=form, extensions={"timeout": {}})
    return await _taken(client, url, request, deadline, lambda response: _answer(response, max_bytes))


async def _taken(
    client: httpx.AsyncBaseTransport,
    url: str,
    request: httpx.Request,
    deadline: float,
    take: Callable[[httpx.Response], Awaitable[_Taken]],
) -> _Taken | Failure:
    """What is taken from the one answer; a redirect is one like others."""
    clock = asyncio.get_running_loop().time
    start, status = clock(), None
    try:
        async with asyncio.timeout_at(deadline):
            response = await client.handle_async_request(request)
            status = response.status_code
            return await take(response)
    except Exception as error:
        reason, detail = _classify(error, url, status)
        return Failure(reason, detail, status, clock() - start)


async def _answer(response: httpx.Response, max_bytes: int) -> Answer:
    heads = response.headers
    try:
        body = await _all_of(response, max_bytes)
    finally:
        await response.aclose()
    return Answer(response.status_code, bytes(body), heads.get("content-type", ""), heads.get("retry-after", ""))


async def _hand_over(response: httpx.Response, receiver: Receiver, max_bytes: int) -> None:
    size = 0
    try:
        receiver.head(response.status_code, response.headers.get("content-type", ""))
        async with aclosing(_decoded(response, max_bytes)) as parts:
            async for part in parts:
                size += len(part)
                if size > max_bytes:
                    raise _Refused("too_large", f"more than {max_bytes} bytes")
                if receiver.part(part):
                    return
    finally:
        await response.aclose()


def _headers(accept: str, bearer_token: str) -> dict[str, str]:
    # Compressing would cost the inference server's own event loop more than it saves on the way.
    headers = {"Accept": accept, "Accept-Encoding": "identity", "User-Agent": f"inferwatch/{product_version()}"}
    if bearer_token:
        headers["Authorization"] = f"Bearer {bearer_token}"
    return headers


class _Refused(Exception):
    """Our own verdict on an answer."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class _Exchange:
    def __init__(
        self, client: httpx.AsyncBaseTransport, url: str, max_bytes: int, accept: str, bearer_token: str
    ) -> None:
        self.status: int | None = None
        self._client = client
        self._url = url
        self._max_bytes = max_bytes
        self._headers = _headers(accept, bearer_token)

    async def run(self) -> tuple[str, str]:
        url = self._url
        for _ in range(_MAX_REDIRECTS + 1):
            request = httpx.Request("GET", url, headers=self._headers, extensions={"timeout": {}})
            response = await self._client.handle_async_request(request)
            try:
                self.status = response.status_code
                if response.status_code not in (301, 302, 303, 307, 308):
                    return await self._read(response)
                url = _redirected(url, response)
            finally:
                await response.aclose()
        raise _Refused("unexpected_status", f"more than {_MAX_REDIRECTS} redirects")

    async def _read(self, response: httpx.Response) -> tuple[str, str]:
        _check_status(response)
        raw = await _all_of(response, self._max_bytes)
        _check_end(response, raw)
        return raw.decode(), response.headers.get("content-type", "")


async def _all_of(response: httpx.Response, max_bytes: int) -> bytearray:
    raw = bytearray()
    async for part in _decoded(response, max_bytes):
        raw += part
        if len(raw) > max_bytes:
            raise _Refused("too_large", f"more than {max_bytes} bytes")
    return raw


def _redirected(url: str, response: httpx.Response) -> str:
    """Only within the same server: a token or a probe must not be led elsewhere."""
    location: str = response.headers.get("location", "")
    try:
        target = urljoin(url, location)
        if location and _origin(target) == _origin(url):
            return target
    except ValueError:
        pass  # no URL at all: not followed either
    told = f"HTTP {response.status_code} to {masked(location)[:200]!r}"
    raise _Refused("unexpected_status", f"{told}: not followed, it leads to another server")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _check_status(response: httpx.Response) -> None:
    status = response.status_code
    if 200 <= status < 300:
        return
    reason = "server_error" if status >= 500 else "unexpected_status"
    reason = {401: "unauthorized", 403: "unauthorized", 404: "not_found"}.get(status, reason)
    raise _Refused(reason, f"HTTP {status}")


def _check_end(response: httpx.Response, raw: bytearray) -> None:
    """A body that only the closing connection ends may be cut; the text format ends with a line feed."""
    framed = "content-length" in response.headers or "transfer-encoding" in response.headers
    is_text = response.headers.get("content-type", "").startswith("text/plain")
    if raw and is_text and not framed and not raw.endswith(b"\n"):
        raise _Refused("truncated", f"the last line is not finished after {len(raw)} bytes")


async def _decoded(response: httpx.Response, max_bytes: int) -> AsyncGenerator[bytes, None]:
    """The body in parts small enough that their sum can be checked before memory is gone."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise _Refused("protocol_error", f"content-encoding {encoding[:50]!r}, which was not asked for")
    gunzip = _Gunzip() if encoding.endswith("gzip") else None
    received = 0
    async for raw in _raw(response):
        received += len(raw)
        if received > max_bytes:
            raise _Refused("too_large", f"more than {max_bytes} bytes")
        if gunzip is None:
            yield raw
        else:
            for part in gunzip.feed(raw):
                yield part
    if gunzip is not None and not gunzip.finished:
        raise _Refused("truncated", "the gzip stream is not complete")


async def _raw(response: httpx.Response) -> AsyncIterator[bytes]:
    """A connection that fails within the body, after a proper start, broke off."""
    try:
        async for part in response.aiter_raw():
            yield part
    except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
        raise _Refused("truncated", str(error) or type(error).__name__) from error


class _Gunzip:
    """Inflates piece by piece: a small gzip body may hold gigabytes."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)

    def feed(self, raw: bytes) -> Iterator[bytes]:
        while raw:
            if self._stream.eof:
                self._stream = zlib.decompressobj(wbits=31)
            yield self._stream.decompress(raw, _INFLATE_BYTES)
            raw = self._stream.unconsumed_tail or self._stream.unused_data

    @property
    def finished(self) -> bool:
        return self._stream.eof


def _classify(error: Exception, url: str, status: int | None) -> tuple[str, str]:
    """(reason, detail)"""
    match error:
        case _Refused():
            return error.reason, error.detail
        case TimeoutError() | httpx.TimeoutException():
            return "timeout", "before the body was complete" if status else "before the server answered"
        case UnicodeDecodeError() if status:
            return "encoding", f"byte {error.start} is not UTF-8"
        case zlib.error():
            return "protocol_error", f"gzip: {error}"
        case httpx.ProtocolError():
            return "protocol_error", str(error)
        case httpx.ReadError() | httpx.WriteError() | httpx.CloseError():
            tls = _first(error, ssl.SSLError)
            return ("tls_error", _tls_detail(tls)) if tls else ("protocol_error", "the connection broke, no answer")
    return _classify_connecting(error, urlsplit(url).netloc)


def _classify_connecting(error: Exception, place: str) -> tuple[str, str]:
    if tls := _first(error, ssl.SSLError):
        return "tls_error", _tls_detail(tls)
    if _first(error, ConnectionRefusedError):
        return "connection_refused", place
    last = list(_causes(error))[-1]
    return "connect_failed", f"{place}: {str(last) or type(last).__name__}"


def _tls_detail(error: ssl.SSLError) -> str:
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return "what answers does not speak TLS: use http:// if it is meant to be plain"
    return getattr(error, "verify_message", "") or error.reason or str(error)


def _first(error: BaseException, kind: type[_Error]) -> _Error | None:
    return next((c for c in _causes(error) if isinstance(c, kind)), None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and everything it was raised from, groups included."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from _causes(inner)
        error = error.__cause__ or error.__context__
