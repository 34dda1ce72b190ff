"""A port at which somebody listens, or for a while nobody: then connections are refused, and the port stays taken."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

Converse = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Door:
    """`limit` is the most bytes of a head. It begins shut."""

    def __init__(self, converse: Converse, host: str, limit: int) -> None:
        self._converse = converse
        self._limit = limit
        self._held: socket.socket | None = _bound((host, 0))
        self._place: tuple[str, int] = self._held.getsockname()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        host, port = self._place
        return f"http://{host}:{port}"

    async def open(self) -> None:
        """Raises OSError if the port could not be kept."""
        if self._server is None:
            held, self._held = self._held or _bound(self._place), None
            self._server = await asyncio.start_server(self._connected, sock=held, limit=self._limit)

    def shut(self) -> None:
        """Whoever is inside is thrown out."""
        if self._server is not None:
            self._leave()
            self._held = _bound(self._place)

    async def aclose(self) -> None:
        gone = self._leave()
        if self._held is not None:
            self._held.close()
        await asyncio.gather(*gone, return_exceptions=True)

    def _leave(self) -> list[asyncio.Task[None]]:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._connections:
            task.cancel()
        return list(self._connections)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._converse(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)


def _bound(place: tuple[str, int]) -> socket.socket:
    """Nobody can take its port, and nobody listens at it."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # some connections of before may not be over
    try:
        made.bind(place)
    except OSError:
        made.close()
        raise
    return made
