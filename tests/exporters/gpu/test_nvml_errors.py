"""NVML's errors, one GPU's and the driver's: what is missing is said, and everything else goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporters.findings import GPU_KINDS
from exporters.gpu.errors import CODES, FAILURES, Verdict, code_of
from tests.exporters.gpu.conftest import Start
from tests.exporters.gpu.scripted import LONG, Host, Script, gpu, host, uuid

POWER = "nvmlDeviceGetPowerUsage"


def power_fails(code: int) -> Script:
    return host(gpu(0) | {(0, f"err.{POWER}"): code}, gpu(1))


def asked(here: Host, function: str, number: int) -> int:
    return here.calls().count(f"{function} {number}")


@pytest.mark.parametrize("code", [c for c, code in CODES.items() if code.verdict is Verdict.NEVER])
def test_a_reading_that_never_works_is_absent_and_not_asked_again(start: Start, library: Path, code: int) -> None:
    here = start(library, power_fails(code))
    seen = [here.collect().gpu(0) for _ in range(3)][-1]
    assert "gpu_power_watts" not in seen.values()
    assert seen.values()["gpu_utilization_ratio"] == 0.93
    assert asked(here, POWER, 0) == 1
    assert asked(here, POWER, 1) == 3
    assert seen.fields["gpu_power_watts"] == (POWER, "unavailable", code_of(code).meaning)


def test_only_what_a_driver_does_not_know_yet_is_a_finding(start: Start, library: Path) -> None:
    assert start(library, power_fails(3)).collect().gpu(0).findings == {}
    assert start(library, power_fails(13)).collect().gpu(0).findings == {"gpu_old_driver": "gpu_power_watts"}


def test_a_reading_without_permission_is_dropped_and_said_once(start: Start, library: Path) -> None:
    here = start(library, power_fails(4))
    for _ in range(3):
        seen = here.collect().gpu(0)
        assert seen.findings == {"gpu_no_permission": "gpu_power_watts"}
        assert "gpu_power_watts" not in seen.values()
    assert asked(here, POWER, 0) == 1
    assert here.log().count("no permission to read gpu_power_watts") == 1


@pytest.mark.parametrize("code", [c for c, code in CODES.items() if code.verdict is Verdict.FAILED and c != 19] + [77])
def test_a_reading_that_fails_is_absent_counted_and_tried_again(start: Start, library: Path, code: int) -> None:
    here = start(library, power_fails(code))
    collected = here.collect()
    assert "gpu_power_watts" not in collected.gpu(0).values()
    assert list(collected.gpu(0).findings.values()) == ["gpu_power_watts"]
    assert set(collected.gpu(0).findings) <= set(GPU_KINDS)
    assert collected.failed == {code_of(code).name: 1}
    assert code_of(code).name in FAILURES
    here.say(host(gpu(0), gpu(1)))
    collected = here.collect()
    assert collected.gpu(0).values()["gpu_power_watts"] == 642.25
    assert collected.gpu(0).findings == {}


@pytest.mark.parametrize("code", [c for c, code in CODES.items() if code.verdict is Verdict.NOT_NOW])
def test_a_reading_that_has_no_value_now_is_absent_without_more_ado(start: Start, library: Path, code: int) -> None:
    here = start(library, power_fails(code))
    collected = here.collect()
    assert "gpu_power_watts" not in collected.gpu(0).values()
    assert (collected.gpu(0).findings, collected.failed) == ({}, {})
    here.say(host(gpu(0), gpu(1)))
    assert here.collect().gpu(0).values()["gpu_power_watts"] == 642.25


def test_a_field_has_an_error_of_its_own(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0, field_82_err=4, field_75_err=3, field_197_err=999)))
    here.collect()
    collected = here.collect()
    seen = collected.gpu(0)
    assert "gpu_temperature_celsius memory" not in seen.values()
    assert "gpu_throttled_seconds_total thermal" not in seen.values()
    assert "gpu_pcie_bytes_total tx" not in seen.values()
    assert seen.values()["gpu_pcie_bytes_total rx"] == 2_000_000
    assert seen.findings == {
        "gpu_no_permission": "gpu_temperature_celsius{memory}", "gpu_read_failed": "gpu_pcie_bytes_total{tx}",
    }  # fmt: skip
    assert collected.failed == {"unknown": 1}


def test_all_fields_may_fail_together(start: Start, library: Path) -> None:
    script = host(gpu(0))
    here = start(library, script)
    here.collect()
    here.say(script | {(0, "err.nvmlDeviceGetFieldValues"): 999})
    seen = here.collect().gpu(0)
    assert "gpu_throttled_seconds_total power" not in seen.values()
    assert seen.values()["gpu_power_watts"] == 642.25
    here.say(script)
    assert here.collect().gpu(0).values()["gpu_throttled_seconds_total power"] == 3


def test_activity_is_left_alone_as_soon_as_anything_is_in_use(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0)))
    here.collect()
    assert "gpu_sm_active_ratio" in here.collect().gpu(0).values()
    here.say(host(gpu(0) | {(0, "err.nvmlDeviceGetMemoryInfo_v2"): 19}))
    here.collect()
    here.say(host(gpu(0)))
    sampled = asked(here, "nvmlGpmSampleGet", 0)
    seen = here.collect().gpu(0)
    assert "gpu_sm_active_ratio" not in seen.values()
    assert "gpu_memory_used_bytes" in seen.values()
    assert list(seen.findings) == ["gpu_activity_in_use"]
    assert asked(here, "nvmlGpmSampleGet", 0) == sampled


@pytest.mark.parametrize("code", [15, 28])
def test_a_lost_gpu_is_down_and_the_others_are_not(two: Host, code: int) -> None:
    two.collect()
    two.say(host(gpu(0), gpu(1) | {(1, "err"): code}))
    collected = two.collect()
    assert collected.available
    lost = collected.gpu(1)
    assert (lost.uuid, lost.up) == (uuid(1), False)
    assert {k for k in lost.values() if not k.startswith("gpu_xid")} == {"gpu_up"}
    assert lost.values()["gpu_up"] == 0
    assert lost.labels("gpu_info")[0]["name"] == "NVIDIA H100 80GB HBM3"
    assert list(lost.findings) == ["gpu_lost"]
    assert collected.gpu(0).values()["gpu_power_watts"] == 642.25
    assert collected.failed == {"gpu_is_lost": 1}


def test_a_lost_gpu_comes_back_under_its_uuid(two: Host) -> None:
    two.collect()
    two.say(host(gpu(0), gpu(1) | {(1, "err"): 15}))
    two.collect()
    two.collect(later=60)
    starts = asked(two, "nvmlInitWithFlags", -1)
    two.collect()
    two.collect()
    assert asked(two, "nvmlInitWithFlags", -1) == starts
    two.say(host(gpu(0), gpu(1, power=90_000)))
    assert not two.collect(later=15).gpu(1).up
    back = two.collect(later=60).gpu(1)
    assert (back.uuid, back.up, back.findings) == (uuid(1), True, {})
    assert back.values()["gpu_power_watts"] == 90
    assert asked(two, "nvmlInitWithFlags", -1) == starts + 1
    assert f"{uuid(1)} is back" in two.log()


def test_a_gpu_that_stays_away_is_looked_for_ever_less_often(two: Host) -> None:
    two.collect()
    two.say(host(gpu(0), gpu(1) | {(1, "err"): 15}))
    two.collect(later=600)
    began = asked(two, "nvmlInitWithFlags", -1)
    # At 15 s, then 60, 120, 240, 480, 600 and 600 s after the one before.
    for _ in range(2_200 // 15):
        two.collect(later=15)
    assert asked(two, "nvmlInitWithFlags", -1) - began == 7


def test_a_gpu_that_may_not_be_opened_is_no_reason_to_start_again(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0) | {(0, "err.nvmlDeviceGetHandleByIndex_v2"): 4}, gpu(1)))
    for _ in range(3):
        here.collect(later=600)
    assert asked(here, "nvmlInitWithFlags", -1) == 1


def test_a_gpu_that_was_lost_from_the_start_is_named_by_its_number(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0), gpu(1) | {(1, "err"): 15}))
    collected = here.collect()
    assert collected.findings == {"gpu_lost": "GPU 1: the GPU is off the bus or does not answer"}
    assert [g.uuid for g in collected.gpus] == [uuid(0)]
    here.say(host(gpu(0), gpu(1)))
    assert here.collect(later=60).gpu(1).up


def test_a_gpu_that_may_not_be_opened_hides_no_other(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0) | {(0, "err.nvmlDeviceGetHandleByIndex_v2"): 4}, gpu(1)))
    collected = here.collect()
    assert collected.findings == {"gpu_no_permission": "GPU 0: this process may not read it"}
    assert [g.gpu for g in collected.gpus] == ["1"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [(9, "gpu_no_driver"), (18, "gpu_driver_mismatch"), (999, "gpu_unreadable"), (4, "gpu_no_permission")],
)
def test_a_driver_that_does_not_start_is_tried_again_slowly(
    start: Start, library: Path, code: int, reason: str
) -> None:
    here = start(library, host(gpu(0)) | {(-1, "err.nvmlInitWithFlags"): code})
    for _ in range(3):
        collected = here.collect()
        assert (collected.available, list(collected.findings), collected.gpus) == (False, [reason], [])
    assert asked(here, "nvmlInitWithFlags", -1) == 1
    assert here.log().count("gpu: unavailable, ") == 1
    here.say(host(gpu(0)))
    assert here.collect(later=60).gpu(0).up


def test_a_host_without_the_library_says_so_once_and_without_the_binding(start: Start) -> None:
    here = start(None)
    for _ in range(3):
        collected = here.collect(later=60)
        assert (collected.available, list(collected.findings)) == (False, ["gpu_none"])
    assert here.log().count("gpu: unavailable, libnvidia-ml.so.1: cannot open shared object file") == 1
    assert here.close() == {"imported": False}


def test_a_host_that_must_have_gpus_and_has_no_library_has_an_error(start: Start) -> None:
    assert list(start(None, required=True).collect().findings) == ["gpu_no_library"]


@pytest.mark.parametrize("code", [9, 18, 1])
def test_a_driver_that_goes_away_takes_all_gpus_down_until_it_is_back(two: Host, code: int) -> None:
    two.collect()
    gone = {(n, "err"): code for n in (0, 1)} | {(-1, "err.nvmlInitWithFlags"): code}
    two.say(host(gpu(0), gpu(1)) | gone)
    for _ in range(2):
        collected = two.collect()
        assert not collected.available
        assert [(g.uuid, g.up) for g in collected.gpus] == [(uuid(0), False), (uuid(1), False)]
        assert list(collected.findings) == list(collected.gpu(0).findings)
    two.say(host(gpu(0), gpu(1)))
    assert all(g.up for g in two.collect(later=60).gpus)


def test_a_call_that_hangs_holds_up_nobody(start: Start, library: Path) -> None:
    script = host(gpu(0), gpu(1))
    here = start(library, script)
    here.collect()
    here.say(script | {(1, f"hang.{POWER}"): 3_600_000})
    # Where its process stands still, the other one may be late too.
    collected = here.until(lambda c: c.gpu(0).up, timeout=2)
    # Nobody waits for it twice: else the call would have come back by then.
    again = here.collect(timeout=LONG)
    for each in (collected, again):
        assert each.gpu(0).values()["gpu_power_watts"] == 642.25
        assert {k: v for k, v in each.gpu(1).values().items() if "xid" not in k} == {"gpu_up": 0}
        assert each.gpu(1).findings == {"gpu_timeout": "a call of the driver hangs"}
        assert each.failed == {"hangs": 1}
    here.say(script)
    assert here.until(lambda c: c.gpu(1).up).gpu(1).findings == {}


def test_nvml_is_not_shut_down_under_a_call_that_hangs(start: Start, library: Path) -> None:
    script = host(gpu(0), gpu(1))
    here = start(library, script)
    here.collect()
    here.say(script | {(1, f"hang.{POWER}"): 3_600_000, (0, "err"): 15})
    here.collect(timeout=0.3, later=60)
    here.collect(timeout=0.3, later=60)
    assert asked(here, "nvmlShutdown", -1) == 0
    here.say(script)
    here.until(lambda c: c.gpu(1).up)
    assert here.collect(later=60).gpu(0).up


def test_a_driver_that_hangs_at_its_start_holds_up_nobody(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0)) | {(-1, "hang.nvmlInitWithFlags"): 3_600_000})
    collected = here.collect(timeout=0.2)
    assert (collected.available, list(collected.findings)) == (False, ["gpu_timeout"])
    here.say(host(gpu(0)))
    assert here.until(lambda c: c.available).gpu(0).up


def test_nvml_is_shut_down_at_the_end(two: Host) -> None:
    two.collect()
    two.collect()
    two.close()
    calls = [c.split()[0] for c in two.calls()]
    assert calls.count("nvmlInitWithFlags") == calls.count("nvmlShutdown") == 1
    assert calls.count("nvmlEventSetFree") == 1
    assert calls.count("nvmlGpmSampleAlloc") == calls.count("nvmlGpmSampleFree") == 4
    assert calls[-1] == "nvmlShutdown"


def test_the_end_does_not_wait_for_a_call_that_hangs(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0)))
    here.collect()
    here.say(host(gpu(0)) | {(0, f"hang.{POWER}"): 3_600_000})
    here.collect(timeout=0.1)
    here.close()
    assert here.process.stop() == 0


@pytest.mark.parametrize(
    ("key", "value", "reason", "detail"),
    [
        ("ecc.1.0", 3, "gpu_ecc_uncorrected", "3 since the driver was loaded"),
        ("remap.pending", 1, "gpu_row_remap_pending", ""),
        ("remap.failed", 1, "gpu_row_remap_failed", ""),
        ("field.230", 2, "gpu_recovery_needed", "reboot the node"),
        ("field.230", 99, "gpu_recovery_needed", "action 99"),
        ("fabric.state", 1, "gpu_fabric_not_ready", "not started"),
        ("fabric.state", 2, "gpu_fabric_not_ready", "in progress"),
        ("fabric.status", 999, "gpu_fabric_not_ready", "completed with error 999"),
    ],
)
def test_what_a_gpu_says_of_its_health_is_a_finding(
    start: Start, library: Path, key: str, value: int, reason: str, detail: str
) -> None:
    assert start(library, host(gpu(0) | {(0, key): value})).collect().gpu(0).findings == {reason: detail}


@pytest.mark.parametrize("state", [0, 3])
def test_a_gpu_without_a_fabric_or_with_one_that_is_ready_is_well(start: Start, library: Path, state: int) -> None:
    assert start(library, host(gpu(0, fabric_state=state))).collect().gpu(0).findings == {}


def test_an_older_form_is_tried_where_the_driver_does_not_know_the_newer(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0, fabric_state=1)) | {(-1, "fabric.version"): 2})
    assert list(here.collect().gpu(0).findings) == ["gpu_fabric_not_ready"]
