import pytest

from alerts.burn import DAY
from exporters.findings import finding
from monitor.gpus import GpuFleet, GpuRow
from tests.monitor.gpu_data import (
    FALLEN,
    GIB,
    NO_POWER,
    PART,
    SPLIT,
    WELL,
    bare_host,
    busy_host,
    gathered,
    instance,
    key,
    lost,
    reading,
    throttled,
    uuid,
)

NOW = 1_796_032_800.0


@pytest.fixture
def fleet() -> GpuFleet:
    return GpuFleet(stale_after=90, forget_after=3600)


def only(fleet: GpuFleet, now: float = NOW) -> GpuRow:
    [row] = fleet.rows(now)
    return row


def test_a_row_has_the_figures_of_the_reading(fleet: GpuFleet) -> None:
    fleet.update("gpu-07", gathered(NOW, reading("0", fields=(NO_POWER,)), on={"0": "chat-a"}))
    row = only(fleet)
    assert (row.node, row.uuid, row.gpu, row.parent, row.up) == ("gpu-07", "GPU-0", "0", None, True)
    assert (row.name, row.driver) == ("NVIDIA H100 80GB HBM3", "570.124.06")
    assert (row.utilization, row.sm_active) == (0.93, 0.41)
    assert (row.memory_used_bytes, row.memory_total_bytes) == (71.2 * GIB, 79.6 * GIB)
    assert (row.power_watts, row.power_limit_watts) == (642.25, 700)
    assert (row.temperature_celsius, row.memory_temperature_celsius) == (54, 61)
    assert (row.ecc_corrected, row.ecc_uncorrected) == (3, 0)
    assert row.servers == ["chat-a"]
    assert row.fields[0].reason == "not permitted to this process"


def test_what_a_gpu_does_not_tell_is_none_and_never_0(fleet: GpuFleet) -> None:
    fleet.update("gpu-07", gathered(NOW, reading("0", {})))
    told = only(fleet).model_dump()
    figures = told.keys() - {"node", "uuid", "gpu", "name", "driver", "up", "observed_at", "last_seen"}
    assert {name: told[name] for name in figures if told[name] not in (None, [])} == {}


def test_throttling_is_the_share_of_the_time_between_two_readings(fleet: GpuFleet) -> None:
    fleet.update("gpu-07", gathered(NOW - 30, reading("0", throttled(power=10, hw_thermal=4, thermal=7))))
    assert only(fleet).throttled is None
    fleet.update("gpu-07", gathered(NOW, reading("0", throttled(power=25, hw_thermal=4, thermal=2, power_brake=9))))
    assert only(fleet).throttled == {"power": 0.5}, "no base line, no increase and a counter that fell tell nothing"


def test_a_lost_gpu_keeps_its_name_and_no_reading(fleet: GpuFleet) -> None:
    fleet.update("gpu-07", gathered(NOW - 30, reading("0"), reading("1")))
    away = lost("0", FALLEN)
    fleet.update("gpu-07", gathered(NOW, away, reading("1")))
    row, other = fleet.rows(NOW)
    assert not row.up
    assert (row.name, row.last_seen) == ("NVIDIA H100 80GB HBM3", NOW - 30)
    assert [f.reason for f in row.findings] == ["gpu_lost", "gpu_xid_hardware"]
    figures = row.model_dump().keys() & {name for name in GpuRow.model_fields if "_" in name} - {
        "observed_at",
        "last_seen",
        "last_servers",
    }
    assert {name for name in figures if getattr(row, name) is not None} == set()
    assert other.up


def test_the_servers_of_a_lost_gpu_are_those_that_were_on_it_last(fleet: GpuFleet) -> None:
    fleet.update("gpu-07", gathered(NOW - 60, reading("0"), reading("1"), on={"0": "older"}))
    fleet.update("gpu-07", gathered(NOW - 30, reading("0"), reading("1"), on={"0": "chat"}))
    fleet.update("gpu-07", gathered(NOW, lost("0"), lost("1")))
    assert [(row.servers, row.last_servers) for row in fleet.rows(NOW)] == [([], ["chat"]), ([], [])]
    assert fleet.last_servers("gpu-07", uuid("0")) == {"chat"}
    assert fleet.last_servers("gpu-07", uuid("1")) == fleet.last_servers("gpu-08", uuid("0")) == set()
    assert fleet.last_servers("gpu-07", "") == set(), "what is said of the host is of no GPU"


def test_who_was_on_a_gpu_more_than_a_day_before_it_was_lost_is_not_hit(fleet: GpuFleet) -> None:
    fleet.update("gpu-07", gathered(NOW, reading("0"), reading("1"), on={"0": "chat"}))
    fleet.update("gpu-07", gathered(NOW + DAY, reading("0"), reading("1"), on={"1": "code"}))
    assert fleet.last_servers("gpu-07", uuid("0")) == {"chat"}
    fleet.update("gpu-07", gathered(NOW + DAY + 30, reading("0"), reading("1")))
    fleet.update("gpu-07", gathered(NOW + DAY + 60, lost("0"), lost("1")))
    assert [fleet.last_servers("gpu-07", uuid(of)) for of in "01"] == [set(), {"code"}]


