"""Writes the pictures of the dashboards: python -m tests.dashboards.previews.pictures [FOLDER]"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page
from sqlalchemy import Engine

from dashboards import DASHBOARDS
from dashboards.model import Dashboard
from monitor.history.database import open_database, sqlite_url
from monitor.page.charts.artist import Artist
from tests.dashboards import recorded
from tests.dashboards.asked import Grafana
from tests.dashboards.conftest import loaded
from tests.dashboards.panels import JSON
from tests.dashboards.previews import months, world
from tests.dashboards.previews.answers import Source, Sql
from tests.dashboards.previews.recorded_answers import Recorded
from tests.dashboards.previews.sheet import WIDTH, Sheet, sheet
from tests.end_to_end.browser import chromium
from tests.end_to_end.processes import ROOT

FOLDER = ROOT / "docs" / "images" / "dashboards"
HIGHEST = 1300
"""Pixels of a picture: whole rows of panels only."""
LARGEST = 230_000
"""Bytes."""
DARK = ("server", "frameworks")
_RECORDED = (
    "Preview. Recorded metrics pages of every frontend, played back sixty times as fast under a made-up load; GPUs, "
    "objectives and alerts made up."
)
_MONTH = "Preview: a month of a made-up fleet, eight minutes of each day."
_CHOSEN = {"server": {"one_server": ["vllm"], "one_node": [recorded.NODE]}}
_OF_HISTORY = {
    "step": "day", "framework": tuple({s.framework for s in months.SERVERS}), "model": ("llama",), "price": "2.5",
    "slo": ("first-token", "available"),
}  # fmt: skip


def name_of(dashboard: Dashboard) -> str:
    return dashboard.uid.removeprefix("inferwatch-")


def drawn(dashboard: Dashboard, grafana: Grafana, history: Engine, artist: Artist) -> Sheet:
    name = name_of(dashboard)
    source: Source = Sql(history, months.START, months.UNTIL, months.DAY, _OF_HISTORY)
    if not dashboard.is_sql:
        source = Recorded(grafana, JSON[f"dashboards/{name}.json"], _CHOSEN.get(name, {}))
    return sheet(dashboard, source, artist, _MONTH if dashboard.is_sql else _RECORDED)


@contextmanager
def shown(browser: Browser, html: str, *, dark: bool = False) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": WIDTH, "height": HIGHEST})
    page.emulate_media(color_scheme="dark" if dark else "light")
    page.set_content(html)
    yield page
    page.close()


def picture(page: Page) -> bytes:
    """From the top, as many rows of panels as fit."""
    ends: list[float] = page.evaluate(
        "[...document.querySelectorAll('.panel')].map(p => p.getBoundingClientRect().bottom)"
    )
    height = max(end for end in ends if end + 10 <= HIGHEST) + 10
    return page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": height}, full_page=True)


@contextmanager
def a_month(folder: Path) -> Iterator[Engine]:
    database = open_database(sqlite_url(folder / "history.sqlite"))
    months.fill(database)
    yield database
    database.dispose()


@contextmanager
def answering(folder: Path) -> Iterator[Grafana]:
    end = int(time.time()) // 60 * 60
    start = end - recorded.MINUTES * 60
    with loaded(folder, world.scrapes(folder, start)) as prometheus:
        yield Grafana(prometheus, end)


def main(to: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    artist = Artist(timeout=60)
    with (
        TemporaryDirectory() as name,
        chromium() as browser,
        a_month(Path(name)) as history,
        answering(Path(name)) as grafana,
    ):
        for dashboard in DASHBOARDS:
            html = drawn(dashboard, grafana, history, artist).html
            with shown(browser, html, dark=name_of(dashboard) in DARK) as page:
                (to / f"{name_of(dashboard)}.png").write_bytes(picture(page))
            print(to / f"{name_of(dashboard)}.png")  # noqa: T201
    artist.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
