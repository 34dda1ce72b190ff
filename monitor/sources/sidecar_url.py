"""A sidecar elsewhere, read as a Prometheus would."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from exporters import tls
from exporters.exposition import InvalidExposition, read_samples
from exporters.fetch import Failure, fetch, transport
from exporters.gpu.gathered import Gathered
from exporters.gpu.text import gathered
from exporters.observation import Observation
from monitor.sources import SourceError
from monitor.sources.rebuild import observations
from monitor.sources.stranger import stranger

_MAX_BYTES = 256 * 2**20
"""A sidecar answers for many servers."""


class SidecarUrl:
    """`url` is the sidecar's base URL or that of its metrics page; `timeout` is in seconds."""

    is_recorded = True

    def __init__(self, url: str, timeout: float, *, clock: Callable[[], float] = time.time) -> None:
        self.name = url
        self._page = url if url.endswith("/metrics") else f"{url.rstrip('/')}/metrics"
        self._timeout = timeout
        self._clock = clock
        self._transport = transport(tls.context() if url.startswith("https:") else tls.unused())
        self._gpus: dict[str, Gathered | None] = {}
        self.node: str | None = None
        """As it last said."""

    async def observe(self) -> list[Observation]:
        deadline = asyncio.get_running_loop().time() + self._timeout
        body = await fetch(self._transport, self._page, deadline=deadline, max_bytes=_MAX_BYTES)
        if isinstance(body, Failure):
            raise SourceError(f"could not read the sidecar at {self._page}: {body.reason}: {body.detail}")
        now = self._clock()
        try:
            samples = read_samples(body.text)
        except InvalidExposition as cause:
            raise SourceError(f"could not read the sidecar at {self._page}: {cause}") from cause
        if told := stranger((s.name for s in samples), body):
            raise SourceError(f"could not read the sidecar at {self._page}: {told}")
        self.node = next((s.labels.get("node") for s in samples if s.name == "inferwatch_build_info"), self.node)
        self._gpus = {**dict.fromkeys(self._gpus), **gathered(samples, now)}
        return observations(samples, now)

    def gpus(self) -> dict[str, Gathered | None]:
        return self._gpus

    async def aclose(self) -> None:
        await self._transport.aclose()
