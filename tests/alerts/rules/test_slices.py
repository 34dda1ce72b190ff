"""What promtool says of rules for minutes in which a gauge was as it should be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alerts.burn import WINDOWS_30D, BurnWindow
from tests.alerts.rules.worlds import Engine, alerts, expect, gauge, rules_of, slo_of

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
