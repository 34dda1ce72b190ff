from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.alert_history.fingerprint import fingerprint
from monitor.alert_history.notification import InvalidNotification, parse
from tests.monitor.alert_history.told import AM, START, alert, sent


def parsed(**changed: Any) -> Any:
    (only,) = parse(json.dumps(sent(alert() | changed)).encode()).alerts
    return only


def test_what_alertmanager_tells_of_an_alert_is_read() -> None:
    (firing, resolved) = parse(json.dumps(sent(alert(), alert(START, START + 60))).encode()).alerts
    assert (firing.name, firing.labels, firing.starts_at, firing.is_resolved) == ("Slow", AM, START, False)
    assert (resolved.is_resolved, resolved.ends_at) == (True, START + 60)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-30T13:03:20Z", 1796043800),
        ("2026-11-30T13:03:20.123999999Z", 1796043800.123),
        ("2026-11-30T14:03:20.5+01:00", 1796043800.5),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_moments_are_cut_to_milliseconds_as_prometheus_cuts_them(text: str, seconds: float) -> None:
    assert parsed(startsAt=text).starts_at == seconds


def test_a_fingerprint_that_is_not_told_is_worked_out() -> None:
    assert parsed().fingerprint == fingerprint(AM)
    assert parsed(fingerprint="0123456789abcdef").fingerprint == "0123456789abcdef"


def test_what_a_later_alertmanager_adds_is_left_alone() -> None:
    body = sent(alert() | {"new": 1}, groupKey="{}", newer={"x": 1})
    assert len(parse(json.dumps(body).encode()).alerts) == 1


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "the body, line 1, column 1: allowed: JSON in UTF-8"),
        (b'{"version":\n "4"', "the body, line 2, column 5: allowed: JSON in UTF-8"),
        (b'{"a": "\xff"}', "the body, byte 7: allowed: JSON in UTF-8"),
        (b"[" * 100_000, "the body, which is nested too deeply: allowed: JSON in UTF-8"),
        (b"[" + b"1" * 5000, "the body, which has a number of too many digits: allowed: JSON in UTF-8"),
        (b"[]", "the body: allowed: an object"),
        (b'{"alerts": [{"labels": {"a": "1", "a": "2"}}]}', "the body: 'a': stands twice; allowed: each name once"),
        (b"{}", "version: missing: a value is required; receiver: missing"),
    ],
)
def test_a_body_that_is_something_else_is_refused(body: bytes, told: str) -> None:
    with pytest.raises(InvalidNotification) as error:
        parse(body)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"startsAt": "yesterday"}, "alerts[0].startsAt: 'yesterday': allowed: an RFC 3339 time such as"),
        ({"startsAt": 5}, "alerts[0].startsAt: 5: allowed: an RFC 3339 time"),
        ({"startsAt": "2026-13-30T13:03:20Z"}, "alerts[0].startsAt: '2026-13-30T13:03:20Z': allowed: an RFC 3339"),
        (
            {"startsAt": "0001-01-01T00:00:00Z"},
            "alerts[0].startsAt: '0001-01-01T00:00:00Z': allowed: a time after 1970",
        ),
        ({"startsAt": "9999-12-31T23:59:59-01:00"}, "alerts[0].startsAt: '9999-12-31T23:59:59-01:00': allowed: an RFC"),
        ({"endsAt": "0001-01-01T00:00:00+01:00"}, "alerts[0].endsAt: '0001-01-01T00:00:00+01:00': allowed: an RFC"),
        ({"status": "suppressed"}, "alerts[0].status: 'suppressed': allowed: 'firing' or 'resolved'"),
        ({"labels": {"server": 1}}, "alerts[0].labels.server: 1: allowed: text"),
        ({"labels": {}}, "alerts[0].labels: a mapping: allowed: at least one label"),
        (
            {"labels": {"a\n" + "b" * 1000: 1}},
            f"alerts[0].labels.a\N{REPLACEMENT CHARACTER}{'b' * 61}… (1019 characters): 1: allowed: text",
        ),
        ({"fingerprint": "x"}, "alerts[0].fingerprint: 'x': allowed: 16 hexadecimal digits, letters in lower case"),
    ],
)
def test_what_is_wrong_with_an_alert_is_told(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidNotification) as error:
        parsed(**changed)
    assert told in str(error.value)


@pytest.mark.parametrize("number", [-1, 1.5, True, "1", 10**10])
def test_so_many_alerts_are_not_left_out(number: object) -> None:
    with pytest.raises(
        InvalidNotification, match=r"truncatedAlerts: .*: allowed: a whole number from 0 to 1000000000$"
    ):
        parse(json.dumps(sent(truncatedAlerts=number)).encode())


def test_another_version_is_refused() -> None:
    with pytest.raises(InvalidNotification, match="version: '3': allowed: '4'"):
        parse(json.dumps({**sent(), "version": "3"}).encode())


def test_of_many_problems_the_first_are_told() -> None:
    with pytest.raises(InvalidNotification, match=r"; and 15 more$"):
        parse(json.dumps(sent(*[alert() | {"status": "x"}] * 25)).encode())
