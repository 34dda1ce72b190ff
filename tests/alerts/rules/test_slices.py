"""What promtool says of rules for minutes in which a gauge was as it should be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alerts.burn import WINDOWS_30D, BurnWindow
from tests.alerts.rules.worlds import Engine, alerts, counter, expect, gauge, rules_of, slo_of

KV = "llm_kv_cache_utilization_ratio"


def rules(
    folder: Path,
    across: str = "max",
    condition: str = "below",
    value: str = "0.95",
    windows: Sequence[BurnWindow] | None = None,
) -> str:
    indicator = f"{{slices: {{metric: {KV}, across: {across}, is: {condition}, value: {value}}}}}"
    return rules_of(slo_of(folder, indicator=indicator), windows)


def test_minutes_without_head_room_page_and_resolve(tmp_path: Path) -> None:
    series = Engine().series(KV, gauge((60, 0.5), (15, 0.99), (30, 0.5)))
    # 14.4 % of 60 minutes are 8.64: nine bad ones are in the sum of minute 70, seen a minute later.
    only = rules(tmp_path, windows=WINDOWS_30D[:1])
    alerts(tmp_path, only, series, {60: [], 70: [], 71: ["SloBurnPage"], 82: []})


def test_eight_bad_minutes_of_an_hour_do_not_page(tmp_path: Path) -> None:
    series = Engine().series(KV, gauge((60, 0.5), (8, 0.99), (30, 0.5)))
    alerts(tmp_path, rules(tmp_path, windows=WINDOWS_30D[:1]), series, {68: [], 71: [], 76: []})


def test_the_fullest_engine_decides_or_their_average(tmp_path: Path) -> None:
    series = Engine().series(KV, gauge((60, 0.99))) | Engine(server="s2").series(KV, gauge((60, 0.5)))
    asked = {(30, "sum(inferwatch:slo_bad:5m)"): {"{}": 5.0}, (30, "sum(inferwatch:slo_total:5m)"): {"{}": 5.0}}
    expect(tmp_path, rules(tmp_path), series, asked)
    expect(tmp_path, rules(tmp_path, "avg"), series, {(30, "sum(inferwatch:slo_bad:5m)"): {"{}": 0.0}})


def test_a_gauge_that_is_not_there_makes_no_minutes(tmp_path: Path) -> None:
    series = Engine().series(KV, gauge((20, 0.5), 40))
    asked: dict[tuple[int, str], dict[str, float]] = {
        (50, "inferwatch:slo_total:5m"): {},
        (50, "inferwatch:slo_bad_ratio:5m"): {},
    }
    expect(tmp_path, rules(tmp_path), series, asked)


def test_the_first_bad_minutes_of_a_young_history_say_nothing(tmp_path: Path) -> None:
    # 14.4 % of an hour are 8.64 minutes: eight minutes are fewer, whatever share of them is bad.
    only = rules(tmp_path, windows=WINDOWS_30D[:1])
    series = Engine().series(KV, gauge((30, 0.99)))
    alerts(tmp_path, only, series, {3: [], 6: [], 11: ["SloBurnPage"]})


TRITON = Engine("triton")


def triton(gauge_of: str, finished: str) -> dict[str, str]:
    info = TRITON.series("llm_server_info", gauge((60, 1)), version="1", frontend="triton")
    return info | TRITON.series(KV, gauge_of) | TRITON.finished(stop=finished, error=counter((60, 0)))


def test_a_gauge_that_sticks_when_its_server_is_idle_is_judged_where_it_works(tmp_path: Path) -> None:
    # Full from the first minute on; requests finish in the minutes that end at 12 to 21 and at 34, and never again.
    series = triton(gauge((60, 0.99)), counter((11, 0), (10, 4), (12, 0), (1, 1), (26, 0)))
    asked: dict[tuple[int, str], dict[str, float]] = {
        (8, "inferwatch:slo_total:5m"): {},
        (20, "sum(inferwatch:slo_bad:5m)"): {"{}": 5.0},
        (23, "sum(inferwatch:slo_total:5m)"): {"{}": 3.0},
        (30, "inferwatch:slo_total:5m"): {},
        (35, "sum(inferwatch:slo_bad:5m)"): {"{}": 1.0},
        (50, "inferwatch:slo_total:5m"): {},
    }
    expect(tmp_path, rules(tmp_path), series, asked)


def test_tokens_are_work_too_and_so_is_what_a_server_counts_for_all_of_its_engines(tmp_path: Path) -> None:
    tokens = {k.replace('engine="0"', 'engine=""'): v for k, v in generated(TRITON).items()}
    series = triton(gauge((60, 0.99)), counter((60, 0))) | tokens
    expect(tmp_path, rules(tmp_path), series, {(30, "sum(inferwatch:slo_bad:5m)"): {"{}": 5.0}})


def generated(engine: Engine) -> dict[str, str]:
    return engine.series("llm_generation_tokens_total", counter((60, 100)))


def test_the_minutes_of_others_count_whether_they_work_or_not(tmp_path: Path) -> None:
    # NIM has the framework of Triton, and its gauges do not stick.
    for frontend in ("vllm", "nim"):
        engine = Engine(frontend)
        info = engine.series("llm_server_info", gauge((60, 1)), version="1", frontend=frontend)
        series = info | engine.series(KV, gauge((60, 0.99))) | engine.finished(stop=counter((60, 0)))
        expect(tmp_path, rules(tmp_path), series, {(30, "sum(inferwatch:slo_bad:5m)"): {"{}": 5.0}})


def test_an_idle_server_whose_gauge_sticks_does_not_decide_for_one_that_works(tmp_path: Path) -> None:
    other = Engine(server="s2", frontend="triton")
    series = triton(gauge((60, 0.99)), counter((60, 0))) | other.series(KV, gauge((60, 0.5)))
    series |= other.series("llm_server_info", gauge((60, 1)), version="1", frontend="triton") | generated(other)
    asked = {(30, "sum(inferwatch:slo_total:5m)"): {"{}": 5.0}, (31, "sum(inferwatch:slo_bad:5m)"): {"{}": 0.0}}
    expect(tmp_path, rules(tmp_path), series, asked)


def test_what_cannot_stick_is_not_asked_about(tmp_path: Path) -> None:
    def text(metric: str, **keys: str) -> str:
        indicator = f"{{slices: {{metric: {metric}, across: max, is: below, value: 1}}}}"
        return rules_of(slo_of(tmp_path, indicator=indicator, **keys))

    assert "triton" in text(KV)
    assert "triton" not in text(KV, select="{framework: [vllm, sglang]}")
    assert "triton" not in text("llm_requests_running_limit")
