"""Writes the pictures of the docs: python -m tests.end_to_end.screenshots [FOLDER]"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Browser

from tests.end_to_end.browser import chromium, monitoring
from tests.end_to_end.processes import ROOT
from tests.monitor.page.fleet_data import FLEET

SHOWN = [server for server in FLEET if server.server != "small"]

PICTURES = {
    "fleet.png": ("/", "light", (1440, 690)),
    "server-dark.png": ("/servers/gpu-08/code", "dark", (1440, 780)),
}
"""Path, colour scheme and size in CSS pixels."""


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with monitoring(*SHOWN) as monitor, chromium() as browser:
        for name in PICTURES:
            take(browser, monitor.url, name, folder / name)
            print(folder / name)  # noqa: T201


def take(browser: Browser, url: str, name: str, to: Path) -> None:
    path, scheme, (width, height) = PICTURES[name]
    page = browser.new_page(viewport={"width": width, "height": height})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(url + path)
    page.screenshot(path=to)
    page.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
