"""The process that draws: what it draws, and what becomes of it."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from monitor.page.charts import artist as module
from monitor.page.charts.artist import Artist, ChartError
from monitor.page.charts.model import Bar, Bars
from monitor.page.charts.units import SECONDS
from tests.end_to_end.processes import until
from tests.monitor.page.charts.worlds import CHARTS, lines, minutes

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def artist() -> Iterator[Artist]:
    made = Artist(timeout=60)
    yield made
    made.close()


@cache
def drawn(artist: Artist, name: str) -> ET.Element:
    return ET.fromstring(artist.draw(CHARTS[name]))


def titles(svg: ET.Element) -> list[str]:
    return [element.text or "" for element in svg.iter(f"{SVG}title")]


def texts(svg: ET.Element) -> list[str]:
    return [element.text or "" for element in svg.iter(f"{SVG}text")]


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_drawn_in_the_colours_of_the_page_alone(artist: Artist, name: str) -> None:
    svg = drawn(artist, name)
    colours = {element.get(of) for element in svg.iter() for of in ("fill", "stroke")} - {None, "none", "transparent"}
    assert colours
    assert all(colour and colour.startswith("var(--") for colour in colours)


@pytest.mark.parametrize("name", CHARTS)
def test_a_drawing_needs_no_style_and_no_script(artist: Artist, name: str) -> None:
    for element in drawn(artist, name).iter():
        assert element.tag.removeprefix(SVG) not in {"style", "script", "image", "a", "foreignObject"}
        assert not [each for each in element.attrib if each == "style" or each.startswith("on") or "href" in each]


def test_a_drawing_says_what_it_is_and_scales_with_its_place(artist: Artist) -> None:
    svg = drawn(artist, "lines")
    assert (svg.get("role"), svg.get("aria-label")) == ("img", "Time to first token, P99")
    assert svg.get("viewBox") == "0 0 720 220"
    assert svg.get("width") is None


def test_a_moment_can_be_pointed_at(artist: Artist) -> None:
    found = titles(drawn(artist, "lines"))
    assert found[0] == "2025-11-30 11:00:00 UTC\nvllm: 200 ms (100 ms – 500 ms)\nsglang: at least 400 ms"
    assert "2025-11-30 11:02:00 UTC\nrestart of <gpu-1>" in found


def test_a_gap_stays_empty(artist: Artist) -> None:
    two_lines, a_dot = minutes([0.2, 0.2, None, 0.2, 0.2]), minutes([0.2])
    svg = ET.fromstring(artist.draw(lines(("vllm", two_lines), ("sglang", a_dot))))
    strokes = [e.get("d", "") for e in svg.iter(f"{SVG}path") if e.get("stroke") == "var(--line-1)"]
    assert len(strokes) == 2
    assert all(path.count("L") == 1 for path in strokes)


def test_the_clock_has_24_hours_and_says_its_zone(artist: Artist) -> None:
    found = texts(drawn(artist, "lines"))
    assert {"11:00", "11:10", "UTC"} <= set(found)


def test_names_are_text_whatever_they_hold(artist: Artist) -> None:
    svg = artist.draw(CHARTS["bars"])
    assert "<b>" not in svg
    assert "<b>'\"\\" in texts(ET.fromstring(svg))


def test_no_two_charts_share_an_identifier(artist: Artist) -> None:
    both = [{e.get("id") for e in drawn(artist, name).iter()} - {None} for name in ("lines", "states")]
    assert not both[0] & both[1]


def test_the_process_ends_when_nobody_wants_a_chart_and_starts_again_when_somebody_does() -> None:
    artist = Artist(timeout=60, idle_seconds=0.1)
    try:
        artist.draw(CHARTS["bare"])
        process = artist._process
        assert process is not None
        until(lambda: process.poll() is not None)
        assert process.returncode == 0
        assert artist.draw(CHARTS["share"])
        assert artist._process is not process
    finally:
        artist.close()


def test_a_process_waits_for_its_first_chart_however_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the monitor stands still after it has started it."""
    artist = Artist(timeout=60, idle_seconds=0)
    start = artist._started

    def started_long_ago() -> subprocess.Popen[bytes]:
        process = start()
        until(lambda: process.poll() is not None or waits(process))
        return process

    monkeypatch.setattr(artist, "_started", started_long_ago)
    try:
        assert artist.draw(CHARTS["bare"])
    finally:
        artist.close()


