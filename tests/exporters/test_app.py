from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporters.app import create_app, time_allowed
from exporters.config import Config
from exporters.sidecar import Sidecar
from tests.exporters.held import held_time
from tests.exporters.recorded import VLLM as CAPTURES
from tests.exporters.servers import Served, pages, response, serving, silence, unused_url

BODY = (CAPTURES / "0.32.0" / "A-2-after.prom").read_text()
SECRET = "s3cr3t-t0ken"
LONG = 120.0
EVIL = "<script>alert(1)</script>"

Client = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@asynccontextmanager
async def client(*servers: dict[str, object], **more: object) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(sidecar(*servers, **more)) as made:
        yield made


def sidecar(*servers: dict[str, object], **more: object) -> Sidecar:
    config = {"node": "rack-1", "scrape": {"timeout": LONG}, "servers": servers, **more}
    return Sidecar(Config.model_validate(config))


@asynccontextmanager
async def client_of(sidecar: Sidecar) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(sidecar)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://sidecar") as made,
    ):
        yield made


@pytest.fixture
async def vllm() -> AsyncIterator[Served]:
    async with serving(pages({"/metrics": response(BODY)})) as served:
        yield served


def values(text: str, metric: str) -> list[float]:
    return [s.value for f in text_string_to_metric_families(text) for s in f.samples if s.name == metric]


async def test_metrics_are_the_text_format(vllm: Served) -> None:
    async with client({"url": vllm.url}) as http:
        answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert values(answer.text, "llm_up") == [1.0]
    assert values(answer.text, "inferwatch_build_info") == [1.0]


async def test_an_error_of_a_server_is_no_error_of_ours() -> None:
    async with client({"url": unused_url()}) as http:
        answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert values(answer.text, "llm_up") == [0.0]
    assert values(answer.text, "inferwatch_finding") == [1.0]


async def test_the_answer_comes_before_the_scraper_gives_up(vllm: Served) -> None:
    async with serving(silence) as hanging:
        asked = sidecar({"url": hanging.url}, {"url": vllm.url})
        good = asked.targets()[1]
        async with client_of(asked) as http:
            with held_time() as held:
                asking = asyncio.create_task(http.get("/metrics", headers={"X-Prometheus-Scrape-Timeout-Seconds": "3"}))
                while good.last is None:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                held.pass_by(2.7)
                answer = await asking
    assert sorted(values(answer.text, "llm_up")) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("10", 9.5), ("5", 4.5), ("1", 0.9), ("0.1", 0.09), ("60", 59.5), ("15.000000", 14.5)],
)
def test_the_scraper_s_time_out_is_shortened_by_what_the_answer_needs(header: str, seconds: float) -> None:
    assert time_allowed({"x-prometheus-scrape-timeout-seconds": header}) == pytest.approx(seconds)


@pytest.mark.parametrize("header", ["", "soon", "0", "-1", "nan", "inf", "1e400"])
def test_a_time_out_that_is_none_does_not_count(header: str) -> None:
    assert time_allowed({"x-prometheus-scrape-timeout-seconds": header}) is None
    assert time_allowed({}) is None


async def test_a_probe_answers_for_one_server(vllm: Served) -> None:
    async with client(probe={"allow": ["127.0.0.1:*"]}) as http:
        answer = await http.get("/probe", params={"target": vllm.url})
    assert answer.status_code == 200
    assert values(answer.text, "llm_up") == [1.0]
    assert values(answer.text, "inferwatch_build_info") == []


async def test_a_probe_that_is_not_allowed_says_how_it_would_be(vllm: Served) -> None:
    async with client() as http:
        answer = await http.get("/probe", params={"target": vllm.url})
    assert answer.status_code == 403
    assert "probe.allow" in answer.text
    assert vllm.paths == []


async def test_a_probe_without_a_target_says_what_is_missing() -> None:
    async with client() as http:
        answer = await http.get("/probe")
    assert (answer.status_code, answer.text) == (400, "which target? /probe?target=http://host:8000\n")


async def test_debug_shows_what_was_made_of_a_page(vllm: Served) -> None:
    async with client({"url": vllm.url, "name": "big", "labels": {"team": "search"}}) as http:
        answer = await http.get("/debug/big")
    assert answer.status_code == 200
    for shown in (
        f"{vllm.url}/metrics", "vllm:kv_cache_usage_perc", "llm_kv_cache_utilization_ratio", "search",
        "vLLM counts nothing that waits before its engine", "# TYPE vllm:num_requests_running gauge",
    ):  # fmt: skip
        assert shown in answer.text


