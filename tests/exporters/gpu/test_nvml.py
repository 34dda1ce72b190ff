"""What is read of GPUs that have everything, of old drivers, and of GPUs that lack something."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporters.gpu.xids import XIDS
from exporters.schema import THROTTLE_REASONS
from tests.exporters.gpu.conftest import Start
from tests.exporters.gpu.scripted import MIB, Host, gpu, host, uuid

AS_SCRIPTED = {
    "gpu_up": 1,
    "gpu_utilization_ratio": 0.93,
    "gpu_memory_used_bytes": 70_000 * MIB,
    "gpu_memory_total_bytes": 81_559 * MIB,
    "gpu_power_watts": 642.25,
    "gpu_power_limit_watts": 700,
    "gpu_energy_joules_total": 123_456.789,
    "gpu_temperature_celsius core": 66,
    "gpu_temperature_celsius memory": 79,
    "gpu_clock_hertz sm": 1_755e6,
    "gpu_clock_hertz memory": 2_619e6,
    "gpu_clock_hertz graphics": 1_740e6,
    "gpu_sm_active_ratio": 0.8125,
    "gpu_sm_occupancy_ratio": 0.245,
    "gpu_tensor_active_ratio": 0.3375,
    "gpu_dram_active_ratio": 0.58,
    **{f"gpu_throttled_seconds_total {reason}": 0 for reason in THROTTLE_REASONS},
    "gpu_throttled_seconds_total power": 3,
    "gpu_throttled_seconds_total sw_thermal": 1.5,
    "gpu_ecc_errors_total corrected": 7,
    "gpu_ecc_errors_total uncorrected": 0,
    "gpu_remapped_rows_total corrected": 2,
    "gpu_remapped_rows_total uncorrected": 0,
    "gpu_remapped_rows_total pending": 0,
    "gpu_remapped_rows_total failed": 0,
    **{f"gpu_xid_errors_total {xid}": 0 for xid in XIDS},
    "gpu_pcie_bytes_total tx": 1_000_000,
    "gpu_pcie_bytes_total rx": 2_000_000,
    "gpu_nvlink_bytes_total tx": 4_000 * 1024,
    "gpu_nvlink_bytes_total rx": 5_000 * 1024,
    "gpu_nvlink_errors_total replay": 10 + 11,
    "gpu_nvlink_errors_total recovery": 20 + 21,
    "gpu_nvlink_errors_total crc": 30 + 31,
}  # the script of `gpu()`, by hand


def test_every_reading_comes_out_in_the_unit_of_the_schema(two: Host) -> None:
    two.collect()
    collected = two.collect()
    assert collected.available
    assert collected.findings == {}
    assert [g.uuid for g in collected.gpus] == [uuid(0), uuid(1)]
    for each in collected.gpus:
        assert each.values() == pytest.approx(AS_SCRIPTED)
        assert each.findings == {}


def test_what_a_gpu_is_stands_beside_its_readings(two: Host) -> None:
    (info,) = two.collect().gpu(1).labels("gpu_info")
    assert info == {
        "node": "n1", "uuid": uuid(1), "gpu": "1", "name": "NVIDIA H100 80GB HBM3", "driver": "570.124.06",
        "cuda": "12.8", "pci_bus_id": "0000:2a:00.0", "serial": "1650000001",
    }  # fmt: skip


def test_values_move(two: Host) -> None:
    two.collect()
    two.say(host(gpu(0, util=37, power=100_000, energy=123_556_789), gpu(1)))
    collected = two.collect()
    assert collected.gpu(0).values()["gpu_utilization_ratio"] == 0.37
    assert collected.gpu(0).values()["gpu_power_watts"] == 100
    assert collected.gpu(0).values()["gpu_energy_joules_total"] == pytest.approx(123_556.789)
    assert collected.gpu(1).values()["gpu_utilization_ratio"] == 0.93


def test_activity_needs_two_samples(two: Host) -> None:
    assert "gpu_sm_active_ratio" not in two.collect().gpu(0).values()
    assert two.collect().gpu(0).values()["gpu_sm_active_ratio"] == 0.8125


def test_whoever_asks_at_once_again_gets_the_activity_of_the_span_before(two: Host) -> None:
    two.collect()
    two.collect()
    two.say(host(gpu(0, gpm_2=1_000), gpu(1)))
    assert two.collect(later=0.06).gpu(0).values()["gpu_sm_active_ratio"] == 0.8125
    assert two.collect(later=0.06).gpu(0).values()["gpu_sm_active_ratio"] == 0.1


def test_memory_is_the_same_where_the_driver_counts_the_reserved_part_as_used(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0) | {(0, "mem.used_holds_reserved"): 1}))
    assert here.collect().gpu(0).values()["gpu_memory_used_bytes"] == 70_000 * MIB


def test_an_old_driver_gives_what_it_has(start: Start, old_library: Path) -> None:
    here = start(old_library, host(gpu(0)))
    here.collect()
    seen = here.collect().gpu(0)
    lacking = {k for k in AS_SCRIPTED if k.endswith("_active_ratio") or k == "gpu_sm_occupancy_ratio"}
    # What the first form of the memory call counts as used holds the reserved part.
    expected = AS_SCRIPTED | {"gpu_memory_used_bytes": (70_000 + 551) * MIB}
    assert seen.values() == pytest.approx({k: v for k, v in expected.items() if k not in lacking})
    assert seen.fields["gpu_memory_used_bytes"] == ("nvmlDeviceGetMemoryInfo", "exact", "")
    assert seen.findings == {
        "gpu_old_driver": "gpu_sm_active_ratio, gpu_sm_occupancy_ratio, gpu_tensor_active_ratio, gpu_dram_active_ratio"
    }


def test_where_the_driver_counts_no_time_what_is_seen_is_summed_up(start: Start, old_library: Path) -> None:
    counted = ("field.74", "field.75", "field.76", "field.77", "field.79", "field.269", "field.270", "field.271")
    script = {k: v for k, v in gpu(0, reasons=0x84, violation_0=2_500_000_000).items() if k[1] not in counted}
    here = start(old_library, host(script))
    here.collect()
    here.collect(later=15)
    here.say(host(script | {(0, "reasons"): 0x4}))
    seen = here.collect(later=20).gpu(0)
    throttled = {k: v for k, v in seen.values().items() if "throttled" in k}
    # The power brake was on for the 15 seconds before the second collection, and off in the third.
    assert throttled == {
        "gpu_throttled_seconds_total power": 2.5,
        "gpu_throttled_seconds_total sync_boost": 0,
        "gpu_throttled_seconds_total sw_thermal": 0,
        "gpu_throttled_seconds_total hw_thermal": 0,
        "gpu_throttled_seconds_total power_brake": 15,
    }
    assert seen.fields["gpu_throttled_seconds_total{power_brake}"][1] == "approximate"


def test_a_state_that_is_seen_counts_for_a_minute_at_most(start: Start, library: Path) -> None:
    script = {k: v for k, v in gpu(0, reasons=0x80).items() if k[1] != "field.271"}
    here = start(library, host(script))
    here.collect()
    assert here.collect(later=3600).gpu(0).values()["gpu_throttled_seconds_total power_brake"] == 60


def test_traffic_without_a_counter_is_the_sum_of_its_rates(start: Start, library: Path) -> None:
    counted = ("field.197", "field.198", f"field.138.{0xFFFFFFFF}", f"field.139.{0xFFFFFFFF}")
    here = start(library, host({k: v for k, v in gpu(0).items() if k[1] not in counted}))
    here.collect()
    here.collect(later=10)
    seen = here.collect(later=5).gpu(0)
    expected = {"tx": 34, "rx": 205}
    assert {d: seen.values()[f"gpu_pcie_bytes_total {d}"] for d in expected} == {
        d: rate * MIB * 15 for d, rate in expected.items()
    }
    # GPM's numbers run the other way round here: 60 is what comes in.
    assert seen.values()["gpu_nvlink_bytes_total rx"] == 1_500 * MIB * 15
    assert seen.values()["gpu_nvlink_bytes_total tx"] == 900 * MIB * 15
    assert seen.fields["gpu_pcie_bytes_total{tx}"] == ("GPM 20 × time", "derived", "")


def test_nvlink_bytes_are_summed_over_links_where_there_is_no_total(start: Start, library: Path) -> None:
    links = {(0, "field.138.0"): 100, (0, "field.138.1"): 200}
    script = {k: v for k, v in gpu(0).items() if k[1] != f"field.138.{0xFFFFFFFF}"} | links
    assert start(library, host(script)).collect().gpu(0).values()["gpu_nvlink_bytes_total tx"] == 300 * 1024


def test_a_sum_over_links_does_not_fall_when_one_of_them_stops_to_tell(two: Host) -> None:
    before = two.collect().gpu(0).values()["gpu_nvlink_errors_total crc"]
    two.say({k: v for k, v in host(gpu(0, field_163_0=35), gpu(1)).items() if k != (0, "field.163.1")})
    assert two.collect().gpu(0).values()["gpu_nvlink_errors_total crc"] == before + 5


def test_narrow_counters_of_traffic_are_not_taken(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0, field_197_type=1)))
    here.collect()
    fields = here.collect().gpu(0).fields
    assert fields["gpu_pcie_bytes_total{tx}"][0] == "GPM 20 × time"
    assert fields["gpu_pcie_bytes_total{rx}"][0] == "nvmlDeviceGetFieldValues 198"


def test_fields_of_every_type_are_read(start: Start, library: Path) -> None:
    for number in (0, 1, 2, 3, 4):
        seen = start(library, host(gpu(0, field_82_type=number))).collect().gpu(0)
        assert seen.values()["gpu_temperature_celsius memory"] == 79


def test_links_are_not_asked_one_by_one_where_there_is_a_total(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0)))
    assert here.collect().gpu(0).values()["gpu_nvlink_bytes_total tx"] == 4_000 * 1024
    link = {(0, "field.138.0"): 1, (0, "field.138.1"): 1}
    here.say(host({k: v for k, v in gpu(0).items() if k[1] != f"field.138.{0xFFFFFFFF}"} | link))
    assert "gpu_nvlink_bytes_total tx" not in here.collect().gpu(0).values()


def test_a_gpu_without_nvlink_has_no_nvlink_series(start: Start, library: Path) -> None:
    seen = start(library, host(gpu(0, field_91=0))).collect().gpu(0)
    assert not [s for s in seen.series if s.metric.startswith("gpu_nvlink")]


def test_the_call_that_blocks_is_never_made(two: Host) -> None:
    two.collect()
    assert not [c for c in two.calls() if "PcieThroughput" in c]


def test_a_host_with_a_driver_and_no_gpu_says_so(start: Start, library: Path) -> None:
    collected = start(library, host()).collect()
    assert collected.available
    assert list(collected.findings) == ["gpu_none"]
