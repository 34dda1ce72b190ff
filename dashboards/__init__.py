"""Grafana dashboards, made from the schema. What `make generate` writes of them is in generated/."""

from __future__ import annotations

from dashboards import fleet, frameworks, gpus, history, itself, server, slos
from dashboards.model import Dashboard

DASHBOARDS: tuple[Dashboard, ...] = tuple(
    each.dashboard() for each in (fleet, server, gpus, slos, frameworks, history, itself)
)
