"""The page of advice in a real browser: with findings, hostile names, nothing wrong, and nothing at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from monitor.app import create_app
from monitor.evaluate.objectives import Objectives
from monitor.evaluate.watch import Watch
from monitor.fleet import Fleet
from monitor.history.ask import History
from monitor.history.database import open_database, sqlite_url, upgrade
from tests.end_to_end.browser import chromium, serving
from tests.end_to_end.test_page import overflow, sticking_out
from tests.end_to_end.test_slo_page import DESK, PHONE, SCHEMES, pale, unfold
from tests.monitor.advise.minutes import Rows, engine, gpu, minute, process, store
from tests.monitor.evaluate.minutes import START
from tests.monitor.page.fleet_data import HOSTILE

MINUTES = 120
NOW = float(START + 60 * MINUTES)
SPEC = "version: 1\nslos:\n  - {name: fast, objective: 98%, indicator: {latency: {phase: ttft, below: 1s}}}\n"
COUNTS = {"llm_time_to_first_token_seconds": (590.0, 0.0, 10.0, 0.0)}


def fleet(name: str, model: str) -> Rows:
    """One that preempts, one of another framework, and one without metrics."""
    sglang = {"frontend": "sglang", "version": "0.5.23", "prefix_caching": "true"}
    return {
        **dict(
            [process(name, gpus="GPU-1 H100"), process("chat-b"), process("code", available=0.0), gpu("GPU-1", 2.0**36)]
        ),
        engine(name, model=model): minute(
            {"llm_preemptions_total": 9.0, "llm_kv_cache_utilization_ratio": 0.97}, counts=COUNTS
        ),
        engine("chat-b", framework="sglang", model=model): minute(info=sglang),
    }


WORLDS: Mapping[str, Rows] = {
    "full": fleet("chat-a", "Qwen2.5-7B-Instruct"),
    "hostile": fleet(HOSTILE, f"model {HOSTILE}"),
    "well": {**dict([process()]), engine(): minute()},
    "empty": {},
}


@contextmanager
def shown(folder: Path, rows: Rows) -> Iterator[str]:
    folder.mkdir()
    database = open_database(sqlite_url(folder / "history.sqlite"))
    upgrade(database)
    store(database, MINUTES, rows)
    (folder / "slo.yml").write_text(SPEC)
    watch = Watch(database, Objectives([folder / "slo.yml"]), delay=30, clock=lambda: NOW)
    with serving(create_app(Fleet(), History(database), watch=watch, clock=lambda: NOW)) as port:
        yield f"http://127.0.0.1:{port}"
    database.dispose()


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("advice")
    with ExitStack() as stack:
        yield {name: stack.enter_context(shown(folder / name, rows)) for name, rows in WORLDS.items()}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Nothing may be complained of in its console."""
    tab = browser.new_page()
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: complaints.append(dialog.message))
    yield tab
    tab.close()
    assert complaints == []


@pytest.mark.parametrize("world", WORLDS)
def test_every_view_fits_is_silent_and_can_be_read(worlds: dict[str, str], page: Page, world: str) -> None:
    page.goto(worlds[world] + "/advice?since=2h")
    unfold(page)
    for width, height in (PHONE, DESK):
        page.set_viewport_size({"width": width, "height": height})
        assert overflow(page) == 0
        assert sticking_out(page) == []
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            assert pale(page) == []


def test_a_number_leads_to_the_question_that_shows_it(worlds: dict[str, str], page: Page) -> None:
    page.goto(worlds["full"] + "/advice?since=2h")
    finding = page.locator("#findings ~ article", has_text="KV cache too small")
    number = finding.get_by_role("link", name="preemptions", exact=True)
    expect(number).to_be_hidden()
    finding.locator("summary").click()
    with page.expect_navigation():
        number.click()
    assert page.url.startswith(worlds["full"] + "/history?metric=llm_preemptions_total&aggregation=sum")
    assert page.get_by_role("heading", name="llm_preemptions_total, increase in each 5 min").count() == 1


def test_the_form_asks_for_one_server(worlds: dict[str, str], page: Page) -> None:
    page.goto(worlds["full"] + "/advice?since=2h")
    assert page.locator("#findings ~ article").count() == 3
    page.get_by_label("Server").fill("code")
    with page.expect_navigation():
        page.get_by_role("button", name="Show").click()
    titles = page.locator("#findings ~ article h3").all_inner_texts()
    assert [" ".join(title.split()) for title in titles] == ["Metrics flags missing n1/code"]


def test_a_phone_shows_what_to_change_first_and_each_finding_on_one_screen(worlds: dict[str, str], page: Page) -> None:
    width, height = PHONE
    page.set_viewport_size({"width": width, "height": height})
    page.goto(worlds["full"] + "/advice?since=2h")
    findings = page.locator("#findings ~ article")
    boxes = [box for box in (each.bounding_box() for each in findings.all()) if box]
    assert len(boxes) == 3
    assert boxes[0]["y"] + boxes[0]["height"] < height
    assert max(box["height"] for box in boxes) < height
    whole: int = page.evaluate("document.documentElement.scrollHeight")
    assert whole < 3 * height


def test_nothing_found_is_no_all_clear_while_questions_are_open(worlds: dict[str, str], page: Page) -> None:
    page.goto(worlds["well"] + "/advice?since=10m")
    told = page.get_by_role("status")
    expect(told).to_have_text("Nothing was found to be wrong, but not everything could be judged.")
    told.get_by_role("link").click()
    lacking = page.locator("details.lacking").first
    lacking.locator("summary").click()
    expect(lacking.get_by_text("min of observation").first).to_be_visible()


def test_it_is_read_without_a_script(browser: Browser, worlds: dict[str, str]) -> None:
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.goto(worlds["full"] + "/advice?since=2h")
    text = plain.locator("main").inner_text()
    assert "raise --gpu-memory-utilization" in text
    assert "At least 10 requests/s" in text
    why = plain.locator("details", has_text="SGLang, by the reference figures alone")
    expect(why.first.locator("li").first).to_be_hidden()
    why.first.locator("summary").click()
    expect(why.first.locator("li").first).to_be_visible()
    plain.close()
