"""The sidecar of this very process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from exporters.collected import Collected
from exporters.config import Config
from exporters.gpu.gathered import Gathered
from exporters.observation import Observation


class Collects(Protocol):
    """What is needed of `exporters.sidecar.Sidecar`."""

    config: Config

    async def collect(self, timeout: float | None = None) -> Sequence[Collected]: ...

    @property
    def gpu_readings(self) -> Gathered | None: ...


class InProcess:
    is_recorded = True

    def __init__(
        self, sidecar: Collects, timeout: float | None = None, *, name: str = "sidecar of this process"
    ) -> None:
        """`timeout` in seconds; None leaves it to the sidecar's configuration."""
        self.name = name
        self._sidecar = sidecar
        self._timeout = timeout
        self._nodes: set[str] = set()

    async def observe(self) -> list[Observation]:
        return [collected.observation for collected in await self._sidecar.collect(self._timeout)]

    def gpus(self) -> dict[str, Gathered | None]:
        node = self._sidecar.config.node
        before, self._nodes = self._nodes, {node}
        return {**dict.fromkeys(before), node: self._sidecar.gpu_readings}

    async def aclose(self) -> None:
        """The sidecar is closed by whoever made it."""
