"""Numbers that no server can mean: an infinite, an absurd or a negative one spoils no other minute."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, update

from alerts.budget import Counts, State
from alerts.conditions import CONDITIONS
from alerts.conditions.expression import Rise
from alerts.slo.spec import Slo
from exporters.schema import Scope
from monitor.evaluate.condition_rows import ConditionRows
from monitor.evaluate.counts import Counter
from monitor.evaluate.replay import replay
from monitor.evaluate.status import lengths, status, statuses
from monitor.fleet import Fleet
from monitor.history.minutes import Window
from monitor.history.tables import Tier, rows_table
from tests.monitor.evaluate.minutes import HOUR, START, available, engine, kv_below, latency, minute, target, up, write

ABSURD = (math.inf, -math.inf, 1e300, -1e300, 1e18)
GROUP = ("m", "unified")
SLOS = (
    available(), available(unknown="bad"), available(outage=False), latency("ttft", 1.0),
    latency("ttft", 1.0, unknown="bad"), kv_below(0.9), kv_below(0.9, "avg", "above"),
)  # fmt: skip

numbers = st.floats(0, 1e20) | st.sampled_from([0.0, 1.0, 100.0, 1e9])
counts = st.builds(
    Counts, good=numbers, bad=numbers, unknown=numbers, certainly_bad=numbers, minutes=numbers, minutes_outage=numbers,
    minutes_unknown=numbers, minutes_excluded=numbers,
)  # fmt: skip


@given(st.sampled_from(SLOS), counts, counts)
def test_whatever_the_counts_what_is_told_is_a_number_or_nothing(slo: Slo, whole: Counts, short: Counts) -> None:
    windows = {n: short if n <= HOUR else whole for n in lengths(slo)}
    found = status(slo, GROUP, windows, START)
    told = [found.left, found.left_certain, found.exhausted_in, *(r for b in found.burns for r in (b.long, b.short))]
    assert all(value is None or math.isfinite(value) for value in told)
    assert found.left is None or found.left <= 1
    assert found.state is not State.OK or found.left is not None


ENGINE = rows_table(Scope.ENGINE, Tier.MINUTE)
FLOATS = ("requests_finished_stop", "requests_finished_error", "requests_unfinished_avg", "kv_cache_utilization_avg")


def filled(database: Engine) -> None:
    for n in range(120):
        row = minute(
            finished={"stop": 98, "error": 2},
            counts={"ttft": (60, 30, 10, 0)},
            gauges={"llm_kv_cache_utilization_ratio": 0.5, "llm_requests_unfinished": 3.0},
        )
        write(database, [Window(START + 60 * n, {target("a"): up(), engine("a"): row})])


def spoil(database: Engine, value: float, at: int) -> None:
    """Every number of one minute."""
    columns = [c.name for c in ENGINE.c if c.type.python_type is float and c.name not in ("samples", "covered_seconds")]
    with database.begin() as connection:
        connection.execute(update(ENGINE).where(ENGINE.c.start == at).values(dict.fromkeys(columns, value)))


@pytest.mark.parametrize("value", ABSURD)
def test_an_absurd_minute_is_a_missing_one(database: Engine, value: float) -> None:
    filled(database)
    spoil(database, value, START + 30 * 60)
    found = {s.slo.name: s for s in statuses(Counter(database), [available(), kv_below(0.9)], START + 2 * HOUR)}
    good, bad = found["available"].counts.good, found["available"].counts.bad
    assert (good, bad) == (98 * 119, 2 * 119)
    assert (found["kv"].counts.good, found["kv"].counts.bad) == (119, 0)


@pytest.mark.parametrize("value", ABSURD)
def test_an_absurd_minute_does_not_change_what_later_ones_say(database: Engine, value: float) -> None:
    filled(database)
    spoil(database, value, START + 30 * 60)
    end = START + 2 * HOUR
    rows = ConditionRows(database, Fleet()).upto(end, 2 * HOUR, end).rows
    rise = Rise("llm_requests_finished_total", 600)
    by_reason = {dict(of)["reason"]: value for of, value in rise.at(rows, end).items()}
    assert (by_reason["stop"], by_reason["error"]) == (980, 20)
    for condition in CONDITIONS.values():
        for at in range(START + 60, end + 1, 600):
            assert all(map(math.isfinite, condition.expression.at(rows, at).values())), condition.name


def test_a_replay_over_an_absurd_minute_is_as_without_it(database: Engine) -> None:
    filled(database)
    slo = available(objective="99.9%")
    before = replay(Counter(database), slo, START + HOUR, START + 2 * HOUR).fired
    spoil(database, 1e300, START + 30 * 60)
    assert replay(Counter(database), slo, START + HOUR, START + 2 * HOUR).fired == before


def test_of_fewer_unfinished_at_the_end_than_at_the_beginning_none_vanished(database: Engine) -> None:
    for n, unfinished in enumerate((9.0, 6.0, 2.0, 1.0)):
        row = minute(finished={"stop": 10}, gauges={"llm_requests_unfinished": unfinished})
        write(database, [Window(START + 60 * n, {target("a"): up(), engine("a"): row})])
    found = Counter(database).windows(available(unknown="bad"), START + 240, [240])[GROUP][240]
    assert (found.good, found.unknown) == (40, 0)
