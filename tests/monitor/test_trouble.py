from __future__ import annotations

import logging

import pytest

from monitor.history.database import HistoryError
from monitor.sources import SourceError
from monitor.trouble import Trouble

_LOG = logging.getLogger(__name__)


@pytest.fixture
def trouble(caplog: pytest.LogCaptureFixture) -> Trouble:
    caplog.set_level(logging.INFO)
    return Trouble(_LOG, "history")


def test_it_is_told_when_it_comes_when_it_changes_and_when_it_is_over(
    trouble: Trouble, caplog: pytest.LogCaptureFixture
) -> None:
    for text in ("full", "full", "gone"):
        trouble.come(HistoryError(text))
        assert trouble.text == text
    trouble.go()
    trouble.go()
    assert [r.getMessage() for r in caplog.records] == ["history: full", "history: gone", "history: works again"]
    assert trouble.text == ""


def test_what_its_source_has_told_is_not_told_again(trouble: Trouble, caplog: pytest.LogCaptureFixture) -> None:
    error = SourceError("away")
    error.is_told = True
    trouble.come(error)
    assert trouble.text == "away"
    trouble.go()
    assert caplog.records == []


def test_what_nobody_expected_is_told_with_its_place(trouble: Trouble, caplog: pytest.LogCaptureFixture) -> None:
    trouble.come(KeyError())
    (record,) = caplog.records
    assert (record.getMessage(), trouble.text) == ("history: KeyError", "KeyError")
    assert record.exc_info is not None
