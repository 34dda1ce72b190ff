from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from monitor.compare.gpus import ByMinute, Gpu, Host, of_servers, power, users, uses
from monitor.compare.observed import Observed
from monitor.compare.rows import MINUTE, Number, Rows
from monitor.compare.timeline import Timeline
from monitor.history.minutes import Event
from monitor.history.packed import Floats
from tests.monitor.compare.hand import START, Life, Minute, observed

NAN = float("nan")
A, B = ("n1", "GPU-a"), ("n1", "GPU-b")
KIND = "NVIDIA H100"


def watts(value: float, minutes: int = 4) -> ByMinute:
    return ByMinute(START + np.arange(minutes) * MINUTE, np.full(minutes, value))


def placed(text: str, *changes: Event) -> Timeline:
    return Timeline.of(changes, text)


def with_gpus(
    seen: Observed, hosts: Sequence[Host], placed: Mapping[Host, Timeline], powers: Mapping[Gpu, ByMinute]
) -> tuple[Rows, list[str]]:
    rows = seen.rows
    return of_servers(rows, hosts, placed, users(uses(rows.server, rows.start, hosts, placed)), powers)


def minutes() -> list[Minute]:
    return [Minute(n, joules=None, gpus=None) for n in range(4)]


def column(found: Floats) -> list[float]:
    return [-1.0 if np.isnan(value) else value for value in found.tolist()]


def test_power_comes_from_the_energy_counter_and_else_from_readings() -> None:
    rows = {
        "series": np.array([0, 0, 1, 1]),
        "start": np.array([0, 60, 0, 60]),
        "power_watts_avg": np.array([1.0, 400.0, 300.0, NAN]),
        "energy_joules": np.array([33_000.0, NAN, NAN, NAN]),
        "increase_seconds": np.array([66.0, 60.0, 60.0, 0.0]),
    }
    found = power(rows, [A, B])
    assert found[A].value.tolist() == [500.0, 400.0]
    assert column(found[B].value) == [300.0, -1.0]


def test_a_gpu_under_two_numbers_is_one() -> None:
    rows = {
        "series": np.array([0, 1]),
        "start": np.array([60, 0]),
        "power_watts_avg": np.array([400.0, 300.0]),
        "energy_joules": np.array([NAN, NAN]),
        "increase_seconds": np.array([60.0, 60.0]),
    }
    assert power(rows, [A, A])[A].value.tolist() == [300.0, 400.0]


def test_a_server_has_the_energy_of_all_its_gpus() -> None:
    seen = observed(Life(minutes()))
    timeline = placed(f"GPU-a {KIND}, GPU-b {KIND}")
    rows, types = with_gpus(seen, [("n1", "s1")], {("n1", "s1"): timeline}, {A: watts(500), B: watts(300)})
    assert column(rows.number(Number.JOULES)) == [48_000] * 4
    assert column(rows.number(Number.GPU_SECONDS)) == [120] * 4
    assert types == [KIND] * 4


def test_a_server_that_moved_has_the_energy_of_the_gpu_it_was_on() -> None:
    moved = Event((), START + 2 * MINUTE, "gpus", "GPU-a H100", "GPU-b A100")
    seen = observed(Life(minutes()))
    rows, types = with_gpus(
        seen, [("n1", "s1")], {("n1", "s1"): placed("GPU-b A100", moved)}, {A: watts(500), B: watts(300)}
    )
    assert column(rows.number(Number.JOULES)) == [30_000, 30_000, 18_000, 18_000]
    assert types == ["H100", "H100", "A100", "A100"]


def test_of_a_shared_gpu_nobody_knows_whose_time_and_energy_it_was() -> None:
    seen = observed(Life(minutes()), Life(minutes()[:2], server="s2"))
    hosts = [("n1", "s1"), ("n1", "s2")]
    rows, _ = with_gpus(seen, hosts, dict.fromkeys(hosts, placed(f"GPU-a {KIND}")), {A: watts(500)})
    assert column(rows.number(Number.JOULES)) == [-1, -1, 30_000, 30_000, -1, -1]
    assert column(rows.number(Number.GPU_SECONDS)) == [-1, -1, 60, 60, -1, -1]


@pytest.mark.parametrize("text", ["", f"GPU-x {KIND}"])
def test_energy_is_not_known_of_gpus_that_nobody_reads(text: str) -> None:
    seen = observed(Life(minutes()))
    rows, types = with_gpus(seen, [("n1", "s1")], {("n1", "s1"): placed(text)}, {A: watts(500)})
    assert np.isnan(rows.number(Number.JOULES)).all()
    assert types == [KIND if text else ""] * 4
