"""Which server runs on which GPU now, remembered from one collection to the next: processes rarely change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from exporters.findings import Finding, finding
from exporters.gpu.gathered import GpuReading
from exporters.gpu.lane import Lane
from exporters.gpu.mapping import ServerAddress, configured, servers_of

_AGAIN_SECONDS = 60.0
"""After which processes are looked at again, though they are the same."""
_PATIENCE_SECONDS = 0.5

_Asked = tuple[frozenset[int], tuple[ServerAddress, ...]]


class Servers:
    def __init__(
        self, wanted: Mapping[str, Sequence[int | str]], monotonic: Callable[[], float], proc: Path = Path("/proc")
    ) -> None:
        self._wanted = wanted
        self._monotonic = monotonic
        self._proc = proc
        self._lane: Lane[None] = Lane("gpu-servers")
        self._known: tuple[_Asked, float] | None = None
        self._by_pid: dict[int, frozenset[str]] = {}

    async def on(
        self, gpus: Sequence[GpuReading], servers: Iterable[ServerAddress], deadline: float
    ) -> tuple[dict[str, dict[str, str]], list[Finding]]:
        """By uuid, how it is known of each server; and what the configuration names that is not here."""
        asked = frozenset(pid for gpu in gpus for pid in gpu.pids), tuple(servers)
        if all(asked) and self._is_due(asked):
            await self._look(asked, deadline)
        named, unknown = configured(gpus, self._wanted)
        found = [finding("gpu_not_here", "; ".join(unknown))] if unknown else []
        return {gpu.uuid: self._of(gpu, named.get(gpu.uuid, set())) for gpu in gpus}, found

    def _of(self, gpu: GpuReading, named: Iterable[str]) -> dict[str, str]:
        seen = [name for pid in gpu.pids for name in self._by_pid.get(pid, ())]
        return dict.fromkeys(sorted(named), "config") | dict.fromkeys(sorted(seen), "process")

    def _is_due(self, asked: _Asked) -> bool:
        return self._known is None or asked != self._known[0] or self._monotonic() - self._known[1] >= _AGAIN_SECONDS

    async def _look(self, asked: _Asked, deadline: float) -> None:
        """What comes too late is there the next time."""

        def look() -> None:
            self._by_pid = servers_of(*asked, self._proc)
            self._known = asked, self._monotonic()

        soon = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        try:
            await self._lane.run(look, min(deadline, soon))
        except TimeoutError:
            return
