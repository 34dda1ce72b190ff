"""The simulated fleet for an HTTP client of the same process: no port is opened, and time is the running loop's."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

import httpx

from demo.fleet import Fleet
from demo.reply import Reply

GPU_PORT = 9400
"""Of dcgm-exporter, on each host."""


def server_url(name: str) -> str:
    return f"http://{name}"


def gpu_url(node: str) -> str:
    return f"http://{node}:{GPU_PORT}/metrics"


class FleetTransport(httpx.AsyncBaseTransport):
    """Servers are hosts by their names; a name that is none of them has nothing that listens."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        reply = self._reply(request.url.host, request.url.port, request.url.raw_path.decode())
        if reply.answer is None:
            raise httpx.ConnectError(f"nothing listens at {request.url}") from ConnectionRefusedError()
        await pause(reply.wait)
        answer = reply.answer
        headers = [("Content-Length", str(len(answer.body))), *answer.headers]
        if answer.content_type:
            headers.append(("Content-Type", answer.content_type))
        return httpx.Response(answer.status, headers=headers, stream=_Body(answer.body, reply))

    def _reply(self, host: str, port: int | None, path: str) -> Reply:
        now = asyncio.get_running_loop().time()
        if port == GPU_PORT and host in self._fleet.hosts:
            return self._fleet.gpu_page(host, path, now)
        return self._fleet.answer(host, path, now) if host in self._fleet.servers else Reply(None)


class _Body(httpx.AsyncByteStream):
    def __init__(self, body: bytes, reply: Reply) -> None:
        self._body = body
        self._reply = reply

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in parts(self._body, self._reply):
            yield part
            await pause(self._reply.body_seconds / 2)
        if self._reply.cut is not None:
            raise httpx.RemoteProtocolError("the peer closed the connection within the body")


def parts(body: bytes, reply: Reply) -> tuple[bytes, ...]:
    """What comes of a body, in its pieces."""
    comes = body if reply.cut is None else body[: reply.cut]
    half = len(comes) // 2
    return (comes[:half], comes[half:]) if reply.body_seconds else (comes,)


async def pause(seconds: float) -> None:
    if math.isinf(seconds):
        await asyncio.Event().wait()
    elif seconds > 0:
        await asyncio.sleep(seconds)
