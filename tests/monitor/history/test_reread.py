from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.history.minutes import Event, Minute, Window
from monitor.history.reread import Excerpt, Found, Reread, spans
from monitor.sources.prometheus.readings import Copy, Scrape, ServerSample
from tests.monitor.history import scraped
from tests.monitor.history.scraped import ONLY, START, Copies, Server
from tests.monitor.observations import ENGINE_0, TARGET, series

TOKENS = series("llm_generation_tokens_total")
TARGET_KEY = ("n1", "s1")


def reread(copies: Copies, since: int, until: int, *, raw: bool = False) -> tuple[Found, list[int]]:
    """Windows and events, and which windows wanted raw counters; with `raw` all do."""
    starts = range(since, until, 60)
    resets = set(starts) if raw else scraped.resets(copies, since, until)
    minutes = {} if raw else scraped.minutes(copies, since, until)
    reading = Reread(Excerpt(TARGET_KEY, scraped.gauges(copies, since, until), minutes, resets), since, until)
    asked = spans(reading.unsteady)
    counters: dict[Any, list[Scrape[ServerSample]]] = {copy: [] for copy in copies}
    for after, end in asked:
        for copy, scrapes in scraped.counters(copies, after, end).items():
            counters[copy] += scrapes
    memory = scraped.memory(copies, since) if reading.wants_memory else {}
    return reading.found(counters, memory), reading.unsteady


def plain(found: Iterable[Window]) -> dict[int, dict[str, Any]]:
    return {w.start: {str(of): _plain(minute) for of, minute in sorted(w.rows.items())} for w in found}


def _plain(minute: Minute) -> dict[str, Any]:
    """Differences and sums of differences are rounded differently."""
    return {
        "samples": minute.samples,
        "seen": (minute.first_seen, minute.last_seen),
        "covered": round(minute.covered_seconds, 6),
        "increase": round(minute.increase_seconds, 6),
        "gauges": {key: (mean.average, mean.count, mean.maximum) for key, mean in sorted(minute.gauges.items())},
        "counters": dict(sorted(minute.counters.items())),
        "histograms": {
            phase: sorted((h.bounds, h.counts, h.sum and round(h.sum, 6)) for h in of)
            for phase, of in sorted(minute.histograms.items())
        },
        "info": minute.info,
    }


GAPS = st.sampled_from([15_000] * 12 + [14_999, 15_001, 30_000, 45_000, 60_000, 61_000, 119_000, 240_000, 285_000,
                                        299_999, 300_000, 300_001, 400_000, 700_000])  # fmt: skip
RARE = "down down unreadable empty restart restart twice bounds upgrade series series hide show together"
EVENTS = st.sampled_from(["work"] * 14 + RARE.split())
LIVES = st.lists(st.tuples(GAPS, EVENTS, st.integers(0, 9)), min_size=1, max_size=40)
REASONS = ("stop", "length", "abort")


def life(told: list[tuple[int, str, int]], offset: int, tells_start: bool) -> list[Scrape[ServerSample]]:
    server = Server(start_time=START - 5000.0 if tells_start else None, counters={TOKENS: 10_000_000.0})
    hidden: set[str] = set()
    scrapes = []
    at = START * 1000 + offset
    for gap, event, by in told:
        at += gap
        samples = _lived(server, event, by, at / 1000 - 3, tells_start, hidden)
        scrapes.append(Scrape(at / 1000, [s for s in samples if s[0].series.label("reason") not in hidden]))
    return scrapes


def _lived(server: Server, event: str, by: int, now: float, tells_start: bool, hidden: set[str]) -> list[ServerSample]:
    finished = [s for s in server.counters if s.label("reason")]
    match event:
        case "restart" | "bounds" | "twice":
            _restart(server, now if tells_start else None, (0.5, 5.0) if event == "bounds" else None)
            server.work(40 * by if event == "twice" else 0)
        case "upgrade":
            server.version += "1"
        case "series" if len(finished) < 3:
            server.counters[series("llm_requests_finished_total", reason=REASONS[len(finished)])] = 0.0
        case "together":
            server.counters[series("llm_prompt_tokens_total", engine="")] = 0.0
        case "hide":
            hidden.add(REASONS[by % 3])
        case "show":
            hidden.clear()
        case "down":
            return scraped.down()
        case "unreadable":
            return scraped.unreadable()
        case "empty":
            return scraped.empty()
    server.work(by)
    return server.read()


A: Copy = (("replica", "a"),)
B: Copy = (("replica", "b"),)
BY_TWO = st.none() | st.tuples(
    st.sampled_from([4.0, 0.001, -2.0, -35.0, 90.0]), st.lists(st.sampled_from("ab-="), min_size=40, max_size=40)
)


