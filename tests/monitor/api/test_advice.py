"""Advice over HTTP, from a real history: the API's JSON and the page, which lead to the same numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from monitor.app import create_app
from monitor.fleet import Fleet
from monitor.history.ask import History
from tests.monitor.advise.minutes import engine, minute, process, store
from tests.monitor.evaluate.minutes import START
from tests.monitor.page.test_routes import Elements, seen

HOUR = 3600
NOW = float(START + HOUR)
HOUR_OF = {"since": "1h"}


@pytest.fixture
async def client(database: Engine) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Fleet(), History(database), node="n1", clock=lambda: NOW)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        yield client


def preempting(database: Engine) -> None:
    store(database, 60, {**dict([process()]), engine(): minute({"llm_preemptions_total": 9.0})})


async def advice(client: httpx.AsyncClient, **query: str) -> dict[str, Any]:
    answer = await client.get("/api/v1/advice", params=HOUR_OF | query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_finding_has_its_evidence_its_flag_and_its_confidence(
    database: Engine, client: httpx.AsyncClient
) -> None:
    preempting(database)
    told = await advice(client)
    (finding,) = told["findings"]
    assert (finding["name"], finding["title"]) == ("kv_cache_short", "KV cache too small")
    assert finding["target"]["name"] == "n1/s1"
    assert finding["change"] == {
        "flags": ["--gpu-memory-utilization"],
        "text": "raise `--gpu-memory-utilization` (the default is 0.9)",
        "current": None,
    }
    assert (finding["confidence"], finding["held_seconds"]) == ("low", 3600)
    first = finding["evidence"][0]
    assert (first["what"], first["value"], first["said"]) == ("preemptions", 540, "540 preemptions")
    assert [m["name"] for m in told["missing"]] == ["prompts_below_block", "batch_too_large", "capacity"]


async def test_the_question_of_the_evidence_answers_with_its_number(
    database: Engine, client: httpx.AsyncClient
) -> None:
    preempting(database)
    (finding,) = (await advice(client))["findings"]
    first = finding["evidence"][0]
    answered = (await client.get(first["question"])).json()
    assert sum(point["value"] for point in answered["answers"][0]["points"]) == first["value"]
    assert (await client.get(first["page"])).status_code == 200


async def test_an_unknown_server_and_an_unknown_parameter_are_refused(
    database: Engine, client: httpx.AsyncClient
) -> None:
    preempting(database)
    unknown = await client.get("/api/v1/advice", params=HOUR_OF | {"server": "s11"})
    assert unknown.status_code == 400
    assert (unknown.json()["parameter"], unknown.json()["meant"]) == ("server", "s1")
    wrong = await client.get("/api/v1/advice", params={"sinse": "1h"})
    assert wrong.status_code == 400
    assert (await client.get("/api/v1/advice", params={"since": "soon"})).json()["parameter"] == "since"


async def test_a_time_that_is_too_long_is_refused_by_the_name_that_the_request_has(
    database: Engine, client: httpx.AsyncClient
) -> None:
    preempting(database)
    told = await client.get("/api/v1/advice", params={"since": "99999d"})
    assert (told.status_code, told.json()["parameter"]) == (400, "since")
    assert told.json()["detail"].startswith("since: '99999d' is too long before `until`")


async def test_the_page_tells_the_same_and_leads_to_the_evidence(database: Engine, client: httpx.AsyncClient) -> None:
    preempting(database)
    answer = await client.get("/advice", params=HOUR_OF)
    assert answer.status_code == 200
    assert Elements(answer.text).wrong == []
    text = seen(answer.text)
    assert "KV cache too small n1/s1 vllm 0.32.0" in text
    assert "Change: raise --gpu-memory-utilization (the default is 0.9)" in text
    assert "preemptions : 540 preemptions" in text.replace("preemptions:", "preemptions :")
    assert "/history?metric=llm_preemptions_total&amp;aggregation=sum" in answer.text
    assert "Reference estimates are an article" in text


async def test_a_fleet_that_is_well_is_said_to_be(database: Engine, client: httpx.AsyncClient) -> None:
    store(database, 60, {**dict([process()]), engine(): minute()})
    assert (await advice(client))["findings"] == []
    text = seen((await client.get("/advice", params=HOUR_OF)).text)
    assert "Nothing was found to be wrong, but not everything could be judged" in text


async def test_an_empty_history_has_a_page(client: httpx.AsyncClient) -> None:
    answer = await client.get("/advice")
    assert answer.status_code == 200
    assert "No server was observed in this time." in seen(answer.text)
    assert "Nothing was found to be wrong." not in seen(answer.text)


async def test_what_cannot_be_asked_is_said_on_the_page(database: Engine, client: httpx.AsyncClient) -> None:
    preempting(database)
    answer = await client.get("/advice", params={"server": "s11", "since": "1h"})
    assert answer.status_code == 400
    assert "did you mean 's1'?" in unescape(seen(answer.text))
    assert (await client.get("/advice", params={"sinse": "1h"})).status_code == 400
    twice = await client.get("/advice?since=1h&since=2h")
    assert (twice.status_code, "since: given more than once" in twice.text) == (400, True)


async def test_names_that_people_make_up_stay_text(database: Engine, client: httpx.AsyncClient) -> None:
    name = "<script>alert(1)</script>&where=x"
    store(database, 60, {**dict([process(name)]), engine(name): minute({"llm_preemptions_total": 9.0})})
    answer = await client.get("/advice", params=HOUR_OF)
    assert "<script>alert" not in answer.text
    assert Elements(answer.text).wrong == []
    (finding,) = (await advice(client))["findings"]
    answered = (await client.get(finding["evidence"][0]["question"])).json()
    assert sum(point["value"] for point in answered["answers"][0]["points"]) == 540
