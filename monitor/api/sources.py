"""Where the observations come from, and why some do not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from fastapi import APIRouter
from pydantic import BaseModel

from monitor.sources import Source


class SourceRow(BaseModel, frozen=True):
    name: str
    """The URL of a sidecar or Prometheus."""
    readable: bool | None
    """None until it was asked for the first time."""
    problem: str | None = None
    """Why it could not be read when it was asked last, or what it is instead of a sidecar."""


def router(
    sources: Sequence[Source], problems: Callable[[], Mapping[str, str]], unread: Callable[[], Collection[str]]
) -> APIRouter:
    """`problems` tells, by the source's name, why it cannot be read; `unread` are those that nobody asked yet."""
    routes = APIRouter(prefix="/api/v1")

    @routes.get("/sources", summary="Where the observations come from")
    def all_sources() -> list[SourceRow]:
        """One row for each sidecar or Prometheus that is read. While one cannot be read, its servers are not known."""
        told, unknown = problems(), unread()

        def readable(name: str) -> bool | None:
            return None if name in unknown else name not in told

        return [SourceRow(name=s.name, readable=readable(s.name), problem=told.get(s.name)) for s in sources]

    return routes
