from __future__ import annotations

import asyncio
import gzip
import json
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from exporters.fetch import Answer, Failure
from monitor.config import PrometheusSection
from monitor.sources import SourceError
from monitor.sources.prometheus.answers import Away, Busy, Points, TimedOut, TooMuch, Unavailable
from monitor.sources.prometheus.client import Client
from tests.end_to_end.processes import DEADLINE
from tests.exporters.servers import (
    CERTIFICATE,
    Served,
    answering,
    https_context,
    response,
    serving,
    silence,
    unused_url,
)
from tests.servers.prometheus import Prometheus

JSON = "application/json"


def answer(document: object, status: int = 200, **headers: str) -> bytes:
    return response(json.dumps(document), status=status, content_type=JSON, headers=headers)


def success(kind: str, result: object, **more: object) -> bytes:
    return answer({"status": "success", "data": {"resultType": kind, "result": result}, **more})


def refusal(status: int, kind: str, message: str, **headers: str) -> bytes:
    return answer({"status": "error", "errorType": kind, "error": message}, status, **headers)


NOTHING = success("vector", [])


@asynccontextmanager
async def client_of(url: str, **settings: Any) -> AsyncIterator[Client]:
    max_bytes = settings.pop("max_bytes", 10_000)
    client = Client(
        PrometheusSection.model_validate({"url": url, "max_requests_per_second": 1e6, **settings}), max_bytes=max_bytes
    )
    yield client
    await client.aclose()


async def asked(*parts: bytes, **settings: Any) -> list[Points]:
    async with serving(answering(*parts)) as served, client_of(served.url, **settings) as client:
        return await client.query("up")