def copies_of(scrapes: list[Scrape[ServerSample]], by_two: tuple[float, list[str]] | None) -> Copies:
    """Perhaps two copies with different clocks, of which each may miss any scrape."""
    if by_two is None:
        return {ONLY: scrapes}
    seen = list(zip(scrapes, by_two[1], strict=False))
    later = [Scrape(s.at + by_two[0], s.samples) for s, by in seen if by in "b="]
    return {A: [s for s, by in seen if by in "a="], B: later}


def _restart(server: Server, start_time: float | None, bounds: tuple[float, ...] | None) -> None:
    """Without a start time, and where all counters had gone beyond what they were, a restart would not be known."""
    fallen = server.counters[TOKENS] - 100_000
    server.restart(start_time, bounds)
    if start_time is None:
        server.counters[TOKENS] = fallen


def whole(scrapes: list[Scrape[ServerSample]]) -> tuple[int, int]:
    """Windows from before the first to an hour and more after the last."""
    return START, int(scrapes[-1].at) // 60 * 60 + 4200


@settings(max_examples=60, deadline=None)
@given(LIVES, st.sampled_from([0, 1, 2, 7_500, 14_999, 59_999]), st.booleans(), BY_TWO)
def test_the_ends_of_steady_minutes_say_the_same_as_reading_by_reading(
    told: list[tuple[int, str, int]], offset: int, tells_start: bool, by_two: tuple[float, list[str]] | None
) -> None:
    scrapes = life(told, offset, tells_start)
    copies, (since, until) = copies_of(scrapes, by_two), whole(scrapes)
    stepped, _ = reread(copies, since, until)
    by_reading, _ = reread(copies, since, until, raw=True)
    assert plain(stepped.windows) == plain(by_reading.windows)
    assert stepped.events == by_reading.events


