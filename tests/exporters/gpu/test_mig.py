from __future__ import annotations

from pathlib import Path

from tests.exporters.gpu.conftest import Start
from tests.exporters.gpu.scripted import MIB, Collected, Script, gpu, host, uuid

GIB = 1024 * MIB


def instance(number: int, gpu_instance: int, *, used: int, activity: int, pid: int = 0) -> Script:
    """Of GPU 0."""
    keys = {
        f"mig.{number}.mem.total": 10 * GIB, f"mig.{number}.mem.reserved": 0, f"mig.{number}.mem.used": used,
        f"mig.{number}.gi": gpu_instance,
        f"gi.{gpu_instance}.gpm.2": activity, f"gi.{gpu_instance}.gpm.3": 100, f"gi.{gpu_instance}.gpm.5": 200,
        f"gi.{gpu_instance}.gpm.10": 300,
    } | ({f"mig.{number}.pid.0": pid} if pid else {})  # fmt: skip
    return {(0, key): value for key, value in keys.items()}


# Number 1 is a hole.
SPLIT = host(
    gpu(0, mig=1)
    | instance(0, 7, used=2 * GIB, activity=5_000)
    | instance(2, 9, used=3 * GIB, activity=2_500),
    gpu(1),
)  # fmt: skip
AGGREGATES = ("gpu_utilization_ratio", "gpu_memory_", "gpu_sm_", "gpu_tensor_", "gpu_dram_")


def aggregates(collected: Collected, number: str) -> list[str]:
    return [name for name in collected.gpu(number).values() if name.startswith(AGGREGATES)]


def test_instances_have_series_of_their_own(start: Start, library: Path) -> None:
    here = start(library, SPLIT)
    here.collect()
    collected = here.collect()
    assert [(g.gpu, g.parent) for g in collected.gpus] == [("0", ""), ("0:0", uuid(0)), ("0:2", uuid(0)), ("1", "")]
    assert collected.gpu("0:0").values() == {
        "gpu_up": 1, "gpu_memory_used_bytes": 2 * GIB, "gpu_memory_total_bytes": 10 * GIB,
        "gpu_sm_active_ratio": 0.5, "gpu_sm_occupancy_ratio": 0.01, "gpu_tensor_active_ratio": 0.02,
        "gpu_dram_active_ratio": 0.03,
    }  # fmt: skip
    assert collected.gpu("0:2").values()["gpu_memory_used_bytes"] == 3 * GIB
    assert collected.gpu("0:2").values()["gpu_sm_active_ratio"] == 0.25
    assert all(g.findings == {} for g in collected.gpus)


def test_an_instance_tells_what_it_is_and_of_which_gpu(start: Start, library: Path) -> None:
    (info,) = start(library, SPLIT).collect().gpu("0:2").labels("gpu_info")
    assert info["uuid"] == "MIG-02000000-aaaa-4bbb-8ccc-000000000002"
    assert (info["parent"], info["mig_profile"], info["gpu"]) == (uuid(0), "1g.10gb", "0:2")
    assert info["pci_bus_id"] == "0000:1a:00.0"


def test_a_gpu_that_is_split_keeps_only_what_its_instances_do_not_have(start: Start, library: Path) -> None:
    here = start(library, SPLIT)
    here.collect()
    collected = here.collect()
    assert aggregates(collected, "0") == []
    assert collected.gpu("0").values()["gpu_power_watts"] == 642.25
    assert collected.gpu("0").values()["gpu_ecc_errors_total corrected"] == 7
    assert len(aggregates(collected, "1")) == 7


def test_what_the_parent_does_not_permit_is_not_asked_for(start: Start, library: Path) -> None:
    denied = {(0, f"err.nvmlDevice{call}"): 4 for call in ("GetUtilizationRates", "GetComputeRunningProcesses_v3")}
    assert start(library, SPLIT | denied).collect().gpu("0").findings == {}


def test_splitting_a_gpu_while_it_is_watched_starts_its_readings_anew(start: Start, library: Path) -> None:
    here = start(library, host(gpu(0), gpu(1)))
    here.collect()
    assert len(aggregates(here.collect(), "0")) == 7
    here.say(SPLIT)
    split = here.collect()
    assert [g.gpu for g in split.gpus] == ["0", "0:0", "0:2", "1"]
    assert aggregates(split, "0") == []
    here.say(host(gpu(0), gpu(1)))
    here.collect()
    whole = here.collect()
    assert [g.gpu for g in whole.gpus] == ["0", "1"]
    assert len(aggregates(whole, "0")) == 7


def test_instances_come_and_go(start: Start, library: Path) -> None:
    here = start(library, SPLIT)
    here.collect()
    here.say({k: v for k, v in SPLIT.items() if not k[1].startswith("mig.2")})
    assert [g.gpu for g in here.collect().gpus] == ["0", "0:0", "1"]
    here.say(SPLIT)
    assert [g.gpu for g in here.collect().gpus] == ["0", "0:0", "0:2", "1"]


def test_activity_is_not_told_of_instances_that_share_a_gpu_instance(start: Start, library: Path) -> None:
    shared = host(
        gpu(0, mig=1)
        | instance(0, 7, used=GIB, activity=5_000)
        | instance(1, 7, used=GIB, activity=5_000)
    )  # fmt: skip
    here = start(library, shared)
    here.collect()
    seen = here.collect()
    assert aggregates(seen, "0:0") == aggregates(seen, "0:1") == ["gpu_memory_used_bytes", "gpu_memory_total_bytes"]


def test_a_server_runs_on_its_instance(start: Start, library: Path) -> None:
    here = start(library, SPLIT, configured={"a": ["MIG-02"], "b": [0]})
    collected = here.collect()
    assert {g.gpu: [x["server"] for x in g.labels("gpu_server_info")] for g in collected.gpus} == {
        "0": [], "0:0": ["b"], "0:2": ["a", "b"], "1": [],
    }  # fmt: skip


def test_a_gpu_that_cannot_be_split_is_asked_once(start: Start, library: Path) -> None:
    here = start(library, host({k: v for k, v in gpu(0).items() if k[1] != "mig"}))
    here.collect()
    assert here.collect().gpu(0).up
    assert here.calls().count("nvmlDeviceGetMigMode 0") == 1
