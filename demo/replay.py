"""Recorded vLLM servers, replayed in a loop on local ports.

Every body is served byte for byte as it was recorded. At the end of a recording it starts over, so all counters fall to
their first values: whoever reads it sees a restart, as of a real server that crashed. The pace is the replay's own, so
rates are not those of the recorded server.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

CAPTURES = Path(__file__).parent / "captures"
METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"
"""What vLLM 0.32 says of its `/metrics`."""

_METHODS = {"GET", "HEAD"}
_HEAD_LIMIT = 16_384
_IDLE_SECONDS = 75.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content_type: str
    body: bytes


NOT_FOUND = Answer(404, "application/json", b'{"detail":"Not Found"}')


@dataclass(frozen=True, slots=True)
class Recording:
    """`step` is the number of seconds for which each body is served."""

    name: str
    step: float
    bodies: tuple[bytes, ...]
    endpoints: dict[str, Answer]

    def answer(self, path: str, seconds: float) -> Answer:
        if path == "/metrics":
            return Answer(200, METRICS_TYPE, self.bodies[int(seconds / self.step) % len(self.bodies)])
        return self.endpoints.get(path, NOT_FOUND)


def recordings() -> tuple[Recording, ...]:
    """One engine with LoRA adapters through a whole run, and two data-parallel engines short of KV cache."""
    return (
        load(CAPTURES / "vllm-0.32.0-A", "replay-vllm", 15.0),
        load(CAPTURES / "vllm-0.32.0-C", "replay-vllm-dp2", 30.0),
    )


def load(folder: Path, name: str, step: float) -> Recording:
    bodies = tuple(path.read_bytes() for path in sorted(folder.glob("*.prom")))
    recorded: dict[str, dict[str, Any]] = json.loads((folder / "endpoints.json").read_text(encoding="utf-8"))
    answers = {
        path: Answer(r["status"], r["content_type"] or "", r["body"].encode())
        for path, r in recorded.items()
        if "status" in r and path != "/metrics/"  # recorded without its body
    }
    return Recording(name, step, bodies, answers)


@asynccontextmanager
async def serve(
    recording: Recording, *, host: str = "127.0.0.1", port: int = 0, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[str]:
    """Serves the recording from its start and yields the server's URL."""
    started = clock()
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(_converse(reader, writer, lambda path: recording.answer(path, clock() - started)))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, host, port, limit=_HEAD_LIMIT)
    try:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _converse(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Callable[[str], Answer]
) -> None:
    keep = True
    try:
        while keep:
            async with asyncio.timeout(_IDLE_SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, _, rest = head.partition(" ")
            path = rest.split(" ", 1)[0].split("?", 1)[0]
            keep = method in _METHODS and "connection: close" not in head.lower()
            writer.write(_response(answer(path), method, keep=keep))
            await writer.drain()
    except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return  # this caller is gone or talks nonsense; the others go on
    finally:
        writer.close()


def _response(answer: Answer, method: str, *, keep: bool) -> bytes:
    if method not in _METHODS:
        answer = Answer(405, "application/json", b'{"detail":"Method Not Allowed"}')
    head = [
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Content-Length: {len(answer.body)}",
        f"Connection: {'keep-alive' if keep else 'close'}",
    ]
    if answer.content_type:
        head.append(f"Content-Type: {answer.content_type}")
    return "\r\n".join([*head, "", ""]).encode() + (b"" if method == "HEAD" else answer.body)
