"""The same data in SQLite and in PostgreSQL give the same answers, byte for byte."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager

import httpx
from sqlalchemy import Engine

from exporters.schema import METRICS, Type
from monitor.app import create_app
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.columns import STORED
from monitor.history.question import AGGREGATIONS
from tests.monitor.history.mixed_fleet import DAY, HOUR, START, UNTIL

Asked = Mapping[str, str | float | list[str]]


@asynccontextmanager
async def client(database: Engine) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Fleet(), History(database), node="n1", clock=lambda: float(UNTIL))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as found:
        yield found


def questions() -> Iterator[Asked]:
    """All that is stored in every way, and with each of the ways a different group and step."""
    spans: list[dict[str, str | float]] = [
        {"since": START, "until": UNTIL},
        {"since": START, "until": UNTIL, "step": "1h"},
        {"since": START, "until": UNTIL, "step": "1d"},
        {"since": UNTIL - 3 * HOUR + 60, "until": UNTIL - 90, "step": "5m"},
        {"since": START + HOUR, "until": START + DAY + 2 * HOUR, "step": "7m", "format": "csv"},
    ]
    groups: tuple[list[str], ...] = ([], ["server"], ["framework", "team"], ["version"], ["gpu"])
    of_gpus: tuple[list[str], ...] = ([], ["uuid"], ["name"], ["gpu", "driver"], ["node"])
    ways = [(m, a, q) for m in STORED for a in AGGREGATIONS[METRICS[m].type] for q in _quantiles(m)]
    for n, (metric, aggregation, q) in enumerate(ways):
        by = list((of_gpus if metric.startswith("gpu_") else groups)[n % 5])
        if metric in ("llm_up", "llm_metrics_available") or metric.startswith("llm_probe"):
            by = ["team"]
        for span in spans if n % 10 == 0 else [spans[n % 5], spans[(n + 2) % 5]]:
            own = list(METRICS[metric].labels) if n % 2 else []
            yield {"metric": metric, "aggregation": aggregation, **q, "group_by": [*by, *own], **span}


def _quantiles(metric: str) -> list[dict[str, float]]:
    return [{"q": 0.5}, {"q": 0.99}] if METRICS[metric].type is Type.HISTOGRAM else [{}]


async def test_both_databases_answer_alike_to_the_byte(filled: list[Engine]) -> None:
    answered = 0
    async with client(filled[0]) as sqlite, client(filled[1]) as postgres:
        for asked in questions():
            told = [await each.get("/api/v1/history", params=dict(asked)) for each in (sqlite, postgres)]
            assert [t.status_code for t in told] == [200, 200], told[0].text
            assert told[0].content == told[1].content, asked
            answered += b'"points":[{' in told[0].content or told[0].content.count(b"\n") > 1
    assert answered > 150
