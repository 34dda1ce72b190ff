"""The page in a real browser: nothing overflows, nothing complains, nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

from tests.end_to_end.browser import Monitor, chromium, monitoring, serving, still
from tests.end_to_end.processes import free_port
from tests.monitor.page.fleet_data import FLEET, HOSTILE, HOSTILE_SERVER, NOW, REPLAYED, Engine, Server

REFRESH_MILLISECONDS = 5_000
PHONE, DESK, WALL = (375, 800), (1440, 900), (3840, 2160)
CALM_SERVER = FLEET[0]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def whole() -> Iterator[Monitor]:
    with monitoring(*FLEET, REPLAYED, HOSTILE_SERVER) as monitor:
        yield monitor


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": DESK[0], "height": DESK[1]})
    yield made
    made.close()


@dataclass
class Tab:
    """A page, what it said, and the addresses that it and its browser asked for.

    `fetched` holds the paths that the page's own script asked for: a browser asks for an icon when it likes to.
    """

    page: Page
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def open(self, url: str) -> Page:
        self.page.goto(url)
        return self.page

    def paths(self) -> list[str]:
        return [urlsplit(url).path for url in self.asked]

    def note(self, request: Request) -> None:
        self.asked.append(request.url)
        if request.resource_type == "fetch":
            self.fetched.append(urlsplit(request.url).path)


@pytest.fixture
def tab(context: BrowserContext) -> Tab:
    opened = Tab(context.new_page())
    opened.page.on("console", lambda message: opened.complaints.append(message.text))
    opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.page.on("dialog", lambda dialog: opened.complaints.append(dialog.message))
    opened.page.on("request", opened.note)
    return opened


def overflow(page: Page) -> int:
    """Pixels by which the page is wider than the window."""
    wider: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return wider


def sticking_out(page: Page) -> list[str]:
    """Texts of elements that reach beyond their own box's scrolling parent or the window."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("main *")]
            .filter((e) => !e.closest(".scroll, .unseen, svg") && e.getBoundingClientRect().right > innerWidth + 1)
            .map((e) => e.textContent.trim().slice(0, 60))"""
    )
    return found


@pytest.mark.parametrize("size", [PHONE, DESK, WALL], ids=["phone", "desk", "wall"])
@pytest.mark.parametrize("path", ["/", "/servers/gpu-08/code", "/servers/gpu-10/batch"])
def test_every_view_fits_and_is_silent(whole: Monitor, tab: Tab, size: tuple[int, int], path: str) -> None:
    tab.page.set_viewport_size({"width": size[0], "height": size[1]})
    page = tab.open(whole.url + path)
    assert overflow(page) == 0
    assert sticking_out(page) == []
    assert tab.complaints == []
    assert {urlsplit(url).netloc for url in tab.asked} == {urlsplit(whole.url).netloc}


def test_the_fleet_is_one_table_for_assistive_technology_too(whole: Monitor, tab: Tab) -> None:
    page = tab.open(whole.url)
    rows = page.get_by_role("table").get_by_role("row")
    expect(rows.filter(has=page.get_by_role("rowheader"))).to_have_count(len(FLEET) + 2)
    tab.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    expect(page.get_by_role("rowheader")).to_have_count(len(FLEET) + 2)
    expect(page.get_by_role("img", name="KV cache in use, last hour")).not_to_have_count(0)


def test_the_table_of_a_phone_names_its_figures(whole: Monitor, tab: Tab) -> None:
    still(tab.page)
    tab.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    page = tab.open(whole.url)
    label = page.locator("td[data-label='KV cache']").first.evaluate("e => getComputedStyle(e, '::before').content")
    assert label == '"KV cache"'


def test_dark_and_light_follow_the_reader(whole: Monitor, tab: Tab) -> None:
    page = tab.open(whole.url)
    grounds = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(243, 245, 248)", "rgb(14, 20, 28)"]


def test_state_is_told_by_icon_word_and_colour(whole: Monitor, tab: Tab) -> None:
    still(tab.page)
    page = tab.open(whole.url)
    seen = {}
    for word in ("down", "metrics missing", "awake", "sleeping"):
        state = page.locator(".state", has_text=word).first
        icon = state.locator("svg").inner_html()
        seen[word] = (icon, state.evaluate("e => getComputedStyle(e).color"))
    assert len({icon for icon, _ in seen.values()}) == 4
    assert len({colour for _, colour in seen.values()}) == 4


def test_hostile_names_are_shown_as_they_are_and_do_nothing(whole: Monitor, tab: Tab) -> None:
    page = tab.open(whole.url)
    page.get_by_role("link", name=HOSTILE, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE)
    expect(page.get_by_text("dropped", exact=False)).to_have_count(0)
    assert tab.complaints == []


def test_an_empty_fleet_says_where_it_looked(tab: Tab) -> None:
    with monitoring(looked_for=["8000: nothing listens"]) as monitor:
        page = tab.open(monitor.url)
        expect(page.get_by_role("heading", name="No server yet")).to_be_visible()
        expect(page.get_by_text("8000: nothing listens")).to_be_visible()
        expect(page).to_have_title("no servers · inferwatch")
        assert tab.complaints == []


def test_without_javascript_everything_is_there(whole: Monitor, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(whole.url)
    expect(page.get_by_role("rowheader")).to_have_count(len(FLEET) + 2)
    expect(page.locator("#stale")).to_be_hidden()
    page.get_by_role("link", name="code", exact=True).click()
    expect(page.get_by_role("heading", name="Every field of the schema")).to_be_visible()
    context.close()


def test_the_page_swaps_in_new_data_by_itself(tab: Tab) -> None:
    with monitoring(CALM_SERVER) as monitor:
        tab.page.clock.install()
        page = tab.open(monitor.url)
        expect(page).to_have_title("1 up · inferwatch")
        monitor.now = NOW + 15
        busy, dead = replace(CALM_SERVER, engines=(Engine(waiting=17),)), Server("chat-z", up=False, available=False)
        monitor.observe(busy, dead)
        page.clock.fast_forward(REFRESH_MILLISECONDS)
        expect(page.locator("td[data-label=Waiting] .number")).to_have_text(["17"])
        expect(page.get_by_role("rowheader")).to_have_text(["chat-z on gpu-07", "chat-a on gpu-07 team=search"])
        expect(page).to_have_title("1 in trouble · inferwatch")
        expect(page.locator("[data-as-of]")).to_have_text("09:41:50 UTC")
        assert tab.paths().count("/") == 1
        assert tab.complaints == []


def test_a_server_of_its_own_page_is_refreshed_too(tab: Tab) -> None:
    with monitoring(CALM_SERVER) as monitor:
        tab.page.clock.install()
        page = tab.open(f"{monitor.url}/servers/gpu-07/chat-a")
        monitor.now = NOW + 15
        monitor.observe(replace(CALM_SERVER, up=False, available=False))
        page.clock.fast_forward(REFRESH_MILLISECONDS)
        expect(page).to_have_title("chat-a down · inferwatch")
        expect(page.get_by_text("No field of the schema is known")).to_be_visible()


def test_what_the_reader_opened_and_focused_stays(tab: Tab) -> None:
    with monitoring(*FLEET) as monitor:
        tab.page.clock.install()
        page = tab.open(monitor.url)
        page.get_by_text("1 note").click()
        expect(page.get_by_text("vllm:iteration_tokens_total")).to_be_visible()
        monitor.now = NOW + 1
        page.clock.fast_forward(REFRESH_MILLISECONDS)
        expect(page.locator("[data-as-of]")).to_have_text("09:41:36 UTC")
        expect(page.get_by_text("vllm:iteration_tokens_total")).to_be_visible()
        expect(page.get_by_text("1 note")).to_be_focused()


def test_a_selection_is_not_torn_away(tab: Tab) -> None:
    with monitoring(CALM_SERVER) as monitor:
        tab.page.clock.install()
        page = tab.open(monitor.url)
        page.locator(".model").select_text()
        monitor.now = NOW + 1
        with page.expect_response("**/fragments/fleet"):
            page.clock.fast_forward(REFRESH_MILLISECONDS)
        assert page.evaluate("String(getSelection())") == "Qwen2.5-7B-Instruct"
        page.evaluate("getSelection().removeAllRanges()")
        expect(page.locator("[data-as-of]")).to_have_text("09:41:36 UTC")


def test_a_monitor_that_stops_answering_is_told_and_comes_back(tab: Tab) -> None:
    monitor = Monitor([CALM_SERVER])
    app, port = monitor.app(), free_port()
    with serving(app, port):
        tab.page.clock.install()
        page = tab.open(f"http://127.0.0.1:{port}")
        expect(page.get_by_role("alert")).to_be_hidden()
    page.clock.fast_forward(REFRESH_MILLISECONDS)
    expect(page.get_by_role("alert")).to_have_text("The monitor does not answer: stale since 09:41:35 UTC.")
    expect(page.get_by_role("rowheader")).to_have_count(1)
    monitor.now = NOW + 60
    with serving(app, port):
        page.clock.fast_forward(REFRESH_MILLISECONDS)
        expect(page.locator("[data-as-of]")).to_have_text("09:42:35 UTC")
        expect(page.get_by_role("alert")).to_be_hidden()


def test_a_hidden_page_rests_and_is_fresh_when_it_is_seen_again(tab: Tab) -> None:
    hide = """(hidden) => {
        Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with monitoring(CALM_SERVER) as monitor:
        tab.page.clock.install()
        page = tab.open(monitor.url)
        page.evaluate(hide, True)
        while_it_was_seen = list(tab.fetched)
        page.clock.fast_forward(10 * REFRESH_MILLISECONDS)
        assert tab.fetched == while_it_was_seen
        monitor.now = NOW + 50
        page.evaluate(hide, False)
        expect(page.locator("[data-as-of]")).to_have_text("09:42:25 UTC")
        assert len(tab.fetched) > len(while_it_was_seen)


def test_the_keyboard_reaches_content_and_servers(whole: Monitor, tab: Tab) -> None:
    still(tab.page)
    page = tab.open(whole.url)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("region", name="Servers")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="batch")).to_be_focused()


