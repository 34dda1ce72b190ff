"""What promtool says of rules for latency objectives, of servers whose bounds differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from alerts.burn import WINDOWS_30D
from tests.alerts.rules.worlds import Engine, alerts, expect, gauge, rules_of, slo_of

PAGE, TICKET = "SloBurnPage", "SloBurnTicket"
GOOD, BAD = {0.2: 100.0}, {3.0: 100.0}


def rules(folder: Path, below: str = "1s", phase: str = "ttft", **keys: str) -> str:
    return rules_of(slo_of(folder, indicator=f"{{latency: {{phase: {phase}, below: {below}}}}}", **keys))


def fast(folder: Path) -> str:
    """With the shortest of the windows alone."""
    return rules_of(slo_of(folder, indicator="{latency: {phase: ttft, below: 1s}}"), WINDOWS_30D[:1])


def test_slow_requests_page_at_the_right_minute_and_resolve(tmp_path: Path) -> None:
    series = Engine().latencies("ttft", [(60, GOOD), (10, BAD), (20, GOOD)])
    # 14.4 % of 6,000 are 864: the sum of minute 70 holds 1,000, and is seen at 71. Five minutes later all is well.
    alerts(tmp_path, fast(tmp_path), series, {60: [], 70: [], 71: [PAGE], 76: []})


@pytest.mark.parametrize(("slow", "fires"), [(14.3, []), (14.5, [PAGE])])
def test_the_steady_share_of_slow_requests_decides(slow: float, fires: list[str], tmp_path: Path) -> None:
    series = Engine().latencies("ttft", [(90, {0.2: 100 - slow, 3.0: slow})])
    alerts(tmp_path, fast(tmp_path), series, {30: fires, 89: fires})


def test_a_restart_in_a_bad_hour_counts_on(tmp_path: Path) -> None:
    # Everything on the page falls to 0 after 60 minutes, without a sample missing.
    once = Engine().latencies("ttft", [(60, {0.2: 80, 3.0: 20})])
    series = {name: f"{values} {values}" for name, values in once.items()}
    alerts(tmp_path, fast(tmp_path), series, {59: [PAGE], 61: [PAGE], 64: [PAGE], 110: [PAGE]})
    # 20 a minute, but for the half minute before the first sample of the new process.
    asked = {(115, f"sum(inferwatch:slo_{kind}:1h)"): {"{}": 1190.0} for kind in ("bad", "certain")}
    expect(tmp_path, rules(tmp_path), series, asked)


@pytest.mark.parametrize(("latency", "fires"), [(0.41, [TICKET]), (0.61, [PAGE, TICKET])])
def test_sglang_pages_at_half_a_second_on_what_is_certainly_slower(
    latency: float, fires: list[str], tmp_path: Path
) -> None:
    # Its bounds are 0.4 and 0.6: of requests at 0.41 s half are estimated to be above 0.5 s, and none is known to be.
    alerts(tmp_path, rules(tmp_path, "0.5s"), Engine("sglang").latencies("ttft", [(120, {latency: 100})]), {119: fires})


def test_vllm_knows_at_half_a_second(tmp_path: Path) -> None:
    series = Engine("vllm").latencies("ttft", [(120, {0.51: 100})])
    alerts(tmp_path, rules(tmp_path, "0.5s"), series, {119: [PAGE, TICKET]})


def test_each_server_of_a_fleet_is_judged_by_its_own_bounds(tmp_path: Path) -> None:
    a, b = Engine("vllm"), Engine("sglang", server="s2")
    series = a.latencies("ttft", [(65, {0.51: 100})]) | b.latencies("ttft", [(65, {0.61: 30, 0.41: 70})])
    asked = {(65, "sum(inferwatch:slo_certain:1h)"): {"{}": 6000.0 + 1800.0}}
    expect(tmp_path, rules(tmp_path, "0.5s"), series, asked)


@pytest.mark.parametrize(("bounds", "certain"), [((0.1, 0.5, 2.0, 5.0), 0.0), ((0.1, 0.5, 10.0), 6000.0)])
def test_overflow_is_bad_for_certain_only_where_the_largest_bound_reaches_the_threshold(
    bounds: tuple[float, ...], certain: float, tmp_path: Path
) -> None:
    series = Engine().latencies("ttft", [(65, {50.0: 100})], bounds)
    expect(tmp_path, rules(tmp_path, "10s"), series, {(65, "sum(inferwatch:slo_certain:1h)"): {"{}": certain}})


def test_bounds_of_the_users_own_that_are_off_the_grid_are_passed_over(tmp_path: Path) -> None:
    # 0.55 is on no grid, so its count is not exact there; 0.75 is the first that is.
    series = Engine().latencies("ttft", [(65, {0.6: 50, 0.8: 50})], (0.5, 0.55, 0.75, 1.0))
    expect(tmp_path, rules(tmp_path, "0.6s"), series, {(65, "sum(inferwatch:slo_certain:1h)"): {"{}": 3000.0}})


def test_a_crash_in_the_middle_of_a_bad_hour_does_not_resolve_the_page(tmp_path: Path) -> None:
    engine = Engine()
    bad = engine.latencies("ttft", [(60, GOOD), (20, BAD), 20, (20, GOOD)])
    series = bad | engine.up(gauge((80, 1), (20, 0), (20, 1)))
    # Up again and fine, it is over.
    alerts(tmp_path, fast(tmp_path), series, {79: [PAGE], 82: [PAGE], 90: [PAGE], 99: [PAGE], 102: []})


def test_what_a_server_counted_stays_certain_when_it_vanishes(tmp_path: Path) -> None:
    slow, fine = Engine(), Engine("sglang", server="s2")
    series = slow.latencies("ttft", [(60, GOOD), (20, BAD), 40]) | fine.latencies("ttft", [(120, {0.2: 10})])
    # Its last five minutes go on to count, and so do the bad minutes before them in the sum of an hour.
    alerts(tmp_path, rules(tmp_path), series, {79: [PAGE, TICKET], 82: [PAGE, TICKET]})
    asked = {(100, "sum(inferwatch:slo_certain:1h)"): {"{}": 2000.0}}
    expect(tmp_path, rules(tmp_path), series, asked)


def test_idle_and_absent_servers_alert_nothing(tmp_path: Path) -> None:
    alerts(tmp_path, rules(tmp_path), Engine().latencies("ttft", [(60, BAD), (60, {})]), {119: [TICKET]})
    expect(tmp_path, rules(tmp_path), {"other": "1x200"}, {(60, "inferwatch:slo_total:5m"): {}})


def test_few_slow_requests_are_too_few_to_say(tmp_path: Path) -> None:
    series = Engine().latencies("ttft", [(60, {3.0: 1})])
    alerts(tmp_path, rules(tmp_path), series, {30: [], 59: []})


def test_both_spellings_of_a_bound_are_the_same_bound(tmp_path: Path) -> None:
    series = Engine().latencies("ttft", [(65, {0.2: 90, 3.0: 10})])
    for spelled in (series, {k.replace('.0"', '"') if "_bucket" in k else k: v for k, v in series.items()}):
        asked = {
            (65, "sum(inferwatch:slo_bad:1h)"): {"{}": 600.0},
            (65, "sum(inferwatch:slo_certain:1h)"): {"{}": 600.0},
        }
        expect(tmp_path, rules(tmp_path), spelled, asked)


def test_one_slow_answer_at_night_is_thousands_of_slow_gaps_and_too_few_all_the_same(tmp_path: Path) -> None:
    slow_gaps = Engine().latencies("itl", [(20, {0.05: 0}), (4, {0.4: 1000}), (40, {0.05: 0})])
    alerts(tmp_path, rules(tmp_path, "0.1s", "itl"), slow_gaps, {22: [], 25: [], 40: []})
    told = rules(tmp_path, "0.1s", "itl", minimum_requests="100")
    alerts(tmp_path, told, slow_gaps, {22: [PAGE]})


@pytest.mark.parametrize(
    ("choice", "total", "bad", "unknown"), [("exclude", 3000.0, 300.0, 3000.0), ("bad", 6000.0, 3300.0, 3000.0)]
)
def test_requests_that_queued_before_lmdeploys_clock_are_unknown(
    choice: str, total: float, bad: float, unknown: float, tmp_path: Path
) -> None:
    engine = Engine("lmdeploy")
    series = engine.latencies("ttft", [(65, {0.2: 90, 3.0: 10})])
    # Requests wait until minute 34: in six of the twelve pieces that end at the minutes 10 to 65.
    series |= engine.series("llm_requests_waiting_api", gauge((34, 3), (31, 0)))
    asked = {
        (65, "sum(inferwatch:slo_total:1h)"): {"{}": total},
        (65, "sum(inferwatch:slo_bad:1h)"): {"{}": bad},
        (65, "sum(inferwatch:slo_unknown:1h)"): {"{}": unknown},
    }
    expect(tmp_path, rules(tmp_path, unknown=choice), series, asked)


def test_other_frameworks_do_not_queue_before_their_clock(tmp_path: Path) -> None:
    assert "llm_requests_waiting_api" not in rules(tmp_path, select="{framework: [vllm, sglang]}")
    assert "llm_requests_waiting_api" not in rules(tmp_path, "0.1s", "itl")


@pytest.mark.parametrize(("bounds", "certain"), [((0.1, 2.5), 6000.0), ((0.1, 4.0), 0.0)])
def test_a_bound_more_than_ten_times_the_threshold_tells_nothing(
    bounds: tuple[float, ...], certain: float, tmp_path: Path
) -> None:
    series = Engine().latencies("ttft", [(65, {50.0: 100})], bounds)
    expect(tmp_path, rules(tmp_path, "0.25s"), series, {(65, "sum(inferwatch:slo_certain:1h)"): {"{}": certain}})
