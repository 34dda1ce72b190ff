from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from sqlalchemy import Engine

from monitor.advise.adviser import Adviser
from monitor.advise.model import Asked
from monitor.advise.standing import STOOD, stretches, suspicious, touched
from monitor.advise.world import (
    FINISHED,
    GENERATED,
    PROMPTED,
    QUEUED_HIGHEST,
    REJECTED,
    RUNNING_HIGHEST,
    WAITING,
    Steps,
)
from monitor.history.answer import Point
from monitor.history.ask import History
from tests.monitor.advise.minutes import engine, minute, process, store
from tests.monitor.evaluate.minutes import START

HOUR = 3600
WORKS: Mapping[Asked, Sequence[float]] = {GENERATED: [900.0] * 6, PROMPTED: [500.0] * 6, QUEUED_HIGHEST: [9.0] * 6}
STANDS: Mapping[str, float | None] = {
    "llm_generation_tokens_total": 0.0, "llm_prompt_tokens_total": 0.0, "llm_requests_finished_total/stop": 0.0,
    "llm_prefix_cache_query_tokens_total": 0.0, "llm_prefix_cache_hit_tokens_total": 0.0,
    "llm_requests_waiting": 200.0,
}  # fmt: skip


def of_minutes(changed: Mapping[Asked, Sequence[float]], seconds: int = 60) -> Steps:
    told = {**WORKS, **changed}
    return Steps(
        {
            asked: {
                seconds * n: Point(seconds * n, seconds, value, None, None, 60.0, 1) for n, value in enumerate(each)
            }
            for asked, each in told.items()
        }
    )


def still(changed: Mapping[Asked, Sequence[float]], seconds: int = 60) -> list[list[int]]:
    return list(stretches(of_minutes(changed, seconds), STOOD.value))


THREE = [900.0, 0.0, 0.0, 0.0, 900.0, 900.0]


def test_a_server_that_makes_no_token_for_a_while_though_requests_wait_stands_still() -> None:
    assert still({GENERATED: THREE, PROMPTED: THREE}) == [[60, 120, 180]]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {GENERATED: THREE},  # prompts are computed
        {GENERATED: [900.0, 0.0, 0.0, 900.0, 0.0, 0.0], PROMPTED: [0.0] * 6},  # two minutes at a time
        {GENERATED: THREE, PROMPTED: THREE, QUEUED_HIGHEST: [0.0] * 6},  # nobody wants anything
    ],
)
def test_one_that_moves_or_has_nothing_to_do_does_not(changed: Mapping[Asked, Sequence[float]]) -> None:
    assert still(changed) == []


def test_requests_that_run_are_work_as_well() -> None:
    running = {RUNNING_HIGHEST: [2.0] * 6, QUEUED_HIGHEST: [0.0] * 6}
    assert still({GENERATED: THREE, PROMPTED: THREE, **running}) == [[60, 120, 180]]


def test_what_is_refused_and_counted_as_finished_is_no_progress() -> None:
    assert still({GENERATED: THREE, PROMPTED: THREE, FINISHED: [30.0] * 6}) == [[60, 120, 180]]


def test_where_no_tokens_are_counted_requests_that_end_are_progress() -> None:
    assert still({GENERATED: [], PROMPTED: [], FINISHED: THREE}) == [[60, 120, 180]]


def test_a_minute_that_nobody_observed_is_no_standstill() -> None:
    minutes = of_minutes({GENERATED: THREE, PROMPTED: THREE})
    gap = {asked: {at: point for at, point in of.items() if at != 120} for asked, of in minutes.told.items()}
    assert list(stretches(Steps(gap), STOOD.value)) == []


def test_hours_in_place_of_minutes_that_are_kept_no_more_tell_nothing() -> None:
    assert still({GENERATED: THREE, PROMPTED: THREE}, HOUR) == []


def test_every_step_that_a_standstill_touches_is_meant() -> None:
    found = [[240, 300, 360], [1200, 1260, 1320]]
    assert touched(found, dict.fromkeys(range(0, 3600, 300), 300)) == {0, 300, 1200}
    assert touched(found, {0: 3600}) == {0}
    assert touched(found, {0: 600, 600: 300, 900: 300, 1200: 300}) == {0, 1200}


def test_minutes_are_looked_at_where_requests_wait_or_are_refused() -> None:
    assert suspicious(of_minutes({WAITING: [0.0, 1.0, 1.5], REJECTED: [1.0, 0.0, 0.0, 2.0]})) == [0, 120, 180]


def names(database: Engine, since: float, until: float) -> list[str]:
    told = Adviser(History(database), list).advise(START + since, START + until)
    return [finding.name for finding in told.advice.findings]


@pytest.mark.parametrize("before", [1, 13], ids=["at steps of five minutes", "at steps of an hour"])
def test_a_queue_before_a_server_that_stands_still_is_no_load(database: Engine, before: int) -> None:
    """40 minutes of work, 30 of a standstill, 20 of work; then the same with a queue at a server that works."""
    well, hung = ({process()[0]: process()[1], engine(): minute(of)} for of in ({}, STANDS))
    for many, rows, begin in ((40, well, 0), (30, hung, 40), (20, well, 70)):
        store(database, many, rows, begin)
    assert names(database, -before * HOUR, 90 * 60) == []
    waits = {process("s2")[0]: process("s2")[1], engine("s2", model="m2"): minute({"llm_requests_waiting": 200.0})}
    store(database, 90, waits)
    assert names(database, -before * HOUR, 90 * 60) == ["overloaded"]
