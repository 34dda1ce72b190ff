from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from exporters.findings import GPU_KINDS
from exporters.gpu.xids import FINDING_SECONDS, XIDS, Class, XidCounts
from tests.exporters.gpu.conftest import Start
from tests.exporters.gpu.scripted import Collected, Gpu, Host, Script, gpu, host, uuid


def xids(seen: Gpu) -> dict[str, float]:
    """Those that were counted."""
    return {k.split()[1]: v for k, v in seen.values().items() if k.startswith("gpu_xid") and v}


def with_xid(number: int, sequence: int, *, more: Script | None = None) -> Script:
    return host(gpu(0) | {(0, "xid"): number, (0, "xid.seq"): sequence}, gpu(1)) | (more or {})


def test_an_xid_is_counted_on_its_gpu(two: Host) -> None:
    assert xids(two.collect().gpu(0)) == {}
    two.say(with_xid(48, 1))
    collected = two.until(lambda c: bool(xids(c.gpu(0))))
    assert xids(collected.gpu(0)) == {"48": 1}
    assert collected.gpu(0).findings == {"gpu_xid_hardware": "XID 48: double-bit ECC error"}
    assert (xids(collected.gpu(1)), collected.gpu(1).findings) == ({}, {})
    assert f"{uuid(0)}: XID 48: double-bit ECC error" in two.log()


def test_the_same_xid_again_counts_again(two: Host) -> None:
    two.collect()
    for sequence in (1, 2, 3):
        two.say(with_xid(31, sequence))
        two.until(have_come(sequence))


def have_come(times: int) -> Callable[[Collected], bool]:
    return lambda collected: xids(collected.gpu(0)) == {"31": times}


def test_an_xid_is_a_finding_for_five_minutes_and_a_count_for_good(two: Host) -> None:
    two.collect()
    two.say(with_xid(31, 1))
    two.until(lambda c: bool(xids(c.gpu(0))))
    assert list(two.collect(later=FINDING_SECONDS - 1).gpu(0).findings) == ["gpu_xid_application"]
    later = two.collect(later=2).gpu(0)
    assert (xids(later), later.findings) == ({"31": 1}, {})


def test_the_last_xid_of_a_gpu_that_falls_off_the_bus_is_not_lost_with_it(two: Host) -> None:
    two.collect()
    two.say(with_xid(79, 1, more={(0, "err"): 15}))

    def is_told(collected: Collected) -> bool:
        return not collected.gpu(0).up and bool(xids(collected.gpu(0)))

    lost = two.until(is_told).gpu(0)
    assert xids(lost) == {"79": 1}
    assert list(lost.findings) == ["gpu_lost", "gpu_xid_hardware"]


def test_counts_stay_when_nvml_is_started_again(two: Host) -> None:
    two.collect()
    two.say(with_xid(94, 1, more={(1, "err"): 15}))
    two.until(lambda c: bool(xids(c.gpu(0))) and not c.gpu(1).up)
    two.collect(later=60)
    two.say(with_xid(94, 2))
    two.until(lambda c: xids(c.gpu(0)) == {"94": 2})
    assert two.calls().count("nvmlEventSetCreate -1") >= 2


@pytest.mark.parametrize("call", ["nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes"])
def test_a_gpu_without_such_events_has_no_counters_of_them(start: Start, library: Path, call: str) -> None:
    here = start(library, host(gpu(0) | {(0, f"err.{call}"): 3}, gpu(1)))
    collected = here.collect()
    assert "gpu_xid_errors_total 79" not in collected.gpu(0).values()
    assert collected.gpu(1).values()["gpu_xid_errors_total 79"] == 0


def test_a_driver_without_events_gives_everything_else(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0)) | {(-1, "err.nvmlEventSetCreate"): 13})
    seen = here.collect().gpu(0)
    assert seen.values()["gpu_power_watts"] == 642.25
    assert "gpu_xid_errors_total 79" not in seen.values()
    assert "no XID events: the driver is too old for it" in here.log()


def test_errors_while_waiting_do_not_end_the_watch(two: Host) -> None:
    two.collect()
    two.say(host(gpu(0), gpu(1)) | {(-1, "err.nvmlEventSetWait_v2"): 15})
    two.collect()
    two.say(with_xid(13, 1))
    two.until(lambda c: xids(c.gpu(0)) == {"13": 1})


def test_every_class_of_xids_is_a_finding() -> None:
    assert {kind.value for kind in Class} <= set(GPU_KINDS)
    assert {xid.kind for xid in XIDS.values()} == set(Class) - {Class.OTHER}


def test_xids_of_one_class_are_told_together_and_unknown_ones_apart() -> None:
    counts = XidCounts()
    for xid in (79, 48, 999):
        counts.add("GPU-a", xid, at=100)
    assert [(f.reason, f.detail) for f in counts.findings("GPU-a", 100)] == [
        ("gpu_xid_hardware", "XID 48: double-bit ECC error; XID 79: the GPU has fallen off the bus"),
        ("gpu_xid_other", "XID 999: see NVIDIA's list of XID errors"),
    ]
    assert counts.findings("GPU-b", 100) == []


def test_a_gpu_that_nobody_watches_has_no_counts() -> None:
    counts = XidCounts()
    assert counts.of("GPU-a") is None
    counts.watch("GPU-a")
    assert counts.of("GPU-a") == dict.fromkeys(XIDS, 0)
