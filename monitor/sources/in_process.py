"""The sidecar of this very process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from exporters.collected import Collected
from exporters.observation import Observation


class Collects(Protocol):
    """What is needed of `exporters.sidecar.Sidecar`."""

    async def collect(self, timeout: float | None = None) -> Sequence[Collected]: ...


class InProcess:
    name = "sidecar of this process"

    def __init__(self, sidecar: Collects, timeout: float | None = None) -> None:
        """`timeout` in seconds; None leaves it to the sidecar's configuration."""
        self._sidecar = sidecar
        self._timeout = timeout

    async def observe(self) -> list[Observation]:
        return [collected.observation for collected in await self._sidecar.collect(self._timeout)]

    async def aclose(self) -> None:
        """The sidecar is closed by whoever made it."""
