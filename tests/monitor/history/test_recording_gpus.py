import json
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import Engine

from exporters.gpu.observation import GpuObservation
from monitor.history.recording import Recording
from monitor.history.store import Store
from tests.monitor.gpu_data import H100, gathered, key, lost, reading, throttled
from tests.monitor.history.stored import everything, rows
from tests.monitor.observations import observation, series

INTERVAL = 15.0
POWER, ENERGY, CLOCK = key("gpu_power_watts"), key("gpu_energy_joules_total"), key("gpu_clock_hertz", "sm")


def path_of(database: Engine) -> Path:
    return Path(database.url.database or "")


def life(until: int = 8) -> list[tuple[float, tuple[GpuObservation, ...]]]:
    """Every 15 seconds from 65 on: 300 J a second more power in each; lost at 110, back at 125 with a new driver."""
    readings = []
    for n in range(until):
        at = 65.0 + 15 * n
        values = {POWER: 300.0 + n, ENERGY: 1e6 + 4500 * n, CLOCK: 1.98e9, **throttled(power=float(n))}
        info = H100 if n < 4 else {**H100, "driver": "580.1"}
        unit = lost("0") if n == 3 else reading("0", values, info=info, xids={79: 0, 137: 1} if n > 3 else {79: 0})
        readings.append((at, gathered(at, unit, node="n1", on={"0": "s1"}).gpus))
    return readings


def record(database: Engine, readings: Iterable[tuple[float, tuple[GpuObservation, ...]]]) -> None:
    """A process from its start to an orderly end."""
    recording = Recording(Store(database), INTERVAL)
    for at, gpus in readings:
        recording.record([observation(at, {series("llm_requests_running"): 1})], at, gpus)
    recording.flush()


def test_a_minute_of_a_gpu_is_a_row(database: Engine) -> None:
    record(database, life())
    found = {start: row for (_, start), row in rows(path_of(database), "gpu_minute").items()}
    assert list(found) == [60, 120]
    first, second = found[60], found[120]
    # 65, 80 and 95 tell, 110 says that it is lost, 125 to 170 tell again: covered from 65 to 170, cut at 120
    assert (first["samples"], first["covered_seconds"], first["up_avg"], first["up_max"]) == (4, 55, 0.75, 1)
    assert (first["power_watts_avg"], first["power_watts_max"], first["power_watts_readings"]) == (301, 302, 3)
    assert (first["energy_joules"], first["increase_seconds"], first["clock_hertz_sm_avg"]) == (9000, 30, 1.98e9)
    assert first["xid_errors"] == {"79": 0}
    assert (second["samples"], second["covered_seconds"], second["up_avg"]) == (4, 50, 1)
    assert (second["energy_joules"], second["throttled_seconds_power"], second["increase_seconds"]) == (22500, 5, 75)
    assert second["xid_errors"] == {"79": 0, "137": 1}
    assert (second["power_watts_readings"], second["temperature_celsius_core_avg"]) == (None, None)


def test_a_gpu_is_a_series_with_what_it_says_of_itself(database: Engine) -> None:
    record(database, life())
    [gpu] = [s for s in everything(path_of(database))["series"] if s[1] == "gpu"]
    assert (gpu[2], gpu[3]) == ("n1", "")
    assert (gpu[8], gpu[9]) == ({}, {**H100, "driver": "580.1"})
    assert gpu[10:] == (65, 170)


def test_what_changed_is_told_of_the_gpu_and_of_the_server(database: Engine) -> None:
    moved = [
        (at, gathered(at, reading("0"), reading("1"), node="n1", on={"1": "s1"}).gpus) for at in (185.0, 200.0, 215.0)
    ]
    record(database, [*life(), *moved])
    events = [(json.loads(of), *rest) for of, *rest in everything(path_of(database))["events"]]
    name, uuids = H100["name"], [of["uuid"] for of, *_ in events if "uuid" in of]
    assert uuids == ["GPU-0"] * 4
    assert [rest for of, *rest in events if "uuid" in of] == [
        [110, "state", "up", "down"],
        [125, "driver", "570.124.06", "580.1"],
        [125, "state", "down", "up"],
        [185, "driver", "580.1", "570.124.06"],
    ]
    assert [rest for of, *rest in events if "server" in of] == [[200, "gpus", f"GPU-0 {name}", f"GPU-1 {name}"]]


def test_a_reading_that_was_taken_before_confirms_nothing(database: Engine) -> None:
    [here], [there] = ([gathered(65, reading("0"), reading("1"), node="n1", on={n: "s1"}).gpus] for n in ("0", "1"))
    record(database, [(65, here), (80, here), (95, here), (110, there)])
    assert everything(path_of(database))["events"] == []
    assert [row["samples"] for row in rows(path_of(database), "gpu_minute").values()] == [1, 1]


def test_the_type_of_gpu_stands_with_the_server(database: Engine) -> None:
    record(database, life())
    told = {s[1]: s[9] for s in everything(path_of(database))["series"]}
    assert told["target"] == {"gpu": H100["name"], "gpus": f"GPU-0 {H100['name']}"}


def test_any_restart_leaves_the_same_rows(two: tuple[Engine, Engine]) -> None:
    whole, split = two
    readings = life(14)
    record(whole, readings)
    for start, end in ((0, 3), (3, 4), (4, 9), (9, 14)):
        record(split, readings[start:end])
    for each in ("gpu_minute", "target_minute"):
        assert rows(path_of(split), each) == rows(path_of(whole), each)
    assert everything(path_of(split)) == everything(path_of(whole))
