from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from monitor.compare.asked import Asked, By, Prices
from monitor.compare.compare import compare
from monitor.compare.model import Band, Cell, Comparison, Measure, Verdict, verdict
from monitor.compare.notes import name_of
from monitor.compare.rows import MINUTE
from tests.monitor.compare.hand import E2E, H100, START, TTFT, Life, Minute, observed

ASKED = Asked(START, START + 86_400)
PRICES = Prices({H100: 3.6}, currency="EUR")


def told(*lives: Life, asked: Asked = ASKED, prices: Prices = PRICES) -> Comparison:
    return compare(observed(*lives), asked, prices)


def only(comparison: Comparison) -> Cell:
    (found,) = comparison.cells
    return found


def value(cell: Cell, measure: Measure) -> float:
    found = cell.of(measure)
    assert found is not None
    return found.value


def hour(**more: object) -> list[Minute]:
    return [replace(Minute(n), **more) for n in range(60)]  # type: ignore[arg-type]


def test_a_cell_tells_what_its_minutes_add_up_to() -> None:
    cell = only(told(Life(hour())))
    assert (cell.band, cell.minutes, cell.concurrency) == (Band(16), 60, 16)
    by_hand = {
        Measure.TOKENS: 45_000 / 60,
        Measure.OUTPUT_TOKENS: 15_000 / 60,
        Measure.TOKENS_PER_GPU: 45_000 / 60,
        Measure.REQUESTS: 1.0,
        Measure.HIT_RATIO: 0.1,
        Measure.JOULES: 24_000 / 45_000,
        Measure.COST: 3.6 / 3600 * 60 / 45_000 * 1e6,
    }
    assert {measure: value(cell, measure) for measure in by_hand} == pytest.approx(by_hand)
    assert (cell.workload.prompt_tokens, cell.workload.generation_tokens) == (500, 250)
    assert (cell.workload.hit_ratio, cell.workload.abort_ratio) == (0.1, 0)


def test_minutes_that_are_all_the_same_have_an_interval_of_no_width() -> None:
    estimate = only(told(Life(hour()))).of(Measure.TOKENS)
    assert estimate is not None
    assert estimate.low == estimate.high == pytest.approx(750)


def test_servers_that_wander_together_are_not_as_good_as_more_time() -> None:
    """Eight servers share what is asked of them, hour by hour another: of 40 such hours 95 in 100 intervals are to hold
    the true mean, 3 fewer by chance. Each server for itself would make intervals of a third of the width."""
    held = 0
    for seed in range(40):
        chance = np.random.default_rng(seed)
        common = 30_000 + 3_000 * chance.normal(size=60)
        lives = [
            Life(
                [Minute(n, prompt=float(common[n] + own)) for n, own in enumerate(chance.normal(0, 300, 60))], server=s
            )
            for s in map(str, range(8))
        ]
        estimate = only(told(*lives)).of(Measure.TOKENS)
        assert estimate is not None
        assert estimate.low is not None
        assert estimate.high is not None
        held += estimate.low <= 750 <= estimate.high
    assert held >= 0.92 * 40


def test_percentiles_come_from_merged_buckets_and_their_interval_takes_the_bounds_in() -> None:
    cell = only(told(Life(hour())))
    # Of 60 requests a minute 10 lie below 0.1 s, 50 below 0.5 s and 59 below 1 s: the 99th of 100 is between 1 and 2 s.
    p99, p50 = cell.of(Measure.TTFT_P99), cell.of(Measure.TTFT_P50)
    assert p99 is not None
    assert p50 is not None
    assert (p99.lower, p99.upper, p99.low, p99.high) == (1.0, 2.0, 1.0, 2.0)
    assert (p50.lower, p50.upper) == (0.1, 0.5)
    assert p99.value == pytest.approx(1 + (59.4 - 59) / 1)
    assert cell.of(Measure.ITL_P99) is None
    assert cell.missing[Measure.ITL_P99] == "not measured here"


def test_of_few_requests_nobody_knows_how_high_the_p99_is() -> None:
    """Of 360 the largest may lie below the P99 of all; of 60 a minute for an hour it does not."""
    few = only(told(Life(hour(ttft=(1, 4, 1, 0, 0))))).of(Measure.TTFT_P99)
    many = only(told(Life(hour(ttft=(10, 40, 10, 0, 0))))).of(Measure.TTFT_P99)
    assert few is not None
    assert many is not None
    assert (few.lower, few.upper, few.high) == (0.5, 1.0, math.inf)
    assert (many.lower, many.upper, many.high) == (0.5, 1.0, 1.0)


