"""The comparison of frameworks in Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.browser import chromium
from tests.end_to_end.comparing import comparing
from tests.end_to_end.test_slo_page import pale

SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with comparing(tmp_path_factory.mktemp("compared")) as address:
        yield f"{address}/compare"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Nothing may be complained of in its console."""
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    yield tab
    tab.close()
    assert complaints == []


def test_each_framework_has_a_line_at_each_concurrency_and_two_charts_show_them(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("tbody tr")).to_have_count(13)
    expect(page.locator("tbody th", has_text="[guidellm]")).to_have_count(1)
    expect(page.locator("figure.chart svg").first).to_be_visible()
    expect(page.locator("figure.chart")).to_have_count(2)
    expect(page.locator("figure.chart .legend").first).to_contain_text("sglang")
    expect(page.get_by_role("link", name="Comparison")).to_have_attribute("aria-current", "page")


def test_reference_estimates_are_drawn_when_switched_on_and_named_so(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.get_by_text("vllm, reference estimate")).to_have_count(0)
    page.get_by_label("reference estimates").check()
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".legend", has_text="vllm, reference estimate")).to_have_count(2)
    expect(page.get_by_text("no measurements")).to_be_visible()
    expect(page.get_by_label("reference estimates")).to_be_checked()


def test_without_a_script_the_form_asks_and_the_page_is_whole(browser: Browser, url: str) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(url)
    page.get_by_label("Told apart").select_option("server")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody th", has_text="n1/gpu-0:8000")).to_have_count(3)
    expect(page.locator("figure.chart svg").first).to_be_visible()
    page.locator("#definitions summary").click()
    expect(page.get_by_text("llm_time_to_first_token_seconds")).to_be_visible()
    page.close()


@pytest.mark.parametrize("width", [375, 1280, 3840])
def test_the_page_is_as_wide_as_the_window_and_no_wider(page: Page, url: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{url}?reference=1")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_stand_out_in_both_schemes(page: Page, url: str, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(f"{url}?reference=1")
    page.locator("#definitions").evaluate("e => e.open = true")
    assert pale(page) == []


def test_the_page_is_small(page: Page, url: str) -> None:
    sizes: list[int] = []
    page.on("response", lambda response: sizes.append(len(response.body())))
    page.goto(f"{url}?reference=1")
    assert sum(sizes) < 300_000