@settings(max_examples=40, deadline=None)
@given(LIVES, st.sampled_from([0, 7_500]), st.booleans(), BY_TWO, st.data())
def test_windows_are_the_same_however_the_time_is_cut(
    told: list[tuple[int, str, int]],
    offset: int,
    tells_start: bool,
    by_two: tuple[float, list[str]] | None,
    data: st.DataObject,
) -> None:
    scrapes = life(told, offset, tells_start)
    copies, (since, until) = copies_of(scrapes, by_two), whole(scrapes)
    at_once, _ = reread(copies, since, until)
    cuts = sorted(data.draw(st.sets(st.integers(since // 60, until // 60), max_size=12)))
    edges = [since, *(60 * cut for cut in cuts), until]
    windows, events = [], []
    for a, b in pairwise(edges):
        part, _ = reread(copies, a, b)
        windows += part.windows
        events += part.events
    assert windows == at_once.windows
    assert events == at_once.events


def told(at: float, tokens: float, **more: Any) -> Scrape[ServerSample]:
    """One reading of a server; `at` in seconds since START."""
    server = Server(counters={TOKENS: tokens}, **more)
    return Scrape(START + at, server.read())


def tokens(found: Found) -> dict[int, float | None]:
    """By minutes since START."""
    of = {(w.start - START) // 60: w.rows[ENGINE_0] for w in found.windows if ENGINE_0 in w.rows}
    return {minute: row.counters.get(("llm_generation_tokens_total", "")) for minute, row in of.items()}


def test_a_minute_is_the_difference_of_the_last_values_at_its_ends() -> None:
    copies = {ONLY: [told(at, at * at) for at in (20, 50, 80, 110, 120, 150)]}
    found, unsteady = reread(copies, START, START + 180)
    assert tokens(found) == {0: 50**2 - 20**2, 1: 120**2 - 50**2, 2: 150**2 - 120**2}
    assert unsteady == [START], "the first reading is a base line, and only raw samples tell where it is"
    assert [w.rows[ENGINE_0].increase_seconds for w in found.windows] == [30, 70, 30]


def test_a_reading_on_the_edge_belongs_to_the_minute_that_ends_there() -> None:
    found, _ = reread({ONLY: [told(at, at) for at in (60, 75, 120, 120.001, 180)]}, START, START + 180)
    assert [w.rows[ENGINE_0].samples for w in found.windows] == [1, 2, 2]
    assert tokens(found) == {0: None, 1: 60, 2: 60}


def test_a_minute_without_a_sample_within_the_hour_is_a_gap_and_later_there_is_none() -> None:
    copies = {ONLY: [told(30, 1), told(45, 2)]}
    found, _ = reread(copies, START, START + 7200)
    assert [(w.start - START) // 60 for w in found.windows] == list(range(61))
    gap = found.windows[60]
    assert list(gap.rows) == [TARGET], "its last reading, at 45 s, is 59 minutes and 15 seconds before"
    assert gap.rows[TARGET] == Minute()


def test_how_often_a_target_is_scraped_is_read_from_its_samples() -> None:
    """Every 40 s; a distance of 85 is more than twice that."""
    found, _ = reread({ONLY: [told(at, at) for at in (5, 45, 85, 170, 210)]}, START, START + 240)
    assert [round(w.rows[TARGET].covered_seconds) for w in found.windows] == [40 + 15, 25, 10, 30], (
        "to the edge where the next is near"
    )


def test_one_distance_that_is_longer_than_the_look_back_covers_nothing() -> None:
    found, _ = reread({ONLY: [told(1, 1), told(302, 2)]}, START, START + 360)
    assert [w.rows[TARGET].covered_seconds for w in found.windows] == [0.0] * 6


def test_a_version_that_changes_over_half_an_hour_without_samples_is_an_event() -> None:
    found, _ = reread({ONLY: [told(30, 1), told(1830, 2, version="2")]}, START + 1800, START + 1860)
    assert found.events == [Event(TARGET, START + 1830, "version", "1", "2")]


def test_a_restart_is_found_by_raw_samples() -> None:
    counts = {10: 100, 25: 130, 40: 160, 55: 190, 70: 220, 85: 20, 100: 300, 115: 330, 130: 360}
    found, unsteady = reread({ONLY: [told(at, v) for at, v in counts.items()]}, START, START + 180)
    assert tokens(found) == {0: 90, 1: 30 + 20 + 280 + 30, 2: 30}
    assert START + 60 in unsteady
    assert found.events == [Event(TARGET, START + 85, "restart")]


def test_of_copies_the_one_with_more_readings_tells_a_minute() -> None:
    copies = {B: [told(at, at) for at in (5, 20, 35, 50)], A: [told(at, at) for at in (10, 25, 55)]}
    found, _ = reread(copies, START, START + 60)
    assert found.windows[0].rows[ENGINE_0].samples == 4
    both, _ = reread({B: copies[B][:3], A: copies[A]}, START, START + 60)
    assert both.windows[0].rows[ENGINE_0].first_seen == START + 10, "of as many the first by name"


def test_nothing_counts_twice_where_another_copy_goes_on() -> None:
    """a is restarted in the third minute, and is back in the fifth."""
    a = [told(at, at) for at in range(10, 301, 15) if not 130 <= at < 250]
    b = [told(at, at) for at in range(3, 301, 20)]
    found, unsteady = reread({A: a, B: b}, START, START + 300)
    assert tokens(found) == {0: 45, 1: 60, 2: 163 - 115, 3: 60, 4: 295 - 223}
    assert [w.rows[ENGINE_0].increase_seconds for w in found.windows] == [45, 60, 48, 60, 72]
    assert found.events == []
    assert unsteady == [START + 60 * n for n in (0, 2, 3, 4)]


@pytest.mark.parametrize("start", [None, START - 5000.0])
def test_a_copy_whose_clock_is_ahead_lies_behind_and_adds_nothing_until_it_has_caught_up(start: float | None) -> None:
    """b's clock is 40 s ahead: what it says of 130 is of 90, and a has said more by 115."""
    a = [told(at, at, start_time=start) for at in range(10, 121, 15)]
    b = [told(at, at - 40, start_time=start) for at in range(10, 301, 20)]
    found, _ = reread({A: a, B: b}, START, START + 300)
    assert tokens(found) == {0: 45, 1: 60, 2: 130 - 115, 3: 60, 4: 60}
    assert found.events == [], "nor is it a restart"


def test_a_restart_that_one_copy_saw_counts_once_when_another_goes_on() -> None:
    """Without a start time; the server is restarted at 100."""

    def counted(at: float) -> float:
        return at if at < 100 else at - 100

    a = [told(at, counted(at)) for at in range(10, 121, 15)]
    b = [told(at, counted(at)) for at in range(3, 241, 20)]
    found, _ = reread({A: a, B: b}, START, START + 240)
    assert tokens(found) == {0: 45, 1: 30 + 15, 2: 63 - 15, 3: 60}


def test_a_restart_that_comes_with_another_copy_counts_from_zero() -> None:
    """A pod that is new has another address, and tells no start time."""
    a = [told(at, 1000 + at) for at in range(10, 121, 15)]
    b = [told(at, at - 125) for at in range(130, 241, 15)]
    found, _ = reread({A: a, B: b}, START, START + 240)
    assert tokens(found) == {0: 45, 1: 60, 2: 50, 3: 60}
    assert found.events == [Event(TARGET, START + 130, "restart")]


def test_a_new_process_that_only_one_copy_has_seen_so_far_is_no_older_news() -> None:
    """Restarted at 118; a saw it last at 115, b at 123 for the first time, and again at 143."""
    a = [told(at, 1000 + at, start_time=START - 5000.0) for at in range(10, 121, 15)]
    b = [told(at, 1000 + at, start_time=START - 5000.0) for at in (83, 103)]
    b += [told(at, at - 118, start_time=START + 118.0) for at in range(123, 241, 20)]
    found, _ = reread({A: a, B: b}, START, START + 240)
    assert tokens(found)[2] == 163 - 118
    assert found.events == [Event(TARGET, START + 123, "restart")]
