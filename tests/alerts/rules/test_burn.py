from __future__ import annotations

from pathlib import Path

import pytest

from alerts.burn import Severity
from alerts.rules.burn import burn_alert
from alerts.rules.scope import Scope
from tests.alerts.rules.worlds import slo_of

VALUE = "{{ $value | humanizePercentage }}"


def description(folder: Path, severity: Severity, indicator: str) -> str:
    slo = slo_of(folder, objective="99.5%", indicator=indicator)
    windows = [window for window in slo.burn_windows()[0] if window.severity == severity]
    return burn_alert(Scope(slo), severity, windows).annotations["description"]


@pytest.mark.parametrize(
    ("indicator", "slower"),
    [
        ("{latency: {phase: ttft, below: 1}}", "of requests certainly took longer than 1 s to their first token"),
        ("{latency: {phase: e2e, below: 40}}", "of requests certainly took longer than 40 s"),
        ("{latency: {phase: itl, below: 0.1}}", "of gaps between tokens certainly were longer than 0.1 s"),
        ("{latency: {phase: tpot, below: 0.1}}", "of requests certainly took longer than 0.1 s per output token"),
        ("{availability: {}}", "of requests failed or were rejected, minutes without any server up included"),
    ],
)
def test_a_page_says_over_which_windows_how_much_was_bad_and_how_much_may_be(
    indicator: str, slower: str, tmp_path: Path
) -> None:
    assert description(tmp_path, "page", indicator) == (
        f"Over 1h or else 6h: {VALUE} {slower}. "
        "At most 0.5 % may, over 30 days. It burns at least 14.4x over 1h and 5m or 6x over 6h and 30m."
    )


def test_a_ticket_of_minutes_says_so_too(tmp_path: Path) -> None:
    slices = "{slices: {metric: llm_kv_cache_utilization_ratio, across: max, is: below, value: 0.95}}"
    assert description(tmp_path, "ticket", slices) == (
        f"Over 1d or else 3d: {VALUE} of minutes had llm_kv_cache_utilization_ratio not below 0.95. "
        "At most 0.5 % may, over 30 days. It burns at least 3x over 1d and 2h or 1x over 3d and 6h."
    )


def test_what_a_ticket_says_of_latencies_is_an_estimate(tmp_path: Path) -> None:
    told = description(tmp_path, "ticket", "{latency: {phase: ttft, below: 1}}")
    assert f"{VALUE} of requests by estimate took longer than 1 s to their first token." in told