def test_what_runs_on_instances_runs_on_their_gpu(fleet: GpuFleet) -> None:
    parts = [instance(gpu, "1g.10gb", PART) for gpu in ("0:1", "0:2")]
    fleet.update("gpu-07", gathered(NOW, reading("0", SPLIT), *parts, on={"0:1": "small", "0:2": "tiny"}))
    assert fleet.last_servers("gpu-07", uuid("0")) == {"small", "tiny"}
    assert fleet.last_servers("gpu-07", uuid("0:2")) == {"tiny"}


def test_a_gpu_that_is_back_has_its_readings_again(fleet: GpuFleet) -> None:
    fleet.update("gpu-07", gathered(NOW - 60, reading("0", throttled(power=0))))
    fleet.update("gpu-07", gathered(NOW - 30, lost("0")))
    fleet.update("gpu-07", gathered(NOW, reading("0", {**WELL, **throttled(power=15)})))
    row = only(fleet)
    assert (row.up, row.power_watts, row.throttled) == (True, 642.25, {"power": 0.25})


def test_xids_that_came_are_told_of_a_lost_gpu_too(fleet: GpuFleet) -> None:
    fleet.update("gpu-07", gathered(NOW, reading("0", xids={13: 0, 79: 1}), reading("1", xids={13: 0}), reading("2")))
    assert [row.xids for row in fleet.rows(NOW)] == [{"79": 1}, {}, None]


def test_gpus_of_a_host_that_is_silent_are_not_called_up(fleet: GpuFleet) -> None:
    fleet.update("gpu-07", gathered(NOW, reading("0", xids={79: 1})))
    assert only(fleet, NOW + 90).up
    silent = only(fleet, NOW + 91)
    assert (silent.up, silent.power_watts, silent.xids) == (False, None, None)
    assert [(f.reason, f.detail) for f in silent.findings] == [("no_observation", "last reading 91 s ago")]
    assert fleet.rows(NOW + 3601) == []
    assert fleet.hosts(NOW + 3601) == []


def test_what_is_read_later_replaces_what_was_read_before(fleet: GpuFleet) -> None:
    fleet.update("gpu-07", gathered(NOW, reading("0"), instance("0:1", "1g.10gb", {})))
    fleet.update("gpu-07", gathered(NOW - 1, reading("5")))
    assert [row.gpu for row in fleet.rows(NOW)] == ["0", "0:1"]
    fleet.update("gpu-07", gathered(NOW + 1, reading("0")))
    assert [row.gpu for row in fleet.rows(NOW + 1)] == ["0"], "the instance is not there any more"


def test_gpus_that_are_not_read_any_more_are_not_known(fleet: GpuFleet) -> None:
    fleet.update("gpu-07", gathered(NOW, reading("0")))
    fleet.update("gpu-07", None)
    assert (fleet.rows(NOW), fleet.hosts(NOW)) == ([], [])


def test_rows_stand_by_node_and_number(fleet: GpuFleet) -> None:
    numbers = ("10", "9", "0:10", "0:9", "0", "x", "9" * 5000)
    fleet.update("b", gathered(NOW, *(reading(gpu) for gpu in numbers), node="b"))
    fleet.update("a", gathered(NOW, reading("3"), node="a"))
    assert [row.gpu for row in fleet.rows(NOW)] == ["3", "0", "0:9", "0:10", "9", "10", "9" * 5000, "x"]


def test_an_instance_names_its_gpu_and_its_profile(fleet: GpuFleet) -> None:
    fleet.update("gpu-07", gathered(NOW, instance("0:1", "2g.20gb", {key("gpu_memory_used_bytes"): GIB})))
    row = only(fleet)
    assert (row.parent, row.mig_profile, row.memory_used_bytes, row.power_watts) == ("GPU-0", "2g.20gb", GIB, None)


def test_a_host_says_why_it_has_no_gpus(fleet: GpuFleet) -> None:
    fleet.update("cpu-1", bare_host(NOW))
    fleet.update("gpu-07", busy_host(NOW)[1])
    bare, busy = fleet.hosts(NOW)
    assert (bare.node, bare.available, bare.findings[0].reason) == ("cpu-1", False, "gpu_none")
    assert (busy.node, busy.available, busy.findings) == ("gpu-07", True, [])


def test_a_finding_of_the_host_is_kept_beside_its_gpus(fleet: GpuFleet) -> None:
    fleet.update("gpu-07", gathered(NOW, reading("0"), findings=(finding("gpu_not_here", "chat-a: 9"),)))
    assert [f.detail for f in fleet.hosts(NOW)[0].findings] == ["chat-a: 9"]
