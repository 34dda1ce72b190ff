from collections.abc import Iterable, Mapping

import pytest

from exporters.gpu.gathered import GpuReading, observation_of
from exporters.gpu.observation import GpuObservation
from exporters.gpu.ways import Key
from monitor.history import checkpoint
from monitor.history.gpu_minutes import advance, identity_of
from monitor.history.minutes import Event, Minute, State, Window
from tests.monitor.gpu_data import H100, key, throttled

MAX_STEP = 30.0
ENERGY, POWER = key("gpu_energy_joules_total"), key("gpu_power_watts")
CORE, MEMORY = key("gpu_temperature_celsius", "core"), key("gpu_temperature_celsius", "memory")


def gpu(
    at: float,
    values: Mapping[Key, float] | None = None,
    *,
    number: str = "0",
    up: bool = True,
    xids: Mapping[int, int] | None = None,
    info: Mapping[str, str] = H100,
) -> GpuObservation:
    return observation_of("n1", at, GpuReading("GPU-a", number, up, values or {}, info, xids=xids), {})


def lost(at: float, xids: Mapping[int, int] | None = None) -> GpuObservation:
    return gpu(at, up=False, xids=xids)


def windows_of(readings: Iterable[GpuObservation]) -> list[Window]:
    state = State()
    finished = [advance(state, each, MAX_STEP).finished for each in readings]
    return [w for w in (*finished, state.window) if w is not None]


def minutes(readings: Iterable[GpuObservation]) -> dict[int, Minute]:
    """By start; there is one GPU."""
    return {window.start: minute for window in windows_of(readings) for minute in window.rows.values()}


def events_of(readings: Iterable[GpuObservation]) -> list[Event]:
    state = State()
    return [event for each in readings for event in advance(state, each, MAX_STEP).events]


def energy(minute: Minute) -> float | None:
    return minute.counters.get(ENERGY)


def test_gauges_are_kept_as_mean_and_maximum_also_by_their_own_label() -> None:
    readings = [(15, 300, 50, 60), (30, 500, 52, 70), (45, 400, 54, 80)]
    minute = minutes(gpu(at, {POWER: p, CORE: c, MEMORY: m}) for at, p, c, m in readings)[0]
    found = {of: (mean.average, mean.maximum) for of, mean in minute.gauges.items()}
    assert found == {POWER: (400, 500), CORE: (52, 54), MEMORY: (70, 80), key("gpu_up"): (1, 1)}
    assert (minute.samples, minute.covered_seconds) == (3, 30)


def test_energy_of_adjacent_minutes_adds_up_to_the_whole() -> None:
    readings = [(50, 1000.0), (65, 8500.0), (110, 31_000.0), (125, 38_500.0)]
    found = minutes(gpu(at, {ENERGY: joules}) for at, joules in readings)
    assert {start: energy(m) for start, m in found.items()} == {0: None, 60: 30_000, 120: 7500}
    assert {start: m.increase_seconds for start, m in found.items()} == {0: 0, 60: 60, 120: 15}


def test_a_counter_that_fell_was_reset_and_its_value_is_the_increase() -> None:
    """The driver was loaded again: it counts from zero."""
    found = minutes(gpu(at, {ENERGY: joules}) for at, joules in [(5, 9e6), (20, 9.1e6), (35, 400), (50, 1000)])
    assert energy(found[0]) == 1e5 + 400 + 600


def test_a_counter_that_is_first_read_later_is_a_base_line() -> None:
    """It counts since the driver was loaded, months ago."""
    found = minutes([gpu(5, {POWER: 1}), gpu(20, {ENERGY: 9e9}), gpu(35, {ENERGY: 9e9 + 70})])
    assert energy(found[0]) == 70


def test_a_reading_that_failed_for_once_takes_nothing_away() -> None:
    readings = [gpu(5, {ENERGY: 100, **throttled(power=1)}), gpu(20, throttled(power=3)), gpu(35, {ENERGY: 700})]
    minute = minutes(readings)[0]
    assert minute.counters == {ENERGY: 600, key("gpu_throttled_seconds_total", "power"): 2}
    assert minute.increase_seconds == 30


