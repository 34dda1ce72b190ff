"""Writes the pictures of the docs: python -m tests.end_to_end.screenshots [FOLDER]"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from tests.end_to_end.browser import chromium, monitoring
from tests.end_to_end.comparing import comparing, lived
from tests.end_to_end.judged import judged
from tests.end_to_end.processes import ROOT
from tests.end_to_end.test_advice_page import WORLDS, shown
from tests.monitor.page.fleet_data import FLEET

SHOWN = [server for server in FLEET if server.server != "small"]
WEEK = 7 * 24 * 60

Pictures = dict[str, tuple[str, str, tuple[int, int]]]
"""Path, colour scheme and size in CSS pixels, by file."""
OF_FLEET: Pictures = {
    "fleet.png": ("/", "light", (1440, 690)),
    "server-dark.png": ("/servers/gpu-08/code", "dark", (1440, 780)),
}
OF_JUDGED: Pictures = {
    "slos.png": ("/slos", "light", (1280, 800)),
    "alerts-dark.png": ("/alerts", "dark", (1280, 960)),
}
OF_COMPARED_MINUTES = 16
OF_COMPARED: Pictures = {"compare.png": ("/compare?reference=1", "light", (1280, 1220))}
OF_ADVICE: Pictures = {"advice.png": ("/advice?since=2h", "light", (1280, 1160))}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as state,
        lived(Path(state), OF_COMPARED_MINUTES) as seen,  # runs a loop of its own, as the browser does
        chromium() as browser,
    ):
        with monitoring(*SHOWN) as monitor:
            take(browser, monitor.url, OF_FLEET, folder)
        with judged(Path(state), minutes=WEEK) as monitor_of_judged:
            take(browser, monitor_of_judged.url, OF_JUDGED, folder)
        with comparing(seen) as url:
            take(browser, url, OF_COMPARED, folder)
        with shown(Path(state) / "advice", WORLDS["full"]) as url_of_advice:
            take(browser, url_of_advice, OF_ADVICE, folder)


def take(browser: Browser, url: str, pictures: Pictures, folder: Path) -> None:
    for name, (path, scheme, (width, height)) in pictures.items():
        page = browser.new_page(viewport={"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.goto(url + path)
        page.screenshot(path=folder / name)
        page.close()
        print(folder / name)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
