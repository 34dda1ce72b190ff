from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, text

from exporters.observation import labels
from monitor.alert_history.alert import Alert, Delivery, State
from monitor.alert_history.fingerprint import fingerprint
from monitor.alert_history.firings import Firing
from monitor.alert_history.store import AlertStore, Wanted
from monitor.history.database import ReadError
from monitor.history.store import WriteError
from monitor.history.upsert import Progress
from tests.monitor.alert_history.told import AM, OF, START, alert, notification

NOW = START + 3600
DONE = Progress("alerts of p", 0, 60)


def seen(starts_at: float, last_seen: float, ends_at: float | None = None, **more: str) -> Firing:
    of = labels({**OF, **more})
    return Firing(of, starts_at, starts_at, last_seen, ends_at or last_seen, ends_at)


def found(alerts: AlertStore, **wanted: Any) -> list[Alert]:
    return alerts.find(Wanted(100, NOW, **wanted))


def test_a_row_comes_back_as_it_was_told_and_seen(alerts: AlertStore) -> None:
    alerts.see([seen(START, START + 60, START + 75)], DONE)
    alerts.tell(notification(alert()), START + 1)
    alerts.tell(notification(alert(START, START + 75)), START + 90)
    told = {"oncall": Delivery(START + 1, START + 90)}
    url = "http://prometheus/graph"
    row = Alert(fingerprint(AM), START, AM, START + 75, {"summary": "slow"}, START + 60, told, url)
    assert found(alerts) == [row]
    assert alerts.progress("alerts of p") == DONE


def test_columns_say_the_same_as_the_row_for_who_asks_in_sql(alerts: AlertStore, database: Engine) -> None:
    alerts.tell(notification(alert()), START + 1)
    alerts.tell(notification(alert(START, START + 75), receiver="chat"), START + 90)
    with database.connect() as connection:
        row = connection.execute(text("SELECT name, delivered_at, resolved_at FROM alerts")).one()
    assert tuple(row) == ("Slow", START + 1, START + 90)


def test_those_that_fired_when_prometheus_was_read_last_are_told(alerts: AlertStore) -> None:
    alerts.see([seen(START, START + 60), seen(START, START + 60, START + 75, server="b")], DONE)
    alerts.tell(notification(alert(labels={"alertname": "Other"})), START + 1)
    assert [row.labels for row in alerts.firing()] == [OF]


def test_alerts_are_found_by_what_they_say(alerts: AlertStore) -> None:
    for name, severity, server in (("A", "page", "a"), ("A", "ticket", "b"), ("B", "page", "b")):
        of = {"alertname": name, "severity": severity, "server": server}
        alerts.tell(notification(alert(labels=of)), START)
    assert len(found(alerts, name="A")) == 2
    assert [row.name for row in found(alerts, severity="page", server="b")] == ["B"]
    assert found(alerts, name="A' OR 1=1 --") == []


def test_alerts_are_found_by_when_they_fired_the_newest_first(alerts: AlertStore) -> None:
    ended = [seen(START + 100 * n, START + 100 * n + 50, START + 100 * n + 60) for n in range(3)]
    alerts.see([*ended, seen(START + 300, NOW)], DONE)

    def starts(**wanted: float) -> list[float]:
        return [row.starts_at - START for row in found(alerts, **wanted)]

    assert starts() == [300, 200, 100, 0]
    assert starts(since=START + 110) == [300, 200, 100], "one that began before fired on"
    assert starts(since=START + 110, until=START + 200) == [100]
    assert [row.starts_at - START for row in alerts.find(Wanted(2, NOW))] == [300, 200]


CASES = {
    "fires": (seen(START, NOW - 60), None),
    "ended": (seen(START, START + 60, START + 75), None),
    "was lost sight of": (seen(START, NOW - 601), None),
    "ended, as Alertmanager told": (seen(START, NOW - 60), alert(START, NOW - 45)),
    "began lately": (seen(NOW - 599, NOW - 60), None),
    "is told": (seen(START, NOW - 60), alert()),
}


@pytest.mark.parametrize(
    ("state", "names"),
    [
        (State.FIRING, ["began lately", "fires", "is told"]),
        (State.RESOLVED, ["ended", "ended, as Alertmanager told"]),
        (State.UNKNOWN, ["was lost sight of"]),
    ],
)
def test_alerts_are_found_by_their_state(alerts: AlertStore, state: State, names: list[str]) -> None:
    write_cases(alerts)
    rows = found(alerts, state=state)
    assert sorted(row.labels["server"] for row in rows) == names
    assert {row.state(NOW) for row in rows} == {state}


@pytest.mark.parametrize(
    ("delivered", "names"),
    [
        (True, ["ended, as Alertmanager told", "is told"]),
        (False, ["fires", "was lost sight of"]),
    ],
)
def test_alerts_are_found_by_whether_they_were_delivered(alerts: AlertStore, delivered: bool, names: list[str]) -> None:
    """Of one that began lately, or was over soon, nobody can say yet."""
    write_cases(alerts)
    rows = found(alerts, delivered=delivered)
    assert sorted(row.labels["server"] for row in rows) == names
    assert {row.was_delivered(NOW) for row in rows} == {delivered}


def write_cases(alerts: AlertStore) -> None:
    for name, (firing, told) in CASES.items():
        of = dict(firing.labels) | {"server": name}
        alerts.see([replace(firing, labels=labels(of))], DONE)
        if told is not None:
            alerts.tell(notification(told | {"labels": of}), NOW - 30)


def test_whether_alertmanager_ever_told_of_anything_is_known(alerts: AlertStore) -> None:
    alerts.see([seen(START, START + 60)], DONE)
    assert not alerts.was_told()
    alerts.tell(notification(alert()), START + 1)
    assert alerts.was_told()


def test_many_who_tell_of_one_firing_at_once_make_one_row(database: Engine) -> None:
    def tell(number: int) -> None:
        own = AlertStore(database)
        if number % 2:
            own.see([seen(START, START + number)], DONE)
        else:
            own.tell(notification(alert()), START + number)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tell, range(40))) == [None] * 40
    (row,) = found(AlertStore(database))
    assert (row.last_seen, row.fingerprint) == (START + 39, fingerprint(AM))


def test_text_that_a_database_cannot_hold_is_replaced(alerts: AlertStore) -> None:
    odd = alert(labels={**OF, "note": "a\0b\ud800"}, annotations={"summary": "\0"})
    for _ in range(2):
        alerts.tell(notification(odd), START)
    (row,) = found(alerts, severity="page")
    assert row.labels["note"] == "a�b?"


def test_without_its_table_the_history_can_neither_be_read_nor_written(alerts: AlertStore, database: Engine) -> None:
    with database.begin() as connection:
        connection.execute(text("DROP TABLE alerts"))
    with pytest.raises(WriteError, match="could not write the alert history at"):
        alerts.tell(notification(alert()), START)
    with pytest.raises(ReadError, match="could not read the alert history at"):
        alerts.firing()
