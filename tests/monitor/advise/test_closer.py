"""Which steps of a long window are looked at in shorter ones, and what is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from sqlalchemy import Engine

from monitor.advise.closer import telling
from monitor.advise.findings import advise
from monitor.advise.model import Asked, Finding
from monitor.advise.reading import read
from monitor.advise.world import (
    GPU_BUSY,
    GPU_BUSY_HIGHEST,
    GPU_MEMORY,
    GPU_USED,
    KV_HIGHEST,
    PREEMPTED,
    QUEUED_HIGHEST,
    REJECTED,
    RUNNING,
    RUNNING_HIGHEST,
    WAITING,
    Gpu,
    Server,
    World,
)
from monitor.history.answer import Point
from monitor.history.ask import History
from tests.monitor.advise.hand import GIB
from tests.monitor.advise.minutes import engine, minute, process, store
from tests.monitor.evaluate.minutes import START, roll_up_all

HOUR, MANY = 3600, 48
WELL: Mapping[Asked, float] = {
    RUNNING: 20.0, RUNNING_HIGHEST: 30.0, WAITING: 0.1, QUEUED_HIGHEST: 3.0, KV_HIGHEST: 0.5, PREEMPTED: 0.0,
    REJECTED: 0.0,
}  # fmt: skip
NEWEST = [START + 46 * HOUR, START + 47 * HOUR]


def points(value: float, at: Mapping[int, float] | None = None) -> dict[int, Point]:
    each = {n: (at or {}).get(n, value) for n in range(MANY)}
    return {START + n * HOUR: Point(START + n * HOUR, HOUR, v, None, None, HOUR, 1) for n, v in each.items()}


def server(changed: Mapping[Asked, Mapping[int, float]], name: str = "s1", model: str = "m") -> Server:
    """Two days in steps of an hour, all alike but for what is changed in some of them, by their number."""
    told = {asked: points(value, changed.get(asked)) for asked, value in WELL.items()}
    return Server(told, node="n1", name=name, framework="vllm", model=model)


def chosen(*servers: Server, gpus: Sequence[Gpu] = ()) -> list[int]:
    """Numbers of hours, without the newest two."""
    found = telling(World(START, START + MANY * HOUR, HOUR, servers, gpus), HOUR)
    assert found[-2:] == NEWEST
    return [(start - START) // HOUR for start in found[:-2]]


def test_of_a_fleet_that_is_well_the_newest_two_hours_alone_are_looked_at() -> None:
    assert chosen(server({}), server({}, "s2", "other")) == []


@pytest.mark.parametrize(
    ("hidden", "not_hidden"),
    [
        ({PREEMPTED: 4.0}, {PREEMPTED: 3.0}),  # 10 in 15 min are 3.3 in five
        ({REJECTED: 5.0}, {REJECTED: 4.0}),  # one a minute
        ({WAITING: 0.34, QUEUED_HIGHEST: 9.0}, {WAITING: 0.33, QUEUED_HIGHEST: 9.0}),  # 4 in one twelfth of the hour
        ({WAITING: 0.34, QUEUED_HIGHEST: 4.1}, {WAITING: 0.34, QUEUED_HIGHEST: 4.0}),  # at no moment more than 4
        ({WAITING: 0.1, KV_HIGHEST: 0.96}, {WAITING: 0.1, KV_HIGHEST: 0.95}),  # one waits for a twelfth of the hour
    ],
)
def test_an_hour_is_looked_at_where_maxima_and_sums_allow_that_five_minutes_of_it_hide_a_cause(
    hidden: Mapping[Asked, float], not_hidden: Mapping[Asked, float]
) -> None:
    hours = {asked: {7: value, 9: not_hidden[asked]} for asked, value in hidden.items()}
    assert chosen(server(hours)) == [7]


def test_replicas_are_looked_at_where_one_had_three_times_what_another_has_on_average() -> None:
    """The other has 20.1: of 60.4 at most a part of the hour may have had as many."""
    unequal = server({RUNNING_HIGHEST: {5: 57.4, 6: 57.2}})
    assert chosen(unequal, server({}, "s2")) == [5]
    assert chosen(unequal, server({}, "s2", "other")) == []


def gpu(busy: float, most: float) -> Gpu:
    told = {GPU_BUSY: points(0.0, {3: busy}), GPU_BUSY_HIGHEST: points(0.0, {3: most})}
    return Gpu({**told, GPU_USED: points(70 * GIB), GPU_MEMORY: points(80 * GIB)}, node="n1", number="0")


def test_gpus_that_look_idle_are_looked_at_where_they_may_have_worked_for_minutes() -> None:
    """A tenth of five minutes is 30 s of an hour."""
    assert chosen(server({}), gpus=[gpu(31 / HOUR, 0.11)]) == [3]
    assert chosen(server({}), gpus=[gpu(29 / HOUR, 0.11)]) == chosen(server({}), gpus=[gpu(31 / HOUR, 0.1)]) == []


def test_the_most_telling_hour_of_each_server_comes_before_the_second_of_another() -> None:
    """Twelve at most."""
    often = server({PREEMPTED: {n: 100.0 + n for n in range(20)}})
    rarely = server({REJECTED: {30: 60.0}}, "s2", "other")
    assert chosen(often) == list(range(8, 20))
    assert chosen(often, rarely) == [*range(9, 20), 30]


STORM = {"llm_preemptions_total": 9.0, "llm_kv_cache_utilization_ratio": 1.0}
"""Of 60 requests that finish in a minute."""


def sixteen_hours(database: Engine, changed: Mapping[str, float], minutes: Sequence[int]) -> None:
    """For twenty minutes from each of `minutes` on it is not well."""
    at = 0
    for begin in [*minutes, 16 * 60]:
        store(database, begin - at, {process()[0]: process()[1], engine(): minute()}, at)
        if begin < 16 * 60:
            store(database, 20, {process()[0]: process()[1], engine(): minute(changed)}, begin)
        at = begin + 20
    roll_up_all(database)


def told(database: Engine, since: int = START) -> tuple[Sequence[Finding], Server]:
    world = read(History(database), since, START + 16 * HOUR)
    return advise(world).findings, world.servers[0]


def test_twenty_minutes_of_preemptions_are_found_in_a_long_window(database: Engine) -> None:
    """In the hour they are 180 of 3600 requests: 5 %, and in their own minutes 15 %. An hour later they are but 60."""
    sixteen_hours(database, STORM, [10 * 60 + 20])
    ((finding,), _) = told(database)
    preempted, per, *_ = finding.evidence
    assert (finding.name, finding.seconds, preempted.value) == ("kv_cache_short", 20 * 60, 180.0)
    assert per.value == pytest.approx(0.15)
    assert (preempted.since - START, preempted.until - START) == (10 * HOUR + 1200, 10 * HOUR + 2400)
    assert (preempted.step, finding.why) == (300, "preemptions are counted, and the cache was full")


def test_what_holds_for_longer_is_told_by_hours_and_says_so(database: Engine) -> None:
    """Fourteen of them also in steps of five minutes."""
    store(database, 16 * 60, {process()[0]: process()[1], engine(): minute(STORM)})
    roll_up_all(database)
    (finding,), server = told(database)
    assert (finding.seconds, finding.evidence[0].value) == (16 * HOUR, 9.0 * 16 * 60)
    assert finding.evidence[0].steps == (300, HOUR)
    assert finding.why == "preemptions are counted, and the cache was full; by steps of 5 min to 1 h"
    assert (len(server.steps_of(300)), len(server.steps_of(HOUR))) == (14 * 12, 2)


def test_hours_whose_minutes_are_kept_no_more_stay_hours(database: Engine) -> None:
    sixteen_hours(database, STORM, [10 * 60 + 20])
    with database.begin() as connection:
        connection.exec_driver_sql(f"DELETE FROM engine_minute WHERE start < {START + 14 * HOUR}")
        connection.exec_driver_sql(f"DELETE FROM target_minute WHERE start < {START + 14 * HOUR}")
    found, server = told(database)
    assert found == ()
    assert (len(server.steps_of(300)), len(server.steps_of(HOUR))) == (2 * 12, 14)
    assert server.total(PREEMPTED) == 180


def test_of_a_year_days_are_looked_at_by_the_hour_and_hours_by_minutes(database: Engine) -> None:
    """Months ago it was seen first."""
    sixteen_hours(database, STORM, [10 * 60 + 20])
    store(database, 1, {process()[0]: process()[1], engine(): minute()}, -60 * 24 * 60)
    roll_up_all(database)
    ((finding,), _) = told(database, START - 60 * 24 * HOUR)
    assert (finding.name, finding.seconds) == ("kv_cache_short", 20 * 60)


def test_servers_of_several_engines_have_at_most_what_all_of_them_have(database: Engine) -> None:
    """The history has the most of one engine."""
    store(database, 60, {process()[0]: process()[1], engine(number=0): minute(), engine(number=1): minute()})
    (server,) = read(History(database), START, START + HOUR).servers
    assert server.highest(RUNNING_HIGHEST) == server.mean(RUNNING) == pytest.approx(40.0)
    assert [steps.highest(RUNNING_HIGHEST) for steps in server.engines.values()] == [20.0, 20.0]
