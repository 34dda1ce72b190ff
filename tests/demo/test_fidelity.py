"""The simulated frameworks against the reference estimates, and the page that says so."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import cast

import pytest

from alerts.reference import AT_ONCE
from demo.pace import PACES, Curve, Pace
from inferwatch.reference.fidelity import PAGE, SEED, Compared, compared, lead, shared, text, write

OTHER_SEEDS = (2, 3)


@cache
def rows(seed: int) -> list[Compared]:
    return compared(seed) if seed == SEED else compared(seed, seconds=45.0)


with_shared_prompts = cache(shared)


@pytest.mark.parametrize("seed", [SEED, *OTHER_SEEDS])
def test_both_columns_come_within_15_percent_of_the_reference(seed: int) -> None:
    for row in rows(seed):
        assert row.errors == pytest.approx((0, 0), abs=0.15), (row.framework, row.at_once)


@pytest.mark.parametrize("at_once", AT_ONCE)
@pytest.mark.parametrize("seed", [SEED, *OTHER_SEEDS])
def test_the_frameworks_stand_in_the_order_of_the_reference(seed: int, at_once: int) -> None:
    there = [row for row in rows(seed) if row.at_once == at_once]

    for figure in ("tokens_per_second", "p99"):
        simulated, reference = (
            [row.framework for row in sorted(there, key=lambda row: cast(float, getattr(getattr(row, which), figure)))]
            for which in ("simulated", "reference")
        )
        assert simulated == reference


def test_shared_prefixes_raise_the_lead_of_sglang_and_shorten_its_queue() -> None:
    alone = {row.framework: row.simulated for row in rows(SEED) if row.at_once == AT_ONCE[-1]}
    together = with_shared_prompts()

    assert lead(together) > lead(alone) + 0.1
    assert together["sglang"].p99 < 0.75 * alone["sglang"].p99
    for name in ("vllm", "lmdeploy", "tensorrt_llm"):
        assert together[name] == alone[name]


def test_the_page_shows_what_the_command_measures() -> None:
    assert text(rows(SEED), with_shared_prompts()) in PAGE.read_text(encoding="utf-8"), "run: make generate"


def test_a_curve_is_straight_between_its_points_and_goes_on_after_them() -> None:
    curve = Curve(((1, 10.0), (3, 20.0), (5, 20.0), (6, 30.0)))

    assert [curve.at(x) for x in (0, 1, 2, 3, 4, 5.5, 6, 8)] == [10, 10, 15, 20, 20, 25, 30, 50]


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
def test_more_work_never_makes_a_step_shorter(pace: Pace) -> None:
    steps = [pace.step(sequences, 600 * sequences, 0) for sequences in range(1, 257)]

    assert steps == sorted(steps)
    assert 0 < pace.step(0, 0, 1) < pace.step(0, 0, 512)
    assert steps[15] < pace.step(16, 600 * 16, 512)


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
def test_what_is_found_in_the_cache_need_not_wait(pace: Pace) -> None:
    assert pace.wait(64, 4096) == pace.wait(64, 512) == 2 * pace.wait(64, 256) > 0
    assert pace.wait(8, 512) < pace.wait(64, 512)


def test_the_command_writes_only_its_own_part_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8").replace("## Truth", "## Something else"), encoding="utf-8")
    write(page, "| a table |")

    written = page.read_text(encoding="utf-8")
    assert "\n\n| a table |\n\n" in written and "## Something else" in written
    assert "tokens/s: reference" not in written