def test_a_gap_is_a_broken_line_on_a_shade_and_a_change_can_be_pointed_at(whole: Monitor, tab: Tab) -> None:
    """Nothing was read from minute 34 to 37; a change stands where the pointer finds its text."""
    still(tab.page)
    page = tab.open(whole.url + "/servers/gpu-08/code")
    chart = page.locator(".tiles div", has_text="Generated tokens/s").locator("svg").last
    line, shade = chart.locator(".line"), chart.locator(".shade")
    assert line.evaluate("path => path.getAttribute('d').split('M').length - 1") == 2
    left, right = (shade.evaluate(f"path => path.getBBox().{side}") for side in ("x", "x + path.getBBox().width"))
    ends = line.evaluate("path => path.getAttribute('d').match(/[ML][0-9.]+/g).map(move => Number(move.slice(1)))")
    assert not [x for x in ends if left < x < right]
    fill, ground = shade.evaluate("e => [getComputedStyle(e).fill, getComputedStyle(e.closest('div')).backgroundColor]")
    assert fill != ground
    change = chart.locator(".reach").first.bounding_box()
    assert change is not None
    x, y = change["x"] + change["width"] / 2 + 4, change["y"] + change["height"] / 2
    found = page.evaluate(
        "([x, y]) => document.elementFromPoint(x, y).parentNode.firstElementChild.textContent", [x, y]
    )
    assert found.startswith("09:19:55 UTC: restarted")
    assert tab.complaints == []
