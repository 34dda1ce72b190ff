"""The addresses as a browser without JavaScript sees them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from random import Random
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from fastapi import FastAPI

from exporters.findings import finding
from monitor.page.explorer import complete, query
from monitor.page.routes import code_marked, router
from tests.monitor.page.fleet_data import (
    FLEET,
    HOSTILE,
    HOSTILE_SERVER,
    REPLAYED,
    Engine,
    Past,
    Server,
    clock,
    fleet_of,
)

VOID = {"meta", "link", "img", "br", "wbr", "input", "hr"}


def client(*servers: Server, looked_for: Sequence[str] = (), debug_path: str | None = None) -> httpx.AsyncClient:
    app = FastAPI()
    routes = router(fleet_of(*servers), Past(*servers), clock=clock, looked_for=looked_for, debug_path=debug_path)
    app.include_router(routes)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://monitor")


async def html(path: str, *servers: Server, looked_for: Sequence[str] = (), debug_path: str | None = None) -> str:
    async with client(*servers, looked_for=looked_for, debug_path=debug_path) as monitor:
        answer = await monitor.get(path)
    assert answer.status_code == 200
    return answer.text


class Elements(HTMLParser):
    """Elements in order, and a complaint wherever one is closed that was not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.wrong: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.wrong += [f"<{tag}> stays open" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"</{tag}> at line {self.getpos()[0]}")


def seen(text: str) -> str:
    """The text without tags, white space folded."""
    return " ".join(re.sub(r"<[^>]*>", " ", text.replace("<wbr>", "")).split())


def rows(text: str) -> list[str]:
    return [seen(body) for body in re.findall(r"<tbody.*?</tbody>", text, re.DOTALL)]


async def test_the_fleet_is_listed_with_trouble_first() -> None:
    listed = rows(await html("/", *FLEET))
    assert [row.split()[0] for row in listed] == ["batch", "staging", "chat-a", "chat-b", "code", "rerank", "small"]


async def test_a_row_tells_state_version_model_and_figures() -> None:
    [code] = [row for row in rows(await html("/", *FLEET)) if row.startswith("code ")]
    for told in (
        "on gpu-08",
        "team=ide",
        "awake",
        "vLLM 0.30.1",
        "Qwen2.5-Coder-32B-Instruct",
        "40 / 512",
        "43 % max 64 %",
        "80 %",
        "6,600",
        "1,290",
        "175 ms (100–250)",
        "8.8 s (5.0–10.0)",
    ):
        assert told in code


async def test_overflow_and_first_bucket_are_said_in_words() -> None:
    told = seen(await html("/", *FLEET))
    assert "at least 60 s" in told
    assert "at most 1 ms" in told


async def test_a_server_that_is_down_shows_dashes_with_the_reason_and_what_to_do() -> None:
    [batch] = [row for row in rows(await html("/", *FLEET)) if row.startswith("batch ")]
    assert "down last answer 5 min ago" in batch
    assert batch.count("– not known: the server is down: nothing is known of it now") == 8
    assert "error: Nothing listens at this address. http://gpu-10:8000/metrics Start the server" in batch


async def test_a_summary_counts_the_servers_by_condition() -> None:
    text = await html("/", *FLEET)
    assert "7 servers 1 down 1 without metrics 5 up" in seen(text)
    assert "<title>2 in trouble · inferwatch</title>" in text


async def test_sparklines_carry_their_meaning_as_text() -> None:
    text = await html("/", *FLEET)
    titles = re.findall(r"<title>([^<]*)</title>", text)
    assert "Requests waiting, last hour: latest 0, lowest 0, highest 2, scale 0 to 2" in titles


async def test_data_that_is_not_live_is_labelled_in_the_row_and_above() -> None:
    text = await html("/", REPLAYED)
    assert "Not live: the servers marked simulated show data that no live server gives." in seen(text)
    assert "on laptop simulated awake" in rows(text)[0]
    assert "Not live" not in await html("/", *FLEET)


