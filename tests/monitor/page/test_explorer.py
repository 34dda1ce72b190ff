"""The history explorer over a real history, with charts drawn by the real process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Engine

from monitor.api import problems
from monitor.api.routes import router as api_router
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.minutes import Window
from monitor.history.store import Store
from monitor.page.charts.artist import Artist
from monitor.page.explorer import Explorer, complete, router
from monitor.page.routes import Pages
from tests.monitor.history.fleet import HOUR, START, gpu, gpu_minute, server_minute, write

NOW = float(START + HOUR)
TTFT = "llm_time_to_first_token_seconds"


class Elements(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def of(answer: httpx.Response, wanted: str) -> list[dict[str, str | None]]:
    """The attributes of all such elements."""
    return [attributes for tag, attributes in Elements(answer.text).found if tag == wanted]


@pytest.fixture(scope="module")
def artist() -> Iterator[Artist]:
    made = Artist(timeout=60)
    yield made
    made.close()


@pytest.fixture
def app(history: History, store: Store, artist: Artist) -> FastAPI:
    minutes = [
        server_minute(START + 60 * i, server) for i in range(50) if i not in range(20, 25) for server in ("s1", "s2")
    ]
    write(store, [*minutes, Window(START, {gpu(): gpu_minute()})])
    app = FastAPI()
    problems.install(app)
    app.include_router(api_router(Fleet(), history, lambda: NOW))
    app.include_router(router(Explorer(history, artist, lambda: NOW, Pages((("/history", "History"),)))))
    return app


async def asked(app: FastAPI, **query: str | list[str]) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        return await client.get("/history", params=query)


async def test_a_metric_is_drawn_with_a_line_for_each_group(app: FastAPI) -> None:
    answer = await asked(app, metric="llm_generation_tokens_total", since="1h", group_by="server", step="60")
    assert answer.status_code == 200
    assert "2026-12-01 00:10:00 UTC\ns1: 5 tokens/s\ns2: 5 tokens/s" in answer.text
    assert "llm_generation_tokens_total, per second over each 60 s" in answer.text
    assert answer.text.count('stroke="var(--line-1)"') >= 2


async def test_a_gap_is_told_by_the_number_of_windows(app: FastAPI) -> None:
    answer = await asked(app, metric="llm_up", since="1h", step="60")
    assert '<td class="n">45</td><td class="n">100 %</td>' in answer.text


async def test_a_percentile_comes_with_its_bounds(app: FastAPI) -> None:
    """One of four requests lies beyond the largest bound of 1 s, two between 0.1 and 1 s."""
    answer = await asked(app, metric=TTFT, q="0.5", since="1h")
    assert "(100 ms – 1.0 s)" in answer.text
    at_least = await asked(app, metric=TTFT, since="1h")
    assert "at least 1 s" in at_least.text
    assert f"{TTFT}, P99 over each" in at_least.text


async def test_links_lead_to_the_same_answer_of_the_api(app: FastAPI) -> None:
    answer = await asked(app, metric=TTFT, since="1h", group_by="node,server", where="server=s1")
    links = [
        a["href"] or ""
        for tag, a in Elements(answer.text).found
        if tag == "a" and "/api/v1/history" in (a["href"] or "")
    ]
    assert [dict(parse_qsl(urlsplit(link).query))["format"] for link in links] == ["json", "csv"]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        told = json.loads((await client.get(links[0])).text)
    assert (told["q"], [a["labels"] for a in told["answers"]]) == (0.99, [{"node": "n1", "server": "s1"}])


async def test_the_form_holds_what_was_asked(app: FastAPI) -> None:
    answer = await asked(
        app, metric="gpu_energy_joules_total", since="2026-12-01T00:00:00Z", where=["gpu=0", "node=n1"]
    )
    chosen = [a["value"] for tag, a in Elements(answer.text).found if tag == "option" and "selected" in a]
    assert chosen[:2] == ["gpu_energy_joules_total", "2026-12-01T00:00:00Z"]
    assert [a["value"] for tag, a in Elements(answer.text).found if tag == "input" and a["name"] == "where"] == [
        "gpu=0",
        "node=n1",
    ]
    assert "100 W" in answer.text


async def test_whoever_asks_for_nothing_sees_something(app: FastAPI) -> None:
    answer = await asked(app)
    assert answer.status_code == 200
    assert "<figure" in answer.text


async def test_nothing_recorded_is_said_and_no_chart_is_drawn(app: FastAPI) -> None:
    answer = await asked(app, metric="llm_requests_waiting", where="server=nobody")
    assert answer.status_code == 200
    assert "Nothing was recorded in this time where server=nobody." in answer.text
    assert "<figure" not in answer.text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"metric": "llm_requests_runing"}, "did you mean &#39;llm_requests_running&#39;?"),
        ({"metric": "llm_up", "since": "yesterday"}, "since: &#39;yesterday&#39; is no moment"),
        ({"metric": "llm_up", "step": "61"}, "not a number of whole minutes"),
        ({"metric": "llm_up", "since": ["1h", "2h"]}, "since: given twice"),
    ],
)
async def test_what_cannot_be_asked_is_said_in_the_page(
    app: FastAPI, query: dict[str, str | list[str]], said: str
) -> None:
    answer = await asked(app, **query)
    assert answer.status_code == 400
    assert said in answer.text
    assert "<form" in answer.text


async def test_a_chart_that_cannot_be_drawn_leaves_the_numbers(
    app: FastAPI, artist: Artist, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.page.charts.artist.MOST_VALUES", 10)
    answer = await asked(app, metric="llm_up", since="1h", step="60")
    assert answer.status_code == 200
    assert "No chart: 45 values are more than the 10 that one chart can show" in answer.text
    assert '<td class="n">45</td>' in answer.text


async def test_a_history_that_cannot_be_read_is_said(app: FastAPI, database: Engine) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE series RENAME TO gone")
    answer = await asked(app, metric="llm_up")
    assert answer.status_code == 503
    assert "could not read the history" in answer.text


async def test_labels_are_text_whatever_they_hold(app: FastAPI, store: Store) -> None:
    write(store, [server_minute(START, '<script>"&\u202e')])
    answer = await asked(app, metric="llm_generation_tokens_total", since="1h", group_by="server")
    assert "<script>&" not in answer.text
    assert "&lt;script&gt;" in answer.text
    assert "\u202e" not in answer.text


async def test_the_page_keeps_the_policy(app: FastAPI) -> None:
    answer = await asked(app, metric=TTFT, since="1h", group_by="server")
    assert "form-action 'self'" in answer.headers["Content-Security-Policy"]
    for _, attributes in Elements(answer.text).found:
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
    ids = [a["id"] for _, a in Elements(answer.text).found if "id" in a]
    assert len(ids) == len(set(ids))
    assert "http-equiv" not in answer.text


def test_a_quantile_is_asked_of_histograms_and_of_nothing_else() -> None:
    assert complete([("metric", TTFT)]) == [("metric", TTFT), ("q", "0.99")]
    assert complete([("metric", "llm_up"), ("q", "0.99")]) == [("metric", "llm_up")]
    assert complete([("metric", "llm_up"), ("aggregation", "rate")]) == [("metric", "llm_up")]
    assert complete([("metric", "unknown"), ("q", "0.5")]) == [("metric", "unknown"), ("q", "0.5")]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"foo": "1"}, "foo: no such parameter. Allowed: metric, q, since, until, step, group_by, where, "),
        ({"metrik": "llm_up"}, "metrik: no such parameter; did you mean &#39;metric&#39;? Allowed: metric, q, "),
        ({"since": "1h"}, "metric: missing. Allowed: a metric of the schema, such as llm_requests_running<"),
        ({"metric": TTFT, "q": "high"}, "q: &#39;high&#39;. Allowed: the quantile, 0 to 1 for a histogram metric<"),
        ({"metric": TTFT, "q": "7"}, "q: 7 is no quantile. Allowed: 0 to 1 for a histogram metric<"),
        (
            {"metric": "llm_up", "since": "1h", "until": "2h"},
            "until: 2026-11-30T23:00:00Z is not after since=2026-12-01T00:00:00Z. Allowed: a moment after",
        ),
    ],
)
async def test_a_wrong_parameter_is_told_once_and_in_words(app: FastAPI, query: dict[str, str], told: str) -> None:
    answer = await asked(app, **query)
    assert answer.status_code == 400
    assert told in answer.text


async def test_within_a_minute_the_same_question_has_the_same_drawing(
    app: FastAPI, artist: Artist, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = {"metric": TTFT, "since": str(START), "group_by": "server", "step": "60"}
    first = await asked(app, until=str(START + 2980), **question)
    monkeypatch.setattr(artist, "_asked", None)
    again = await asked(app, until=str(START + 2990), **question)
    drawings = [re.findall(r"<svg xmlns.*?</svg>", answer.text, re.DOTALL) for answer in (first, again)]
    assert len(drawings[0]) == 1
    assert drawings[0] == drawings[1]
