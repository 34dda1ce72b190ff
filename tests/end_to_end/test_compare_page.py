"""Simulated frameworks through the whole product, compared as they truly were; and the page of it in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import Browser, Page, expect

from alerts.reference import AT_ONCE, TOKENS_PER_SECOND
from demo.truth import Window
from exporters.schema import FRAMEWORKS
from monitor.compare.ask import Comparer
from monitor.compare.asked import NO_PRICES, Asked
from monitor.compare.model import Cell, Comparison, Estimate, Measure, Verdict, verdict
from tests.end_to_end.browser import chromium
from tests.end_to_end.comparing import GPU, Lived, comparing, lived
from tests.end_to_end.test_slo_page import pale

SCHEMES = ("light", "dark")
MINUTES, SLOWNESS = 16, 4.0
"""Steps of a model that is four times larger: as many minutes take a quarter of the time."""
CELLS = [(framework, at_once) for framework in FRAMEWORKS for at_once in AT_ONCE]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    with lived(tmp_path_factory.mktemp("compared"), MINUTES, SLOWNESS) as found:
        yield found


@pytest.fixture(scope="module")
def told(seen: Lived) -> Comparison:
    return Comparer(seen.database, NO_PRICES).compare(Asked(seen.since, seen.until))


@pytest.fixture(scope="module")
def url(seen: Lived) -> Iterator[str]:
    with comparing(seen) as address:
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


def cell(told: Comparison, framework: str, at_once: int) -> Cell:
    [found] = [c for c in told.told if (c.group.framework, c.band.at_once) == (framework, at_once)]
    return found


def of(cell: Cell, measure: Measure) -> Estimate:
    found = cell.of(measure)
    assert found is not None
    return found


@pytest.mark.parametrize("at_once", AT_ONCE)
def test_frameworks_come_in_the_order_of_the_reference(told: Comparison, at_once: int) -> None:
    """By tokens per second; and no difference is shown that is the other way round."""
    figures = {name: of_all[AT_ONCE.index(at_once)] for name, of_all in TOKENS_PER_SECOND.items()}
    in_order = [cell(told, name, at_once) for name in sorted(figures, key=lambda name: figures[name], reverse=True)]
    tokens = [of(each, Measure.TOKENS).value for each in in_order]
    assert tokens == sorted(tokens, reverse=True)
    assert Verdict.WORSE not in {verdict(a, b, Measure.TOKENS) for a, b in pairwise(in_order)}


@pytest.mark.parametrize(("framework", "at_once"), CELLS)
def test_each_number_is_what_truly_was(seen: Lived, told: Comparison, framework: str, at_once: int) -> None:
    """Percentiles where no minute was left out: SGLang's gauges miss what one batch starts, and so some minutes."""
    truth, engines = seen.fleet.truth, [f"{framework}-{at_once}/0"]
    window, found = Window(seen.since, seen.until), cell(told, framework, at_once)
    assert of(found, Measure.TOKENS).value == pytest.approx(truth.tokens_per_second(window, engines), rel=0.02)
    assert found.minutes >= 0.8 * MINUTES
    for measure, q in ((Measure.TTFT_P50, 0.5), (Measure.TTFT_P99, 0.99)) if found.minutes == MINUTES else ():
        true, estimate = truth.percentile("time_to_first_token", q, window, engines), of(found, measure)
        assert true is not None
        assert estimate.lower is not None
        assert estimate.upper is not None
        assert estimate.lower <= true <= estimate.upper
    assert found.workload.prompt_tokens == pytest.approx(512, rel=0.02)
    assert found.workload.generation_tokens == pytest.approx(256, rel=0.02)


@pytest.mark.parametrize(("framework", "at_once"), CELLS)
def test_energy_is_that_of_the_servers_own_gpu(told: Comparison, framework: str, at_once: int) -> None:
    found = cell(told, framework, at_once)
    assert (found.group.gpu, found.group.simulated) == (GPU, True)
    assert of(found, Measure.TOKENS_PER_GPU).value == pytest.approx(of(found, Measure.TOKENS).value, rel=1e-6)
    assert 100 < of(found, Measure.JOULES).value * of(found, Measure.TOKENS).value < 800, "watts of an H100"


def test_each_framework_has_a_line_at_each_concurrency_and_two_charts_show_them(page: Page, url: str) -> None:
    page.goto(url)
    for framework, at_once in CELLS:
        row = page.get_by_role("row", name=f"{at_once} {framework} (simulated)", exact=False)
        expect(row.first).to_be_visible()
    expect(page.locator("tbody th", has_text="[guidellm]")).to_have_count(1)
    expect(page.locator("figure.chart svg").first).to_be_visible()
    expect(page.locator("figure.chart")).to_have_count(2)
    expect(page.locator("figure.chart .legend").first).to_contain_text("sglang")
    expect(page.get_by_role("link", name="Comparison")).to_have_attribute("aria-current", "page")


def test_the_legend_shows_dots_and_curves_as_the_chart_draws_them(page: Page, url: str) -> None:
    """Four frameworks by four shapes, their estimates by four dashes: nobody has to see the colours."""
    page.goto(f"{url}?reference=1")
    legend, drawn = page.locator("figure.chart .legend").first, page.locator("figure.chart svg[role=img]").first
    keys = legend.locator("path")
    assert keys.count() == 2 * len(FRAMEWORKS) + 1  # and what was imported
    shapes = [key.get_attribute("d") for key in keys.all() if not key.get_attribute("stroke-dasharray")]
    assert len(set(shapes[: len(FRAMEWORKS)])) == len(FRAMEWORKS)
    dashes = {key.get_attribute("stroke-dasharray") for key in keys.all()} - {None}
    assert len(dashes) == len(FRAMEWORKS)
    of_chart = {line.get_attribute("stroke-dasharray") for line in drawn.locator("[stroke-dasharray]").all()}
    assert {(each or "").replace(",", " ") for each in of_chart} == dashes


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
    expect(page.locator("tbody th", has_text="sim-1/vllm-64").first).to_be_visible()
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
