"""Followers of a real server that is asked as of a moment that the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Engine

from monitor.config import PrometheusSection
from monitor.follower import Follower
from monitor.history.store import Store
from monitor.sources.prometheus.client import Client


class Dated(Client):
    """Has no other clock than the test's."""

    at = 0.0

    async def now(self) -> float:
        return self.at


@asynccontextmanager
async def following(url: str, database: Engine, **more: Any) -> AsyncIterator[tuple[Follower, Dated]]:
    backfill = more.pop("backfill", 7200.0)
    config = PrometheusSection(url=url, backfill=backfill, max_requests_per_second=1000.0, **more)
    client = Dated(config)
    try:
        yield Follower(client, Store(database), config, clock=lambda: client.at), client
    finally:
        await client.aclose()


async def followed(url: str, database: Engine, *moments: float, **more: Any) -> Follower:
    """All that there is to do at each of these moments."""
    async with following(url, database, **more) as (follower, client):
        for client.at in moments:
            while await follower.step():
                pass
    return follower
