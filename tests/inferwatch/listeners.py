"""Things that listen on a port of this host and are asked what they are."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

TEXT, HTML, JSON = "text/plain; version=0.0.4", "text/html", "application/json"
Page = tuple[int, str, str]
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def saying(raw: bytes, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Answers anything with `raw` and hangs up; with nothing it stays silent. Yields the port."""
    gone = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        if not raw:
            await gone.wait()
        writer.write(raw)
        await _closed(writer)

    async with _listening(answer, host) as port:
        yield port
        gone.set()


@asynccontextmanager
async def serving(pages: Mapping[str, Page], host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    """Answers HTTP with (status, content type, body) by path, else 404. Yields the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            head = b"GET / "
        path = head.split()[1].decode().partition("?")[0]
        status, content_type, body = pages.get(path, (404, TEXT, "not found"))
        lines = f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {len(body.encode())}\r\n"
        writer.write(f"{lines}Connection: close\r\n\r\n{body}".encode())
        await _closed(writer)

    async with _listening(answer, host, port) as bound:
        yield bound


@asynccontextmanager
async def _listening(answer: Answer, host: str, port: int = 0) -> AsyncIterator[int]:
    server = await asyncio.start_server(answer, host, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.sleep(0)


async def _closed(writer: asyncio.StreamWriter) -> None:
    try:
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    except ConnectionError:
        return


def need_ipv6() -> None:
    """Skips the test on a host without it."""
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
    except OSError:
        pytest.skip("this host has no IPv6")
