"""Real servers on a port the system chooses, down to the byte."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.end_to_end.processes import free_port

# Self-signed for 127.0.0.1 until 2126: openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes
# -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 -days 36500 -out certificate.pem -keyout key.pem
CERTIFICATE = Path(__file__).parent / "tls" / "certificate.pem"
KEY = CERTIFICATE.with_name("key.pem")

Handler = Callable[[str, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Served:
    url: str
    paths: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    connections: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with the first request."""

    def count(self, path: str) -> int:
        return self.paths.count(path)

    def header(self, name: str) -> str | None:
        """Of the last request."""
        lines = (line.partition(": ") for line in self.heads[-1].splitlines()[1:])
        return next((value for key, _, value in lines if key.lower() == name.lower()), None)


@contextlib.asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None, *, port: int = 0) -> AsyncIterator[Served]:
    """`handler(path, reader, writer)` is called for each request; when it returns the connection is kept."""
    served = Served("")
    tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                served.heads.append(head)
                served.paths.append(head.split(" ")[1])
                served.asked.set()
                await handler(served.paths[-1], reader, writer)

    def ended(task: asyncio.Task[None]) -> None:
        tasks.pop(task).close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(connection(reader, writer))
        tasks[task] = writer
        task.add_done_callback(ended)

    server = await asyncio.start_server(accept, "127.0.0.1", port, ssl=context)
    port = server.sockets[0].getsockname()[1]
    served.url = f"{'https' if context else 'http'}://127.0.0.1:{port}"
    try:
        yield served
    finally:
        # asyncio leaves a connection unclosed that is on its way in when its server closes: let those in first.
        for listening in server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(5):
            await asyncio.sleep(0)
        server.close()
        writers = list(tasks.values())
        for task, writer in list(tasks.items()):
            task.cancel()
            # Closing in order would wait for a TLS client that does not take part.
            writer.transport.abort()
        await asyncio.gather(*tasks, *(w.wait_closed() for w in writers), return_exceptions=True)


def response(
    body: bytes | str = b"",
    *,
    status: int = 200,
    content_type: str = "text/plain; version=0.0.4; charset=utf-8",
    headers: dict[str, str] | None = None,
    length: int | None = None,
) -> bytes:
    raw = body.encode() if isinstance(body, str) else body
    fields = {"Content-Type": content_type, "Content-Length": str(len(raw) if length is None else length)}
    lines = [f"HTTP/1.1 {status} Word", *(f"{k}: {v}" for k, v in (fields | (headers or {})).items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


def answering(*parts: bytes, close: bool = True) -> Handler:
    """The same bytes for every request."""

    async def handler(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if close:
            writer.close()

    return handler


def pages(answers: dict[str, bytes]) -> Handler:
    """A response by path, looked up for each request; 404 for the rest. An unfinished one ends the connection."""

    async def handler(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = answers.get(path, response("no such path\n", status=404))
        writer.write(answer)
        await writer.drain()
        if answer.partition(b"\r\n\r\n")[2] == b"" and b"Content-Length: 0" not in answer:
            writer.close()

    return handler


async def silence(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes the request and never answers."""
    await reader.read()


def https_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    return context


def unused_url() -> str:
    """Where nothing listens, also later on."""
    return f"http://127.0.0.1:{free_port()}"
