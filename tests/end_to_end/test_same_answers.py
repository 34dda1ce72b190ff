"""What was read from one Prometheus into SQLite and into PostgreSQL answers alike over HTTP, byte for byte."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager

import httpx
from sqlalchemy import Engine

from exporters.schema import METRICS, Type
from monitor.app import create_app
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.columns import ENGINE_COLUMNS, TARGET_COLUMNS
from monitor.history.question import AGGREGATIONS
from tests.end_to_end.worlds import World

Asked = Mapping[str, str | float | list[str]]


@asynccontextmanager
async def client(database: Engine, seen: World) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Fleet(), History(database), node="node-a", clock=lambda: float(seen.until))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as found:
        yield found


def questions(seen: World) -> Iterator[tuple[str, Asked]]:
    """Each metric in every way; spans, groups and formats take turns."""
    spans: list[dict[str, str | float]] = [
        {"since": seen.start, "until": seen.until},
        {"since": seen.start, "until": seen.until, "step": "1m", "format": "csv"},
        {"since": seen.start + 90, "until": seen.until - 1230, "step": "7m"},
        {"since": seen.start, "until": seen.until, "step": "1h"},
        {"since": seen.start, "until": seen.until, "step": "1d", "format": "csv"},
    ]
    groups: list[list[str]] = [[], ["server"], ["framework"], ["model", "engine"], ["version"], ["node", "server"]]
    n = 0
    for metric in (*ENGINE_COLUMNS, *TARGET_COLUMNS):
        of_targets = metric in TARGET_COLUMNS
        for aggregation in AGGREGATIONS[METRICS[metric].type]:
            for q in _quantiles(metric):
                for by in groups[:2] if of_targets else groups[n % 2 :: 2]:
                    n += 1
                    own = list(METRICS[metric].labels) if n % 3 == 0 else []
                    asked: dict[str, str | float | list[str]] = {
                        "metric": metric,
                        "aggregation": aggregation,
                        **q,
                        "group_by": [*by, *own],
                    }
                    yield "/api/v1/history", asked | spans[n % len(spans)]
    yield "/api/v1/events", {"since": seen.start, "until": seen.until}
    yield "/api/v1/events", {"since": seen.start + 1800, "until": seen.until, "server": "dp2"}


def _quantiles(metric: str) -> list[dict[str, float]]:
    return [{"q": q} for q in (0.5, 0.9, 0.99, 1.0)] if METRICS[metric].type is Type.HISTOGRAM else [{}]


async def test_both_databases_answer_alike(undisturbed: Engine, undisturbed_postgres: Engine, seen: World) -> None:
    told: list[bytes] = []
    async with client(undisturbed, seen) as sqlite, client(undisturbed_postgres, seen) as postgres:
        for path, asked in questions(seen):
            answers = [await each.get(path, params=dict(asked)) for each in (sqlite, postgres)]
            assert [answer.status_code for answer in answers] == [200, 200], (asked, answers[0].text)
            assert answers[0].content == answers[1].content, asked
            told.append(answers[0].content)
    assert len(told) > 150
    assert sum(b'"points":[{' in content or content.count(b"\n") > 1 for content in told) > len(told) // 2
