import csv
import io
import json
import math
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine

from exporters.findings import finding
from exporters.histogram import Histogram
from exporters.observation import FieldStatus
from exporters.schema import TTFT
from monitor.app import create_app
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.recording import Recording
from monitor.history.store import Store
from tests.monitor.observations import observation, series

NOW = 1_796_032_800.0
TOKENS, RUNNING = series("llm_generation_tokens_total"), series("llm_requests_running")
QUANTILE = {"phase": "ttft", "q": "0.99"}


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


@pytest.fixture
async def client(fleet: Fleet, history: History) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(fleet, history, node="n1", clock=lambda: NOW)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        yield client


@pytest.fixture
def recorded(fleet: Fleet, store: Store) -> None:
    """Two minutes of one server: 10 tokens/s, and 100 requests of which one took longer than 1 s."""
    recording = Recording(store, 15)
    for n in range(9):
        at = NOW - 120 + 15 * n
        counts = Histogram((0.1, 1.0), (90.0 * n, 99.0 * n, 100.0 * n), 31.5 * n)
        values = {TOKENS: 150.0 * n, RUNNING: 4.0}
        seen = observation(at, values, {series(TTFT.metric): counts}, fields=(FieldStatus("x", "y", "exact"),))
        fleet.update([seen])
        recording.record([seen], at)
    recording.flush()


async def get(client: httpx.AsyncClient, path: str, **params: Any) -> Any:
    response = await client.get(f"/api/v1{path}", params=params)
    assert response.status_code == 200, response.text
    return response.json()


async def problem(client: httpx.AsyncClient, path: str, status: int, **params: Any) -> Any:
    response = await client.get(path, params=params)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    return response.json()


@pytest.mark.usefixtures("recorded")
async def test_servers_are_listed_as_they_are_now(client: httpx.AsyncClient, fleet: Fleet) -> None:
    fleet.update([observation(NOW, server="s2", up=False, available=False, findings=(finding("connection_refused"),))])
    up, down = await get(client, "/servers")
    assert (up["server"], up["running"], up["generation_tokens_per_second"]) == ("s1", 4, 10)
    assert (up["ttft_p99"]["lower"], up["ttft_p99"]["upper"], up["ttft_p99"]["at_least"]) == (0.1, None, True)
    assert (down["server"], down["up"], down["running"]) == ("s2", False, None)
    assert down["findings"][0]["remedy"]


@pytest.mark.usefixtures("recorded")
async def test_one_server_is_told_in_full(client: httpx.AsyncClient) -> None:
    told = await get(client, "/servers/n1/s1")
    assert told["server"]["fields"] == [{"field": "x", "source": "y", "quality": "exact", "reason": ""}]
    values = {v["metric"]: (v["value"], v["unit"]) for v in told["values"]}
    assert values["llm_generation_tokens_total"] == (1200, "tokens")
    assert told["histograms"][0]["counts"] == [720, 792, 800]
    assert told["observed_at"] == NOW
    assert told["events"] == []
    assert (told["first_seen"], told["last_seen"]) == (NOW - 120, NOW)


async def test_a_server_of_very_many_engines_has_a_bounded_answer(client: httpx.AsyncClient, fleet: Fleet) -> None:
    fleet.update([observation(NOW, {series("llm_requests_running", engine=str(n)): 1 for n in range(200)})])
    told = await get(client, "/servers/n1/s1")
    assert (len(told["values"]), told["engines_left_out"]) == (128, 72)
    assert (told["server"]["engines"], told["server"]["running"]) == (200, 200)


async def test_an_infinite_bound_is_null_and_the_answer_stays_json(client: httpx.AsyncClient, fleet: Fleet) -> None:
    bounds = {"estimate": 60.0, "lower": 60.0, "upper": math.inf}
    values = {series("llm_latency_quantile_seconds", bound=b, **QUANTILE): v for b, v in bounds.items()}
    fleet.update([observation(NOW, values)])
    told = await get(client, "/servers/n1/s1")
    assert [v["value"] for v in told["values"]] == [60, 60, None]
    assert told["server"]["ttft_p99"]["at_least"] is True


async def test_a_server_whose_name_holds_a_slash_is_found(client: httpx.AsyncClient, fleet: Fleet) -> None:
    fleet.update([observation(NOW, server="gateway/a")])
    assert (await get(client, "/servers/n1/gateway/a"))["server"]["server"] == "gateway/a"


@pytest.mark.usefixtures("recorded")
async def test_a_server_that_is_not_there_is_a_problem_that_names_those_that_are(client: httpx.AsyncClient) -> None:
    told = await problem(client, "/api/v1/servers/n1/s11", 404)
    assert (told["title"], told["status"], told["meant"]) == ("Not Found", 404, "n1/s1")
    assert told["allowed"] == ["n1/s1"]


@pytest.mark.usefixtures("recorded")
async def test_the_history_of_a_counter_is_its_rate(client: httpx.AsyncClient) -> None:
    told = await get(client, "/history", metric="llm_generation_tokens_total", since="2m")
    assert (told["aggregation"], told["unit"], told["step"]) == ("rate", "tokens", 60)
    [answer] = told["answers"]
    assert [(p["start"], p["value"]) for p in answer["points"]] == [(NOW - 120, 10), (NOW - 60, 10)]


