"""What promtool says of sums of pieces: bursts between two of them, restarts, servers that vanish and come back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from alerts.burn import WINDOWS_30D
from tests.alerts.rules.worlds import Engine, expect, rules_of, slo_of

STEP = 5
"""Seconds between two samples that there could be."""
WINDOWS = ("30m", "1h", "6h")
EDGE = 40 * 60 - 30
"""Where a piece ends and the next begins, half a minute before each fifth minute."""


def scraped(minutes: int, every: int, first: int, added: Mapping[int, float], away: Iterable[range] = ()) -> str:
    """A counter as it is seen every so many seconds from the first on. `added` by the second, `away` in seconds."""
    shown = []
    for at in range(0, minutes * 60, STEP):
        seen = at >= first and (at - first) % every == 0 and not any(at in gone for gone in away)
        shown.append(str(sum(many for moment, many in added.items() if moment <= at)) if seen else "_")
    return " ".join(shown)


def steady(minutes: int, per_minute: float) -> dict[int, float]:
    return {60 * minute: per_minute for minute in range(minutes)}


def rules(folder: Path, indicator: str = "availability: {}", **keys: str) -> str:
    return rules_of(slo_of(folder, indicator=f"{{{indicator}}}", **keys), WINDOWS_30D[:2])


def sums(
    minute: int, kind: str, value: float, windows: Iterable[str] = WINDOWS
) -> dict[tuple[int, str], dict[str, float]]:
    return {(minute, f"sum(inferwatch:slo_{kind}:{window})"): {"{}": value} for window in windows}


@pytest.mark.parametrize("every", [15, 30])
@pytest.mark.parametrize("first", [0, 5, 10])
def test_a_burst_between_two_pieces_counts_once(every: int, first: int, tmp_path: Path) -> None:
    # Between any two scrapes around the end of a piece: what is scraped at the edge itself belongs to the piece before.
    bursts = {EDGE + seconds: 100.0 for seconds in range(-every, 2 * every, STEP)}
    stop, error = scraped(70, every, first, {}), scraped(70, every, first, bursts)
    series = Engine().finished(stop=stop, error=error)
    expect(tmp_path, rules(tmp_path), series, sums(50, "bad", 100.0 * len(bursts)), sample_seconds=STEP)


@pytest.mark.parametrize("every", [15, 30])
def test_slow_requests_between_two_pieces_count_once(every: int, tmp_path: Path) -> None:
    burst = {EDGE + 1: 300.0}
    count = scraped(70, every, 10, steady(70, 10) | burst)
    fast, own = (scraped(70, every, 10, steady(70, 10) | {EDGE + 1: part}) for part in (100.0, 200.0))
    engine, name = Engine(), "llm_time_to_first_token_seconds"
    series = engine.series(f"{name}_count", count) | engine.series(f"{name}_bucket", fast, le="0.5")
    series |= engine.series(f"{name}_bucket", own, le="0.75")
    info = scraped(70, every, 10, {0: 1.0})
    series |= engine.series("llm_latency_native_bounds_info", info, phase="ttft", bounds="0.75,10.0")
    asked = sums(50, "bad", 200.0) | sums(50, "certain", 100.0)
    expect(
        tmp_path,
        rules(tmp_path, "latency: {phase: ttft, below: 0.5s}"),
        series,
        asked,
        sample_seconds=STEP,
    )


def test_a_burst_that_just_was_is_not_too_large_a_share(tmp_path: Path) -> None:
    # Of the hour up to 119:30 1,000 of 7,000. Samples that are 270 seconds apart make 1,111 of it in five minutes.
    error = scraped(125, 30, 10, {0: 70.0, 118 * 60: 1000.0})
    series = Engine().finished(stop=scraped(125, 30, 10, steady(125, 100)), error=error)
    asked = {(121, "sum(round(inferwatch:slo_bad:5m))"): {"{}": 1111.0}}
    asked |= {(121, "sum(round(7000 * inferwatch:slo_bad_ratio:1h))"): {"{}": 1000.0}}
    expect(tmp_path, rules(tmp_path), series, asked, sample_seconds=STEP)


def test_a_failure_larger_than_the_quiet_hour_before_it_is_not_the_whole_hour(tmp_path: Path) -> None:
    # Of the hour 120 are good and 130 failed at once: 52 %. Alone within five minutes the failed ones would be 94 %.
    error = scraped(135, 30, 10, {122 * 60: 130.0})
    series = Engine().finished(stop=scraped(135, 30, 10, steady(135, 2)), error=error)
    asked = {
        (minute, "sum(inferwatch:slo_bad_ratio:1h > bool 0.5) - sum(inferwatch:slo_bad_ratio:1h > bool 0.53)"): {
            "{}": 1.0
        }
        for minute in range(123, 134)
    }
    expect(tmp_path, rules(tmp_path), series, asked, sample_seconds=STEP)


def test_a_restart_in_a_piece_counts_what_came_before_and_after_it(tmp_path: Path) -> None:
    # 20 a minute from minute 10 to 40 and from 41 on; up to 54:30 these are 31 and 14 times 20.
    before = scraped(41, 30, 0, {60 * minute: 20.0 for minute in range(10, 41)})
    series = Engine().finished(stop=f"{before} {scraped(41, 30, 0, steady(41, 20))}")
    expect(tmp_path, rules(tmp_path), series, sums(55, "total", 900.0, WINDOWS[1:]), sample_seconds=STEP)


def test_a_restart_that_soon_overtakes_what_was_counted_before_it_is_a_restart(tmp_path: Path) -> None:
    # It had counted 10, and counts 1,000 in the same piece after the restart.
    old, new = scraped(37, 30, 0, {1500: 10.0}), scraped(33, 30, 0, {60: 1000.0})
    series = Engine().finished(stop=f"{old} {new}")
    expect(tmp_path, rules(tmp_path), series, sums(50, "total", 1010.0), sample_seconds=STEP)


def test_what_a_server_counted_last_before_it_vanished_is_counted(tmp_path: Path) -> None:
    # A burst just before it goes, in the middle of a piece, and just after the piece before.
    gone = [range(37 * 60, 4200)]
    error = scraped(70, 30, 10, {EDGE - 300 + 5: 40.0, 36 * 60 + 35: 2.0}, gone)
    series = Engine().finished(stop=scraped(70, 30, 10, {}, gone), error=error)
    expect(tmp_path, rules(tmp_path), series, sums(55, "bad", 42.0), sample_seconds=STEP)


@pytest.mark.parametrize(("back", "counted"), [(36 * 60 + 30, 30.0), (41 * 60, 30.0), (46 * 60, 0.0)])
def test_what_a_server_counted_unseen_is_counted_unless_it_is_away_for_a_whole_piece(
    back: int, counted: float, tmp_path: Path
) -> None:
    away = [range(36 * 60, back)]
    error = scraped(70, 30, 0, {36 * 60 + 20: 30.0}, away)
    series = Engine().finished(stop=scraped(70, 30, 0, {0: 7.0}, away), error=error)
    expect(tmp_path, rules(tmp_path), series, sums(55, "bad", counted), sample_seconds=STEP)


def test_a_server_that_is_found_with_what_it_had_counted_has_not_counted_it_now(tmp_path: Path) -> None:
    away = [range(0, 33 * 60)]
    late = Engine().finished(
        stop=scraped(70, 30, 0, {0: 9000.0}, away), error=scraped(70, 30, 0, {0: 500.0, 2400: 1.0}, away)
    )
    expect(tmp_path, rules(tmp_path), late, sums(55, "bad", 1.0), sample_seconds=STEP)


def test_the_first_failures_of_a_server_that_was_there_are_counted(tmp_path: Path) -> None:
    # It shows a reason once it has occurred.
    unborn = [range(0, 33 * 60)]
    engine = Engine()
    series = engine.finished(
        stop=scraped(70, 30, 0, steady(70, 10)), error=scraped(70, 30, 0, {33 * 60: 50.0}, unborn)
    ) | engine.series("llm_requests_rejected_total", scraped(70, 30, 0, {33 * 60: 7.0}, unborn), reason="queue_full")
    expect(tmp_path, rules(tmp_path), series, sums(55, "bad", 57.0), sample_seconds=STEP)


def test_a_sidecar_that_is_scraped_under_another_address_counts_nothing_anew(tmp_path: Path) -> None:
    series: dict[str, str] = {}
    for instance, away in (("a", range(33 * 60, 4200)), ("b", range(33 * 60))):
        of = Engine().finished(
            stop=scraped(70, 30, 0, {0: 9000.0}, [away]), error=scraped(70, 30, 0, {0: 50.0, 33 * 60: 5.0}, [away])
        )
        series |= {k.replace("{", f'{{instance="{instance}",'): v for k, v in of.items()}
    expect(tmp_path, rules(tmp_path), series, sums(55, "bad", 5.0), sample_seconds=STEP)


def test_a_server_that_is_replaced_together_with_its_sidecar_counts_from_zero(tmp_path: Path) -> None:
    # A pod and its successor of the same node and name: the old had counted more than the new has yet.
    series: dict[str, str] = {}
    for instance, away, counted in (("a", range(33 * 60, 4200), {0: 50.0}), ("b", range(33 * 60), {34 * 60: 40.0})):
        of = Engine().finished(stop=scraped(70, 30, 0, {0: 1.0}, [away]), error=scraped(70, 30, 0, counted, [away]))
        series |= {k.replace("{", f'{{instance="{instance}",'): v for k, v in of.items()}
    # It began at zero, and was scraped at the very end of its first piece: `increase` has nothing to reckon.
    expect(tmp_path, rules(tmp_path), series, sums(55, "bad", 40.0), sample_seconds=STEP)


def test_copies_that_are_scraped_at_different_moments_count_a_burst_once(tmp_path: Path) -> None:
    series: dict[str, str] = {}
    for instance, first in (("a", 5), ("b", 20)):
        of = Engine().finished(
            stop=scraped(70, 30, first, {}), error=scraped(70, 30, first, {EDGE - 2: 10.0, EDGE: 1.0})
        )
        series |= {k.replace("{", f'{{instance="{instance}",'): v for k, v in of.items()}
    expect(tmp_path, rules(tmp_path), series, sums(55, "bad", 11.0), sample_seconds=STEP)


def test_requests_that_vanish_between_two_pieces_are_unknown_once(tmp_path: Path) -> None:
    engine = Engine()
    series = engine.finished(stop=scraped(70, 30, 10, steady(70, 10)))
    series |= engine.series("llm_requests_unfinished", scraped(70, 30, 10, {0: 3.0, EDGE + 1: 8.0}))
    expect(tmp_path, rules(tmp_path), series, sums(55, "unknown", 8.0), sample_seconds=STEP)


def test_a_piece_that_touches_maintenance_does_not_count_and_the_next_does(tmp_path: Path) -> None:
    # Until 00:35:00: the piece that ends at 39:30 began at 34:30.
    window = "[{start: 1970-01-01T00:31:00Z, end: 1970-01-01T00:35:00Z}]"
    error = scraped(70, 30, 0, {29 * 60: 1.0, 32 * 60: 10.0, 37 * 60: 100.0, 41 * 60: 1000.0})
    series = Engine().finished(stop=scraped(70, 30, 0, {}), error=error)
    expect(tmp_path, rules(tmp_path, maintenance=window), series, sums(55, "bad", 1001.0), sample_seconds=STEP)
