"""What promtool says of rules for an availability objective: 99 % of 100 requests a minute."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path

import pytest

from alerts.burn import WINDOWS_30D, BurnWindow
from alerts.rules.slo import slo_groups
from alerts.rules.text import rule_file
from alerts.slo.spec import read
from tests.alerts.rules.worlds import Engine, alerts, counter, expect, gauge, rules_of, slo_of

PAGE, TICKET = "SloBurnPage", "SloBurnTicket"


def requests(*segments: tuple[int, float] | int, engine: Engine = Engine()) -> dict[str, str]:  # noqa: B008
    """Per segment: minutes, and how many of 100 requests a minute fail."""
    stop = counter(*(s if isinstance(s, int) else (s[0], 100 - s[1]) for s in segments))
    present = gauge(*(s if isinstance(s, int) else (s[0], 1.0) for s in segments))
    return engine.finished(stop=stop, error=counter(*segments)) | engine.info(present) | engine.up(present)


@pytest.mark.parametrize("window", WINDOWS_30D, ids=lambda w: f"{w.factor}x")
def test_a_burn_window_fires_at_its_minute_and_resolves(window: BurnWindow, tmp_path: Path) -> None:
    limit, long, short = float(window.factor), window.long // 60, window.short // 60
    name = PAGE if window.severity == "page" else TICKET
    # 1.9 times the limit reaches it after long / 1.9 minutes; sums stand at whole five minutes, seen a step later.
    step = 1 if window.long <= 6 * 3600 else 5
    above = ceil(long / 1.9 / 5) * 5
    rules = rules_of(slo_of(tmp_path, indicator="{availability: {}}"), [window])
    burning = requests((long, 0), (above + 5, limit * 1.9), (short + 15, 0))
    end = long + above + 5
    alerts(tmp_path, rules, burning, {end - 5: [], end - 5 + step: [name], end + short + 10: []}, step)


@pytest.mark.parametrize("window", WINDOWS_30D, ids=lambda w: f"{w.factor}x")
def test_a_burn_window_does_not_fire_just_below_its_rate(window: BurnWindow, tmp_path: Path) -> None:
    limit, name = float(window.factor), PAGE if window.severity == "page" else TICKET
    only = rules_of(slo_of(tmp_path, indicator="{availability: {}}"), [window])
    alerts(tmp_path, only, requests((90, limit * 0.99)), {30: [], 89: []})
    alerts(tmp_path, only, requests((90, limit * 1.01)), {30: [name], 89: [name]})


@pytest.mark.parametrize(("failing", "fires"), [(0.99, []), (1.01, [TICKET]), (5.9, [TICKET]), (6.1, [PAGE, TICKET])])
def test_the_steady_rate_decides(failing: float, fires: list[str], tmp_path: Path) -> None:
    rules = rules_of(slo_of(tmp_path, indicator="{availability: {}}"))
    alerts(tmp_path, rules, requests((120, failing)), {60: fires, 119: fires})


def rules(folder: Path, **keys: str) -> str:
    return rules_of(slo_of(folder, **({"indicator": "{availability: {}}"} | keys)))


def test_no_error_series_yet_means_no_errors(tmp_path: Path) -> None:
    healthy = Engine().finished(stop=counter((120, 100)))
    asked = {
        (60, "inferwatch:slo_bad_ratio:1h"): {'inferwatch:slo_bad_ratio:1h{slo="chat",model="m",role="unified"}': 0.0}
    }
    expect(tmp_path, rules(tmp_path), healthy, asked)
    alerts(tmp_path, rules(tmp_path), healthy, {119: []})


def test_nothing_at_all_is_unknown_and_alerts_nothing(tmp_path: Path) -> None:
    asked: dict[tuple[int, str], dict[str, float]] = {
        (60, "inferwatch:slo_bad_ratio:1h"): {},
        (60, "inferwatch:slo_total:5m"): {},
    }
    expect(tmp_path, rules(tmp_path), {"other": "1x200"}, asked)


def test_idle_servers_alert_nothing_and_spend_nothing(tmp_path: Path) -> None:
    flat = Engine().finished(stop=counter((120, 0), start=5000), error=counter((120, 0), start=900))
    expect(tmp_path, rules(tmp_path), flat, {(90, "inferwatch:slo_bad_ratio:1h"): {}})
    alerts(tmp_path, rules(tmp_path), flat, {119: []})


def test_one_bad_request_at_night_is_too_few_to_say(tmp_path: Path) -> None:
    # Three requests within an hour, one of them failed: a third.
    night = Engine().finished(stop=counter((10, 0), (2, 1), (48, 0)), error=counter((20, 0), (1, 1), (39, 0)))
    alerts(tmp_path, rules(tmp_path), night, {25: [], 40: [], 59: []})
    alerts(tmp_path, rules(tmp_path, minimum_requests="3"), night, {25: [], 27: [PAGE, TICKET]})


def test_a_burst_weighs_as_much_as_its_requests(tmp_path: Path) -> None:
    # Eleven slices of 10 requests, and one of 10,000 with 500 errors: 500 of 10,110, where ratios would average 0.42 %.
    stop = counter((30, 2), (5, 1900), (30, 2))
    burst = Engine().finished(stop=stop, error=counter((30, 0), (5, 100), (30, 0)))
    labels = 'inferwatch:slo_{}:1h{{slo="chat",model="m",role="unified"}}'
    asked = {
        (65, "inferwatch:slo_bad:1h"): {labels.format("bad"): 500.0},
        (65, "inferwatch:slo_total:1h"): {labels.format("total"): 10110.0},
        (66, "inferwatch:slo_bad_ratio:1h > 0.0494 < 0.0495"): {labels.format("bad_ratio"): 500 / 10110},
    }
    expect(tmp_path, rules(tmp_path), burst, asked)


def test_a_counter_that_falls_back_to_zero_counts_on(tmp_path: Path) -> None:
    # The process starts anew after 60 minutes without missing a sample.
    restarted = Engine().finished(
        stop=counter((60, 80)) + " " + counter((60, 80)), error=counter((60, 20)) + " " + counter((60, 20))
    )
    alerts(tmp_path, rules(tmp_path), restarted, {59: [PAGE, TICKET], 62: [PAGE, TICKET], 110: [PAGE, TICKET]})


def test_a_total_outage_pages_within_two_minutes_and_resolves(tmp_path: Path) -> None:
    engine = Engine()
    away = engine.finished(stop=counter((60, 100), 60, (60, 100))) | engine.info(gauge((60, 1), 60, (60, 1)))
    outage = away | engine.up(gauge((60, 1), (60, 0), (60, 1)))
    # Of 99.9 %, 14.4 times the budget of an hour is 0.86 minutes.
    only = rules_of(slo_of(tmp_path, objective="99.9%", indicator="{availability: {}}"), WINDOWS_30D[:1])
    alerts(tmp_path, only, outage, {60: [], 62: [PAGE], 119: [PAGE], 127: []})


@pytest.mark.parametrize(
    ("window", "enough"), list(zip(WINDOWS_30D, (9, 22, 44, 44), strict=True)), ids=["1h", "6h", "1d", "3d"]
)
def test_minutes_of_a_partial_outage_add_up(window: BurnWindow, enough: int, tmp_path: Path) -> None:
    # Of 60, 360, 1,440 and 4,320 minutes 14.4, 6, 3 and 1 % are 8.64, 21.6, 43.2 and 43.2: as sums stand at whole five
    # minutes, they are passed with 10, 25 and 45 of them.
    engine, name = Engine(), PAGE if window.severity == "page" else TICKET
    only = rules_of(slo_of(tmp_path, indicator="{availability: {}}"), [window])
    served = engine.finished(stop=counter((60, 100), enough)) | engine.info(gauge((60, 1), enough))
    summed = 60 + ceil(enough / 5) * 5
    alerts(tmp_path, only, served | engine.up(gauge((60, 1), (60, 0))), {summed: [], summed + 1: [name]})
    shorter = engine.up(gauge((60, 1), (enough - 5, 0), (30, 1)))
    alerts(tmp_path, only, served | shorter, {60 + enough - 4: [], summed + 1: []})


def test_an_outage_without_any_request_before_it_pages(tmp_path: Path) -> None:
    engine = Engine()
    idle = engine.finished(stop=counter((60, 0), 60)) | engine.info(gauge((60, 1), 60))
    alerts(tmp_path, rules(tmp_path), idle | engine.up(gauge((60, 1), (60, 0))), {60: [], 68: [], 90: [PAGE]})


def test_one_server_down_of_two_is_no_outage(tmp_path: Path) -> None:
    a, b = Engine(), Engine(server="s2")
    series = requests((120, 0), engine=a) | requests((60, 0), 60, engine=b) | b.up(gauge((60, 1), (60, 0)))
    alerts(tmp_path, rules(tmp_path), series, {90: [], 119: []})


def of_page(*segments: tuple[int, float] | int) -> str:
    """A gauge of a sidecar whose page is missing for so many minutes: Prometheus marks that it ended."""
    return " ".join(gauge(s) if isinstance(s, tuple) else f"stale _x{2 * s - 1}" for s in segments)


def beside_one_that_is_down(folder: Path, *up: tuple[int, float] | int, outage: Mapping[int, bool]) -> None:
    """What `llm_up` says of a second server; whether the minutes that are told are of an outage, which pages."""
    down, other = Engine(), Engine(server="s2")
    present = of_page(*((s[0], 1.0) if isinstance(s, tuple) else s for s in up))
    series = down.info(f"{gauge((2, 1))} stale") | down.up(gauge((2, 1), (48, 0)))
    series |= other.info(present) | other.up(of_page(*up))
    # Of 99.9 %, 14.4 times the budget of an hour is 0.86 minutes.
    only = rules_of(slo_of(folder, objective="99.9%", indicator="{availability: {}}"), WINDOWS_30D[:1])
    minutes, firing = "sum(inferwatch:slo_outage:minute)", 'count by (alertname) (ALERTS{alertstate="firing"})'
    pages = {f'{{alertname="{PAGE}"}}': 1.0}
    asked = {(minute, minutes): {"{}": float(is_one)} for minute, is_one in outage.items()}
    expect(
        folder, only, series, asked | {(minute, firing): pages if is_one else {} for minute, is_one in outage.items()}
    )


def test_a_missed_page_of_a_server_that_is_up_is_no_outage_though_the_others_are_down(tmp_path: Path) -> None:
    # Its samples from minute 20 to 21.5 are missing: at minute 21 there is none of the last minute.
    beside_one_that_is_down(tmp_path, (20, 1), 2, (28, 1), outage=dict.fromkeys(range(15, 45), False))


def test_a_server_that_is_not_seen_for_five_minutes_hides_no_outage(tmp_path: Path) -> None:
    # Its last sample is four and a half minutes old at minute 24.
    beside_one_that_is_down(tmp_path, (20, 1), 30, outage={minute: minute >= 25 for minute in range(20, 45)})


def test_a_server_that_is_seen_to_go_down_after_the_others_makes_an_outage_at_once(tmp_path: Path) -> None:
    beside_one_that_is_down(tmp_path, (20, 1), (30, 0), outage={minute: minute >= 21 for minute in range(15, 45)})


def test_a_server_that_was_down_when_it_was_seen_last_hides_no_outage(tmp_path: Path) -> None:
    beside_one_that_is_down(tmp_path, (20, 1), (2, 0), 28, outage={minute: minute >= 21 for minute in range(15, 45)})


def test_a_server_alone_is_not_known_to_be_down_when_it_is_not_seen(tmp_path: Path) -> None:
    engine, name = Engine(), "sum(inferwatch:slo_outage:minute)"
    series = engine.info(of_page((20, 1), 20)) | engine.up(of_page((20, 1), 20))
    asked: dict[tuple[int, str], dict[str, float]] = {(minute, name): {"{}": 0.0} for minute in range(20, 25)}
    expect(tmp_path, rules(tmp_path), series, asked | {(minute, name): {} for minute in range(25, 40)})


def test_a_server_that_is_configured_no_more_is_no_outage(tmp_path: Path) -> None:
    alerts(tmp_path, rules(tmp_path), requests((60, 0), 60), {70: [], 119: []})


@pytest.mark.parametrize("minutes", [2, 30])
def test_a_server_that_is_down_counts_for_what_it_served_last_alone(minutes: int, tmp_path: Path) -> None:
    # It changes its model, or learns it only after the start, and goes down so many minutes later.
    before, after = Engine(model="m-a"), Engine()
    series = before.info(f"{gauge((60, 1))} stale") | after.info(f"_x120 {gauge((minutes, 1))} stale")
    series |= after.up(gauge((60 + minutes, 1), (60, 0)))
    asked = {
        (61 + minutes + later, "inferwatch:slo_outage:minute"): {
            'inferwatch:slo_outage:minute{slo="chat",model="m",role="unified"}': 1.0
        }
        for later in (2, 10, 40)
    }
    expect(tmp_path, rules(tmp_path), series, asked)


def test_what_a_server_served_is_known_after_a_pause_of_the_evaluation(tmp_path: Path) -> None:
    engine = Engine()
    recorded = 'inferwatch:slo_server:minute{slo="chat",node="n1",server="s1",model="m",role="unified"}'
    series = {recorded: "1x10 _x200"} | engine.up(gauge((90, 0)))
    asked: dict[tuple[int, str], dict[str, float]] = {(40, "sum(inferwatch:slo_outage:minute)"): {"{}": 1.0}}
    expect(tmp_path, rules(tmp_path), series, asked)


def test_models_are_judged_apart(tmp_path: Path) -> None:
    a, b = Engine(), Engine(server="s2", model="m-b")
    series = requests((120, 0), engine=a) | requests((120, 50), engine=b)
    alerts(tmp_path, rules(tmp_path), series, {119: [f"{PAGE} m-b", f"{TICKET} m-b"]})


def test_a_request_that_passes_a_prefill_and_a_decode_server_counts_once_on_each(tmp_path: Path) -> None:
    a, b = Engine(role="prefill"), Engine(server="s2", role="decode")
    series = requests((65, 0), engine=a) | requests((65, 0), engine=b)
    name = 'inferwatch:slo_total:1h{{slo="chat",model="m",role="{}"}}'
    asked = {(65, "inferwatch:slo_total:1h"): {name.format("prefill"): 6000.0, name.format("decode"): 6000.0}}
    expect(tmp_path, rules(tmp_path), series, asked)


def test_two_scrapes_of_one_sidecar_count_once(tmp_path: Path) -> None:
    once = requests((65, 10))
    twice = {k.replace("{", f'{{instance="{i}",'): v for i in "ab" for k, v in once.items()}
    asked = {(65, "sum(inferwatch:slo_total:1h)"): {"{}": 6000.0}, (65, "sum(inferwatch:slo_bad:1h)"): {"{}": 600.0}}
    expect(tmp_path, rules(tmp_path), twice, asked)


@pytest.mark.parametrize(("declared", "total"), [("[cluster]", 1000.0), ("[]", 500.0)])
def test_servers_of_one_name_in_two_clusters_are_two_where_their_label_is_declared(
    declared: str, total: float, tmp_path: Path
) -> None:
    told = "slos: [{name: chat, objective: 99%, indicator: {availability: {}}}]"
    (tmp_path / "slo.yml").write_text(f"version: 1\nuser_labels: {declared}\n{told}\n")
    series = {k.replace("{", f'{{cluster="{c}",'): v for c in "ab" for k, v in requests((60, 10)).items()}
    asked = {
        (30, "sum(inferwatch:slo_total:5m)"): {"{}": total},
        (30, "sum(inferwatch:slo_bad:5m)"): {"{}": total / 10},
    }
    expect(tmp_path, rule_file(slo_groups(read(tmp_path / "slo.yml"))), series, asked)


def test_rejected_requests_are_bad_and_aborted_ones_are_on_neither_side(tmp_path: Path) -> None:
    engine = Engine()
    series = engine.finished(stop=counter((65, 80)), abort=counter((65, 50))) | engine.series(
        "llm_requests_rejected_total", counter((65, 20)), reason="queue_full"
    )
    asked = {(65, "sum(inferwatch:slo_total:1h)"): {"{}": 6000.0}, (65, "sum(inferwatch:slo_bad:1h)"): {"{}": 1200.0}}
    expect(tmp_path, rules(tmp_path), series, asked)


@pytest.mark.parametrize(("choice", "total", "bad"), [("exclude", 6000.0, 0.0), ("bad", 7800.0, 1800.0)])
def test_requests_that_nobody_can_judge_are_left_out_or_bad(
    choice: str, total: float, bad: float, tmp_path: Path
) -> None:
    engine = Engine("lmdeploy")
    # 10 a minute end in a counter that mixes failures and cancellations, 20 vanish.
    series = engine.finished(stop=counter((65, 100)), unknown=counter((65, 10)))
    series |= engine.series("llm_requests_unfinished", counter((65, 20)))
    asked = {
        (65, "sum(inferwatch:slo_total:1h)"): {"{}": total},
        (65, "sum(inferwatch:slo_bad:1h)"): {"{}": bad},
        (65, "sum(inferwatch:slo_unknown:1h)"): {"{}": 1800.0},
    }
    expect(tmp_path, rules(tmp_path, unknown=choice), series, asked)


def test_nothing_counts_while_maintenance_lasts(tmp_path: Path) -> None:
    window = "[{start: 1970-01-01T01:00:00Z, end: 1970-01-01T02:00:00Z}]"
    series = requests((60, 0), (60, 100), (60, 0))
    alerts(tmp_path, rules(tmp_path, maintenance=window), series, {70: [], 119: [], 150: []})


@pytest.mark.parametrize(
    ("version", "unknown"), [("1.2.1", 6000.0), ("0.21.0", 6000.0), ("1.3.0", 0.0), ("1.20.0", 0.0)]
)
def test_a_server_that_counts_successes_alone_is_not_well_for_ever(
    version: str, unknown: float, tmp_path: Path
) -> None:
    engine = Engine("trtllm_serve")
    series = engine.finished(stop=counter((120, 90)), length=counter((120, 10)), error=counter((120, 0)))
    series |= engine.info(gauge((120, 1.0)), version)
    asked: dict[tuple[int, str], dict[str, float]] = {
        (100, "sum(inferwatch:slo_unknown:1h)"): {"{}": unknown} if unknown else {},
        (100, "sum(inferwatch:slo_total:1h)"): {} if unknown else {"{}": 6000.0},
    }
    expect(tmp_path, rules(tmp_path), series, asked)