@pytest.mark.parametrize("server", [FLEET[0], HOSTILE_SERVER], ids=["plain", "hostile"])
async def test_a_figure_leads_to_its_past_at_this_server(server: Server) -> None:
    listed = Elements(await html("/", server)).found
    [own] = [attrs["href"] or "" for _, attrs in listed if (attrs.get("href") or "").startswith("/servers/")]
    page = Elements(await html(own, server))
    links = [attrs["href"] or "" for _, attrs in page.found if (attrs.get("href") or "").startswith("/history?")]
    asked = [query(complete(parse_qsl(urlsplit(link).query))).question(clock()) for link in links]
    assert len({of.metric.name for of in asked}) == 9
    assert {tuple(of.where.items()) for of in asked} == {(("node", server.node), ("server", server.server))}


async def test_an_empty_fleet_says_where_it_looked_and_how_to_add_a_server() -> None:
    told = seen(await html("/", looked_for=["8000: nothing listens", "30000: <b>a web page</b>"], debug_path="/debug"))
    assert "No server yet inferwatch looked here, and goes on looking: 8000: nothing listens" in told
    assert "30000: &lt;b&gt;a web page&lt;/b&gt;" in told
    assert "Name it in inferwatch.yml" in told
    assert "then start inferwatch again: servers: - url: http://localhost:8000" in told
    assert "inferwatch check http://localhost:8000" in told
    assert "inferwatch up --demo shows a simulated fleet" in told
    assert "sources:" not in told


async def test_a_monitor_without_a_sidecar_says_that_servers_are_named_at_sidecars() -> None:
    told = seen(await html("/", looked_for=["sidecar http://gpu-1:9840"]))
    assert "This monitor reads no servers itself: it reads sidecars" in told
    assert 'sources: sidecars: ["http://HOST:9840"] # or prometheus: url: http://HOST:9090' in told.replace(
        "&#34;", '"'
    )
    assert "servers: - url" not in told


async def test_an_empty_fleet_without_a_search_says_that_nothing_has_reported() -> None:
    assert "Nothing has reported a server so far." in seen(await html("/"))


async def test_times_carry_their_zone() -> None:
    text = await html("/", *FLEET)
    assert 'datetime="2026-11-30T09:41:35Z" title="2026-11-30 09:41:35 UTC">09:41:35 UTC</time>' in text


async def test_without_javascript_the_page_loads_itself_again() -> None:
    assert '<noscript><meta http-equiv="refresh" content="15"></noscript>' in await html("/")


async def test_the_page_of_a_server_shows_every_field_with_its_reason() -> None:
    told = seen(await html("/servers/gpu-08/code", *FLEET, debug_path="/debug"))
    assert "code on gpu-08 awake" in told
    assert "llm_requests_rejected_total" in told.replace("_ ", "_")
    assert "vLLM does not count refused requests" in told
    assert "engine 0 engine 1 Unit Quality Source and reason" in told
    assert "approximate vllm:request_queue_time_seconds without the API process&#39;s queue" in told
    assert "Last raw answer of the server" in told


async def test_a_latency_that_is_not_known_says_why_where_it_stands() -> None:
    told = seen(await html("/servers/gpu-09/rerank", *FLEET))
    assert "E2E P99 – not known: nothing observed in the last 5 minutes nothing observed in the last 5 minutes" in told
    assert "ttft – nothing observed in the last 5 minutes itl" in told


async def test_engines_beyond_those_that_fit_are_counted() -> None:
    told = seen(await html("/servers/gpu-07/many", Server("many", engines=(Engine(),) * 40)))
    assert "The first 32 engines; 8 more count in the figures above." in told
    assert "engines 40" in told
    assert "engine 31 " in told
    assert "engine 32" not in told


async def test_long_names_stand_whole_in_their_titles_and_many_labels_are_cut() -> None:
    long = "x" * 300
    labels = {f"label{n}": long for n in range(8)}
    text = await html("/", Server(long, model=long, labels=labels))
    assert f'<span class="model" title="{long}">' in text
    assert f'class="chip" title="label4={long}"' in text
    assert "label5" not in text
    assert "+3 more" in seen(text)