async def test_debug_shows_findings_with_what_to_do() -> None:
    async with client({"url": unused_url(), "name": "big"}) as http:
        answer = await http.get("/debug/big")
    assert "connection_refused" in answer.text
    assert "Start the server, or correct host and port" in answer.text


async def test_debug_keeps_the_last_page_and_the_last_failure() -> None:
    answers = {"/metrics": response(status=500)}
    async with serving(pages(answers)) as served, client({"url": served.url, "name": "a"}) as http:
        assert "none came yet" in (await http.get("/debug/a")).text
        answers["/metrics"] = response(BODY)
        await http.get("/metrics")
        shown = (await http.get("/debug/a")).text
    assert "server_error HTTP 500" in shown
    assert "# TYPE vllm:num_requests_running gauge" in shown


async def test_debug_shows_what_was_left_out_and_why() -> None:
    page = BODY + 'vllm:brand_new{a="1"} 1\nvllm:num_requests_waiting{engine="0",model_name="tiny-qwen"} 7\n'
    async with serving(pages({"/metrics": response(page)})) as served, client({"url": served.url, "name": "a"}) as http:
        answer = await http.get("/debug/a")
    assert "vllm:brand_new" in answer.text
    assert "duplicate" in answer.text


async def test_debug_lists_the_servers(vllm: Served) -> None:
    async with client({"url": vllm.url, "name": "big"}, {"url": unused_url(), "name": "small"}) as http:
        before = await http.get("/debug")
        await http.get("/metrics")
        after = await http.get("/debug")
    assert before.text.count("not collected yet") == 2
    assert 'href="/debug/big"' in after.text
    assert "connection_refused" in after.text


async def test_what_a_server_wrote_is_escaped() -> None:
    page = f'{BODY}# HELP {EVIL}\nvllm:x{{a="{EVIL}"}} 1\n'
    handler = pages({"/metrics": response(page, content_type=f"text/plain; {EVIL}")})
    async with serving(handler) as served, client({"url": served.url, "name": "a"}) as http:
        answer = await http.get("/debug/a")
    assert EVIL not in answer.text
    assert "&lt;script&gt;" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_debug_shows_no_token(vllm: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_TOKEN", SECRET)
    server: dict[str, object] = {
        "url": vllm.url, "name": "a", "bearer_token_env": "GPU_TOKEN", "metrics_path": f"/metrics?key={SECRET}",
    }  # fmt: skip
    async with client(server) as http:
        pages_shown = [await http.get(path) for path in ("/debug/a", "/debug", "/metrics", "/")]
    assert vllm.header("authorization") == f"Bearer {SECRET}"
    assert all(SECRET not in shown.text for shown in pages_shown)


@pytest.mark.parametrize("name", ["[::1]:1", "a/b", "50%", "größer", "a?b#c"])
async def test_a_server_of_any_name_has_its_page(name: str) -> None:
    async with client({"url": "http://127.0.0.1:1", "name": name}) as http:
        listed = (await http.get("/debug")).text
        link = listed.partition('href="')[2].partition('"')[0]
        answer = await http.get(link)
    assert answer.status_code == 200
    assert name in answer.text


async def test_a_server_that_is_not_there_is_answered_with_the_one_that_was_meant() -> None:
    async with client({"url": "http://127.0.0.1:1", "name": "llama-big"}) as http:
        near = await http.get("/debug/lama-big")
        far = await http.get("/debug/x")
    assert (near.status_code, far.status_code) == (404, 404)
    assert "did you mean 'llama-big'?" in near.text
    assert "configured: llama-big" in far.text


async def test_a_wrong_path_is_answered_with_the_right_ones() -> None:
    async with client() as http:
        answer = await http.get("/metric")
    assert answer.status_code == 404
    assert "nothing at /metric" in answer.text
    for path in ("/metrics", "/probe?target=URL", "/debug", "/healthz"):
        assert path in answer.text


@pytest.mark.parametrize("path", ["/", "/metrics", "/debug", "/debug/a", "/healthz"])
async def test_pages_have_heads(path: str, vllm: Served) -> None:
    async with client({"url": vllm.url, "name": "a"}) as http:
        answer = await http.head(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == (await http.get(path)).headers["content-type"]


@pytest.mark.parametrize("path", ["/metrics", "/probe", "/debug", "/healthz"])
async def test_nothing_is_written_to(path: str) -> None:
    async with client() as http:
        assert (await http.post(path)).status_code == 405


async def test_healthz_answers_without_asking_anybody() -> None:
    async with serving(silence) as hanging, client({"url": hanging.url}) as http:
        answer = await http.get("/healthz")
        assert hanging.paths == []
    assert (answer.status_code, answer.text) == (200, "ok\n")
