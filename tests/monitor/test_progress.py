from __future__ import annotations

import io
import logging

import pytest

from monitor.progress import ProgressLine

SINCE, UNTIL = 1_796_032_800.0, 1_796_036_400.0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_on_a_terminal_it_is_one_line_that_is_taken_away_at_the_end() -> None:
    clock, terminal = Clock(), Terminal()
    line = ProgressLine(clock, terminal)
    line.end()
    assert terminal.getvalue() == "", "nothing was to be read"
    for clock.now, at in ((0.0, SINCE), (60.0, SINCE + 1200)):
        line.tell(at, UNTIL)
    line.end()
    assert terminal.getvalue().split("\r\x1b[K") == [
        "",
        "history: 2026-11-30 10:00 UTC of 2026-11-30 11:00 UTC",
        "history: 2026-11-30 10:20 UTC of 2026-11-30 11:00 UTC, 33 %, about 2 min left",
        "",
    ]


def test_elsewhere_the_log_says_so_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock, stream = Clock(), io.StringIO()
    line = ProgressLine(clock, stream)
    for second in range(0, 130, 10):
        clock.now = float(second)
        line.tell(SINCE + 10 * second, UNTIL)
    line.end()
    assert stream.getvalue() == ""
    assert [record.getMessage() for record in caplog.records] == [
        "history: reads what Prometheus has since 2026-11-30 10:00 UTC",
        "history: read to 2026-11-30 10:10 UTC of 2026-11-30 11:00 UTC, 17 %, about 5 min left",
        "history: read to 2026-11-30 10:20 UTC of 2026-11-30 11:00 UTC, 33 %, about 4 min left",
        "history: read what was missing since 2026-11-30 10:00 UTC",
    ]
