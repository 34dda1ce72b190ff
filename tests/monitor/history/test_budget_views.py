"""What the views say of days that were judged, by arithmetic of hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, insert

from alerts.budget import Counts
from monitor.history import tables
from monitor.history.database import for_writing
from tests.monitor.history.fleet import DAY, START

MODEL = '{"model": "m", "role": "unified"}'


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


def objective(database: Engine, of: int = 1, **more: Any) -> None:
    values = {
        "name": "available", "identity": str(of), "definition": f'{{"of": {of}}}', "indicator": "availability",
        "objective": 0.99, "window_days": 7, "unknown": "exclude", "counts_outage": True,
        "maintenance": "[]", "until": 0,
    }  # fmt: skip
    with for_writing(database).begin() as connection:
        connection.execute(insert(tables.objectives).values(id=of, **values | more))


def day(database: Engine, number: int, of: int = 1, **counts: float) -> None:
    told = Counts(**{"minutes": 1440.0} | counts)
    row = {name: getattr(told, name) for name in tables.COUNTED}
    with for_writing(database).begin() as connection:
        connection.execute(
            insert(tables.budgets).values(
                objective_id=of, identity=MODEL, labels=MODEL, subject="m", start=START + number * DAY, **row
            )
        )


def rows(database: Engine, view: str, of: int = 1) -> list[dict[str, Any]]:
    with database.connect() as connection:
        found = connection.exec_driver_sql(f"SELECT * FROM {view} WHERE objective_id = {of} ORDER BY start")
        return [dict(row) for row in found.mappings()]


def test_a_window_adds_up_requests_and_no_ratios(database: Engine) -> None:
    objective(database)
    for number in range(6):
        day(database, number, good=100, bad=0, certainly_bad=0)
    day(database, 6, good=9_400, bad=100, certainly_bad=100)
    days, windows = rows(database, "budget_day_view"), rows(database, "budget_window_view")
    assert [row["bad_ratio"] for row in days] == [*[0.0] * 6, pytest.approx(100 / 9_500)]
    # 100 of 10,100 requests of seven days; the mean of seven ratios would be 0.15 %.
    last = windows[-1]
    assert (last["good"], last["bad"], last["judged"], last["failed"]) == (10_000, 100, 10_100, 100)
    assert last["bad_ratio"] == pytest.approx(100 / 10_100)
    assert last["budget_left"] == pytest.approx(1 - (100 / 10_100) / 0.01)


def test_a_window_ends_with_its_day_and_is_as_long_as_the_objective_says(database: Engine) -> None:
    objective(database)
    for number in (0, 1, 7, 8):
        day(database, number, good=99, bad=1, certainly_bad=1)
    day(database, 9, good=10, bad=0)
    windows = rows(database, "budget_window_view")
    assert [(row["good"], row["bad"]) for row in windows] == [(99, 1), (198, 2), (198, 2), (198, 2), (208, 2)]


def test_minutes_of_an_outage_weigh_as_much_as_average_ones_of_the_window(database: Engine) -> None:
    objective(database)
    day(database, 0, good=900, bad=100, certainly_bad=100, minutes_outage=144)
    # A tenth of the day, and a tenth of the requests of the rest.
    assert rows(database, "budget_day_view")[0]["bad_ratio"] == pytest.approx(0.1 + 0.9 * 0.1)
    # Of a week 144 minutes are 1 in 70. Six days are not known.
    window = rows(database, "budget_window_view")[0]
    assert (window["minutes"], window["minutes_unknown"]) == (7 * 1440, 6 * 1440)
    assert window["bad_ratio"] == pytest.approx(1 / 70 + (69 / 70) * 0.1)


def test_an_outage_without_requests_is_bad_and_a_day_without_either_is_not_judged(database: Engine) -> None:
    objective(database)
    day(database, 0, minutes_outage=1440)
    day(database, 1)
    assert [row["bad_ratio"] for row in rows(database, "budget_day_view")] == [1.0, None]


def test_outages_count_only_where_the_objective_counts_them(database: Engine) -> None:
    objective(database, counts_outage=False)
    day(database, 0, good=98, bad=2, certainly_bad=2, minutes_outage=720)
    for view in ("budget_day_view", "budget_window_view"):
        row = rows(database, view)[0]
        assert (row["minutes_outage"], row["bad_ratio"]) == (720, pytest.approx(0.02))


def test_unknown_requests_are_on_neither_side_or_bad_as_the_objective_says(database: Engine) -> None:
    for of, unknown in ((1, "exclude"), (2, "bad")):
        objective(database, of, unknown=unknown)
        day(database, 0, of, good=90, bad=6, certainly_bad=2, unknown=4)
    exclude, bad = (rows(database, "budget_window_view", of)[0] for of in (1, 2))
    assert (exclude["judged"], exclude["failed"], exclude["certainly_failed"]) == (96, 6, 2)
    assert (bad["judged"], bad["failed"], bad["certainly_failed"]) == (100, 10, 6)
    assert (exclude["bad_ratio"], exclude["bad_ratio_certain"]) == (pytest.approx(6 / 96), pytest.approx(2 / 96))
    assert bad["budget_left"] == pytest.approx(1 - 0.10 / 0.01)
    assert bad["budget_left_certain"] == pytest.approx(1 - 0.06 / 0.01)


def test_maintenance_shortens_the_window(database: Engine) -> None:
    objective(database)
    day(database, 0, minutes=1340, minutes_excluded=100, good=1, minutes_outage=67)
    window = rows(database, "budget_window_view")[0]
    assert (window["minutes"], window["minutes_excluded"]) == (7 * 1440 - 100, 100)
    assert window["bad_ratio"] == pytest.approx(67 / (7 * 1440 - 100))


def test_another_definition_begins_anew(database: Engine) -> None:
    objective(database)
    objective(database, 2, objective=0.999)
    day(database, 0, 1, good=98, bad=2)
    day(database, 1, 2, good=98, bad=2)
    old, new = (rows(database, "budget_window_view", of) for of in (1, 2))
    assert [(row["good"], row["objective"]) for row in (*old, *new)] == [(98, 0.99), (98, 0.999)]


def test_labels_and_definition_are_json_in_both_databases(database: Engine) -> None:
    objective(database)
    day(database, 0, good=1)
    with database.connect() as connection:
        for view in ("budget_day_view", "budget_window_view"):
            found = connection.exec_driver_sql(f"SELECT labels ->> 'model', definition ->> 'of' FROM {view}").one()
            assert tuple(map(str, found)) == ("m", "1")


def test_what_vanished_one_day_and_ended_the_next_is_not_unknown_in_the_end(database: Engine) -> None:
    objective(database, unknown="bad")
    day(database, 0, good=90, unknown=10)
    day(database, 1, good=110, unknown=-10)
    assert [row["unknown"] for row in rows(database, "budget_day_view")] == [10, 0]
    assert [(row["unknown"], row["failed"]) for row in rows(database, "budget_window_view")] == [(10, 10), (0, 0)]


def test_a_month_is_one_of_the_calendar_up_to_the_last_day_that_was_judged(database: Engine) -> None:
    objective(database, until=START + 10 * DAY)  # December begins at START
    day(database, -1, good=50, minutes_outage=144)
    for number in (0, 2, 9):
        day(database, number, good=99, bad=1, certainly_bad=1)
    november, december = rows(database, "budget_month_view")
    assert (november["start"], december["start"]) == (START - 30 * DAY, START)
    assert (november["month"], december["month"]) == ("2026-11", "2026-12")
    assert (november["minutes"], november["minutes_unknown"]) == (30 * 1440, 29 * 1440)
    assert november["bad_ratio"] == pytest.approx(144 / (30 * 1440))
    assert (december["minutes"], december["minutes_unknown"]) == (10 * 1440, 7 * 1440)
    assert (december["judged"], december["failed"]) == (300, 3)
    assert december["budget_left"] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/New_York"])
def test_months_are_those_of_utc_wherever_somebody_asks_from(database: Engine, zone: str) -> None:
    leap = int(datetime(2028, 2, 29, tzinfo=UTC).timestamp())
    objective(database, until=leap + 2 * DAY)
    for number in (0, 1):
        day(database, (leap - START) // DAY + number, good=1)
    with database.connect() as connection:
        if database.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SET TIME ZONE '{zone}'")
        found = connection.exec_driver_sql("SELECT month, start, minutes FROM budget_month_view ORDER BY start").all()
    assert [tuple(row) for row in found] == [
        ("2028-02", leap - 28 * DAY, 29 * 1440),
        ("2028-03", leap + DAY, 1440),
    ]