@asynccontextmanager
async def recording(answers: dict[str, bytes] | None = None) -> AsyncIterator[tuple[Served, list[dict[str, str]]]]:
    """Answers by method (nothing found, by default), and the forms that came."""
    forms: list[dict[str, str]] = []

    async def handler(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int(served.header("content-length") or 0)
        query = path.partition("?")[2] or (await reader.readexactly(length)).decode()
        forms.append({name: value for name, (value,) in parse_qs(query).items()})
        writer.write((answers or {}).get(served.heads[-1].split(" ")[0], NOTHING))

    async with serving(handler) as served:
        yield served, forms


async def test_a_vector_has_a_point_a_series() -> None:
    result = [
        {"metric": {"__name__": "up", "job": "a"}, "value": [1_700_000_000.123, "1"]},
        {"metric": {}, "value": [1_700_000_000, "+Inf"]},
    ]
    assert await asked(success("vector", result)) == [
        Points({"__name__": "up", "job": "a"}, [(1_700_000_000.123, 1.0)]),
        Points({}, [(1_700_000_000.0, math.inf)]),
    ]


async def test_a_matrix_has_its_samples_in_order() -> None:
    values = [[1, "NaN"], [2.5, "-Inf"], [3, "1e-3"]]
    (found,) = await asked(success("matrix", [{"metric": {"a": "b"}, "values": values}]))
    assert [at for at, _ in found.points] == [1.0, 2.5, 3.0]
    assert math.isnan(found.points[0][1])
    assert [value for _, value in found.points[1:]] == [-math.inf, 0.001]


async def test_native_histograms_are_left_out_and_counted() -> None:
    histogram = [1, {"count": "1", "sum": "2", "buckets": []}]
    matrix = [
        {"metric": {"a": "1"}, "histograms": [histogram, histogram]},
        {"metric": {"a": "2"}, "values": [[1, "2"]], "histograms": [histogram]},
    ]
    answers = [success("vector", [{"metric": {}, "histogram": histogram}]), success("matrix", matrix)]

    async def handler(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(int(served.header("content-length") or 0))
        writer.write(answers.pop(0))

    async with serving(handler) as served, client_of(served.url) as client:
        assert await client.query("a") == []
        assert await client.query("a[1m]") == [Points({"a": "2"}, [(1.0, 2.0)])]
        assert client.native_histograms == 4


async def test_questions_are_sent_as_a_form_that_asks_for_whole_and_raw_answers() -> None:
    async with recording() as (served, forms), client_of(f"{served.url}/select/0/prometheus/", timeout=120) as client:
        await client.query('up{a="&"}', 1_700_000_000.5)
        await client.query_range("up", 60, 120, 30)
    whole = {
        "dedup": "false", "partial_response": "false", "max_source_resolution": "0s", "deny_partial_response": "1",
        "nocache": "1", "timeout": "108000ms",
    }  # fmt: skip
    assert served.paths == ["/select/0/prometheus/api/v1/query", "/select/0/prometheus/api/v1/query_range"]
    assert served.header("content-type") == "application/x-www-form-urlencoded"
    assert forms[0] == {"query": 'up{a="&"}', "time": "1700000000.500", **whole}
    assert forms[1] == {"query": "up", "start": "60.000", "end": "120.000", "step": "30.000", **whole}


async def test_who_takes_no_post_is_asked_by_get_from_then_on() -> None:
    answers = {"POST": response("", status=405), "GET": NOTHING}
    async with recording(answers) as (served, forms), client_of(served.url) as client:
        await client.query("one")
        await client.query("two")
    assert [head.split(" ")[0] for head in served.heads] == ["POST", "GET", "GET"]
    assert [form["query"] for form in forms] == ["one", "one", "two"]


async def test_token_tenant_and_headers_are_sent(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    settings = {"bearer_token_file": str(token), "tenant": "team-a", "headers": {"X-Proxy": "yes"}}
    async with recording() as (served, _), client_of(served.url, **settings) as client:
        await client.query("up")
        wanted = {
            "authorization": "Bearer s3cret",
            "x-scope-orgid": "team-a",
            "x-proxy": "yes",
            "accept-encoding": "gzip",
        }
        assert {name: served.header(name) for name in wanted} == wanted
        token.write_text("another")
        await client.query("up")
        assert served.header("authorization") == "Bearer another"


async def test_its_certificate_is_checked_as_configured() -> None:
    async with serving(answering(NOTHING, close=False), https_context()) as served:
        async with client_of(served.url) as client:
            with pytest.raises(SourceError, match="tls_error"):
                await client.query("up")
        async with client_of(served.url, tls={"ca_file": str(CERTIFICATE)}) as client:
            assert await client.query("up") == []


@pytest.mark.parametrize(
    ("status", "kind", "message", "error", "told"),
    [
        (400, "bad_data", 'invalid parameter "query": 1:1: parse error', SourceError, "parse error"),
        (401, "", "", Away, "bearer_token_file"),
        (401, "", "no org id", Away, "prometheus.tenant"),
        (403, "", "", Away, "token that may read"),
        (404, "", "", Away, "/select/0/prometheus"),
        (302, "", "", Away, "redirects are not followed"),
        (502, "", "", Away, "HTTP 502"),
        (400, "bad_data", "exceeded maximum resolution of 11,000 points per timeseries", TooMuch, "HTTP 400"),
        (422, "execution", "query processing would load too many samples into memory", TooMuch, "too many samples"),
        (422, "execution", "the query exceeded the maximum number of chunks (limit: 2000000)", TooMuch, "HTTP 422"),
        (422, "422", "cannot select more than -search.maxSamplesPerQuery=1000 samples", TooMuch, "HTTP 422"),
        (422, "execution", "found duplicate series for the match group", SourceError, "duplicate series"),
        (413, "", "", TooMuch, "HTTP 413"),
        (503, "timeout", "query timed out in expression evaluation", TooMuch, "timed out"),
        (504, "", "", TimedOut, "HTTP 504"),
        (503, "unavailable", "TSDB not ready", Unavailable, "not ready"),
        (429, "too_many_requests", "too many outstanding requests", Busy, "outstanding"),
    ],
)
async def test_a_refusal_says_who_why_and_what_to_do(
    status: int, kind: str, message: str, error: type[SourceError], told: str
) -> None:
    async with serving(answering(refusal(status, kind, message))) as served, client_of(served.url) as client:
        with pytest.raises(SourceError, match=f"^could not ask Prometheus at {served.url}: HTTP {status}") as caught:
            await client.query("up")
    assert type(caught.value) is error
    assert told in str(caught.value)


@pytest.mark.parametrize(("text", "seconds"), [("7", 7.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("", None)])
async def test_a_busy_server_may_say_when_to_come_again(text: str, seconds: float | None) -> None:
    with pytest.raises(Busy) as caught:
        await asked(refusal(429, "", "", **{"Retry-After": text}))
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html>log in</html>", b"[]", b'"text"', b"{}", b'{"status": "success"}', b"[" * 5000,
        b'{"status": "success", "data": {"resultType": "streams", "result": []}}',
        b'{"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1]}]}}',
        b'{"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "x"]}]}}',
        b'{"status": "success", "data": {"resultType": "vector", "result": [[]]}}',
        b'{"status": "success", "data": []}', b"\xff\xfe",
    ],
)  # fmt: skip
async def test_what_is_no_query_api_is_told_so(body: bytes) -> None:
    with pytest.raises(SourceError, match=r"no query API: see `prometheus\.url`"):
        await asked(response(body, content_type="text/html"))


@pytest.mark.parametrize(
    "more",
    [
        {"isPartial": True},
        {"warnings": ["receive series from Addr: 10.0.0.1:10901: rpc error"]},
        {"warnings": ["harmless", "remote_read: connection refused"]},
        {"warnings": ["No StoreAPIs matched for this query"]},
    ],
)
async def test_an_answer_that_is_not_whole_is_an_error(more: dict[str, object]) -> None:
    with pytest.raises(SourceError, match="not whole"):
        await asked(success("vector", [], **more))


async def test_other_warnings_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    warning = "PromQL info: metric might not be a counter"
    async with (
        serving(answering(success("vector", [], warnings=[warning]))) as served,
        client_of(served.url) as client,
        asyncio.timeout(30),
    ):
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                await client.query("up")
    assert [record.getMessage() for record in caplog.records] == [f"Prometheus at {served.url} warns: {warning}"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
async def test_an_answer_beyond_the_bound_is_too_much(pack: Any) -> None:
    body = pack(b" " * 10_001)
    with pytest.raises(TooMuch, match="too_large"):
        await asked(response(body, headers={"Content-Encoding": "gzip"} if body[:1] != b" " else {}))


async def test_who_does_not_answer_in_time_is_told_from_who_has_too_much() -> None:
    async with serving(silence) as served, client_of(served.url, timeout=0.05) as client:
        with pytest.raises(TimedOut):
            await client.query("up")


async def test_who_is_not_there_is_named() -> None:
    url = unused_url()
    async with client_of(url) as client:
        with pytest.raises(SourceError, match=f"could not ask Prometheus at {url}: connection_refused"):
            await client.query("up")


@asynccontextmanager
async def switched(*bodies: bytes) -> AsyncIterator[tuple[Client, list[bytes]]]:
    """Answers with the first of `bodies`, as they stand then; not at all where that is empty."""
    now = list(bodies)

    def answer_to(form: str) -> bytes:
        return now[-1] if parse_qs(form)["query"] == ["time()"] else now[0]

    class Waiting(Client):
        """Only where no answer comes is it given up: others may be late on a busy machine."""

        async def _send(self, path: str, form: str) -> Answer | Failure:
            timeout = DEADLINE if answer_to(form) else 0.05
            self._config = self._config.model_copy(update={"timeout": timeout})
            return await super()._send(path, form)

    async def handler(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        form = (await reader.readexactly(int(served.header("content-length") or 0))).decode()
        if body := answer_to(form):
            writer.write(body)
        else:
            await asyncio.Event().wait()

    async with serving(handler) as served:
        client = Waiting(PrometheusSection.model_validate({"url": served.url, "max_requests_per_second": 1e6}))
        yield client, now
        await client.aclose()


async def refused(client: Client, *expressions: str) -> list[bool]:
    """Whether each was told in the log by the client."""
    found = []
    for expression in expressions:
        with pytest.raises(SourceError) as caught:
            await client.query(expression)
        found.append(caught.value.is_told)
    return found


async def test_that_it_is_away_is_told_once_whoever_asks_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    starting = refusal(503, "unavailable", "starting up")
    async with switched(refusal(401, "", "")) as (client, now):
        assert await refused(client, "servers", "history", "alerts") == [True, True, True]
        now[:] = [starting]
        assert await refused(client, "servers", "history") == [True, True]
        now[:] = [NOTHING]
        await client.query("servers")
        await client.query("history")
    away, again = (record.getMessage() for record in caplog.records)
    assert away.startswith(f"could not ask Prometheus at {client.name}: HTTP 401")
    assert again.startswith(f"Prometheus at {client.name} answers again: it did not for 0:00:")


async def test_what_is_wrong_with_one_question_is_left_to_who_asked_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with switched(refusal(422, "execution", "found duplicate series"), NOTHING) as (client, now):
        assert await refused(client, "history", "history") == [False, False]
        now[:] = [b"", success("scalar", [0, "1"])]
        assert await refused(client, "takes long", "takes long") == [False, False]
    assert caplog.records == []


async def test_who_answers_not_even_the_shortest_question_is_away(caplog: pytest.LogCaptureFixture) -> None:
    async with switched(b"") as (client, _):
        assert await refused(client, "servers", "history") == [True, True]
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_questions_wait_for_their_turn_and_keep_their_distance() -> None:
    under_way = most = 0
    waited: list[float] = []

    async def handler(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await reader.readexactly(int(served.header("content-length") or 0))
        await asyncio.sleep(0)
        under_way -= 1
        writer.write(NOTHING)

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async with serving(handler) as served:
        config = PrometheusSection(url=served.url).model_copy(update={"max_requests_per_second": 0.001})
        client = Client(config, sleep=sleep)
        await asyncio.gather(*(client.query(f"up{n}") for n in range(3)))
        await client.aclose()
    assert most == 1
    assert len(waited) == 2
    assert all(900 < seconds <= 1000 for seconds in waited)


async def test_a_real_one_tells_its_time_and_refuses_what_is_too_much(tmp_path: Path) -> None:
    flags = ("--query.max-samples=5",)
    with Prometheus("global: {scrape_interval: 1h}", tmp_path, *flags) as prometheus:
        async with client_of(prometheus.url) as client:
            assert await client.now() == pytest.approx(prometheus.number("vector(time())"), abs=60)
            assert await client.query_range("vector(7)", 600, 720, 60) == [
                Points({}, [(600.0, 7.0), (660.0, 7.0), (720.0, 7.0)])
            ]
            with pytest.raises(TooMuch, match="too many samples"):
                await client.query_range("vector(7)", 600, 6000, 60)
            with pytest.raises(SourceError, match="parse error"):
                await client.query("up{")
        async with client_of(f"{prometheus.url}/prometheus") as client:
            with pytest.raises(SourceError, match=r"HTTP 404.*`prometheus\.url`"):
                await client.query("up")
