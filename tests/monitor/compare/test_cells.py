"""Why a number of a comparison has no interval."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace

from monitor.compare.asked import NO_PRICES, Asked
from monitor.compare.compare import compare
from monitor.compare.model import Comparison, Measure
from monitor.compare.text import as_csv, as_table
from tests.monitor.compare.hand import START, TTFT, Life, Minute, observed

SHORT = "only 12 minutes of time, and an interval takes 15: 5 blocks of 3"


def told(*lives: Life) -> Comparison:
    return compare(observed(*lives), Asked(START, START + 86_400), NO_PRICES)


def whys(comparison: Comparison) -> Sequence[str]:
    (cell,) = comparison.cells
    return list(cell.without_interval)


def test_of_a_short_time_it_is_said_how_much_an_interval_takes() -> None:
    """The cube root of 12 minutes is 2.3: blocks are of 3 minutes, and there are 4."""
    assert whys(told(Life([Minute(n) for n in range(12)]))) == [SHORT]
    assert whys(told(Life([Minute(n) for n in range(15)]))) == []


def test_more_servers_are_no_more_time() -> None:
    minutes = [Minute(n) for n in range(12)]
    both = told(Life(minutes), Life(minutes, server="s2"))
    assert both.cells[0].minutes == 24
    assert whys(both) == [SHORT]


def test_long_requests_make_long_blocks_and_are_said_to() -> None:
    """All requests lie between 300 and 600 s: the P99 is near the end of the tenth minute."""
    long = Life([Minute(n, e2e=(0, 60, 0)) for n in range(40)], bounds={"ttft": TTFT, "e2e": (300.0, 600.0)})
    assert whys(told(long)) == [
        "only 40 minutes of time, and an interval takes 50: 5 blocks of 10, for its longest requests (P99)"
    ]


def test_what_is_known_in_a_few_minutes_has_no_interval_alone() -> None:
    """Of 60 minutes three are drawn at a time beside others, and often none of the two that tell energy."""
    minutes = [Minute(n, joules=24_000.0 if n < 2 else None) for n in range(60)]
    (cell,) = told(Life(minutes)).cells
    assert cell.without_interval == {"known in too few of its minutes": [Measure.JOULES]}
    assert "- Without an interval, vllm at about 16, J/token: known in too few of its minutes." in as_table(
        told(Life(minutes))
    )


def test_the_text_and_the_csv_say_it() -> None:
    short = told(Life([Minute(n) for n in range(12)]))
    assert f"- Without an interval, vllm at about 16: {SHORT}." in as_table(short).splitlines()
    (row,) = csv.DictReader(io.StringIO(as_csv(short)))
    assert (row["no_interval"], row["tokens_per_second_low"]) == (SHORT, "")
    long = told(Life([replace(Minute(0), at=n) for n in range(60)]))
    assert "Without an interval" not in as_table(long)
    assert next(csv.DictReader(io.StringIO(as_csv(long))))["no_interval"] == ""
