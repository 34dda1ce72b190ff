from typing import Any

import pytest

from monitor.page.condition import (
    condition,
    last_answer,
    summary,
    title,
    worst_first,
)
from monitor.remarks import FindingOut
from tests.monitor.page.rows import row


def found(severity: str, reason: str = "r") -> FindingOut:
    return FindingOut(reason=reason, severity=severity, message="", remedy="", detail="")


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({"up": False, "available": False}, "down"),
        ({"available": False}, "metrics missing"),
        ({"state": "awake"}, "awake"),
        ({"state": "sleeping"}, "sleeping"),
        ({"state": "starting"}, "starting"),
        ({"state": "draining"}, "draining"),
        ({"state": "unknown"}, "up"),
        ({"state": None}, "up"),
        ({"state": "awake, sleeping"}, "up"),
    ],
)
def test_a_server_is_described_in_one_word(facts: dict[str, Any], word: str) -> None:
    assert condition(row(**facts)).word == word


def test_conditions_that_look_alike_have_their_own_icon() -> None:
    rows = [row(up=False), row(available=False), *(row(state=s) for s in ("awake", "sleeping", "starting", "draining"))]
    assert len({condition(r).icon for r in rows}) == len(rows)


def test_findings_are_shown_worst_first_and_else_in_order() -> None:
    findings = [found("info", "a"), found("error", "b"), found("warning", "c"), found("error", "d")]
    assert [f.reason for f in worst_first(findings)] == ["b", "d", "c", "a"]


def test_the_summary_counts_every_server_once() -> None:
    rows = [row(), row(findings=[found("error")]), row(available=False), row(up=False, available=False)]
    told = summary(rows)
    assert (told.servers, told.up, told.without_metrics, told.down) == (4, 2, 1, 1)
    assert told.in_trouble == 3


def test_the_title_tells_trouble_to_who_looks_at_another_tab() -> None:
    assert title(summary([row(), row(up=False)])) == "1 in trouble · inferwatch"
    assert title(summary([row(), row()])) == "2 up · inferwatch"
    assert title(summary([])) == "no servers · inferwatch"


def test_a_server_that_never_answered_has_no_last_answer() -> None:
    assert last_answer(row(last_seen=None), 1000) == "no answer since the monitor started"
    assert last_answer(row(last_seen=700), 1000) == "last answer 5 min ago"
