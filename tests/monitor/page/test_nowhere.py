"""An address where nothing is: a page for browsers, problem details for programs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx
import pytest
from sqlalchemy import Engine

from monitor.app import create_app
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.page.assets import FOLDER
from tests.monitor.page.fleet_data import HOSTILE, REPLAYED, clock, fleet_of
from tests.monitor.page.test_routes import Elements, seen

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture
async def client(database: Engine) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Fleet(), History(database), clock=clock)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        yield client


@pytest.mark.parametrize("path", ["/servres", "/alerts/x", "/grafana/d/1", "/apis", f"/{HOSTILE}", "/x\u202ey"])
async def test_a_browser_is_shown_a_page_that_leads_to_the_fleet(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path, headers={"Accept": BROWSER})
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert Elements(answer.text).wrong == []
    assert HOSTILE not in answer.text
    assert "\u202e" not in answer.text
    assert "Nothing here There is no page at /" in seen(answer.text)
    assert {"/", "/history", "/docs"} <= set(re.findall(r'<a [^>]*href="([^"]*)"', answer.text))
    assert "http-equiv" not in answer.text


async def test_an_address_with_a_nul_shows_a_mark_in_its_place(client: httpx.AsyncClient) -> None:
    answer = await client.get("/a%00b", headers={"Accept": BROWSER})
    assert answer.status_code == 404
    assert "<code>/a\ufffdb</code>" in answer.text
    assert "\0" not in answer.text


async def test_of_a_simulated_fleet_it_shows_nothing(database: Engine) -> None:
    app = create_app(fleet_of(REPLAYED), History(database), clock=clock)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor") as client:
        assert "Simulated" in seen((await client.get("/history")).text)
        assert "Simulated" not in seen((await client.get("/nothing", headers={"Accept": BROWSER})).text)


@pytest.mark.parametrize("path", ["/servers", "/servers/"])
async def test_the_address_of_no_server_leads_to_all(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path, follow_redirects=True)
    assert (answer.status_code, answer.url.path) == (200, "/")


async def test_a_long_address_is_cut(client: httpx.AsyncClient) -> None:
    answer = await client.get("/" + "x" * 5_000, headers={"Accept": BROWSER})
    assert answer.status_code == 404
    assert f"<code>/{'x' * 199}…</code>" in answer.text


@pytest.mark.parametrize(
    ("method", "path", "accept"),
    [
        ("GET", "/api/v1/servres", BROWSER),
        ("GET", "/servres", "*/*"),
        ("GET", "/servres", "application/json"),
        ("POST", "/servres", BROWSER),
    ],
)
async def test_who_is_no_browser_gets_problem_details(
    client: httpx.AsyncClient, method: str, path: str, accept: str
) -> None:
    answer = await client.request(method, path, headers={"Accept": accept})
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "application/problem+json")
    assert answer.json()["detail"] == f"nothing at {path}"


async def test_head_tells_the_same_without_a_body(client: httpx.AsyncClient) -> None:
    answer = await client.head("/servres", headers={"Accept": BROWSER})
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert answer.content == b""


@pytest.mark.parametrize("path", ["/favicon.svg", "/favicon.ico"])
async def test_what_browsers_ask_for_by_themselves_is_there(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/svg+xml")
    assert answer.content == (FOLDER / "icon.svg").read_bytes()
    assert (await client.get(path, headers={"If-None-Match": answer.headers["ETag"]})).status_code == 304


async def test_every_page_names_an_icon_that_it_may_load(client: httpx.AsyncClient) -> None:
    for path in ("/", "/docs", "/nothing"):
        answer = await client.get(path, headers={"Accept": BROWSER})
        [icon] = re.findall(r'<link rel="icon" href="([^"]*)"', answer.text)
        assert (await client.get(icon)).status_code == 200
        assert "img-src 'self'" in answer.headers["Content-Security-Policy"]
