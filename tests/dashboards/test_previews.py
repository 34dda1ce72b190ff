"""Every dashboard as a page, with answers of a real Prometheus and a real database, looked at by Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from dashboards import DASHBOARDS
from dashboards.model import Dashboard
from monitor.page.charts.artist import Artist
from tests.dashboards.previews.pictures import FOLDER, LARGEST, a_month, answering, drawn, name_of, picture, shown
from tests.dashboards.previews.sheet import Sheet
from tests.end_to_end.browser import chromium
from tests.end_to_end.processes import ROOT

EMPTY = {"server": {"Findings", "Speculative decoding", "Accepted drafts"}}
"""That server has none of them."""
CUT = """() => [...document.querySelectorAll('.panel')].flatMap(panel => {
  const frame = panel.getBoundingClientRect();
  const out = [...panel.querySelectorAll('svg text, .value, .legend, tr')].filter(each => {
    const box = each.getBoundingClientRect();
    return box.left < frame.left || box.right > frame.right + 1 || box.top < frame.top || box.bottom > frame.bottom + 1;
  });
  return out.map(each => panel.querySelector('h3').textContent + ': ' + each.textContent);
})"""
every = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=name_of)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def sheets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Sheet]]:
    artist = Artist(timeout=120)
    folder = tmp_path_factory.mktemp("pictures")
    with a_month(folder) as history, answering(folder) as grafana:
        yield {name_of(d): drawn(d, grafana, history, artist) for d in DASHBOARDS}
    artist.close()


@every
def test_only_panels_that_can_be_empty_are(dashboard: Dashboard, sheets: dict[str, Sheet]) -> None:
    name = name_of(dashboard)
    assert set(sheets[name].empty) == EMPTY.get(name, set())


@every
def test_nothing_is_cut_off_or_runs_out_of_its_panel(
    dashboard: Dashboard, sheets: dict[str, Sheet], browser: Browser
) -> None:
    with shown(browser, sheets[name_of(dashboard)].html) as page:
        assert page.evaluate(CUT) == []


@every
def test_a_picture_of_it_is_small_and_stands_on_both_pages(
    dashboard: Dashboard, sheets: dict[str, Sheet], browser: Browser
) -> None:
    name = name_of(dashboard)
    with shown(browser, sheets[name].html) as page:
        assert len(picture(page)) < LARGEST
    for file, link in ((ROOT / "docs" / "dashboards.md", "images"), (ROOT / "README.md", "docs/images")):
        assert f"]({link}/dashboards/{name}.png)" in file.read_text(encoding="utf-8")
    assert (FOLDER / f"{name}.png").stat().st_size < LARGEST
