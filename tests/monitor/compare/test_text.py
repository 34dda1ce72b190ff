from __future__ import annotations

import csv
import io
from dataclasses import replace

from monitor.compare.asked import Asked, Prices
from monitor.compare.compare import compare
from monitor.compare.model import Band, Cell, Comparison, Estimate, Group, Measure
from monitor.compare.text import as_csv, as_markdown, as_table
from monitor.compare.words import ranking, value
from tests.monitor.compare.hand import H100, START, Life, Minute, observed

ASKED = Asked(START, START + 7200)
PRICES = Prices({H100: 3.6}, currency="EUR")
RUN = Cell(
    Group("vllm", "llama", H100, tool="guidellm", file="a|b.json"),
    Band(16),
    0,
    15.0,
    {Measure.TOKENS: Estimate(700.0)},
)


def hour(**more: object) -> list[Minute]:
    return [replace(Minute(n), **more) for n in range(60)]  # type: ignore[arg-type]


def told() -> Comparison:
    vllm = Life(hour())
    sglang = Life(hour(prompt=36_000.0, joules=None), "sglang", frontend="sglang", server="s2")
    few = Life([Minute(n, at_once=64) for n in range(3)], "lmdeploy", frontend="lmdeploy", server="s3")
    return compare(observed(vllm, sglang, few), ASKED, PRICES, [RUN])


def test_the_table_has_a_line_for_each_cell_in_order_of_concurrency() -> None:
    lines = as_table(told()).splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("at once"))
    rows = [line.split() for line in lines[at + 1 : at + 5]]
    assert [row[:3] for row in rows] == [
        ["16", "sglang", "60"], ["16", "vllm", "60"], ["16", "vllm", "[guidellm]"], ["64", "lmdeploy", "3"],
    ]  # fmt: skip
    assert "850 (850 – 850)" in lines[at + 1]
    assert "at least" not in lines[at + 1]
    assert "cost of a million tokens, EUR" in lines[at]


def test_percentiles_are_told_with_the_bounds_of_their_buckets() -> None:
    assert "1.4 s (1 s – 2 s)" in as_table(told())
    assert value(Measure.TTFT_P99, Estimate(2.0, lower=2.0, upper=float("inf"))) == "at least 2 s"


def test_what_is_not_known_is_a_dash() -> None:
    line = next(line for line in as_markdown(told()).splitlines() if line.startswith("| 16 | sglang"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[10] == "–", "J/token"


def test_markdown_keeps_its_columns_whatever_a_file_is_called() -> None:
    text = as_markdown(told())
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    assert "a\\|b.json" in text


def test_a_name_with_a_line_break_makes_no_line_of_its_own() -> None:
    run = replace(RUN, group=replace(RUN.group, model="llama\n## x", file="a\nb"))
    text = as_markdown(compare(observed(), ASKED, PRICES, [run]))
    assert f"## llama\\n## x on {H100}" in text.splitlines()
    assert "imported, a\\nb" in text


def test_the_best_comes_first_and_no_difference_is_said_to_be_none() -> None:
    assert "- tokens/s at about 16: sglang > vllm ? vllm [guidellm]" in as_table(told())
    assert "- first token P99 at about 16: sglang ≈ vllm" in as_table(told())


def test_a_lone_cell_has_no_rank() -> None:
    assert ranking([RUN], Measure.TOKENS) == ""


def test_what_was_left_out_and_what_differs_stands_below() -> None:
    lines = as_table(told()).splitlines()
    assert "- With fewer than 10 minutes, so not told: lmdeploy at about 64 (3)." in lines
    assert any(line.startswith("- llm_time_to_first_token_seconds") for line in lines)
    assert any(line.startswith("  - lmdeploy: ") for line in lines)


def test_an_empty_comparison_says_that_there_is_nothing() -> None:
    assert "Nothing to compare" in as_table(compare(observed(), ASKED, PRICES))


def test_csv_has_all_numbers_in_full() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(told()))))
    vllm = next(row for row in rows if row["framework"] == "vllm" and not row["tool"])
    assert (vllm["at_once"], vllm["minutes"], vllm["concurrency"]) == ("16", "60", "16.0")
    assert float(vllm["tokens_per_second"]) == 750
    assert (float(vllm["ttft_p99_seconds_low"]), float(vllm["ttft_p99_seconds_high"])) == (1, 2)
    assert vllm["itl_p99_seconds"] == ""
    run = next(row for row in rows if row["tool"])
    assert (run["tokens_per_second"], run["tokens_per_second_low"]) == ("700.0", "")


def test_csv_has_the_bounds_of_percentiles() -> None:
    """Of 60 requests a minute 10 lie below 0.1 s, 50 below 0.5 s and 59 below 1 s."""
    vllm = next(row for row in csv.DictReader(io.StringIO(as_csv(told()))) if row["framework"] == "vllm")
    assert [vllm[f"ttft_p99_seconds_{end}"] for end in ("low", "high", "lower", "upper")] == ["1.0", "2.0"] * 2
    assert [vllm[f"ttft_p50_seconds_{end}"] for end in ("lower", "upper")] == ["0.1", "0.5"]
    assert "tokens_per_second_lower" not in vllm


def test_an_empty_comparison_says_why_it_is_empty() -> None:
    seen = observed(Life(hour()))
    assert "minutes with requests both before and after" in as_table(
        compare(seen, replace(ASKED, split="version"), PRICES)
    )
    assert "no minute of this time has a server with steady" in as_table(compare(observed(), ASKED, PRICES))
