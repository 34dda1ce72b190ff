"""Where observations come from."""

from __future__ import annotations

from typing import Protocol

from exporters.observation import Observation


class SourceError(Exception):
    """A source as a whole could not be read; what its targets do is then not known."""


class Source(Protocol):
    @property
    def name(self) -> str: ...

    async def observe(self) -> list[Observation]:
        """One observation per target, also of those that are down. Raises SourceError."""
        ...

    async def aclose(self) -> None: ...
