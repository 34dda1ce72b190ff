"""Time that passes where a test says so, however long its process stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import pytest


@dataclass
class Held:
    now: float

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


@contextmanager
def held_time() -> Iterator[Held]:
    """The running loop's; a sleep in it ends only where time passes."""
    loop = asyncio.get_running_loop()
    held = Held(loop.time())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "time", lambda: held.now)
        yield held


class Watched(httpx.AsyncBaseTransport):
    """Calls `waits` each time that more of an answer's body is waited for, with the bytes that were taken before."""

    def __init__(self, inner: httpx.AsyncBaseTransport, waits: Callable[[int], None]) -> None:
        self._inner = inner
        self._waits = waits

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._inner.handle_async_request(request)
        stream = _WatchedStream(answer.stream, self._waits)
        return httpx.Response(answer.status_code, headers=answer.headers, stream=stream, extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _WatchedStream(httpx.AsyncByteStream):
    def __init__(self, inner: object, waits: Callable[[int], None]) -> None:
        assert isinstance(inner, httpx.AsyncByteStream)
        self._inner = inner
        self._waits = waits

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        self._waits(taken)
        async for part in self._inner:
            yield part
            taken += len(part)
            self._waits(taken)

    async def aclose(self) -> None:
        await self._inner.aclose()
