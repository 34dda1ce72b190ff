"""Followers of a real server that is asked as of a moment that the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Engine

from monitor.config import PrometheusSection
from monitor.follower import Follower
from monitor.history.store import Store
from monitor.sources.prometheus.answers import Points
from monitor.sources.prometheus.client import Client
from tests.end_to_end.processes import DEADLINE


class Dated(Client):
    """Has no other clock than the test's. `hinders` may raise for a question, of which it is told the seconds too."""

    at = 0.0
    asked = 0

    def __init__(self, config: PrometheusSection, hinders: Callable[[str, float], None]) -> None:
        super().__init__(config)
        self._hinders = hinders

    async def now(self) -> float:
        self._hinders("time()", 0.0)
        return self.at

    async def query(self, expression: str, at: float | None = None) -> list[Points]:
        self.asked += 1
        self._hinders(expression, 0.0)
        return await super().query(expression, at)

    async def query_range(self, expression: str, start: float, end: float, step: float) -> list[Points]:
        self.asked += 1
        self._hinders(expression, end - start)
        return await super().query_range(expression, start, end, step)


def config_of(url: str, **more: Any) -> PrometheusSection:
    settings = {"url": url, "max_requests_per_second": 1000.0, "timeout": DEADLINE, **more}
    return PrometheusSection.model_validate(settings)


@asynccontextmanager
async def following(
    url: str,
    database: Engine,
    *,
    hinders: Callable[[str, float], None] = lambda question, seconds: None,
    store: type[Store] = Store,
    backfill: float = 7200.0,
    selector: str = "",
    **more: Any,
) -> AsyncIterator[tuple[Follower, Dated]]:
    config = config_of(url, backfill=backfill, selector=selector)
    client = Dated(config, hinders)
    try:
        yield Follower(client, store(database), config, clock=lambda: client.at, **more), client
    finally:
        await client.aclose()


async def followed(url: str, database: Engine, *moments: float, **more: Any) -> Follower:
    """All that there is to do at each of these moments."""
    async with following(url, database, **more) as (follower, client):
        for client.at in moments:
            while await follower.step():
                pass
    return follower