@pytest.mark.parametrize("requests", [4, 20])
def test_intervals_of_percentiles_hold_the_truth_however_few_requests_there_are(requests: int) -> None:
    """A minute for half an hour; their times are exponential with a mean of 1 s, so the P99 is ln 100 seconds and the
    median ln 2. Buckets are too narrow to hold it by their width."""
    bounds = tuple(0.05 * 1.1**n for n in range(60))
    true = {Measure.TTFT_P50: math.log(2), Measure.TTFT_P99: math.log(100)}
    held = dict.fromkeys(true, 0)
    for seed in range(40):
        chance = np.random.default_rng(seed)
        counts = [np.histogram(chance.exponential(size=requests), (0, *bounds, np.inf))[0] for _ in range(30)]
        minutes = [Minute(n, ttft=of.tolist()) for n, of in enumerate(counts)]
        cell = only(told(Life(minutes, bounds={"ttft": bounds})))
        for measure, number in true.items():
            estimate = cell.of(measure)
            assert estimate is not None
            assert estimate.low is not None
            assert estimate.high is not None
            held[measure] += estimate.low <= number <= estimate.high
    assert min(held.values()) >= 0.92 * 40


def test_a_percentile_beyond_the_largest_bound_is_open_above() -> None:
    cell = only(told(Life(hour(ttft=(10, 40, 9, 0, 2)))))
    p99 = cell.of(Measure.TTFT_P99)
    assert p99 is not None
    assert (p99.value, p99.lower, p99.high) == (2.0, 2.0, math.inf)


def test_histograms_with_other_bounds_are_merged_into_one_percentile() -> None:
    other = {"ttft": (0.25, 1.5), "e2e": E2E}
    cell = only(told(Life(hour()), Life(hour(ttft=(0, 60, 0)), bounds=other, server="s2")))
    p50 = cell.of(Measure.TTFT_P50)
    assert p50 is not None
    assert (p50.lower, p50.upper) == (0.25, 1.5)


def test_bands_are_told_apart_and_idle_minutes_left_out() -> None:
    minutes = [Minute(n, at_once=16 if n < 20 else 64) for n in range(41) if n != 20]
    minutes += [Minute(n, at_once=0.2) for n in (50, 51)]
    found = told(Life(minutes))
    assert [(cell.band.at_once, cell.minutes) for cell in found.cells] == [(16, 20), (64, 20)]
    assert found.left.idle == 2


def test_minutes_without_a_token_are_idle_whatever_the_gauge_says() -> None:
    minutes = [Minute(n, prompt=0.0, generation=0.0) if n < 7 else Minute(n) for n in range(30)]
    found = told(Life(minutes))
    assert (only(found).minutes, found.left.idle) == (23, 7)
    finishing = [Minute(n, prompt=0.0 if n % 3 else 9e4, generation=0.0, e2e=(0, 0, 0, 60, 0)) for n in range(30)]
    assert only(told(Life(finishing, **FINISHING))).minutes == 30  # type: ignore[arg-type]


def test_minutes_with_a_restart_or_seen_in_part_are_left_out_and_counted() -> None:
    minutes = hour()
    minutes[5], minutes[6] = replace(minutes[5], changed=True, prompt=9e9), replace(minutes[6], partial=True)
    found = told(Life(minutes))
    assert (only(found).minutes, found.left.restarted, found.left.partial) == (58, 1, 1)
    assert value(only(found), Measure.TOKENS) == pytest.approx(750)


def test_a_cell_with_few_minutes_is_named_and_not_told() -> None:
    cell = only(told(Life(hour()[:9])))
    assert (cell.minutes, cell.is_told, cell.measures) == (9, False, {})


def test_what_is_not_known_is_missing_and_never_zero() -> None:
    unknown = hour(queried=None, hit=None, joules=None, gpus=None, aborted=None)
    cell = only(told(Life(unknown)))
    for measure in (Measure.HIT_RATIO, Measure.JOULES, Measure.TOKENS_PER_GPU, Measure.COST):
        assert cell.of(measure) is None
        assert measure in cell.missing
    assert cell.workload.abort_ratio is None
    assert value(cell, Measure.TOKENS) == pytest.approx(750)