@pytest.mark.usefixtures("recorded")
async def test_a_quantile_of_the_history_comes_with_its_bounds(client: httpx.AsyncClient) -> None:
    asked = {"metric": TTFT.metric, "since": "2m", "step": "2m", "group_by": "model"}
    [answer] = (await get(client, "/history", q=0.95, **asked))["answers"]
    [point] = answer["points"]
    assert answer["labels"] == {"model": "m-a"}
    assert (point["lower"], point["upper"], point["at_least"]) == (0.1, 1.0, False)
    [beyond] = (await get(client, "/history", q=0.999, **asked))["answers"]
    assert (beyond["points"][0]["lower"], beyond["points"][0]["upper"]) == (1.0, None)
    assert beyond["points"][0]["at_least"] is True


@pytest.mark.usefixtures("recorded")
async def test_history_can_be_had_as_csv(client: httpx.AsyncClient) -> None:
    params = {"metric": TTFT.metric, "q": "0.999", "since": "2m", "step": "2m", "group_by": "server", "format": "csv"}
    response = await client.get("/api/v1/history", params=params)
    assert response.headers["content-type"].startswith("text/csv")
    [row] = csv.DictReader(io.StringIO(response.text))
    assert row["server"] == "s1"
    assert (float(row["start"]), float(row["lower"]), row["upper"], row["at_least"]) == (NOW - 120, 1.0, "", "true")


@pytest.mark.parametrize(
    ("params", "parameter", "meant"),
    [
        ({"metric": "llm_requests_runing"}, "metric", "llm_requests_running"),
        ({"metric": "llm_requests_running", "group_by": "sever"}, "group_by", "server"),
        ({"metric": "llm_requests_running", "since": "soon"}, "since", None),
        ({"metric": "llm_requests_running", "sinse": "1h"}, "sinse", "since"),
        ({"metric": "llm_requests_running", "format": "xml"}, "format", None),
        ({"metric": "llm_requests_running", "q": "high"}, "q", None),
        ({}, "metric", None),
    ],
)
@pytest.mark.usefixtures("recorded")
async def test_a_wrong_question_is_a_problem_that_names_the_parameter(
    client: httpx.AsyncClient, params: dict[str, str], parameter: str, meant: str | None
) -> None:
    told = await problem(client, "/api/v1/history", 400, **params)
    assert told["parameter"] == parameter
    assert told.get("meant") == meant
    assert told["detail"]


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("history?metric=llm_requests_running&metric=llm_requests_waiting", "metric"),
        ("events?limit=1&limit=2", "limit"),
    ],
)
async def test_one_value_is_not_given_twice(client: httpx.AsyncClient, path: str, parameter: str) -> None:
    response = await client.get(f"/api/v1/{path}")
    told = response.json()
    assert (response.status_code, told["parameter"]) == (400, parameter)
    assert told["detail"].startswith(f"{parameter}: given more than once")


async def test_what_may_be_repeated_is(client: httpx.AsyncClient) -> None:
    asked = "metric=llm_requests_running&group_by=node&group_by=server&where=node=a&where=server=b"
    assert (await client.get(f"/api/v1/history?{asked}")).status_code == 200
    assert (await client.get("/api/v1/events?kind=restart&kind=version")).status_code == 200


@pytest.mark.parametrize(
    ("params", "detail", "allowed"),
    [
        ({"metric": TTFT.metric}, "q: missing", ["0 to 1 for a histogram metric"]),
        ({"metric": TTFT.metric, "q": "2"}, "q: 2 is no quantile", ["0 to 1 for a histogram metric"]),
        (
            {"metric": TTFT.metric, "q": "high"},
            "q: 'high': allowed: the quantile, 0 to 1 for a histogram metric",
            ["the quantile, 0 to 1 for a histogram metric"],
        ),
        ({}, "metric: missing: allowed: a metric of the schema, such as llm_requests_running", None),
        (
            {"metric": "llm_requests_running", "format": "xml"},
            "format: 'xml': allowed: json, csv",
            ["json", "csv"],
        ),
        ({"metric": "llm_requests_running", "step": "90s"}, "step: 90 is not a number of whole minutes", None),
        (
            {"metric": "llm_requests_running", "step": "1e300"},
            "step: 1e+300 is longer than all time",
            ["at most 4102444800 seconds"],
        ),
        ({"foo": "1"}, "foo: no such parameter", None),
        ({"metric": "llm_ttft"}, "metric: 'llm_ttft' is not in the schema", None),
        ({"metric": "llm_requests_running", "limit": "5"}, "limit: no such parameter", None),
    ],
)
@pytest.mark.usefixtures("recorded")
async def test_a_wrong_question_says_what_is_allowed(
    client: httpx.AsyncClient, params: dict[str, str], detail: str, allowed: list[str] | None
) -> None:
    told = await problem(client, "/api/v1/history", 400, **params)
    assert told["detail"] == detail
    assert told["allowed"] == allowed if allowed else told["allowed"]
    assert "meant" not in told


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("history?metric={}", "metric"),
        ("history?metric=llm_requests_running&since={}", "since"),
        ("history?metric=llm_requests_running&step={}", "step"),
        ("history?metric=llm_requests_running&group_by={}", "group_by"),
        ("history?metric=llm_requests_running&where={}", "where"),
        ("history?metric=llm_requests_running&aggregation={}", "aggregation"),
        ("history?metric=llm_requests_running&q={}", "q"),
        ("history?metric=llm_requests_running&format={}", "format"),
        ("events?kind={}", "kind"),
        ("events?limit={}", "limit"),
        ("compare?model={}", "model"),
        ("compare?split={}", "split"),
        ("compare?by={}", "by"),
        ("advice?server={}", "server"),
    ],
)
async def test_of_a_very_long_value_the_beginning_is_repeated(
    client: httpx.AsyncClient, path: str, parameter: str
) -> None:
    response = await client.get(f"/api/v1/{path.format('x' * 10_000)}")
    told = response.json()
    assert (response.status_code, told["parameter"]) == (400, parameter)
    assert "xxx'… (10000 characters)" in told["detail"]
    assert "x" * 81 not in response.text


