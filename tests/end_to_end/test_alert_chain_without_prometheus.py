"""`inferwatch up` without Prometheus: it judges objectives itself, tells a real Alertmanager, and hears from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, expect

from tests.end_to_end.browser import chromium, still
from tests.end_to_end.chains import Node, People, example, subject
from tests.end_to_end.processes import ROOT, free_port, until
from tests.end_to_end.product import Product, up
from tests.end_to_end.recorded import serving
from tests.end_to_end.vllm_by_hand import Vllm
from tests.servers.alertmanager import Alertmanager

TIMES = 10
"""So many times Alertmanager waits shorter than in its example."""
PATIENCE = 300.0
XID = ("GpuXidHardware", "node-u", "0", "79")
SLOW, FAILING = ("SloBurnPage", "first-token", "slow"), ("SloBurnPage", "availability", "failing")
PAGES = {XID, SLOW, FAILING}
TICKETS = {("SloBurnTicket", *of[1:]) for of in (SLOW, FAILING)}


@pytest.fixture(scope="module")
def people() -> Iterator[People]:
    made = People()
    with made.listening():
        yield made


@pytest.fixture(scope="module")
def product(people: People, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """After minutes in which requests were slow and failed, and a GPU reported an XID."""
    folder, port = tmp_path_factory.mktemp("up"), free_port()
    node = Node("node-u", {name: Vllm(name) for name in ("slow", "failing", "good", "quiet")})
    node.show_gpus({0: 0})
    with ExitStack() as stack:
        for server in node.servers.values():
            server.start()
            stack.callback(server.stop)
        dcgm = stack.enter_context(serving(node.gpus))
        rules = example(f"http://127.0.0.1:{port}", people.address, folder, TIMES)
        alertmanager = stack.enter_context(Alertmanager(rules, folder))
        config = {
            "node": node.name,
            "servers": node.configured(),
            "gpus": {"dcgm": f"http://127.0.0.1:{dcgm}/metrics"},
            "scrape": {"interval": "1s"},
            "slos": str(ROOT / "alerts" / "slo" / "default.yml"),
            "alertmanager": {"url": alertmanager.url, "bearer_token_file": "token"},
        }
        (folder / "config.yml").write_text(yaml.safe_dump(config))
        made = stack.enter_context(up(folder, "--config", str(folder / "config.yml"), port=port))
        until(lambda: made.reads(*node.servers), made.process)
        until(lambda: [gpu["up"] for gpu in made.get("/api/v1/gpus").json()["gpus"]] == [True], made.process)
        node.servers["slow"].answer(200, first_token=3.0)
        node.servers["failing"].answer(300)
        node.servers["failing"].answer(100, reason="error")
        node.servers["good"].answer(300)
        node.show_gpus({0: 79})
        until(lambda: is_told(made, people), made.process, within=PATIENCE)
        yield made


def alerts(of: Product) -> dict[tuple[str, ...], dict[str, Any]]:
    rows = of.get("/api/v1/alerts").json()
    found = {subject(row["labels"]): row for row in rows}
    assert len(found) == len(rows), "one firing is one row, whether it is judged here or told by Alertmanager"
    return found


def is_told(of: Product, people: People) -> bool:
    rows = alerts(of)
    told = (
        page in rows and rows[page]["delivered"] and people.heard("oncall", **rows[page]["labels"]) for page in PAGES
    )
    return all(told)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def cards(browser: Browser, product: Product, objective: str) -> dict[str, str]:
    """Their texts, by model, with what is folded."""
    page = browser.new_page()
    still(page)
    page.goto(f"{product.url}/slos")
    region = page.get_by_role("region", name=objective, exact=True)
    for folded in region.locator("details").all():
        folded.evaluate("each => { each.open = true }")
    found = region.get_by_role("listitem").all_inner_texts()
    page.close()
    texts = [" ".join(text.split()) for text in found]
    return {model: text for model in ("slow", "failing", "good", "quiet") for text in texts if f"={model} " in text}


def test_cards_have_the_numbers_of_what_was_served(product: Product, browser: Browser) -> None:
    """All of 200 are 20 times the 5 % that may be slow, 100 of 400 are 50 times the 0.5 % that may fail."""
    first_token, availability = (cards(browser, product, name) for name in ("first-token", "availability"))
    for text, spent, rate, bad in (
        (first_token["slow"], "2,000 %", "20 / 20", "200 of 200"),
        (availability["failing"], "5,000 %", "50 / 50", "100 of 400"),
    ):
        assert text.startswith("exhausted")
        assert f"{spent} of the budget spent" in text
        assert f"page 1h / 5m {rate} holds 14.4" in text
        assert f"ticket 3d / 6h {rate} holds 1" in text
        assert f"{bad} requests bad" in text
    for text, of in ((first_token["good"], 300), (first_token["failing"], 400), (availability["slow"], 200)):
        assert text.startswith("ok")
        assert "100 % of the budget left" in text
        assert "page 1h / 5m 0 / 0 14.4" in text
        assert f"0 of {of} requests bad" in text
    assert first_token["quiet"].startswith("idle")
    assert "page 1h / 5m – not known: nothing was judged 14.4" in first_token["quiet"]


def test_alerts_fire_as_those_of_the_rules_would(product: Product) -> None:
    rows = alerts(product)
    assert rows.keys() == {*PAGES, *TICKETS, ("Watchdog",)}
    assert {row["state"] for row in rows.values()} == {"firing"}
    assert rows[SLOW]["labels"] == {
        "alertname": "SloBurnPage", "slo": "first-token", "severity": "page", "model": "slow", "role": "unified",
    }  # fmt: skip
    assert rows[XID]["labels"].items() >= {"severity": "page", "uuid": "GPU-node-u-0"}.items()
    description = rows[FAILING]["annotations"]["description"]
    assert description.startswith("Over 1h or else 6h: 25% of requests failed or were rejected")


def test_alertmanager_tells_people_and_the_monitor_and_holds_tickets_back(product: Product, people: People) -> None:
    rows = alerts(product)
    for page in PAGES:
        assert [receiver["name"] for receiver in rows[page]["receivers"]] == ["inferwatch"]
        assert people.heard("oncall", **rows[page]["labels"]) == ["firing"]
    for ticket in TICKETS:
        assert rows[ticket]["receivers"] == people.heard("tickets", **rows[ticket]["labels"]) == []


def test_the_page_shows_what_fires(product: Product, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"{product.url}/alerts")
    names = page.get_by_role("region", name="Firing").get_by_role("heading", level=3)
    expect(names).to_have_text(
        ["page GpuXidHardware", "page SloBurnPage", "ticket SloBurnTicket", "none Watchdog"], use_inner_text=True
    )
    expect(page.get_by_text("GPU 0 on node-u reported XID 79: the GPU has fallen off the bus")).to_be_visible()
    expect(page.get_by_text("SLO first-token (model=slow role=unified) burns its error budget")).to_have_count(2)
    expect(page.get_by_text("SLO availability (model=failing role=unified) burns its error budget")).to_have_count(2)
    expect(page.locator(".banner")).to_be_hidden()
    page.close()
