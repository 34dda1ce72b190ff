"""The strip of GPUs in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from exporters.findings import finding
from tests.end_to_end.browser import Monitor, chromium, monitoring, still
from tests.end_to_end.test_page import DESK, PHONE, WALL, overflow, sticking_out
from tests.monitor.gpu_data import bare_host, busy_host, gathered, reading
from tests.monitor.page.fleet_data import FLEET, HOSTILE, NOW

LONG = "x" * 200


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def monitor() -> Iterator[Monitor]:
    hostile = reading(LONG, info={"name": HOSTILE}, findings=(finding("gpu_ecc_uncorrected", LONG),))
    with monitoring(*FLEET) as made:
        for told in busy_host(NOW):
            made.fleet.gpus.update("gpu-07", told)
        made.fleet.gpus.update("cpu-1", bare_host(NOW))
        made.fleet.gpus.update(LONG, gathered(NOW, hostile, node=LONG, on={LONG: LONG + HOSTILE}))
        yield made


@pytest.mark.parametrize("size", [PHONE, DESK, WALL], ids=["phone", "desk", "wall"])
@pytest.mark.parametrize("path", ["/", "/servers/gpu-07/chat-a"])
def test_the_strip_fits_and_is_silent(monitor: Monitor, browser: Browser, size: tuple[int, int], path: str) -> None:
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.goto(monitor.url + path)
    expect(page.get_by_role("region", name="GPUs").get_by_text("GPU 0", exact=True)).to_be_visible()
    assert overflow(page) == 0
    assert sticking_out(page) == []
    assert complaints == []
    page.close()


def test_trouble_of_a_gpu_is_told_by_icon_word_and_colour(monitor: Monitor, browser: Browser) -> None:
    page = browser.new_page()
    still(page)
    page.goto(monitor.url)
    marks = [page.locator(".gpus .state", has_text=word).first for word in ("up", "lost", "throttled", "power limit")]
    assert len({mark.locator("svg").inner_html() for mark in marks}) == 4
    assert len({mark.evaluate("e => getComputedStyle(e).color") for mark in marks}) == 4
    page.close()


def test_a_gpu_leads_to_its_server(monitor: Monitor, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(monitor.url)
    page.get_by_role("region", name="GPUs").get_by_role("link", name="chat-a").first.click()
    expect(page.get_by_role("heading", name="GPUs of this server")).to_be_visible()
    page.close()
