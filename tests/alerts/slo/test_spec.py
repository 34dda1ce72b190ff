from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from alerts.slo.spec import Slo, read
from alerts.slo.terms import is_slice_gauge
from exporters.loader import ConfigError
from exporters.schema import METRICS

BAD = sorted((Path(__file__).parent / "bad").glob("*.yml"))
GAUGES = ", ".join(m.name for m in METRICS.values() if is_slice_gauge(m))


def slo_of(folder: Path, **keys: str) -> Slo:
    told = {"name": "chat", "objective": "99%", "indicator": "{availability: {}}"} | keys
    path = folder / "slo.yml"
    path.write_text("version: 1\nslos:\n  - " + "\n    ".join(f"{k}: {v}" for k, v in told.items()) + "\n")
    return read(path).slos[0]


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_a_bad_file_gives_one_precise_message(path: Path) -> None:
    (expected,) = re.findall(r"^# error: (.*)$", path.read_text(), re.MULTILINE)
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert list(caught.value.problems) == [f"{path}: {expected}".replace("{gauges}", GAUGES)]


@pytest.mark.parametrize(
    ("text", "expected"), [("99.9%", "0.999"), ('"99.9%"', "0.999"), ("0.95", "0.95"), ("50%", "0.5")]
)
def test_an_objective_is_a_share_or_a_percentage_without_dust(tmp_path: Path, text: str, expected: str) -> None:
    slo = slo_of(tmp_path, objective=text)
    assert slo.objective == Decimal(expected)
    assert slo.budget == 1 - Decimal(expected)


def test_defaults_are_those_of_a_month_by_model_and_role(tmp_path: Path) -> None:
    slo = slo_of(tmp_path)
    assert (slo.days, slo.groups, slo.minimum, slo.unknown) == (30, ("model", "role"), 100, "exclude")
    assert slo.counts_outage
    assert not slo_of(tmp_path, indicator="{latency: {phase: ttft, below: 1s}}").counts_outage


def test_roles_stay_apart_whatever_else_is_grouped_by(tmp_path: Path) -> None:
    assert slo_of(tmp_path, group_by="[]").groups == ("role",)
    assert slo_of(tmp_path, group_by="[role, model]").groups == ("role", "model")


def test_maintenance_windows_may_touch_and_are_told_in_utc(tmp_path: Path) -> None:
    windows = (
        "[{start: 2026-12-01T23:00:00+01:00, end: 2026-12-01T23:00:00Z}, "
        "{start: 2026-12-01T23:00:00Z, end: 2026-12-02T00:00:00Z, note: new driver}]"
    )
    slo = slo_of(tmp_path, maintenance=windows)
    assert slo.maintenance[0].start == datetime(2026, 12, 1, 22, tzinfo=UTC)
    assert slo.maintenance[1].note == "new driver"


def test_windows_that_can_never_fire_are_told_apart(tmp_path: Path) -> None:
    kept, left_out = slo_of(tmp_path, objective="90%").burn_windows()
    assert [w.factor for w in left_out] == [Decimal("14.4")]
    assert [w.factor for w in kept] == [6, 3, 1]
    assert [w.severity for w in slo_of(tmp_path, alerts="[ticket]").burn_windows()[0]] == ["ticket", "ticket"]


def test_annotations_may_have_templates_that_the_monitor_fills_in_too(tmp_path: Path) -> None:
    text = "{{ $labels.model }} of {{ $labels.service }}: {{ $value | humanizePercentage }}"
    slo = slo_of(tmp_path, labels="{service: chat}", annotations=f"{{note: '{text}'}}")
    assert slo.annotations == {"note": text}