async def test_of_very_long_names_the_beginning_is_repeated(client: httpx.AsyncClient) -> None:
    told = await problem(client, "/api/v1/history", 400, **{"x" * 10_000: "1"})
    assert told["parameter"] == f"{'x' * 80}… (10000 characters)"
    for path, of in ((f"/api/v1/{'x' * 5000}", "nothing at"), (f"/api/v1/servers/n1/{'x' * 5000}", "no server")):
        detail = (await problem(client, path, 404))["detail"]
        assert detail.startswith(of)
        assert len(detail) < 200


@pytest.mark.usefixtures("recorded")
async def test_everything_can_be_asked_without_choosing_a_step(client: httpx.AsyncClient) -> None:
    told = await get(client, "/history", metric="llm_requests_running", since=0)
    assert told["step"] == 70 * 86_400, "20787 days in at most 300 points"
    assert len(told["answers"][0]["points"]) == 1


@pytest.mark.usefixtures("recorded")
async def test_another_server_is_meant_only_where_the_name_is_near(client: httpx.AsyncClient, fleet: Fleet) -> None:
    fleet.update([observation(NOW, node="a-node-with-a-long-name", server="chat")])
    told = await problem(client, "/api/v1/servers/a-node-with-a-long-name/code", 404)
    assert "meant" not in told
    told = await problem(client, "/api/v1/servers/a-node-with-a-longname/chat", 404)
    assert told["meant"] == "a-node-with-a-long-name/chat"


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    "path",
    [
        "/", "/fragments/fleet", "/servers/n1/s1", "/static/page.css", "/healthz", "/metrics", "/docs", "/openapi.json",
        "/api/v1/servers", "/api/v1/servers/n1/s1", "/api/v1/history?metric=llm_requests_running", "/servers/n1/none",
    ],
)  # fmt: skip
async def test_head_is_answered_as_get_is_but_for_the_body(client: httpx.AsyncClient, path: str) -> None:
    got, head = await client.get(path), await client.head(path)
    assert (head.status_code, head.headers, head.content) == (got.status_code, got.headers, b"")
    assert (await client.post(path)).status_code == 405


async def test_a_history_that_cannot_be_read_is_a_problem(client: httpx.AsyncClient, database: Engine) -> None:
    with database.begin() as connection:
        connection.exec_driver_sql("DROP TABLE series")
    told = await problem(client, "/api/v1/history", 503, metric="llm_requests_running")
    assert "could not read the history" in told["detail"]


async def test_a_path_that_is_not_there_is_a_problem(client: httpx.AsyncClient) -> None:
    assert (await problem(client, "/api/v1/nothing", 404))["detail"] == "nothing at /api/v1/nothing"


async def test_the_api_describes_itself(client: httpx.AsyncClient) -> None:
    description = (await client.get("/openapi.json")).json()
    paths = {"/servers", "/servers/{node}/{server}", "/gpus", "/events", "/history"}
    assert {f"/api/v1{path}" for path in paths} <= set(description["paths"])
    answer = description["components"]["schemas"]["PointOut"]["properties"]
    assert answer["covered_seconds"]["examples"] == [60]
    parameters = {p["name"] for p in description["paths"]["/api/v1/history"]["get"]["parameters"]}
    assert {"metric", "q", "since", "until", "step", "group_by", "where", "format", "aggregation"} == parameters
    assert "application/problem+json" in json.dumps(description["paths"]["/api/v1/history"])


async def test_the_description_for_people_loads_nothing_from_elsewhere(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs")
    assert "<code>GET /api/v1/history</code>" in page.text
    assert "<code>group_by</code>" in page.text
    assert "<td></td></tr>" not in page.text, "every parameter has its meaning"
    assert '<a href="/">' in page.text
    assert "//" not in page.text.replace("</", "")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
