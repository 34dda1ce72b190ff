"""What the commands that keep running have in common: their configuration, their address, and how they end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import uvicorn

from exporters.__main__ import bind, parse_listen
from exporters.config import Listen, default_path, unread
from exporters.fetch import resolve_in_many_threads
from exporters.loader import Root
from exporters.loader import load as load_file
from exporters.terminal import log, printable
from inferwatch.console import CommandError
from inferwatch.misuse import problems_end

SHUTDOWN_SECONDS = 2

_log = logging.getLogger(__name__)

R = TypeVar("R", bound=Root)


def config_path(given: Path | None) -> Path | None:
    """The file to use; one that lies here under its usual name is used without being named, and told."""
    path = given or default_path()
    if path is not None and given is None:
        say(f"using {path} of this folder")
    return path


def load(path: Path | None, model: type[R]) -> R:
    """Raises CommandError."""
    with problems_end():
        return load_file(path, model)


def tell_of_others(config: Root, command: str, others: str) -> None:
    """Which sections of the file `command` does not read, and that `others` do: one file may be for all of them."""
    if found := sorted({name for name, value in config.foreign.items() if value} - set(unread(config))):
        names = ", ".join(f"`{name}`" for name in found)
        _log.info("configuration: `inferwatch %s` does not read %s: %s", command, names, others)


def listening(configured: Listen, given: str | None) -> socket.socket:
    """A bound socket. Raises CommandError, naming the address and what to change."""
    with problems_end():
        place = configured if given is None else parse_listen(given)
    try:
        return bind(place)
    except OSError as error:
        why = f"could not listen on {place.host} port {place.port}: {error.strerror}"
        raise CommandError(f"{why}; --listen HOST:PORT chooses another address") from error


def url_of(bound: socket.socket) -> str:
    """For people on this host."""
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def say(*lines: str) -> None:
    """At once, also into a pipe."""
    print("\n".join(map(printable, lines)), flush=True)


def log_to_stderr() -> None:
    log()
    for chatty in ("httpx", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """A request that is cut off because the process ends is no error of the application."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)


class Stop:
    """SIGINT and SIGTERM end the process in order, from the moment this is made."""

    def __init__(self) -> None:
        self.is_wanted = False
        self._server: uvicorn.Server | None = None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._want)

    def end(self, server: uvicorn.Server) -> None:
        """The server that ends when it is wanted, or at once where it was wanted already."""
        self._server = server
        server.should_exit = self.is_wanted

    def _want(self) -> None:
        self.is_wanted = True
        if self._server is not None:
            self._server.should_exit = True


async def serve(
    app: Any, bound: socket.socket, stop: Stop, *, started: Callable[[], None], reload: Callable[[], None]
) -> None:
    """Until it is told to stop; `started` is called once requests are answered, `reload` on SIGHUP."""
    settings = uvicorn.Config(
        app, log_config=None, log_level="warning", access_log=False, lifespan="on", server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )  # fmt: skip
    resolve_in_many_threads()
    server = _Server(settings, stop, started)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
    await server.serve(sockets=[bound])
    if not server.started:
        raise CommandError("could not start: see the messages above")


class _Server(uvicorn.Server):
    def __init__(self, settings: uvicorn.Config, stop: Stop, started: Callable[[], None]) -> None:
        super().__init__(settings)
        self._stop = stop
        self._tell_started = started

    async def main_loop(self) -> None:
        """Only from here on does uvicorn also run the application's shutdown when it ends."""
        self._tell_started()
        self._stop.end(self)
        await super().main_loop()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are handled above: uvicorn would raise them again at its end, and the status would not be 0."""
        yield


class Background:
    """Tasks that end with the process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