def test_a_minute_without_a_number_is_left_out_of_that_number_alone() -> None:
    minutes = hour()
    minutes[0] = replace(minutes[0], joules=None)
    minutes[1] = replace(minutes[1], generation=None)
    cell = only(told(Life(minutes)))
    assert value(cell, Measure.JOULES) == pytest.approx(24_000 / 45_000)
    assert value(cell, Measure.TOKENS) == pytest.approx(750)


def test_without_a_price_of_the_type_there_is_no_cost() -> None:
    assert only(told(Life(hour(), gpu="NVIDIA A100"))).of(Measure.COST) is None
    assert only(told(Life(hour(), gpu=""), prices=Prices(of_any=2.0))).of(Measure.COST) is None
    assert only(told(Life(hour(), gpu="NVIDIA A100"), prices=Prices(of_any=2.0))).of(Measure.COST) is not None


def test_two_servers_in_one_minute_are_two_minutes_of_one_server() -> None:
    cell = only(told(Life(hour()), Life(hour(prompt=15_000.0), server="s2")))
    assert cell.minutes == 120
    assert value(cell, Measure.TOKENS) == pytest.approx((45_000 + 30_000) / 120)


def test_servers_of_other_roles_models_and_gpus_stand_by_themselves() -> None:
    found = told(
        Life(hour()),
        Life(hour(), role="prefill", server="s2"),
        Life(hour(), model="qwen", server="s3"),
        Life(hour(), gpu="NVIDIA A100", server="s4"),
    )
    keys = [(cell.group.model, cell.group.gpu, cell.group.role) for cell in found.cells]
    assert keys == [
        ("llama", "NVIDIA A100", "unified"), ("llama", H100, "prefill"), ("llama", H100, "unified"),
        ("qwen", H100, "unified"),
    ]  # fmt: skip
    assert any("prefill" in note for note in found.notes)


def test_simulated_servers_are_not_taken_together_with_real_ones() -> None:
    found = told(Life(hour()), Life(hour(), server="s2", simulated=True))
    assert [(name_of(cell.group), cell.minutes) for cell in found.cells] == [("vllm", 60), ("vllm (simulated)", 60)]


def test_by_server_each_is_a_group() -> None:
    found = told(Life(hour()), Life(hour(), server="s2"), asked=replace(ASKED, by=By.SERVER))
    assert [cell.group.server for cell in found.cells] == ["n1/s1", "n1/s2"]


def test_by_version_each_release_is_a_group() -> None:
    minutes = [Minute(n, version="0.9" if n < 30 else "0.10") for n in range(60)]
    found = told(Life(minutes), asked=replace(ASKED, by=By.VERSION))
    assert [cell.group.version for cell in found.cells] == ["0.10", "0.9"]


FINISHING = {"framework": "tensorrt_llm", "frontend": "trtllm_serve"}


def test_servers_whose_tokens_count_at_finish_are_taken_in_long_windows_of_steady_load() -> None:
    """Requests of up to 60 s ask for windows of 3 minutes. Of 2 minutes, a gap, 2 and a gap the rest is long enough."""
    minutes = [Minute(n, e2e=(0, 0, 0, 60, 0)) for n in (0, 1, 3, 4, *range(6, 16))]
    found = told(Life(minutes, **FINISHING))  # type: ignore[arg-type]
    assert [(cell.band.at_once, cell.minutes) for cell in found.cells] == [(16, 10)]
    assert found.left.unsteady == 4
    assert any("windows of 3" in note for note in found.notes)


def test_minutes_at_which_the_load_jumps_are_left_out() -> None:
    """From 16 to 64: with those beside them the last of 16 is 32, and the first of 64 is 48, which is near 64."""
    minutes = [Minute(n, at_once=16 if n < 20 else 64) for n in range(40)]
    found = told(Life(minutes))
    assert [(cell.band.at_once, cell.minutes) for cell in found.cells] == [(16, 19), (64, 20)]
    assert found.left.unsteady == 1


def test_a_minute_whose_gauge_was_read_at_an_odd_moment_is_left_out() -> None:
    minutes = [Minute(n, at_once=5 if n == 30 else 16) for n in range(60)]
    found = told(Life(minutes))
    assert [(cell.band.at_once, cell.minutes) for cell in found.cells] == [(16, 59)]
    assert found.left.unsteady == 1


