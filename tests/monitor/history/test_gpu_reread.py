from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from exporters.exposition import Sample
from exporters.gpu.gathered import GpuReading
from monitor.history import gpu_minutes
from monitor.history.gpu_reread import Copies, GpuReread
from monitor.history.minutes import State
from monitor.history.reread import Found
from monitor.sources.prometheus import readings
from monitor.sources.prometheus.readings import Copy, Scrape
from tests.monitor.gpu_data import H100, gathered, key, lost, reading, uuid
from tests.monitor.history.scraped import ONLY, START

NODE = "gpu-07"
ENERGY = "gpu_energy_joules_total", ""
OF = (("gpu", "0"), ("node", NODE), ("uuid", uuid("0")))


def scrape(at: float, *gpus: GpuReading, on: dict[str, str] | None = None) -> Scrape[Sample]:
    """`at` in seconds since START."""
    told = gathered(START + at, *gpus, node=NODE, on=on)
    samples = [Sample(s.metric, dict(s.labels), v) for gpu in told.gpus for s, v in gpu.values.items()]
    return Scrape(told.at, [Sample("inferwatch_gpu_available", {"node": NODE}, 1.0), *samples])


def gpu(joules: float, power: float = 300.0, **more: object) -> GpuReading:
    return reading("0", {key(ENERGY[0]): joules, key("gpu_power_watts"): power}, **more)


def within(copies: Copies, after: float, until: float) -> Copies:
    return {copy: [s for s in scrapes if after < s.at <= until] for copy, scrapes in copies.items()}


def reread(copies: Copies, since: int, until: int) -> Found:
    begun = GpuReread(NODE, within(copies, since - 600, until + 300), since, until)
    return begun.found(within(copies, since - 3600, since - 600) if begun.wants_memory else {})


def test_a_minute_of_a_gpu_is_what_its_readings_add_up_to() -> None:
    copies = {ONLY: [scrape(at, gpu(1e9 + 300 * at, power=300 + at)) for at in (20, 50, 80, 110, 140)]}
    first, second, third = (w.rows[OF] for w in reread(copies, START, START + 180).windows)
    assert [row.counters.get(ENERGY) for row in (first, second, third)] == [9000, 18_000, 9000]
    assert (second.samples, second.covered_seconds, second.increase_seconds) == (2, 60, 60)
    assert second.gauges["gpu_power_watts", ""].average == 395
    assert second.info == H100


def test_a_gpu_that_is_lost_for_an_hour_and_back_is_told_of() -> None:
    copies = {ONLY: [scrape(30, gpu(5.0)), scrape(1830, lost("0")), scrape(3001, gpu(7.0, info={"driver": "571"}))]}
    found = reread(copies, START, START + 3060)
    assert [(e.at - START, e.kind, e.before, e.after) for e in found.events] == [
        (1830, "state", "up", "down"),
        (3001, "state", "down", "up"),
        (3001, "driver", "570.124.06", "571"),
    ]
    assert [w.rows[OF].samples for w in found.windows] == [1] + 29 * [0] + [1] + 19 * [0] + [1]


def test_two_copies_with_different_clocks_count_no_joule_twice() -> None:
    a: Copy = (("replica", "a"),)
    b: Copy = (("replica", "b"),)
    ahead = [scrape(at, gpu(1e9 + 300 * (at - 40))) for at in range(10, 301, 20)]
    copies = {a: [scrape(at, gpu(1e9 + 300 * at)) for at in range(10, 121, 15)], b: ahead}
    rows = [w.rows[OF].counters[ENERGY] for w in reread(copies, START, START + 300).windows]
    assert rows == [300 * 45, 300 * 60, 300 * 15, 300 * 60, 300 * 60]


GAPS = st.sampled_from([15] * 8 + [30, 60, 119, 285, 301, 700])
LIVES = st.lists(st.tuples(GAPS, st.sampled_from(["", "", "", "reset", "lost", "gone"])), min_size=1, max_size=30)


def life(told: Iterable[tuple[int, str]]) -> list[Scrape[Sample]]:
    at, joules, scrapes = 0.0, 1e6, []
    for gap, event in told:
        at, joules = at + gap, joules + gap
        joules = 5.0 if event == "reset" else joules
        now = {"lost": [lost("0")], "gone": []}.get(event, [gpu(joules)])
        scrapes.append(scrape(at + 7.5, *now))
    return scrapes


@settings(max_examples=50, deadline=None)
@given(LIVES, st.sets(st.integers(0, 60), max_size=8))
def test_windows_are_the_same_however_the_time_is_cut(told: list[tuple[int, str]], cuts: set[int]) -> None:
    copies = {ONLY: life(told)}
    edges = [START, *(START + 60 * cut for cut in sorted(cuts)), START + 7200]
    at_once, parts = reread(copies, START, START + 7200), Found()
    for a, b in pairwise(edges):
        parts.add(reread(copies, a, b))
    assert parts.windows == at_once.windows
    assert parts.events == at_once.events


@settings(max_examples=50, deadline=None)
@given(LIVES)
def test_counters_are_those_of_following_it_all_along(told: list[tuple[int, str]]) -> None:
    scrapes, state, added = life(told), State(), {}
    for each in scrapes:
        for seen in readings.gathered(NODE, each).gpus:
            step = gpu_minutes.advance(state, seen, 30.0)
            if step.finished is not None:
                added[step.finished.start] = step.finished.rows[OF].counters
    if state.window is not None:
        added[state.window.start] = state.window.rows[OF].counters
    windows = reread({ONLY: scrapes}, START, START + 7200).windows
    assert {w.start: w.rows[OF].counters for w in windows if w.rows[OF].samples} == added
