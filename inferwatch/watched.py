"""Which servers a sidecar in this process reads: those of the configuration, or else those found on a host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from exporters.config import Config, ConfigError, Server, load
from exporters.sidecar import Sidecar
from inferwatch.discover import HOSTS, PORTS, Seen, look

LOOK_EVERY_SECONDS = 5.0

_log = logging.getLogger(__name__)


class Watched:
    """`hosts` and `ports` are where to look where the configuration names no server; no hosts: nowhere."""

    def __init__(
        self,
        path: Path | None,
        config: Config,
        *,
        hosts: Sequence[str] = HOSTS,
        ports: Sequence[int] = (),
    ) -> None:
        self._path = path
        self._config = config
        self._hosts = tuple(hosts)
        self._ports = tuple(ports) or PORTS
        self._found: dict[int, Server] = {}
        self.sidecar = Sidecar(self._effective())

    @property
    def is_looking(self) -> bool:
        """Whether no server is named, so that the host is searched."""
        return bool(self._hosts) and not (self._config.servers or self._config.file_sd)

    async def look(self) -> list[Seen]:
        """Looks once at the ports where no server is known yet. Servers that are found stay, also when they end."""
        seen = await look([port for port in self._ports if port not in self._found], hosts=self._hosts)
        new = {s.port: s.server for s in seen if s.server is not None}
        if new and self.is_looking:
            self._found |= new
            self.sidecar.reload(self._effective())
        return seen

    async def keep_looking(self, found: Callable[[Seen], Awaitable[None]], every: float = LOOK_EVERY_SECONDS) -> None:
        """`found` is told of each new server; `every` is in seconds."""
        while True:
            await asyncio.sleep(every)
            for seen in await self.look() if self.is_looking else []:
                if seen.server is not None:
                    await found(seen)

    def reload(self) -> None:
        """The new configuration if it is good, else the one in force."""
        try:
            self._config = load(self._path, Config)
        except ConfigError as error:
            self.sidecar.reload_failed()
            _log.error("configuration not reloaded:\n%s", error)
        else:
            self.sidecar.reload(self._effective())
            _log.info("configuration reloaded, servers: %s", len(self.sidecar.targets()))

    def _effective(self) -> Config:
        if self.is_looking:
            return self._config.model_copy(update={"servers": tuple(self._found[p] for p in sorted(self._found))})
        return self._config