def test_where_durations_are_not_measured_the_requests_at_once_tell_them() -> None:
    """16 at once and 1 a second: 16 s on average, 48 s at most, so windows of 3 minutes."""
    minutes = [Minute(n) for n in (0, 1, *range(3, 13))]
    bounds = {"ttft": TTFT}
    found = told(Life(minutes, "tensorrt_llm", frontend="triton", bounds=bounds))
    assert (only(found).minutes, found.left.unsteady) == (10, 2)


def test_before_and_after_a_moment() -> None:
    minutes = [Minute(n, prompt=30_000.0 if n < 30 else 60_000.0) for n in range(60)]
    moment = START + 30 * MINUTE + 10
    found = told(Life(minutes), asked=replace(ASKED, split=float(moment)))
    before, after = found.cells
    assert (before.group.side, before.minutes, after.group.side, after.minutes) == ("before", 30, "after", 29)
    assert verdict(after, before, Measure.TOKENS) is Verdict.BETTER


def test_before_and_after_an_upgrade_of_each_server() -> None:
    """One is upgraded after 20 minutes and one after 40."""
    lives = [
        Life([Minute(n, version="0.9" if n < at else "0.10") for n in range(60)], server=f"s{at}") for at in (20, 40)
    ]
    found = told(*lives, Life(hour(), "sglang", frontend="sglang"), asked=replace(ASKED, split="version"))
    assert [(c.group.side, c.group.version, c.minutes) for c in found.cells] == [
        ("before", "0.9", 60), ("after", "0.10", 60),
    ]  # fmt: skip
    assert any("sglang" in note and "one release only" in note for note in found.notes)


