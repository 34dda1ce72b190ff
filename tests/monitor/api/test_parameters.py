import pytest

from monitor.api.parameters import HistoryQuery, moment, step
from monitor.history.question import InvalidParameter

NOW = 1_796_032_800.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("now", NOW),
        ("90m", NOW - 5400),
        ("7d", NOW - 604_800),
        ("1796029200", 1_796_029_200),
        ("1796029200.5", 1_796_029_200.5),
        ("2026-11-30T09:00:00Z", 1_796_029_200),
        ("2026-11-30T10:00:00+01:00", 1_796_029_200),
        ("2026-11-30T10:00:00 01:00", 1_796_029_200),
        ("2026-11-30T09:00:00", 1_796_029_200),
    ],
)
def test_a_moment_is_unix_seconds_a_time_or_an_age(text: str, seconds: float) -> None:
    assert moment("since", text, NOW) == seconds


def test_an_age_beyond_1970_means_everything() -> None:
    assert moment("since", "99999w", NOW) == 0


@pytest.mark.parametrize("text", ["yesterday", "", "nan", "inf", "-5m", "5 parsecs", "-1", "1e300", "1796029200000"])
def test_what_is_no_moment_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"since: .* is no moment") as caught:
        moment("since", text, NOW)
    assert "unix seconds" in caught.value.allowed


@pytest.mark.parametrize(("text", "meant"), [("20261130", "2026-11-30"), (" 19991231", "1999-12-31")])
def test_a_day_without_dashes_is_not_taken_for_seconds(text: str, meant: str) -> None:
    with pytest.raises(InvalidParameter, match="may be a day, or seconds of the year 1970") as caught:
        moment("since", text, NOW)
    assert caught.value.meant == meant


@pytest.mark.parametrize("text", ["20261301", "20260132", "202611300", "2026113"])
def test_other_numbers_are_seconds(text: str) -> None:
    assert moment("since", text, NOW) == int(text)


@pytest.mark.parametrize(
    ("window", "seconds"),
    [
        (3600, 60),
        (5 * 3600, 60),
        (86_400, 300),
        (7 * 86_400, 3600),
        (300 * 86_400, 86_400),
        (301 * 86_400, 2 * 86_400),
        (20_787 * 86_400, 70 * 86_400),
    ],
)
def test_without_a_step_one_is_chosen_that_makes_about_300_points_at_most(window: float, seconds: float) -> None:
    assert step("auto", 0, window) == seconds


@pytest.mark.parametrize(("text", "seconds"), [("300", 300), ("5m", 300), ("1h", 3600)])
def test_a_step_is_seconds_or_a_duration(text: str, seconds: float) -> None:
    assert step(text, 0, 3600) == seconds


def test_a_step_that_is_neither_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="step: 'often' is no duration"):
        step("often", 0, 3600)


def test_a_query_string_becomes_a_question() -> None:
    query = HistoryQuery(
        metric="llm_requests_running", since="2h", group_by=["node,server", "team"], where=["model=a=b", "team="]
    )
    asked = query.question(NOW)
    assert asked.group_by == ("node", "server", "team")
    assert asked.where == {"model": "a=b", "team": ""}
    assert (asked.since, asked.until, asked.step) == (NOW - 7200, NOW, 60)


@pytest.mark.parametrize("text", ["vllm", "=vllm"])
def test_a_filter_without_label_or_value_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"where: .* is no filter"):
        HistoryQuery(metric="llm_requests_running", where=[text]).question(NOW)


def test_filters_that_cannot_hold_together_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="where: 'node' is given two values"):
        HistoryQuery(metric="llm_requests_running", where=["node=a", "node=b"]).question(NOW)
    twice = HistoryQuery(metric="llm_requests_running", where=["node=a", "node=a"]).question(NOW)
    assert twice.where == {"node": "a"}