@pytest.mark.parametrize("turning", ["\u202e", "\u2067", "\u200f"])
@pytest.mark.parametrize("path", ["/", "/servers/gpu-07/a%E2%80%AEb", "/servers/none/%E2%80%AE"])
async def test_names_that_turn_the_direction_of_text_are_harmless(turning: str, path: str) -> None:
    name = f"a{turning}b"
    servers = (Server("a\u202eb", model=name, labels={"team": name}, findings=(finding("dropped_samples", name),)),)
    async with client(*servers) as monitor:
        text = (await monitor.get(path)).text
    assert not {turning, "\u202e"} & set(text)
    assert "\ufffd" in text


async def test_the_debug_page_is_linked_only_where_this_process_has_one() -> None:
    assert 'href="/debug/chat-a"' in await html("/servers/gpu-07/chat-a", *FLEET, debug_path="/debug")
    assert "/debug" not in await html("/servers/gpu-07/chat-a", *FLEET)


async def test_the_page_of_a_server_that_is_down_has_no_old_values() -> None:
    told = seen(await html("/servers/gpu-10/batch", *FLEET))
    assert "No field of the schema is known: the server is down: nothing is known of it now." in told
    assert "2026-11-30 09:36:35 UTC" in told
    assert "llm_requests_running" not in told


async def test_an_unknown_server_is_not_found_and_named() -> None:
    async with client(*FLEET) as monitor:
        for prefix in ("/servers", "/fragments/servers"):
            answer = await monitor.get(f"{prefix}/gpu-07/<x>")
            assert answer.status_code == 404
            assert "<code>gpu-07/&lt;x&gt;</code>" in answer.text


@pytest.mark.parametrize("node", ["gpu-07", "a/b", "100%"])
@pytest.mark.parametrize("name", ["10.0.0.1:8000", "x/y", "ü ?#&"])
async def test_any_name_has_an_address_that_leads_to_its_page(node: str, name: str) -> None:
    server = Server(name, node=node)
    async with client(server) as monitor:
        [link] = re.findall(r'<a id="link-1" href="([^"]*)"', (await monitor.get("/")).text)
        answer = await monitor.get(link)
        [fragment] = re.findall(r'data-fragment="([^"]*)"', answer.text)
        part = await monitor.get(fragment)
    assert answer.status_code == part.status_code == 200
    assert f"on {node.replace('&', '&amp;')}" in seen(part.text)


@pytest.mark.parametrize("path", ["/", "/servers/x", "/fragments/fleet"])
async def test_hostile_names_are_text(path: str) -> None:
    servers = (HOSTILE_SERVER, REPLAYED, *FLEET)
    async with client(*servers) as monitor:
        if path == "/servers/x":
            found = re.findall(r'href="(/servers/n%3Co%3Ede/[^"]*)"', (await monitor.get("/")).text)
            path = found[0]
        text = (await monitor.get(path)).text
    assert HOSTILE not in text
    assert "alert(1)" in text
    assert "{{7*7}}" in text
    scripts = [attrs.get("src") or "" for tag, attrs in Elements(text).found if tag == "script"]
    assert all(source.startswith("/static/refresh.js") for source in scripts)
    assert len(scripts) == (0 if "fragments" in path else 1)


@pytest.mark.parametrize("path", ["/", "/servers/gpu-08/code", "/servers/gpu-10/batch"])
async def test_the_html_is_well_formed_and_needs_nothing_from_elsewhere(path: str) -> None:
    elements = Elements(await html(path, *FLEET, REPLAYED, HOSTILE_SERVER))
    assert elements.wrong == []
    for tag, attrs in elements.found:
        assert "style" not in attrs, f"<{tag}> has a style attribute, which the policy forbids"
        assert not [name for name in attrs if name.startswith("on")]
        for name in ("href", "src"):
            assert urlsplit(attrs.get(name) or "").netloc == ""
    ids = [attrs["id"] for _, attrs in elements.found if "id" in attrs]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    "path", ["/", "/fragments/fleet", "/servers/gpu-08/code", "/servers/none/x", "/static/page.css", "/static/x"]
)
async def test_every_answer_is_guarded_by_headers(path: str) -> None:
    async with client(*FLEET) as monitor:
        headers = (await monitor.get(path)).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"


async def test_the_fragment_is_what_the_page_holds() -> None:
    async with client(*FLEET) as monitor:
        page, part = (await monitor.get("/")).text, (await monitor.get("/fragments/fleet")).text
    assert part.strip() in page
    assert "<html" not in part


