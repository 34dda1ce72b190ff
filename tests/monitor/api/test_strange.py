"""Whatever stands in an address is answered or refused, by both databases alike: never an internal error."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from sqlalchemy import Engine

from monitor.app import create_app
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.store import Store
from tests.monitor.compare.stored import MINUTE, START, window, write
from tests.monitor.compare.stored import Engine as Server

MOMENTS = (
    "0", "1e-320", "1e400", "4102444800", "4102444801", "99999d", f"{'9' * 400}d", "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00%2B23:59", "2026-11-30T23:59:60Z", "%D9%A1h", "%00", "%FF", "nan",
)  # fmt: skip
TEXTS = ("%00", "%FF", "%F0%9F%92%A5", "%25s", "'", "%22", "%E2%80%AE", "1" * 5000, "a=b", ",,")
METRIC = "history?metric=llm_requests_finished_total"
ADDRESSES = (
    *(f"{METRIC}&{name}={at}" for name in ("since", "until") for at in MOMENTS),
    *(f"{METRIC}&step={step}" for step in ("1e300", "6e19", "99999999w", f"{'9' * 400}d", "-60", "0", "%00")),
    *(f"{METRIC}&where=reason={text}" for text in TEXTS),
    *(f"{METRIC}&group_by={text}" for text in TEXTS),
    *(f"history?metric=llm_time_to_first_token_seconds&q={q}" for q in ("nan", "inf", "-0.0", "1e-320", "1e999")),
    *(f"compare?{name}={at}" for name in ("since", "until", "split") for at in MOMENTS),
    *(f"compare?model={text}" for text in TEXTS),
    *(f"advice?{name}={at}" for name in ("since", "until") for at in MOMENTS[:4]),
    *(f"advice?server={text}" for text in TEXTS[:4]),
    *(f"events?{name}={text}" for name in ("node", "server", "uuid", "kind", "limit") for text in TEXTS[:4]),
    *(f"servers/{text}/{text}" for text in TEXTS),
)


@pytest.fixture
async def client(each_database: Engine) -> AsyncIterator[httpx.AsyncClient]:
    write(Store(each_database), [window(n, Server(), Server("s2", "sglang")) for n in range(20)])
    app = create_app(Fleet(), History(each_database), node="n1", clock=lambda: float(START + 20 * MINUTE))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        yield client


async def test_no_address_is_an_internal_error(client: httpx.AsyncClient) -> None:
    answered = {address: await client.get(f"/api/v1/{address}") for address in ADDRESSES}
    assert {address: a.status_code for address, a in answered.items() if a.status_code not in (200, 400, 404)} == {}
    refused = [answer for answer in answered.values() if answer.status_code != 200]
    assert all(answer.headers["content-type"] == "application/problem+json" for answer in refused)
    assert len(refused) > len(ADDRESSES) / 3
    assert max(len(answer.json()["detail"]) for answer in refused) < 300