def waits(process: subprocess.Popen[bytes]) -> bool:
    """For charts: its own output goes by then where its errors go."""
    output, errors = (Path(f"/proc/{process.pid}/fd/{number}").readlink() for number in (1, 2))
    return output == errors


def test_a_process_that_was_killed_costs_nobody_a_chart() -> None:
    artist = Artist(timeout=60)
    try:
        artist.draw(CHARTS["bare"])
        assert artist._process is not None
        os.kill(artist._process.pid, signal.SIGKILL)
        assert artist.draw(CHARTS["share"])
    finally:
        artist.close()


def test_one_that_nobody_closed_leaves_no_process() -> None:
    artist = Artist(timeout=60)
    artist.draw(CHARTS["bare"])
    process = artist._process
    assert process is not None
    del artist
    gc.collect()
    assert process.returncode is not None
    assert process.stdin is not None
    assert process.stdin.closed


def test_a_chart_that_was_drawn_lately_needs_no_process() -> None:
    artist = Artist(timeout=60)
    first = artist.draw(CHARTS["bare"])
    artist.close()
    assert artist.draw(replace(CHARTS["bare"])) == first
    assert artist._process is None


def test_a_chart_that_takes_too_long_is_given_up_and_the_next_is_drawn() -> None:
    artist = Artist(timeout=60)
    try:
        artist.draw(CHARTS["bare"])
        assert artist._process is not None
        artist._process.send_signal(signal.SIGSTOP)
        artist._timeout = 0.05
        with pytest.raises(ChartError, match=r"could not draw it within 0\.05 s"):
            artist.draw(CHARTS["lines"])
        assert artist._process is None
        artist._timeout = 60
        assert artist.draw(CHARTS["lines"])
    finally:
        artist.close()


def test_a_chart_that_cannot_be_drawn_says_so_and_the_next_is_drawn(artist: Artist) -> None:
    with pytest.raises(ChartError, match="could not draw it: "):
        artist.draw(Bars("", SECONDS, (Bar("vllm", "much"),)))  # type: ignore[arg-type]
    assert artist.draw(CHARTS["bars"])


def test_too_many_values_are_refused_before_anything_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_VALUES", 3)
    artist = Artist()
    with pytest.raises(ChartError, match="4 values are more than the 3 that one chart can show"):
        artist.draw(lines(("vllm", minutes([0.1, 0.2, 0.3, 0.4]))))
    assert artist._process is None


def test_more_than_may_wait_are_told_to_come_again() -> None:
    artist = Artist(timeout=60, waiting=1)
    artist.draw(CHARTS["bare"])
    process = artist._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)  # until all have asked
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(artist.draw, CHARTS["lines"]) for _ in range(4)]
        until(lambda: sum(each.done() for each in asked) == 3)
        process.send_signal(signal.SIGCONT)
        told = [each.exception() or each.result() for each in asked]
    artist.close()
    refused = [str(each) for each in told if isinstance(each, ChartError)]
    assert refused == ["too many charts are being drawn at once: load the page again"] * 3
    assert [each.startswith("<svg") for each in told if isinstance(each, str)] == [True]


def test_threads_share_one_process(artist: Artist) -> None:
    charts = [lines((f"line {i}", minutes([0.1 * i, 0.2]))) for i in range(1, 9)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(artist.draw, charts))
    assert [f"line {i}: " in svg for i, svg in enumerate(found, 1)] == [True] * 8