def test_of_several_upgrades_the_newest_counts() -> None:
    minutes = [Minute(n, version=("0.8", "0.9", "0.10")[n // 20]) for n in range(60)]
    found = told(Life(minutes), asked=replace(ASKED, split="version"))
    assert [(cell.group.version, cell.minutes) for cell in found.cells] == [("0.9", 20), ("0.10", 20)]


def test_releases_side_by_side_are_not_before_and_after() -> None:
    """s3 alone was upgraded: what the others did all the time is no part of it."""
    lives = [Life(hour(version=version), server=s) for s, version in (("s1", "0.10"), ("s2", "0.9"))]
    assert told(*lives, asked=replace(ASKED, split="version")).cells == ()
    upgraded = Life([Minute(n, version="0.9" if n < 20 else "0.10") for n in range(60)], server="s3")
    found = told(*lives, upgraded, asked=replace(ASKED, split="version"))
    assert [(c.group.side, c.group.version, c.minutes) for c in found.cells] == [
        ("before", "0.9", 20), ("after", "0.10", 40),
    ]  # fmt: skip


def test_a_server_that_came_in_the_place_of_another_is_after_it() -> None:
    lives = [
        Life([Minute(n, version="0.9") for n in range(30)], server="a"),
        Life([Minute(n, version="0.10") for n in range(30, 60)], server="b"),
    ]
    found = told(*lives, asked=replace(ASKED, split="version"))
    assert [(cell.group.version, cell.minutes) for cell in found.cells] == [("0.9", 30), ("0.10", 30)]


def test_of_servers_upgraded_to_several_releases_those_of_the_last_count() -> None:
    lives = [
        Life([Minute(n, version="0.9" if n < 20 else "0.10") for n in range(60)], server="a"),
        Life([Minute(n, version="0.10" if n < 40 else "0.11") for n in range(60)], server="b"),
    ]
    found = told(*lives, asked=replace(ASKED, split="version"))
    assert [(cell.group.version, cell.minutes) for cell in found.cells] == [("0.10", 40), ("0.11", 20)]


def test_matched_minutes_are_those_of_lengths_that_all_have() -> None:
    mixed = [Minute(n, prompt=60_000.0 if n < 30 else 12_000.0) for n in range(60)]
    found = told(
        Life(mixed),
        Life(hour(prompt=12_000.0), "sglang", frontend="sglang", server="s2"),
        asked=replace(ASKED, matched=True),
    )
    assert {cell.group.framework: cell.minutes for cell in found.cells} == {"vllm": 20, "sglang": 60}
    assert found.left.unlike == 40, "30, and those within ten minutes of them"
    assert not any("prompt tokens" in note for note in found.notes)


def test_lengths_that_are_unlike_by_chance_alone_match_nothing() -> None:
    """Prompts of 500 and of 650 tokens. Of 40 requests a minute those that begin are not those that finish: in single
    minutes both have means from 300 to 1,000, over 21 of them from 460 to 540 and from 600 to 705."""
    lives = [
        Life([_by_chance(n, length, seed) for n in range(300)], name, frontend=name, server=name)
        for seed, (name, length) in enumerate([("vllm", 500), ("sglang", 650)])
    ]
    found = told(*lives, asked=replace(ASKED, matched=True))
    assert sum(cell.minutes for cell in found.cells) < 0.05 * 600


def _by_chance(number: int, length: float, seed: int) -> Minute:
    begin, finish = np.random.default_rng([seed, number]).poisson(40, 2).tolist()
    return Minute(number, prompt=length * begin, finished=max(1, finish), generation=250.0 * finish)


def test_workloads_without_a_common_length_leave_nothing_to_compare() -> None:
    found = told(
        Life(hour(prompt=60_000.0)),
        Life(hour(prompt=12_000.0), "sglang", frontend="sglang", server="s2"),
        asked=replace(ASKED, matched=True),
    )
    assert found.cells == ()
    assert any("too unlike" in note for note in found.notes)


def test_a_few_minutes_of_another_workload_do_not_decide_what_matches() -> None:
    few = Life(hour(prompt=90_000.0)[:9], "lmdeploy", frontend="lmdeploy", server="s3")
    found = told(
        Life(hour()), Life(hour(), "sglang", frontend="sglang", server="s2"), few, asked=replace(ASKED, matched=True)
    )
    assert {cell.group.framework: cell.minutes for cell in found.told} == {"vllm": 60, "sglang": 60}


def test_who_is_alone_is_like_itself() -> None:
    varied = [Minute(n, prompt=30_000.0 if n % 20 else 90_000.0) for n in range(60)]
    assert only(told(Life(varied), asked=replace(ASKED, matched=True))).minutes == 60


def test_where_no_lengths_match_is_said_whatever_else_is_compared() -> None:
    unlike = Life(hour(prompt=90_000.0), "sglang", frontend="sglang", server="s2")
    found = told(Life(hour()), unlike, Life(hour(), model="qwen", server="s3"), asked=replace(ASKED, matched=True))
    assert [cell.group.model for cell in found.cells] == ["qwen"]
    assert [note for note in found.notes if "too unlike" in note] == [
        "No minutes of the compared have mean lengths in a common range, llama at about 16: their workloads are too "
        "unlike."
    ]


def test_unlike_workloads_are_told() -> None:
    found = told(Life(hour(prompt=60_000.0)), Life(hour(), "sglang", frontend="sglang", server="s2"))
    assert "Workloads differ, llama at about 16: prompt tokens: sglang 500, vllm 1,000." in found.notes


def test_servers_of_other_sizes_are_told() -> None:
    large = Life(hour(gpus=4.0), "sglang", frontend="sglang", server="s2")
    found = told(Life(hour()), large)
    assert value(found.cells[0], Measure.TOKENS_PER_GPU) == pytest.approx(750 / 4)
    assert "Workloads differ, llama at about 16: GPUs of a server: sglang 4, vllm 1." in found.notes
    mixed = told(Life(hour()), Life(hour(gpus=4.0), server="s2"))
    assert value(only(mixed), Measure.TOKENS_PER_GPU) == pytest.approx(1500 / 5)
    assert "Servers of different sizes are taken together, llama at about 16: vllm: 2.5 GPUs on average." in mixed.notes


def test_definitions_are_those_that_differ_between_the_compared() -> None:
    alone = told(Life(hour()))
    both = told(Life(hour()), Life(hour(), "lmdeploy", frontend="lmdeploy", server="s2"))
    assert alone.definitions == ()
    waiting = next(d for d in both.definitions if d.metric == "llm_requests_waiting")
    assert set(waiting.said) == {"vllm", "lmdeploy"}
    ttft = next(d for d in both.definitions if d.metric == "llm_time_to_first_token_seconds")
    assert set(ttft.said) == {"vllm", "lmdeploy"}
    assert "API process" in ttft.said["lmdeploy"]


def test_nothing_observed_is_an_empty_comparison() -> None:
    assert told(Life([])).cells == ()
    assert told(asked=replace(ASKED, split="version", matched=True)).cells == ()
