"""The history explorer in Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, expect

from monitor.api.routes import router as api_router
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.page.charts.artist import Artist
from monitor.page.explorer import Explorer
from monitor.page.explorer import router as explorer_router
from monitor.page.routes import Pages, router
from tests.dashboards.previews import months
from tests.dashboards.previews.pictures import a_month
from tests.end_to_end.browser import chromium, serving
from tests.end_to_end.processes import DEADLINE
from tests.monitor.page.fleet_data import Past

TTFT = "llm_time_to_first_token_seconds"
MONTH = f"/history?metric={TTFT}&since={months.START}&until={months.UNTIL}&group_by=node,server&step=1d"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    artist = Artist(timeout=DEADLINE)
    with a_month(tmp_path_factory.mktemp("month")) as database:
        app, history, fleet = FastAPI(), History(database), Fleet()

        def clock() -> float:
            return float(months.UNTIL)

        pages = Pages((("/history", "History"),), is_simulated=lambda: True)
        app.include_router(router(fleet, Past(), clock=clock, pages=pages))
        app.include_router(api_router(fleet, history, clock))
        app.include_router(explorer_router(Explorer(history, artist, clock, pages)))
        with serving(app) as port:
            yield f"http://127.0.0.1:{port}"
    artist.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Nothing may be complained of in its console: a chart against the policy would be."""
    tab = browser.new_page()
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    yield tab
    tab.close()
    assert complaints == []


def test_a_chart_is_drawn_in_the_colours_of_the_scheme(page: Page, url: str) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(url + MONTH)
    line = page.locator('figure svg path[stroke="var(--line-1)"]').first
    stroke = "element => getComputedStyle(element).stroke"
    assert line.evaluate(stroke) == "rgb(0, 114, 178)"
    page.emulate_media(color_scheme="dark")
    assert line.evaluate(stroke) == "rgb(86, 180, 233)"


def test_pointing_at_a_day_tells_what_all_servers_say(page: Page, url: str) -> None:
    page.goto(url + MONTH)
    areas = page.locator("figure svg [pointer-events=all]")
    assert areas.count() == months.DAYS - 1
    box = areas.first.bounding_box()
    assert box is not None
    told = page.evaluate(
        "([x, y]) => document.elementFromPoint(x, y).querySelector('title').textContent",
        [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2],
    )
    assert told.startswith("2026-12-01 00:00:00 UTC\n")
    assert "gpu-1 chat-a: 375 ms (250 ms – 500 ms)" in told


def test_the_form_asks_another_question_without_a_script(browser: Browser, url: str) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(url + MONTH)
    page.get_by_label("Metric").select_option("llm_generation_tokens_total")
    page.get_by_label("By", exact=True).select_option("framework")
    with page.expect_navigation():
        page.get_by_role("button", name="Show").click()
    assert "metric=llm_generation_tokens_total" in page.url
    assert page.locator("tbody tr").count() == len({server.framework for server in months.SERVERS})
    page.close()


def test_an_address_that_is_opened_again_asks_the_same(page: Page, url: str) -> None:
    """As it does for whoever gets it sent: the whole question is in the address, and the form shows it."""
    page.goto(url + MONTH + "&where=node%3Dgpu-1&q=0.5")
    chosen = {"Metric": TTFT, "By": "node,server", "Percentile": "0.5", "Only where": "node=gpu-1", "Step": "1d"}
    for _ in range(2):
        for label, value in chosen.items():
            assert page.get_by_label(label, exact=True).input_value() == value
        assert page.get_by_label("Until").input_value() == str(months.UNTIL)
        with page.expect_navigation():
            page.get_by_role("button", name="Show").click()
        page.reload()


@pytest.mark.parametrize("width", [375, 1280, 3840])
def test_the_page_is_as_wide_as_the_window_and_no_wider(page: Page, url: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(url + MONTH)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_phone_a_chart_begins_at_its_newest_end_and_all_is_reached(browser: Browser, url: str) -> None:
    page = browser.new_page(viewport={"width": 375, "height": 800}, java_script_enabled=False)
    page.goto(url + MONTH)
    for label in ("Chart", "In numbers"):
        box = page.locator(f'.scroll[aria-label="{label}"]')
        expect(box).to_have_css("overflow-x", "auto")
        inside, outside = box.locator("svg, table").first.bounding_box(), box.bounding_box()
        assert inside is not None
        assert outside is not None
        assert inside["width"] > outside["width"]
        is_at_end = inside["x"] + inside["width"] <= outside["x"] + outside["width"] + 2
        assert is_at_end == (label == "Chart")
    page.close()


def test_a_page_with_a_chart_is_small(page: Page, url: str) -> None:
    sizes: list[int] = []
    page.on("response", lambda response: sizes.append(len(response.body())))
    page.goto(url + MONTH)
    assert sum(sizes) < 300_000


def test_the_moment_that_is_pointed_at_is_marked(page: Page, url: str) -> None:
    page.goto(url + MONTH)
    moment = page.locator(".chart path[pointer-events=all]").nth(10)
    expect(moment).to_have_css("fill-opacity", "1")
    moment.hover()
    expect(moment).to_have_css("fill-opacity", "0.12")
    assert "UTC" in (moment.locator("title").text_content() or "")


def test_the_banner_of_what_is_simulated_stands_above_the_content(page: Page, url: str) -> None:
    page.goto(url + "/history")
    expect(page.locator("body > .banner.unreal")).to_contain_text("simulated servers")
    left, right, content_left, content_right = page.evaluate(
        """() => {
            const [banner, main] = ["body > .banner.unreal", "main"].map((e) => document.querySelector(e));
            const [inner, outer] = [banner, main].map((e) => e.getBoundingClientRect());
            const {paddingLeft, paddingRight} = getComputedStyle(main);
            const content = [outer.left + parseFloat(paddingLeft), outer.right - parseFloat(paddingRight)];
            return [inner.left, inner.right, ...content];
        }"""
    )
    assert (left, right) == (content_left, content_right)