async def test_pages_are_never_kept_by_the_browser() -> None:
    async with client(*FLEET) as monitor:
        assert (await monitor.get("/")).headers["Cache-Control"] == "no-store"


async def test_pages_are_compressed_for_who_accepts_it() -> None:
    async with client(*FLEET) as monitor:
        small = await monitor.get("/", headers={"Accept-Encoding": "gzip"})
        plain = await monitor.get("/", headers={"Accept-Encoding": "identity"})
    assert small.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert small.text == plain.text
    assert small.headers["Vary"] == "Accept-Encoding"


async def test_static_files_are_kept_for_good_under_their_content_address() -> None:
    async with client() as monitor:
        [url] = re.findall(r'href="(/static/page.css\?v=[0-9a-f]+)"', (await monitor.get("/")).text)
        lasting, plain = await monitor.get(url), await monitor.get("/static/page.css")
        again = await monitor.get("/static/page.css", headers={"If-None-Match": plain.headers["ETag"]})
    assert lasting.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert plain.headers["Cache-Control"] == "no-cache"
    assert lasting.headers["Content-Type"] == "text/css; charset=utf-8"
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "..%2Froutes.py", "%2Fetc%2Fpasswd"])
async def test_only_the_static_files_are_served(name: str) -> None:
    async with client() as monitor:
        assert (await monitor.get(f"/static/{name}")).status_code == 404


async def first_paint(servers: Sequence[Server], accept: str) -> int:
    """Bytes that are sent until the fleet is seen."""
    async with client(*servers) as monitor:
        page = await monitor.get("/", headers={"Accept-Encoding": accept})
        urls = set(re.findall(r'(?:href|src)="(/static/[^"]*)"', page.text))
        return page.num_bytes_downloaded + sum([len((await monitor.get(url)).content) for url in urls])


async def test_the_first_paint_of_fifty_servers_stays_below_300_kb_even_if_nothing_is_compressed() -> None:
    servers = [replace(FLEET[0], server=f"chat-{i:03}") for i in range(50)]
    assert await first_paint(servers, "identity") < 300_000


async def test_the_first_paint_of_64_servers_in_trouble_stays_far_below_300_kb() -> None:
    """Each with another hour behind it, so that there is little to compress."""
    rng = Random(7)
    findings = (finding("stats_disabled", "http://gpu-10:8000/metrics"), finding("dropped_samples", "vllm:x"))
    servers = [
        replace(
            FLEET[0],
            server=f"chat-{i:03}",
            findings=findings,
            waves=dict.fromkeys(FLEET[0].waves, lambda _minute: rng.random()),
        )
        for i in range(64)
    ]
    assert await first_paint(servers, "gzip") < 200_000


def test_code_in_texts_is_marked_after_everything_is_escaped() -> None:
    assert code_marked("set `a<b` & `c`") == "set <code>a&lt;b</code> &amp; <code>c</code>"
    assert code_marked("no `closing") == "no `closing"


async def test_what_changed_is_marked_in_the_charts_and_listed() -> None:
    text = await html("/servers/gpu-08/code", *FLEET)
    told = "09:19:55 UTC: restarted; version: 0.30.0 → 0.30.1; max model len: 8192 → 32768"
    lines = [e for e in Elements(text).found if e[0] == "path" and e[1].get("class") == "change"]
    assert len(lines) == 4 * 2, "two minutes with changes in each of four charts"
    assert text.count(f"<title>{told}</title>") == 4
    assert "2026-11-30 09:29:55 UTC state: sleeping → awake" in seen(text)
    assert "2026-11-29 08:41:35 UTC GPUs: GPU-1 NVIDIA L40S → GPU-0 NVIDIA H100 80GB HBM3" in seen(text)


async def test_a_server_that_never_changed_has_no_list_of_changes() -> None:
    text = await html("/servers/gpu-07/chat-a", *FLEET)
    assert "What changed" not in text
    assert 'class="change"' not in text


async def test_where_nothing_could_be_read_is_shaded() -> None:
    """From minute 34 to 37 of the hour, two units a minute."""
    text = await html("/servers/gpu-08/code", *FLEET)
    assert text.count('<path class="shade" d="M68 0H76V28H68z"/>') == 4
