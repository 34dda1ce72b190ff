"""Where observations come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from exporters.gpu.gathered import Gathered
from exporters.observation import Observation


class SourceError(Exception):
    """A source as a whole could not be read; what its targets do is then not known."""

    is_told = False
    """Whoever raised it has said so in the log."""


class Source(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def is_recorded(self) -> bool:
        """Whether the history is written from its observations; else it is read from where they came from."""
        ...

    async def observe(self) -> list[Observation]:
        """One observation per target, also of those that are down. Raises SourceError."""
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class TellsGpus(Protocol):
    """A source that reads GPUs too, whenever it observes."""

    def gpus(self) -> Mapping[str, Gathered | None]:
        """By node, as of the last observation; None where they are not read, or not any more."""
        ...
