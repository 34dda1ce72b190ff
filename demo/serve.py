"""The simulated fleet on local ports in real time, and the address at which faults are ordered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from demo.control import PATH, TRUTH, control
from demo.door import Door
from demo.fleet import Fleet
from demo.model import Answer
from demo.reply import Reply
from demo.transport import parts, pause

_METHODS = {"GET", "HEAD", "POST", "DELETE"}
_MOST_BYTES = 65_536
"""Of a head, and of a body."""
_IDLE_SECONDS = 75.0
_LOOK_SECONDS = 1.0
"""Until a server's port follows it."""
_LINGER_SECONDS, _LINGER_BYTES = 30.0, 8 * 1024 * 1024
"""How long, and how much of it, a body that is refused is still taken: a caller who sends reads no answer."""


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    """With what stands behind a question mark."""
    headers: Mapping[str, str]
    body: bytes = b""


class _RefusedError(Exception):
    """Before its body is read."""

    def __init__(self, status: int, told: str) -> None:
        super().__init__(told)
        self.answer = Answer(status, "application/json", json.dumps({"error": told}).encode() + b"\n")


Handler = Callable[[Asked], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Served:
    """Where everything is: servers by name, GPU pages by node."""

    servers: Mapping[str, str]
    gpu_pages: Mapping[str, str]
    faults: str
    truth: str


@asynccontextmanager
async def serve(fleet: Fleet, clock: Callable[[], float], *, host: str = "127.0.0.1") -> AsyncIterator[Served]:
    """`clock` tells unix seconds. Everybody has a port of his own."""
    async with AsyncExitStack() as stack:

        async def at(handle: Handler) -> Door:
            door = Door(partial(_converse, handle), host, _MOST_BYTES)
            stack.push_async_callback(door.aclose)
            await door.open()
            return door

        servers = {name: await at(partial(_of_server, fleet, name, clock)) for name in fleet.servers}
        pages = {node: await at(partial(_of_host, fleet, node, clock)) for node in fleet.hosts}
        doors = _Doors(fleet, clock, servers)
        control = await at(partial(_of_control, doors))
        keeper = asyncio.create_task(doors.keep())
        stack.callback(keeper.cancel)
        yield Served(
            {name: door.url for name, door in servers.items()},
            {node: f"{door.url}/metrics" for node, door in pages.items()},
            control.url + PATH,
            control.url + TRUTH,
        )


class _Doors:
    """A server that is down is no more to be reached than a dead one."""

    def __init__(self, fleet: Fleet, clock: Callable[[], float], doors: Mapping[str, Door]) -> None:
        self.fleet = fleet
        self.clock = clock
        self._doors = doors
        self._lock = asyncio.Lock()

    async def follow(self) -> None:
        async with self._lock:
            self.fleet.advance(self.clock())
            for name, door in self._doors.items():
                if self.fleet.servers[name].process is None:
                    door.shut()
                else:
                    await door.open()

    async def keep(self) -> None:
        while True:
            with suppress(OSError):  # once more in a moment
                await self.follow()
            await asyncio.sleep(_LOOK_SECONDS)


async def _of_server(fleet: Fleet, name: str, clock: Callable[[], float], asked: Asked) -> Reply:
    return _read_only(asked) or fleet.answer(name, asked.path, clock())


async def _of_host(fleet: Fleet, node: str, clock: Callable[[], float], asked: Asked) -> Reply:
    return _read_only(asked) or fleet.gpu_page(node, asked.path, clock())


async def _of_control(doors: _Doors, asked: Asked) -> Reply:
    content_type = asked.headers.get("content-type", "")
    answer = control(doors.fleet, asked.method, asked.path, content_type, asked.body, doors.clock())
    if asked.method not in ("GET", "HEAD"):
        await doors.follow()
    return Reply(answer)


def _read_only(asked: Asked) -> Reply | None:
    if asked.method in ("GET", "HEAD"):
        return None
    return Reply(Answer(405, "application/json", b'{"detail":"Method Not Allowed"}'))


async def _converse(handle: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            async with asyncio.timeout(_IDLE_SECONDS):
                asked = await _asked(reader)
            if not await _tell(writer, asked, await handle(asked)):
                return
    except _RefusedError as refused:
        await _refuse(reader, writer, refused.answer)
    except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        return  # this caller is gone or talks nonsense; the others go on
    finally:
        writer.close()


async def _asked(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Asked(method, path, headers, await reader.readexactly(_length(headers)))


def _length(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise _RefusedError(
            411, f"Transfer-Encoding: {headers['transfer-encoding']!r}: allowed: Content-Length instead"
        )
    told = headers.get("content-length", "0")
    if not (told.isascii() and told.isdecimal()):
        raise _RefusedError(400, f"Content-Length: {told!r}: allowed: a number of bytes")
    if len(told) > 18 or int(told) > _MOST_BYTES:
        raise _RefusedError(413, f"Content-Length: {told[:18]}: allowed: at most {_MOST_BYTES} bytes")
    return int(told)


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
    taken = 0
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(_LINGER_SECONDS):
            writer.write(_head(answer, keep=False) + answer.body)
            await writer.drain()
            while taken < _LINGER_BYTES and (part := await reader.read(_MOST_BYTES)):
                taken += len(part)


async def _tell(writer: asyncio.StreamWriter, asked: Asked, reply: Reply) -> bool:
    """Whether the connection goes on."""
    if reply.answer is None:
        # It went down after its door was looked at.
        writer.transport.abort()
        return False
    await pause(reply.wait)
    keep = asked.headers.get("connection", "").lower() != "close" and asked.method in _METHODS
    writer.write(_head(reply.answer, keep=keep))
    for part in () if asked.method == "HEAD" else parts(reply.answer.body, reply):
        writer.write(part)
        await writer.drain()
        await pause(reply.body_seconds / 2)
    await writer.drain()
    return keep and reply.cut is None


def _head(answer: Answer, *, keep: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Content-Length: {len(answer.body)}",
        f"Connection: {'keep-alive' if keep else 'close'}",
        *(f"{name}: {value}" for name, value in answer.headers),
    ]
    if answer.content_type:
        lines.append(f"Content-Type: {answer.content_type}")
    return "\r\n".join([*lines, "", ""]).encode()


def example(served: Served) -> str:
    """What can be typed to see something go wrong."""
    order = json.dumps({"kind": "hang", "target": next(iter(served.servers)), "seconds": 600})
    return f"curl -H 'Content-Type: application/json' -d '{order}' {served.faults}"