def test_a_counter_that_was_away_longer_than_the_look_back_is_a_base_line_again() -> None:
    xids = {79: 0}
    readings = [gpu(5, {ENERGY: 100}, xids=xids)]
    readings += [gpu(at, xids=xids) for at in range(20, 320, 15)]
    readings += [gpu(320, {ENERGY: 900_000}, xids=xids), gpu(335, {ENERGY: 900_050}, xids=xids)]
    assert energy(minutes(readings)[300]) == 50
    assert sum(energy(m) or 0 for m in minutes(readings).values()) == 50


def test_throttling_by_reason_stays_apart() -> None:
    readings = [gpu(5, throttled(power=10, hw_thermal=1)), gpu(20, throttled(power=22, hw_thermal=1.5))]
    counters = minutes(readings)[0].counters
    assert counters["gpu_throttled_seconds_total", "power"] == 12
    assert counters["gpu_throttled_seconds_total", "hw_thermal"] == 0.5


def test_a_lost_gpu_has_a_row_and_its_last_word() -> None:
    readings = [
        gpu(5, {POWER: 300}, xids={79: 0}),
        lost(20, {79: 1}),
        lost(35, {79: 1}),
    ]
    minute = minutes(readings)[0]
    assert minute.gauges[key("gpu_up")].average == pytest.approx(1 / 3)
    assert minute.gauges[POWER].count == 1
    assert (minute.samples, minute.covered_seconds, minute.last_seen) == (3, 30, 5)
    assert minute.counters["gpu_xid_errors_total", "79"] == 1
    assert minute.info["name"] == H100["name"]


def test_an_xid_that_nobody_expected_counts_from_its_first_event() -> None:
    readings = [gpu(5, xids={79: 0}), gpu(20, xids={79: 0, 137: 2}), gpu(35, xids={79: 0, 137: 3})]
    assert minutes(readings)[0].counters == {("gpu_xid_errors_total", "79"): 0, ("gpu_xid_errors_total", "137"): 3}


def test_xids_seen_before_the_first_reading_are_a_base_line() -> None:
    assert minutes([gpu(5, xids={79: 1, 137: 4}), gpu(20, xids={79: 1, 137: 4})])[0].counters == {
        ("gpu_xid_errors_total", "79"): 0,
        ("gpu_xid_errors_total", "137"): 0,
    }


def test_an_xid_after_a_restart_of_the_sidecar_counts_again() -> None:
    readings = [gpu(5, xids={79: 0, 137: 1}), gpu(20, xids={79: 0}), gpu(35, xids={79: 0, 137: 1})]
    assert minutes(readings)[0].counters["gpu_xid_errors_total", "137"] == 1


def test_a_gpu_with_another_number_goes_on_counting() -> None:
    readings = [gpu(5, {ENERGY: 100}, number="3"), gpu(20, {ENERGY: 160}, number="2")]
    [window] = windows_of(readings)
    assert energy(window.rows[identity_of(readings[1])]) == 60


def test_driver_loss_and_return_are_events() -> None:
    newer = {**H100, "driver": "580.1"}
    readings = [gpu(5), lost(20), lost(35), gpu(50, info=newer), gpu(65, info={}), gpu(80, info=newer)]
    of = identity_of(readings[0])
    assert events_of(readings) == [
        Event(of, 20, "state", "up", "down"),
        Event(of, 50, "state", "down", "up"),
        Event(of, 50, "driver", "570.124.06", "580.1"),
    ]


def test_without_counters_gauges_are_read_all_the_same() -> None:
    state = State()
    for at, joules in ((5, 10.0), (20, 20.0)):
        advance(state, gpu(at, {ENERGY: joules, POWER: 2}), MAX_STEP, counted=False)
    assert state.base is None
    assert state.window is not None
    [minute] = state.window.rows.values()
    assert (minute.counters, minute.gauges[POWER].count, minute.samples) == ({}, 2, 2)


def test_a_checkpoint_keeps_all_that_the_next_reading_needs() -> None:
    state = State()
    for each in (gpu(5, {ENERGY: 100, CORE: 50}, xids={79: 0}), gpu(20, {CORE: 52}, xids={79: 0})):
        advance(state, each, MAX_STEP)
    restored = checkpoint.load(checkpoint.dump(state))
    assert restored == state
    assert restored is not None
    advance(restored, gpu(35, {ENERGY: 130}, xids={79: 0}), MAX_STEP)
    assert restored.window is not None
    [minute] = restored.window.rows.values()
    assert energy(minute) == 30
