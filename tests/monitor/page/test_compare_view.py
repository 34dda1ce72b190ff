from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import httpx
import pytest

from alerts.reference import AT_ONCE, TOKENS_PER_SECOND
from monitor.app import create_app
from monitor.compare.asked import NO_PRICES, Asked
from monitor.compare.compare import compare
from monitor.compare.model import Band, Cell, Estimate, Group, Measure
from monitor.compare.words import Section, sections
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.store import Store
from monitor.page.charts.artist import Artist
from monitor.page.charts.legend import legend
from monitor.page.compare_view import FIRST_TOKENS, TOKENS, chart_of
from tests.end_to_end.processes import DEADLINE
from tests.monitor.compare import stored
from tests.monitor.compare.hand import H100, START, Life, Minute, observed

NOW = float(stored.START + 30 * stored.MINUTE)


def hour(**more: object) -> list[Minute]:
    return [replace(Minute(n), **more) for n in range(60)]  # type: ignore[arg-type]


@pytest.fixture
def section() -> Section:
    lives = (Life(hour()), Life(hour(), "sglang", frontend="sglang", server="s2"))
    run = Cell(
        Group("vllm", "llama", H100, tool="guidellm", file="a"), Band(16), 0, 15.0, {Measure.TOKENS: Estimate(7)}
    )
    (found,) = sections(compare(observed(*lives), Asked(START, START + 3600), NO_PRICES, [run]))
    return found


@pytest.fixture
async def client(store: Store, history: History) -> AsyncIterator[httpx.AsyncClient]:
    engines = (stored.Engine(), stored.Engine("s2", "sglang", prompt=36_000.0))
    stored.write(store, [stored.window(n, engine) for n in range(30) for engine in engines])
    with patch("monitor.app.Artist", partial(Artist, timeout=DEADLINE)):
        app = create_app(Fleet(), history, node="n1", clock=lambda: NOW)
    transport = httpx.ASGITransport(app)
    # What draws its charts ends with the app.
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://m") as client:
        yield client


def test_what_is_measured_is_a_group_for_each_and_curves_come_with_the_reference(section: Section) -> None:
    plain, curved = (chart_of(section, TOKENS, with_reference=on) for on in (False, True))
    assert [(group.name, group.curve) for group in plain.groups] == [
        ("sglang", False), ("vllm", False), ("vllm [guidellm]", False),
    ]  # fmt: skip
    assert [(group.name, group.curve) for group in curved.groups[3:]] == [
        ("sglang, reference estimate", True), ("vllm, reference estimate", True),
    ]  # fmt: skip
    curve = next(group for group in curved.groups if group.name == "vllm, reference estimate")
    assert [(pair.x, pair.y) for pair in curve.pairs] == list(zip(AT_ONCE, TOKENS_PER_SECOND["vllm"], strict=True))


def test_a_curve_has_the_colour_of_its_framework(section: Section) -> None:
    entries = {entry.name: entry.colour for entry in legend(chart_of(section, TOKENS, with_reference=True))}
    assert entries["sglang, reference estimate"] == entries["sglang"]
    assert entries["vllm, reference estimate"] == entries["vllm"]
    assert entries["vllm"] != entries["sglang"]


def test_a_dot_stands_where_so_many_were_there_with_its_interval(section: Section) -> None:
    [dot] = chart_of(section, FIRST_TOKENS, with_reference=False).groups[0].pairs
    assert (dot.x, dot.lower, dot.upper, dot.text) == (16, 1, 2, "60 minutes")


def test_at_least_so_long_has_no_interval_and_says_so(section: Section) -> None:
    open_ended = Estimate(2.0, 2.0, math.inf, 2.0, math.inf)
    cells = tuple(replace(cell, measures={Measure.TTFT_P99: open_ended}) for cell in section.cells[:1])
    [dot] = chart_of(replace(section, cells=cells), FIRST_TOKENS, with_reference=False).groups[0].pairs
    assert (dot.y, dot.lower, dot.upper, dot.text) == (2.0, None, None, "at least 2 s, 60 minutes")


def test_servers_of_a_role_have_no_reference(section: Section) -> None:
    chart = chart_of(replace(section, role="prefill"), TOKENS, with_reference=True)
    assert not any(group.curve for group in chart.groups)


async def test_the_page_says_why_a_number_is_missing(client: httpx.AsyncClient) -> None:
    page = await client.get("/compare")
    assert page.status_code == 200
    assert "not known: the energy of its servers&#39; GPUs is not known, or they share them" in page.text
    assert "tokens/s at about 16: sglang &gt; vllm" in page.text


async def test_the_page_says_why_a_number_has_no_interval(client: httpx.AsyncClient) -> None:
    text = (await client.get("/compare", params={"since": "12m"})).text
    why = "only 12 minutes of time, and an interval takes 15: 5 blocks of 3"
    assert f'title="{why}">no interval</span>' in text
    assert f"<li>Without an interval, sglang at about 16: {why}.</li>" in text


async def test_the_form_keeps_what_was_asked_and_the_links_ask_the_same(client: httpx.AsyncClient) -> None:
    text = (await client.get("/compare", params={"since": "45m", "by": "server", "matched": "true"})).text
    assert '<option value="45m" selected>' in text
    assert '<option value="server" selected>' in text
    assert 'value="true" checked' in text
    assert "/api/v1/compare?since=45m&amp;by=server&amp;matched=true&amp;format=csv" in text


async def test_what_cannot_be_asked_is_said_on_the_page(client: httpx.AsyncClient) -> None:
    page = await client.get("/compare", params={"split": "2020-01-01"})
    assert page.status_code == 400
    assert "is not within the time. Allowed: version, a moment in it" in page.text
    unknown = await client.get("/compare", params={"metric": "x"})
    assert (unknown.status_code, "no such parameter" in unknown.text) == (400, True)
    twice = await client.get("/compare?since=1h&since=2h")
    assert (twice.status_code, "since: given more than once" in twice.text) == (400, True)


async def test_where_nothing_ran_there_is_nothing_to_compare(client: httpx.AsyncClient) -> None:
    assert "no minute of this time" in (await client.get("/compare", params={"since": "3d", "until": "2d"})).text
    split = await client.get("/compare", params={"split": "version"})
    assert "Nothing to compare: no server has minutes with requests both before and after." in split.text


async def test_a_model_that_nobody_serves_is_refused_with_those_that_are(client: httpx.AsyncClient) -> None:
    page = await client.get("/compare", params={"model": "none"})
    assert page.status_code == 400
    assert "is no model of this history. Allowed: llama" in page.text


async def test_what_has_too_few_minutes_is_folded_away_below_what_is_told(
    store: Store, client: httpx.AsyncClient
) -> None:
    """`client` has half an hour of one model; of another, which comes before it by name, there are five minutes."""
    few = stored.Engine("s3", "vllm", model="a-rare-model")
    stored.write(store, [stored.window(n, few) for n in range(5)])
    text = (await client.get("/compare?since=1h")).text
    assert text.index('<h2 id="section-1">llama') < text.index("<summary>a-rare-model")
    assert ": too few minutes to tell</summary>" in text
    assert text.count("<figure") == 2
