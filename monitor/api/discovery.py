"""Which sidecars a Prometheus is to scrape, as its HTTP service discovery asks."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter
from pydantic import BaseModel

from exporters.address import host_and_port, parts


class TargetGroup(BaseModel, frozen=True):
    targets: list[str]
    labels: dict[str, str]


def router(sidecars: Sequence[str]) -> APIRouter:
    """`sidecars` are base URLs."""
    routes = APIRouter()

    @routes.get("/sd", summary="The sidecars to scrape, for Prometheus")
    def targets() -> list[TargetGroup]:
        """Those that the configuration names, as `http_sd_configs` takes them."""
        return [_group(url) for url in sidecars]

    return routes


def _group(url: str) -> TargetGroup:
    of = parts(url)
    labels = {"__scheme__": of.scheme, "__metrics_path__": f"{of.path.rstrip('/')}/metrics"}
    return TargetGroup(targets=[host_and_port(url)], labels=labels)
