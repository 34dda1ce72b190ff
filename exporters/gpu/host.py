"""The GPUs of this host, read as the configuration says: whoever asks meanwhile joins a reading that is under way."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from exporters.config import Gpus
from exporters.fetch import Transport, transport
from exporters.findings import Finding, finding
from exporters.gpu.account import GpuAccount
from exporters.gpu.dcgm import DcgmSource
from exporters.gpu.gathered import Gathered
from exporters.gpu.mapping import ServerAddress
from exporters.gpu.nvml import NvmlSource

_log = logging.getLogger(__name__)

_MARGIN_SECONDS = 0.05
"""Between a reading's own deadline and the moment when it counts as late."""


class _Source(Protocol):
    async def collect(self, deadline: float, servers: Sequence[ServerAddress]) -> Gathered: ...

    def without(self, why: Finding) -> Gathered: ...

    async def aclose(self) -> None: ...


class HostGpus:
    def __init__(
        self,
        config: Gpus,
        node: str,
        *,
        clock: Callable[[], float] = time.time,
        transport: Transport = transport,
    ) -> None:
        self.last: Gathered | None = None
        self._settings = (config, node)
        self._source = _source(config, node, clock, transport)
        self._account = GpuAccount(node, of_page=config.dcgm is not None)
        self._running: asyncio.Task[Gathered] | None = None

    def is_for(self, config: Gpus, node: str) -> bool:
        return (config, node) == self._settings

    async def collect(self, timeout: float, servers: Sequence[ServerAddress]) -> Gathered:
        """Within `timeout` seconds, whatever the driver does."""
        if self._running is None or self._running.done():
            deadline = asyncio.get_running_loop().time() + max(timeout - _MARGIN_SECONDS, timeout / 2)
            self._running = asyncio.create_task(self._collect(deadline, servers))
        running = self._running
        await asyncio.wait([running], timeout=timeout)
        is_there = running.done() and not running.cancelled()
        self.last = running.result() if is_there else self._source.without(finding("gpu_timeout", "still being read"))
        return self.last

    def chunks(self) -> dict[str, str]:
        """Sample lines by metric, as of the last collection."""
        return {} if self.last is None else self._account.chunks(self.last)

    async def aclose(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self._source.aclose()

    async def _collect(self, deadline: float, servers: Sequence[ServerAddress]) -> Gathered:
        try:
            gathered = await self._source.collect(deadline, servers)
        except Exception as error:
            _log.exception("gpu: the readings could not be gathered")
            gathered = self._source.without(finding("internal_error", type(error).__name__))
        self._account.take(gathered)
        return gathered


def _source(config: Gpus, node: str, clock: Callable[[], float], transport: Transport) -> _Source:
    if config.dcgm is not None:
        return DcgmSource(node, config.dcgm, configured=config.servers, clock=clock, transport=transport)
    return NvmlSource(node, required=config.source == "nvml", configured=config.servers, clock=clock)
