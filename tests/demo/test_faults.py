from __future__ import annotations

import re

import pytest

from demo.effects import EFFECTS
from demo.faults import KINDS, FaultError, Order, Place, read
from demo.schedule import Schedule

PLACES: dict[Place, list[str]] = {
    "server": ["one", "two"], "service": ["chat", "code"], "replicas": ["chat"], "gpu": ["rack-1/0"],
}  # fmt: skip


def order(after: float = 0, seconds: float = 60, kind: str = "hang", target: str = "one") -> Order:
    return Order(kind, target, seconds, after)


def passed(schedule: Schedule, until: float) -> list[tuple[float, str, int]]:
    found: list[tuple[float, str, int]] = []
    while (edge := schedule.next(until)) is not None:
        schedule.passed(edge)
        found.append((edge.at, edge.what, edge.fault.number))
    return found


def test_every_kind_has_an_effect() -> None:
    assert EFFECTS.keys() == KINDS.keys()


def test_an_order_has_the_defaults_of_its_kind() -> None:
    assert read({"kind": "overload", "target": "two"}, PLACES) == Order("overload", "two", 900, 0, {"load": 1.5})


def test_an_order_may_say_everything() -> None:
    given = {"kind": "xid", "target": "rack-1/0", "seconds": 5, "after": 90.5, "code": 31}
    assert read(given, PLACES) == Order("xid", "rack-1/0", 5, 90.5, {"code": 31})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "order: []: allowed: an object with `kind` and `target`"),
        ({"kind": "hnag", "target": "one"}, "kind: 'hnag': allowed: restart, hang, "),
        ({"kind": "hnag", "target": "one"}, "did you mean hang?"),
        ({"kind": "hang"}, "target: None: allowed: one, two"),
        ({"kind": "outage", "target": "one"}, "target: 'one': allowed: chat, code"),
        ({"kind": "imbalance", "target": "code"}, "target: 'code': allowed: chat"),
        ({"kind": "xid", "target": "rack-1/0", "code": 79.5}, "code: 79.5: allowed: a whole number from 1 to 999"),
        ({"kind": "hang", "target": ["one"]}, "target: ['one']: allowed: one, two"),
        ({"kind": "hang", "target": "one", "seconds": 0}, "seconds: 0: allowed: a number from 1 to 86400"),
        ({"kind": "hang", "target": "one", "seconds": True}, "seconds: True: allowed: a number"),
        ({"kind": "hang", "target": "one", "seconds": 10**400}, "seconds: 1000"),
        ({"kind": "hang", "target": "one", "after": float("nan")}, "after: nan: allowed: a number"),
        ({"kind": "hang", "target": "one", "factor": 2}, "part: 'factor': allowed: kind, target, seconds, after"),
        ({"kind": "hang", "target": "one", 2**20_000: 2}, "part: a number of 20001 bits: allowed: kind, "),
        ({"kind": "hang", "target": "one", "seconds": 2**20_000}, "seconds: a number of 20001 bits: allowed: a number"),
        ({"kind": "hang", "target": [2**20_000]}, "target: [a number of 20001 bits]: allowed: one, two"),
        ({"kind": "errors", "target": "one", "share": 1.5}, "share: 1.5: allowed: a number from 0.01 to 1"),
        ({"kind": "errors", "target": "one", "share": "much"}, "share: 'much': allowed: a number from 0.01 to 1"),
    ],
)
def test_a_wrong_order_is_told_by_its_part_and_what_is_allowed(given: object, told: str) -> None:
    with pytest.raises(FaultError, match=re.escape(told)):
        read(given, PLACES)


def test_what_stands_in_an_order_is_told_on_a_line_however_long_it_is() -> None:
    many: object = "x" * 100_000
    for _ in range(9):  # as YAML's aliases can: a text of it would have a thousand million parts
        many = [many] * 10
    for found in ("x" * 100_000, many, {"x" * 100_000: 1}):
        with pytest.raises(FaultError) as error:
            read({"kind": "hang", "target": found}, PLACES)
        assert len(str(error.value)) < 5000
        with pytest.raises(FaultError) as error:
            read([found], PLACES)
        assert len(str(error.value)) < 5000


def test_faults_begin_and_end_by_themselves_in_order_of_time() -> None:
    schedule = Schedule()
    schedule.add([order(after=100), order(after=50, seconds=30, target="two")], now=1000)
    assert passed(schedule, 1060) == [(1050, "begins", 2)]
    assert [schedule.state(fault) for fault in schedule] == ["planned", "active"]
    assert passed(schedule, 2000) == [(1080, "ends", 2), (1100, "begins", 1), (1160, "ends", 1)]
    assert {schedule.state(fault) for fault in schedule} == {"over"}


def test_a_fault_may_be_ended_before_its_time() -> None:
    schedule = Schedule()
    schedule.add([order()], now=0)
    passed(schedule, 10)
    schedule.end(1, now=20)
    assert passed(schedule, 20) == [(20, "ends", 1)]


def test_a_fault_that_is_ended_before_it_began_never_begins() -> None:
    schedule = Schedule()
    schedule.add([order(after=100)], now=0)
    schedule.end(1, now=20)
    assert passed(schedule, 1000) == []


def test_only_what_lasts_can_be_ended() -> None:
    schedule = Schedule()
    with pytest.raises(FaultError, match="number: 1: allowed: none: there is no fault"):
        schedule.end(1, now=0)
    schedule.add([order(), order(after=100)], now=0)
    passed(schedule, 60)
    with pytest.raises(FaultError, match="number: 1: allowed: 2"):
        schedule.end(1, now=60)


def test_the_same_fault_is_not_ordered_twice_at_a_time_and_none_of_such_orders_counts() -> None:
    schedule = Schedule()
    schedule.add([order()], now=0)
    with pytest.raises(FaultError, match="target: 'one': allowed: no second hang while number 1 lasts"):
        schedule.add([order(target="two"), order(after=59)], now=0)
    assert len(list(schedule)) == 1
    schedule.add([order(after=60), order(kind="empty")], now=0)
    with pytest.raises(FaultError, match="no second empty while number 3 lasts"):
        schedule.add([order(kind="empty")], now=0)


def test_only_the_last_of_many_faults_are_remembered() -> None:
    schedule = Schedule()
    for n in range(300):
        schedule.add([order(seconds=1)], now=10.0 * n)
        passed(schedule, 10.0 * n + 5)
    assert [fault.number for fault in schedule][:1] == [100]
