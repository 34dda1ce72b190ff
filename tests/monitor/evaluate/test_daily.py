"""What is kept of each day: expected values by arithmetic of hand, and what `status` says at the day's end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select

from alerts.slo.spec import Slo
from monitor.assembly import assemble
from monitor.config import MonitorConfig
from monitor.evaluate.counts import Counter
from monitor.evaluate.daily import BudgetError, Daily, definition
from monitor.evaluate.objectives import Objectives
from monitor.evaluate.report import Period, period, report
from monitor.history import tables
from monitor.history.database import for_writing, open_database
from monitor.history.lease import Lease
from monitor.history.minutes import Minute, Window
from monitor.history.retention import Retention, forget
from monitor.history.rollup import roll_up
from monitor.history.upkeep import UPKEEP, Upkeep
from tests.end_to_end.processes import until
from tests.monitor.evaluate.minutes import (
    DAY,
    HOUR,
    START,
    available,
    engine,
    kv_below,
    latency,
    minute,
    target,
    up,
    write,
)

LATE = START + 9 * DAY
MODEL = {"model": "m", "role": "unified"}


@pytest.fixture
def database(each_database: Engine) -> Engine:
    return each_database


class InForce(Objectives):
    def __init__(self, *slos: Slo) -> None:
        super().__init__(())
        self.slos = list(slos)


def never() -> bool:
    return False


def counted(database: Engine, *slos: Slo, daily: Daily | None = None) -> None:
    """All days that are over, as a monitor would in some turns."""
    while roll_up(database, LATE):
        pass
    daily = daily or Daily(database, InForce(*slos))
    for _ in range(3):
        daily.turn(never)


def rows(database: Engine, view: str = "budget_day_view") -> list[dict[str, Any]]:
    with database.connect() as connection:
        found = connection.exec_driver_sql(f"SELECT * FROM {view} ORDER BY slo, objective_id, subject, start")
        return [dict(row) for row in found.mappings()]


def told(database: Engine, *names: str) -> list[tuple[Any, ...]]:
    return [((row["start"] - START) // DAY, *(row[name] for name in names)) for row in rows(database)]


def due(database: Engine) -> list[int]:
    with database.connect() as connection:
        found = connection.scalars(select(tables.budgets_due.c.start))
        return sorted((start - START) // DAY for start in found)


def ends(day: int, *, stop: float = 1, error: float = 0, every: int = HOUR, server: str = "a") -> list[Window]:
    """A day with a minute of these ends in each stretch."""
    return [
        Window(
            at,
            {
                target(server): up(seen=at),
                engine(server): minute(finished={"stop": stop, "error": error}),
            },
        )
        for at in range(START + day * DAY, START + (day + 1) * DAY, every)
    ]


def test_a_row_says_what_the_day_counted(database: Engine) -> None:
    write(database, [*ends(0, stop=90, error=10), *ends(1, stop=99, error=1)])
    counted(database, available(objective="95%"))
    assert told(database, "good", "bad", "judged", "failed", "minutes", "minutes_unknown") == [
        (0, 24 * 90, 240, 2400, 240, 1440, 1440 - 24),
        (1, 24 * 99, 24, 2400, 24, 1440, 1440 - 24),
    ]
    first, second = rows(database)
    assert (first["slo"], first["subject"], first["objective"], first["window_days"]) == ("available", "m", 0.95, 30)
    assert (first["bad_ratio"], second["bad_ratio"]) == (pytest.approx(0.1), pytest.approx(0.01))
    labels = first["labels"]
    assert (json.loads(labels) if isinstance(labels, str) else labels) == MODEL
    assert rows(database, "budget_window_view")[1]["budget_left"] == pytest.approx(1 - (264 / 4800) / 0.05)


def test_a_row_says_when_nobody_was_up(database: Engine) -> None:
    down = [Window(START + 12 * HOUR + 60 * n, {target("a"): up(0)}) for n in range(30)]
    write(database, [w for w in ends(0, stop=10) if w.start != START + 12 * HOUR] + down)
    counted(database, available())
    (row,) = rows(database)
    assert (row["good"], row["minutes_outage"], row["minutes"]) == (230, 30, 1440)
    assert row["bad_ratio"] == pytest.approx(30 / 1440)


def test_days_add_up_to_what_a_report_says_of_all_of_them(database: Engine) -> None:
    write(database, a_changing_fleet())
    asked = (available(unknown="bad"), latency("ttft", 0.75, objective="90%"), kv_below(0.9, objective="95%"))
    slos = [slo.model_copy(update={"window": 7.0 * DAY}) for slo in asked]
    counted(database, *slos)
    for at in range(START + DAY, START + 4 * DAY, DAY):
        of_day = [row for row in rows(database, "budget_window_view") if row["start"] == at - DAY]
        same_as_a_report(database, slos, of_day, Period("a week", at - 7 * DAY, at, is_over=True))
    month = period("2026-12", months=1, newest=START + 3 * DAY)
    same_as_a_report(database, slos, rows(database, "budget_month_view"), month)


def same_as_a_report(database: Engine, slos: Sequence[Slo], shown: Sequence[dict[str, Any]], of: Period) -> None:
    lines = {(line.slo.name, line.group[0]): line for line in report(Counter(database), slos, of)}
    assert len(shown) >= 4
    for row in shown:
        line = lines[row["slo"], row["subject"]]
        expected = [getattr(line.counts, name) for name in tables.COUNTED]
        assert [row[name] for name in tables.COUNTED] == pytest.approx(expected)
        assert row["budget_left"] == (None if line.left is None else pytest.approx(line.left))
        certain = None if line.good_certain is None else pytest.approx(1 - line.good_certain)
        assert row["bad_ratio_certain"] == certain


def a_changing_fleet() -> Iterable[Window]:
    """One server is down from 23:00 to 1:00 and comes back with another model; the other is down now and then."""
    for n in range(3 * 96):
        at, model = START + 900 * n, "m" if n < 96 else "n"
        is_down = 92 <= n < 100
        found: dict[Any, Minute] = {target("a"): up(not is_down, seen=at), target("b"): up(n % 17 > 0, seen=at)}
        of_b = minute(
            finished={"stop": 20, "error": n % 3, "unknown": n % 2},
            counts={"ttft": (n % 5, 3, n % 7, 1)},
            gauges={"llm_kv_cache_utilization_ratio": 0.5 + n % 50 / 100, "llm_requests_unfinished": float(n % 11)},
        )
        if not is_down:
            found[engine("a", model=model)] = minute(finished={"stop": 5}, counts={"ttft": (1, 1, 1, 1)})
        if n % 17:
            found[engine("b", "sglang", model="o")] = of_b
        for row in found.values():
            row.first_seen, row.last_seen = (at, at + 60) if row.first_seen else (None, None)
        yield Window(at, found)


def test_a_minute_that_comes_late_counts_and_nothing_counts_twice(database: Engine) -> None:
    daily = Daily(database, InForce(available()))
    *early, last = ends(0, stop=3)
    write(database, early)
    counted(database, daily=daily)
    assert told(database, "good") == [(0, 69)]
    write(database, [last])
    counted(database, daily=daily)
    before = rows(database)
    assert told(database, "good") == [(0, 72)]
    write(database, [last])
    counted(database, daily=daily)
    assert rows(database) == before
    assert due(database) == []


def test_a_group_of_which_nothing_is_known_has_no_row(database: Engine) -> None:
    write(database, [*ends(0), *ends(2)])
    counted(database, available())
    assert told(database, "good") == [(0, 24), (2, 24)]


def test_a_day_stays_as_it_was_judged_when_the_objective_changes(database: Engine) -> None:
    write(database, ends(0, stop=9, error=1))
    counted(database, available(objective="95%"))
    write(database, ends(1, stop=9, error=1))
    write(database, [Window(START + 60, {target("a"): up(), engine("a"): minute(finished={"stop": 1000})})])
    counted(database, available(objective="99%"))
    assert [(day, o, good) for day, o, good in told(database, "objective", "good")] == [(0, 0.95, 216), (1, 0.99, 216)]


def test_what_no_count_depends_on_is_no_change(database: Engine) -> None:
    write(database, ends(0))
    counted(database, available())
    write(database, ends(1))
    counted(database, available(objective="99.0%", description="said otherwise", alerts=["ticket"], labels={"a": "b"}))
    assert len({row["objective_id"] for row in rows(database)}) == 1


def test_a_new_objective_is_counted_back_and_one_that_is_gone_keeps_its_days(database: Engine) -> None:
    write(database, [*ends(0), *ends(1)])
    counted(database, available())
    write(database, ends(2))
    counted(database, latency("ttft", 1, outage=True))
    assert [(row["slo"], (row["start"] - START) // DAY) for row in rows(database)] == [
        ("available", 0), ("available", 1), ("fast", 0), ("fast", 1), ("fast", 2),
    ]  # fmt: skip


def test_an_objective_that_comes_back_is_counted_for_the_time_between(database: Engine) -> None:
    other = latency("ttft", 1)
    for day, slos in enumerate(([available()], [other], [available(), other])):
        write(database, ends(day))
        counted(database, *slos)
    assert [row["good"] for row in rows(database) if row["slo"] == "available"] == [24, 24, 24]


def maintenance(first: float, last: float) -> Slo:
    between = [datetime.fromtimestamp(START + hour * HOUR, UTC).isoformat() for hour in (first, last)]
    return available(maintenance=[{"start": between[0], "end": between[1]}])


def test_maintenance_that_is_told_later_counts_for_the_days_that_it_touches(database: Engine) -> None:
    write(database, [*ends(0), *ends(1)])
    for slo, first, second in (
        (available(), (24, 0), (24, 0)),
        (maintenance(20, 27), (20, 240), (21, 180)),
        (available(), (24, 0), (24, 0)),
    ):
        counted(database, slo)
        assert told(database, "good", "minutes_excluded") == [(0, *first), (1, *second)]
    assert len({row["objective_id"] for row in rows(database)}) == 1


def test_a_day_without_its_minutes_stays_as_it_was_counted(database: Engine) -> None:
    daily = Daily(database, InForce(kv_below(0.9)))
    write(
        database,
        [
            Window(at, {target("a"): up(), engine("a"): minute(gauges={"llm_kv_cache_utilization_ratio": value})})
            for at, value in ((START, 0.95), (START + 60, 0.5), (START + 3 * DAY, 0.5))
        ],
    )
    counted(database, daily=daily)
    forget(database, Retention(minutes=DAY), START + 4 * DAY)
    write(database, [Window(START + 120, {target("a"): up(), engine("a"): minute()})])
    counted(database, daily=daily)
    assert told(database, "good", "bad", "unknown") == [(0, 1, 1, 0), (3, 1, 0, 0)]
    assert due(database) == []


def test_a_day_that_is_rolled_up_again_meanwhile_stays_due(database: Engine) -> None:
    write(database, ends(0))
    while roll_up(database, LATE):
        pass
    daily = Daily(database, InForce(available()))

    def late() -> bool:
        write(database, [Window(START + 60, {target("a"): up(), engine("a"): minute(finished={"stop": 7})})])
        while roll_up(database, LATE):
            pass
        return False

    daily.turn(late)
    assert (told(database, "good"), due(database)) == ([(0, 24)], [0])
    daily.turn(never)
    assert (told(database, "good"), due(database)) == ([(0, 31)], [])


def test_a_turn_that_is_told_to_stop_leaves_the_rest_due(database: Engine) -> None:
    write(database, [*ends(0), *ends(1)])
    while roll_up(database, LATE):
        pass
    daily = Daily(database, InForce(available()))
    daily.turn(iter_pause([False, True]))
    assert (told(database, "good"), due(database)) == ([(1, 24)], [0])
    counted(database, daily=daily)
    assert told(database, "good") == [(0, 24), (1, 24)]


def iter_pause(answers: Sequence[bool]) -> Callable[[], bool]:
    left = iter(answers)
    return lambda: next(left)


def test_the_monitor_that_keeps_the_history_up_counts_and_no_other(database: Engine) -> None:
    write(database, ends(0))
    daily = Daily(database, InForce(available()))
    upkeep = Upkeep(database, Retention(minutes=400 * DAY), daily.turn)
    other = Lease(database, UPKEEP, "somebody on another host")
    other.acquire()
    upkeep.turn(LATE)
    assert rows(database) == []
    other.release()
    upkeep.turn(LATE)
    assert told(database, "good") == [(0, 24)]
    upkeep.stop()


def test_two_that_count_the_same_days_at_once_count_them_once(postgres_database: Engine) -> None:
    """As where a monitor that lost the lease is not done yet."""
    write(postgres_database, [window for day in range(4) for window in ends(day, stop=9, error=1)])
    while roll_up(postgres_database, LATE):
        pass
    others = [open_database(postgres_database.url.render_as_string(hide_password=False)) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda other: Daily(other, InForce(available())).turn(never), others))
    for other in others:
        other.dispose()
    assert told(postgres_database, "good", "bad") == [(day, 216, 24) for day in range(4)]
    assert due(postgres_database) == []


def test_what_no_request_was_judged_of_has_no_share_and_no_budget(database: Engine) -> None:
    write(database, ends(0, stop=0))
    counted(database, available())
    assert told(database, "judged", "bad_ratio", "bad_ratio_certain") == [(0, 0, None, None)]
    for view in ("budget_window_view", "budget_month_view"):
        assert [(row["budget_left"], row["budget_left_certain"]) for row in rows(database, view)] == [(None, None)]


def test_budgets_are_kept_as_long_as_days(database: Engine) -> None:
    write(database, [*ends(0), *ends(3)])
    counted(database, available())
    forget(database, Retention(minutes=DAY, hours=DAY, days=2 * DAY), START + 4 * DAY)
    assert told(database, "good") == [(3, 24)]


def test_long_labels_and_definitions_fit_into_every_database(database: Engine) -> None:
    write(database, ends(0))
    counted(database, available(select={"server": ["a", *(f"{n:0500}" for n in range(20))]}))
    assert told(database, "good") == [(0, 24)]


def test_without_objectives_days_stay_due(database: Engine) -> None:
    write(database, ends(0))
    counted(database)
    assert due(database) == [0]


def test_a_database_that_cannot_be_read_is_told(database: Engine, tmp_path: Path) -> None:
    with for_writing(database).begin() as connection:
        connection.exec_driver_sql("DROP TABLE budgets_due")
    with pytest.raises(BudgetError, match=r"could not keep budgets in the history at .*budgets_due"):
        Daily(database, InForce(available())).turn(never)


def test_a_definition_holds_what_counts_depend_on() -> None:
    told = json.loads(definition(available(select={"team": "x"}, outage=False)).text)
    assert told == {
        "indicator": {"availability": {}}, "select": {"team": ["x"]}, "group_by": ["model"], "unknown": "exclude",
        "objective": 0.99, "window_days": 30, "outage": False,
    }  # fmt: skip


async def test_a_monitor_with_objectives_counts_what_is_due_when_it_starts(
    sqlite_database: Engine, tmp_path: Path
) -> None:
    write(sqlite_database, ends(0, stop=90, error=10))
    file = tmp_path / "slo.yml"
    file.write_text("version: 1\nslos: [{name: available, objective: 95%, indicator: {availability: {}}}]\n")
    config = MonitorConfig(slos=(file,))
    monitor = assemble(config, database_url=str(sqlite_database.url), clock=lambda: float(LATE))
    running = asyncio.create_task(monitor.recorder.run())
    await asyncio.to_thread(until, lambda: rows(sqlite_database))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    monitor.close()
    assert told(sqlite_database, "good", "bad") == [(0, 24 * 90, 240)]
