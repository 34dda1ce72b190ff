from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine

from monitor.evaluate.counts import Counter
from monitor.evaluate.report import as_json, as_markdown, period, report
from monitor.history.minutes import Window
from tests.monitor.evaluate.minutes import (
    HOUR,
    START,
    available,
    engine,
    latency,
    minute,
    roll_up_all,
    target,
    up,
    write,
)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def test_months_and_quarters_are_those_of_the_calendar() -> None:
    found = period("2026-12", months=1, newest=at("2027-02-01"))
    assert (found.since, found.until, found.is_over) == (at("2026-12-01"), at("2027-01-01"), True)
    found = period("2026-Q4", months=3, newest=at("2026-11-05T10:00"))
    assert (found.since, found.until, found.is_over) == (at("2026-10-01"), at("2026-11-05T10:00"), False)


@pytest.mark.parametrize(("text", "months"), [("2026-13", 1), ("2026", 1), ("2026-Q5", 3), ("2026-11", 3), ("next", 1)])
def test_what_is_no_period_is_refused(text: str, months: int) -> None:
    with pytest.raises(ValueError, match="such as 2026-"):
        period(text, months=months, newest=0)


@pytest.mark.parametrize(("text", "months"), [("2027-01", 1), ("9999-12", 1), ("2027-Q1", 3), ("9999-Q4", 3)])
def test_a_period_that_has_not_begun_is_refused(text: str, months: int) -> None:
    with pytest.raises(ValueError, match="begun by the newest minute of the history, 2026-12-31 23:59 UTC"):
        period(text, months=months, newest=at("2026-12-31T23:59"))


def test_a_report_tells_what_was_good_and_what_is_not_known(database: Engine) -> None:
    planned = [{"start": "2026-12-01T01:00:00Z", "end": "2026-12-01T01:30:00Z", "note": "driver | fans"}]
    for n in range(120):
        ends = {"stop": 98, "error": 2, "unknown": 1}
        row = minute(finished=ends, counts={"ttft": (60, 30, 10, 0)})
        write(database, [Window(START + 60 * n, {target("a"): up(), engine("a"): row})])
    roll_up_all(database)
    slos = [available(objective="99%", maintenance=planned), latency("ttft", 0.75, objective="70%")]
    of = period("2026-12", months=1, newest=START + 3 * HOUR)
    lines = report(Counter(database), slos, of)
    told: dict[str, Any] = as_json(of, lines)
    first, second = told["objectives"]
    assert (first["good"], first["bad"], first["unknown"], first["met"]) == (98 * 90, 2 * 90, 90, False)
    assert first["budget_left"] == pytest.approx(-1)
    assert (first["minutes"], first["minutes_unknown"], first["minutes_excluded"]) == (150, 60, 30)
    assert second["good_ratio"] == pytest.approx(0.8)
    assert second["good_ratio_certain"] == pytest.approx(0.9)
    assert second["met"] is True
    text = as_markdown(of, lines)
    assert "| available | model=m role=unified | 99 % | 98 % | **no** | -100.0 % | 9,090 | 180 | 90 | 0 min |" in text
    assert "| 70 % | 80 % (at most 90 %) | yes |" in text
    assert "- available: 2026-12-01 01:00 to 2026-12-01 01:30 UTC is left out: driver \\| fans" in text
    assert "Up to 2026-12-01 03:00 UTC." in text


def test_a_period_of_which_no_minute_is_over_has_no_lines(database: Engine) -> None:
    of = period("2026-12", months=1, newest=START)
    assert report(Counter(database), [available()], of) == []
