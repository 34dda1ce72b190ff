"""A process that follows a Prometheus until it is ended: `python follow.py DATABASE_URL PROMETHEUS_URL [BACKFILL]`."""

from __future__ import annotations

import asyncio
import logging
import sys

from monitor.config import PrometheusSection
from monitor.follower import Follower
from monitor.history.database import open_database
from monitor.history.store import Store
from monitor.sources.prometheus.client import Client


async def main(database: str, url: str, backfill: float = 3600.0) -> None:
    config = PrometheusSection(url=url, backfill=backfill, delay=1.0, max_requests_per_second=1000.0)
    await Follower(Client(config), Store(open_database(database)), config).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    database, prometheus, *backfill = sys.argv[1:]
    asyncio.run(main(database, prometheus, *map(float, backfill)))
