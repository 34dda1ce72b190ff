from collections.abc import Mapping
from typing import Any

import pytest

from alerts.budget import Counts, State
from alerts.slo.spec import Slo
from monitor.evaluate.status import Status, lengths, status
from tests.monitor.evaluate.minutes import DAY, HOUR, available, kv_below, latency

GROUP = ("m", "unified")


def of(slo: Slo, by_length: Mapping[int, Counts], default: Counts) -> Status:
    return status(slo, GROUP, {n: by_length.get(n, default) for n in lengths(slo)}, 1000)


def counts(bad: float, good: float = 0.0, **more: Any) -> Counts:
    return Counts(good=good or 1000 - bad, bad=bad, certainly_bad=bad, minutes=60, **more)


def test_a_budget_is_what_is_left_of_what_may_be_bad() -> None:
    found = of(available(objective="99%"), {}, counts(4))
    assert found.state is State.OK
    assert found.left == pytest.approx(0.6)  # 4 of 1000 of the 10 that may be
    assert found.burns[-1].long == pytest.approx(0.4)
    assert found.exhausted_in is None  # 0.6 of a budget lasts 45 days at 0.4
    assert found.labels == {"model": "m", "role": "unified"}


def test_it_lasts_as_long_as_the_fastest_rate_that_goes_on_lets_it() -> None:
    # 2 of 1000 over the month; 50 of 1000 over the last hour and the last five minutes: a rate of 5.
    found = of(available(objective="99%"), {300: counts(50), HOUR: counts(50)}, counts(2))
    assert found.exhausted_in == pytest.approx(0.8 * 30 * DAY / 5)


def test_both_windows_have_to_burn() -> None:
    slo, fast, slow = available(objective="99%"), counts(200), counts(1)
    assert of(slo, {300: fast, HOUR: fast}, slow).state is State.BURNING
    assert of(slo, {HOUR: fast}, slow).state is State.OK
    assert of(slo, {300: fast}, slow).state is State.OK
    assert of(slo, {300: counts(144), HOUR: counts(144)}, slow).state is State.OK
    assert of(slo, {300: counts(144.1), HOUR: counts(144.1)}, slow).state is State.BURNING


def test_few_requests_say_nothing_but_an_outage_does() -> None:
    slo, bad = available(objective="99%", minimum_requests=100), Counts(good=1, bad=1, certainly_bad=1, minutes=60)
    assert of(slo, {300: bad, HOUR: bad}, counts(1)).state is State.OK
    out = Counts(minutes=60, minutes_outage=60)
    assert of(slo, {300: out, HOUR: out}, counts(1)).firing("page") is not None


@pytest.mark.parametrize(
    "slo",
    [available(objective="99%"), available(objective="99%", outage=False), latency("ttft", 1, objective="99%")],
    ids=["availability", "requests alone", "latency"],
)
def test_a_bad_hour_is_not_over_by_nobodys_being_up(slo: Slo) -> None:
    idle = Counts(minutes=5)
    hour = {HOUR: counts(200), 300: idle, 60: Counts(minutes=1, minutes_outage=1)}
    assert of(slo, hour, counts(1)).firing("page") is not None
    assert of(slo, {HOUR: counts(200), 300: idle}, counts(1)).firing("page") is None


def test_pages_of_latencies_rest_on_what_is_certainly_bad_and_tickets_on_the_estimate() -> None:
    blurred = Counts(good=700, bad=300, certainly_bad=0, minutes=60)
    found = of(latency("ttft", 0.5, objective="99%"), {}, blurred)
    assert found.firing("page") is None
    assert found.firing("ticket") is not None
    assert found.left == pytest.approx(-29)
    assert found.left_certain == 1
    assert found.state is State.EXHAUSTED


def test_an_outage_counts_only_where_the_objective_says_so() -> None:
    out = Counts(good=900, bad=0, minutes=60, minutes_outage=6)
    assert of(available(objective="99%"), {}, out).left == pytest.approx(-9)
    assert of(available(objective="99%", outage=False), {}, out).left == 1
    assert of(latency("ttft", 1, objective="99%"), {}, out).left == 1


def test_unknown_requests_are_bad_only_where_the_objective_says_so() -> None:
    vague = Counts(good=990, bad=0, unknown=10, minutes=60)
    assert of(available(objective="99%"), {}, vague).left == 1
    assert of(available(objective="99%", unknown="bad"), {}, vague).left == pytest.approx(0)


def test_nothing_seen_is_unknown_and_no_request_is_idle() -> None:
    assert of(available(), {}, Counts(minutes=60, minutes_unknown=60)).state is State.UNKNOWN
    assert of(available(), {}, Counts(minutes=60)).state is State.IDLE
    assert of(available(), {}, Counts(good=3, minutes=60)).state is State.INSUFFICIENT


def test_the_first_minutes_of_a_gauge_raise_no_alert() -> None:
    slo = kv_below(0.95, objective="99%", alerts=["ticket"])
    first = Counts(good=0, bad=3, certainly_bad=3, minutes=3)
    assert of(slo, {}, first).firing("ticket") is None
    whole = Counts(good=0, bad=60, certainly_bad=60, minutes=60)
    assert of(slo, {}, whole).firing("ticket") is not None
