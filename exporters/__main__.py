"""The sidecar alone: `python -m exporters [--config FILE] [--listen HOST:PORT]`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import socket
import sys
from pathlib import Path

import uvicorn

from exporters.app import create_app
from exporters.config import Config, ConfigError, Listen, default_path, load
from exporters.sidecar import Sidecar
from exporters.terminal import log

_log = logging.getLogger("exporters")

_SHUTDOWN_SECONDS = 2

EXIT_FAILURE, EXIT_CONFIG = 1, 2


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m exporters", description="The inferwatch sidecar alone.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="default: inferwatch.yml here, if there is one")
    parser.add_argument("--listen", metavar="HOST:PORT", help="default: `listen` of the configuration")
    given = parser.parse_args(arguments)
    log()
    return run(given.config or default_path(), given.listen)


def run(path: Path | None, listen: str | None = None) -> int:
    """Serves until it is told to stop; the exit status."""
    try:
        config = load(path, Config)
        place = config.listen if listen is None else parse_listen(listen)
    except ConfigError as error:
        return _say(str(error), EXIT_CONFIG)
    try:
        listening = bind(place)
    except OSError as error:
        return _say(f"could not listen on {place.host}:{place.port}: {error.strerror}", EXIT_FAILURE)
    # uvicorn shuts down in order on these and then raises them again, for this handler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    with listening:
        asyncio.run(serve(path, config, listening))
    return 0


def parse_listen(text: str) -> Listen:
    """`HOST:PORT`, `[::1]:9840` or `:9840` for all addresses. Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError([f"--listen: {text!r}: allowed: HOST:PORT, port 0 to 65535, such as 0.0.0.0:{Listen().port}"])
    return Listen(host=host.strip("[]") or "0.0.0.0", port=int(port))  # noqa: S104


def bind(place: Listen) -> socket.socket:
    """Raises OSError."""
    family, _, _, _, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening


async def serve(path: Path | None, config: Config, listening: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    sidecar = Sidecar(config)
    loop.add_signal_handler(signal.SIGHUP, reload, path, sidecar)
    # httpx says every request.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    host, port = listening.getsockname()[:2]
    _log.info("listening on http://%s:%s, servers: %s", host, port, len(sidecar.targets()))
    settings = uvicorn.Config(
        create_app(sidecar), log_config=None, log_level="warning", access_log=False, lifespan="on", server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )  # fmt: skip
    await _Server(settings, sidecar).serve(sockets=[listening])


class _Server(uvicorn.Server):
    def __init__(self, settings: uvicorn.Config, sidecar: Sidecar) -> None:
        super().__init__(settings)
        self._sidecar = sidecar

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Scrapes that wait for a server get their answer now, so that nobody waits for them."""
        await self._sidecar.aclose()
        await super().shutdown(sockets)


def reload(path: Path | None, sidecar: Sidecar) -> None:
    """The new configuration if it is good, else the one in force. Where to listen is read at the start only."""
    try:
        config = load(path, Config)
    except ConfigError as error:
        sidecar.reload_failed()
        _log.error("configuration not reloaded:\n%s", error)
    else:
        sidecar.reload(config)
        _log.info("configuration reloaded, servers: %s", len(sidecar.targets()))


def _say(message: str, status: int) -> int:
    print(message, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
