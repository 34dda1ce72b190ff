"""dcgm-exporter's page. No recorded one is at hand: these pages are made by hand, from its source text and DCGM's list
of fields."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from exporters.exposition import InvalidExposition
from exporters.gpu import dcgm_names
from exporters.gpu.dcgm import DcgmSource
from exporters.gpu.dcgm_page import read
from exporters.gpu.gathered import Gathered, GpuReading
from exporters.gpu.observation import GpuObservation
from exporters.gpu.xids import XIDS
from tests.exporters.servers import pages, response, serving

MIB = 2**20

# A name that starts with _ is DCGM_FI_DEV_…
DEFAULT: dict[str, object] = {
    "_SM_CLOCK": 1755, "_MEM_CLOCK": 2619, "_MEMORY_TEMP": 79, "_GPU_TEMP": 66, "_POWER_USAGE": "642.250000",
    "_TOTAL_ENERGY_CONSUMPTION": 123456789, "_PCIE_REPLAY_COUNTER": 0, "_GPU_UTIL": 93, "_MEM_COPY_UTIL": 61,
    "_XID_ERRORS": 0, "_FB_FREE": 11008, "_FB_USED": 70000, "_FB_RESERVED": 551,
    "_NVLINK_BANDWIDTH_TOTAL": 812, "_UNCORRECTABLE_REMAPPED_ROWS": 0, "_CORRECTABLE_REMAPPED_ROWS": 2,
    "_ROW_REMAP_FAILURE": 0, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "0.925000",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "0.337500", "DCGM_FI_PROF_DRAM_ACTIVE": "0.580000",
    "DCGM_FI_PROF_PCIE_TX_BYTES": 35650000, "DCGM_FI_PROF_PCIE_RX_BYTES": 214950000,
}  # fmt: skip
EXPECTED = {
    "gpu_utilization_ratio": 0.93,
    "gpu_memory_used_bytes": 70_000 * MIB,
    "gpu_memory_total_bytes": (70_000 + 11_008 + 551) * MIB,
    "gpu_power_watts": 642.25,
    "gpu_energy_joules_total": 123_456.789,
    "gpu_temperature_celsius core": 66,
    "gpu_temperature_celsius memory": 79,
    "gpu_clock_hertz sm": 1_755e6,
    "gpu_clock_hertz memory": 2_619e6,
    "gpu_tensor_active_ratio": 0.3375,
    "gpu_dram_active_ratio": 0.58,
    "gpu_remapped_rows_total corrected": 2,
    "gpu_remapped_rows_total uncorrected": 0,
    "gpu_remapped_rows_total failed": 0,
}  # of DEFAULT, by hand


def labels(gpu: int = 0, **more: str) -> dict[str, str]:
    return {
        "gpu": str(gpu), "UUID": f"GPU-{gpu}", "pci_bus_id": "00000000:1A:00.0", "device": f"nvidia{gpu}",
        "modelName": "NVIDIA H100 80GB HBM3", "Hostname": "rack-1", "DCGM_FI_DRIVER_VERSION": "570.124.06", **more,
    }  # fmt: skip


def page(values: Mapping[str, object], of: Mapping[str, str] | None = None) -> str:
    block = ",".join(f'{k}="{v}"' for k, v in (of or labels()).items())
    names = {n: n.replace("_", "DCGM_FI_DEV_", 1) if n.startswith("_") else n for n in values}
    return "".join(f"# TYPE {names[n]} gauge\n{names[n]}{{{block}}} {v}\n" for n, v in values.items())


def told(gpu: GpuReading) -> dict[str, float]:
    return {f"{metric} {label}".strip(): value for (metric, label), value in gpu.values.items()}


def only(text: str) -> GpuReading:
    (gpu,) = read(text).gpus
    return gpu


def test_the_default_page_comes_out_in_the_units_of_the_schema() -> None:
    found = read(page(DEFAULT))
    (gpu,) = found.gpus
    assert told(gpu) == pytest.approx(EXPECTED)
    assert found.dropped == {}
    assert (gpu.uuid, gpu.gpu, gpu.parent) == ("GPU-0", "0", "")
    assert {k: v for k, v in gpu.info.items() if v} == {
        "name": "NVIDIA H100 80GB HBM3", "driver": "570.124.06", "pci_bus_id": "0000:1a:00.0",
    }  # fmt: skip


@pytest.mark.parametrize(
    "of",
    [
        {"gpu": "0", "uuid": "GPU-0", "modelName": "NVIDIA H100", "hostname": "rack-1"},
        {"gpu": "0", "UUID": "GPU-0", "modelName": "NVIDIA H100", "Hostname": "rack-1", "pod": "p", "namespace": "n"},
        {"GPU": "0", "Uuid": "GPU-0", "model_name": "NVIDIA H100"},
    ],
)
def test_labels_are_read_in_every_spelling(of: dict[str, str]) -> None:
    gpu = only(page(DEFAULT, of))
    assert told(gpu) == pytest.approx(EXPECTED)
    assert (gpu.uuid, gpu.gpu, gpu.info["name"]) == ("GPU-0", "0", "NVIDIA H100")


OLD = {
    "dcgm_sm_clock": 1755, "dcgm_memory_clock": 2619, "dcgm_memory_temp": 79, "dcgm_gpu_temp": 66,
    "dcgm_power_usage": 642.25, "dcgm_total_energy_consumption": 123456789, "dcgm_gpu_utilization": 93,
    "dcgm_fb_free": 11559, "dcgm_fb_used": 70000, "dcgm_fi_prof_pipe_tensor_active": 0.3375,
    "dcgm_fi_prof_dram_active": 0.58,
}  # fmt: skip
NEW = {
    "_SM_CLOCK": 1755, "_MEM_CLOCK": 2619, "_MEMORY_TEMP_CELSIUS": 79, "_GPU_TEMP_CELSIUS": 66,
    "_BOARD_POWER_WATTS": 642.25, "_TOTAL_ENERGY_CONSUMPTION": 123456789, "_GPU_UTIL_RATIO": 93,
    "_FB_TOTAL": 81559, "_FB_USED": 70000, "DCGM_FI_PROF_TENSOR_UTIL_RATIO": 0.3375,
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": 0.58,
}  # fmt: skip


@pytest.mark.parametrize("names", [OLD, NEW], ids=["release 1", "the catalogue of today"])
def test_every_generation_of_names_means_the_same(names: dict[str, object]) -> None:
    expected = {k: v for k, v in EXPECTED.items() if "remapped" not in k}
    assert told(only(page(names))) == pytest.approx(expected)


def test_the_newest_name_counts_where_a_page_has_two() -> None:
    assert told(only(page({"_GPU_TEMP": 60, "_GPU_TEMP_CELSIUS": 61}))) == {"gpu_temperature_celsius core": 61}


def test_readings_that_are_off_by_default_are_taken_where_they_are_on() -> None:
    more = {
        "_ENFORCED_POWER_LIMIT": 700, "_ECC_SBE_VOL_TOTAL": 7, "_ECC_DBE_VOL_TOTAL": 1, "_ROW_REMAP_PENDING": 1,
        "_POWER_VIOLATION": 3000000000, "_THERMAL_VIOLATION": 0, "_SYNC_BOOST_VIOLATION": 0,
        "_BOARD_LIMIT_VIOLATION": 0, "_RELIABILITY_VIOLATION": 0, "_LOW_UTIL_VIOLATION": 5,
        "_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS": 1500000000,
        "_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS": 0,
        "_NVLINK_REPLAY_ERROR_COUNT_TOTAL": 3, "_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": 4,
        "_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": 5, "_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": 6,
        "DCGM_FI_PROF_SM_ACTIVE": 0.8125, "DCGM_FI_PROF_SM_OCCUPANCY": 0.245,
    }  # fmt: skip
    gpu = only(page(more))
    assert told(gpu) == pytest.approx({
        "gpu_power_limit_watts": 700,
        "gpu_ecc_errors_total corrected": 7,
        "gpu_ecc_errors_total uncorrected": 1,
        "gpu_remapped_rows_total pending": 1,
        "gpu_throttled_seconds_total power": 3,
        "gpu_throttled_seconds_total thermal": 0,
        "gpu_throttled_seconds_total sync_boost": 0,
        "gpu_throttled_seconds_total board_limit": 0,
        "gpu_throttled_seconds_total reliability": 0,
        "gpu_throttled_seconds_total sw_thermal": 1.5,
        "gpu_throttled_seconds_total power_brake": 0,
        "gpu_nvlink_errors_total replay": 3,
        "gpu_nvlink_errors_total recovery": 4,
        "gpu_nvlink_errors_total crc": 5 + 6,
        "gpu_sm_active_ratio": 0.8125,
        "gpu_sm_occupancy_ratio": 0.245,
    })  # fmt: skip
    assert [f.reason for f in gpu.findings] == ["gpu_ecc_uncorrected", "gpu_row_remap_pending"]


def test_no_name_stands_for_two_readings() -> None:
    every = [n for name in dcgm_names.NAMES for n in name.names]
    assert len(every) == len(set(every))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        *(("_GPU_UTIL", 0x7FFFFFFFFFFFFFF0 + n, "blank") for n in range(4)),
        *(("_GPU_TEMP", 0x7FFFFFF0 + n, "blank") for n in range(4)),
        *(("_POWER_USAGE", f"{140737488355328 + n}.000000", "blank") for n in range(4)),
        ("_GPU_UTIL", "9.223372036854776e+18", "blank"),
        ("DCGM_FI_PROF_DRAM_ACTIVE", "NaN", "nan"),
        ("_FB_USED", -1, "negative"),
        # Seen in the field: other readings' values under this name.
        ("_GPU_UTIL", 2619, "ratio_out_of_range"),
        ("_GPU_UTIL", 808334905, "ratio_out_of_range"),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "1.250000", "ratio_out_of_range"),
    ],
)
def test_what_is_no_value_is_dropped_and_counted(name: str, value: object, reason: str) -> None:
    found = read(page({"_SM_CLOCK": 1755, name: value}))
    assert told(found.gpus[0]) == {"gpu_clock_hertz sm": 1_755e6}
    assert found.dropped == {reason: 1}


@pytest.mark.parametrize(("name", "value"), [("_GPU_TEMP", -5), ("_GPU_UTIL", 100), ("_GPU_UTIL", 0)])
def test_values_at_the_border_are_values(name: str, value: int) -> None:
    found = read(page({name: value}))
    assert len(found.gpus[0].values) == 1
    assert found.dropped == {}


def test_a_page_that_is_cut_up_keeps_what_is_whole() -> None:
    found = read(page(DEFAULT) + "DCGM_FI_DEV_ENC_UTIL{gpu=\n")
    assert told(found.gpus[0]) == pytest.approx(EXPECTED)
    assert found.dropped == {"syntax": 1}
    with pytest.raises(InvalidExposition):
        read("<html>")


def part(number: object, profile: str = "1g.10gb") -> dict[str, str]:
    return labels(GPU_I_PROFILE=profile, GPU_I_ID=str(number))


SPLIT = (
    # The page repeats the whole GPU's readings on each instance.
    page({"_POWER_USAGE": 300, "_GPU_TEMP": 50, "_GPU_UTIL": 0, "_XID_ERRORS": 0, "_FB_USED": 2048, "_FB_FREE": 8192,
          "DCGM_FI_PROF_DRAM_ACTIVE": 0.25}, part(7))
    + page({"_POWER_USAGE": 300, "_GPU_TEMP": 50, "_GPU_UTIL": 0, "_XID_ERRORS": 0, "_FB_USED": 1024, "_FB_FREE": 9216,
            "DCGM_FI_PROF_DRAM_ACTIVE": 0.5}, part(9))
    + page({"DCGM_FI_PROF_DRAM_ACTIVE": 0.375, "_FB_USED": 3072})
)  # fmt: skip


def test_instances_have_their_own_and_the_gpu_has_the_rest_once() -> None:
    gpus = {gpu.gpu: gpu for gpu in read(SPLIT).gpus}
    assert {k: (g.uuid, g.parent) for k, g in gpus.items()} == {
        "0": ("GPU-0", ""), "0:7": ("MIG-GPU-0/7", "GPU-0"), "0:9": ("MIG-GPU-0/9", "GPU-0"),
    }  # fmt: skip
    assert told(gpus["0"]) == {"gpu_power_watts": 300, "gpu_temperature_celsius core": 50}
    assert told(gpus["0:7"]) == {
        "gpu_memory_used_bytes": 2048 * MIB, "gpu_memory_total_bytes": 10_240 * MIB, "gpu_dram_active_ratio": 0.25,
    }  # fmt: skip
    assert told(gpus["0:9"])["gpu_dram_active_ratio"] == 0.5
    assert gpus["0:7"].info["mig_profile"] == "1g.10gb"
    assert gpus["0"].info["mig_profile"] == ""


@pytest.mark.parametrize("number", [4294967295, -1, "x", 64])
def test_an_instance_that_cannot_be_is_dropped_and_counted(number: object) -> None:
    found = read(SPLIT + page({"_FB_USED": 5}, part(number)))
    assert [g.gpu for g in found.gpus] == ["0:7", "0", "0:9"]
    assert found.dropped == {"invalid_value": 1}


def test_a_page_of_very_many_gpus_is_cut() -> None:
    found = read("".join(page({"_GPU_TEMP": 50}, labels(number)) for number in range(300)))
    assert (len(found.gpus), found.dropped) == (256, {"invalid_value": 44})


def test_a_gpu_that_pods_share_counts_once_and_as_a_whole() -> None:
    shared = page({"_FB_USED": 10, "_GPU_TEMP": 66}, labels(pod="a")) + page({"_FB_USED": 20}, labels(pod="b"))
    whole = page({"_FB_USED": 70000})
    assert told(only(shared + whole)) == {"gpu_memory_used_bytes": 70_000 * MIB, "gpu_temperature_celsius core": 66}


def test_links_switches_and_processors_are_no_gpus() -> None:
    others = (
        page({"_NVLINK_REPLAY_ERROR_COUNT_TOTAL": 9}, labels(nvlink="3"))
        + page({"_NVSWITCH_TEMPERATURE_CURRENT": 50}, {"nvswitch": "nvswitch0"})
        + page({"_CPU_TEMP_CURRENT": 40}, {"cpu": "0"})
    )
    assert read(others).gpus == ()


def test_why_a_reading_is_missing_names_the_counter_to_add() -> None:
    statuses = {f.field: f for f in only(page(DEFAULT)).fields}
    limit = statuses["gpu_power_limit_watts"]
    assert (limit.quality, limit.reason) == (
        "unavailable",
        "not on the page: add DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS or DCGM_FI_DEV_ENFORCED_POWER_LIMIT to "
        "dcgm-exporter's counters",
    )
    assert statuses["gpu_power_watts"].source == "DCGM_FI_DEV_POWER_USAGE"
    assert statuses["gpu_memory_total_bytes"].quality == "exact"


class Exporter:
    """A dcgm-exporter and what reads it."""

    def __init__(self, url: str, answers: dict[str, bytes]) -> None:
        self.source = DcgmSource("n1", url, configured={"a": [0]}, clock=lambda: self._now)
        self._answers = answers
        self._now = 1_800_000_000.0

    async def collect(self, text: str | None = None, *, later: float = 60.0) -> Gathered:
        if text is not None:
            self._answers["/metrics"] = response(text)
        self._now += later
        return await self.source.collect(asyncio.get_running_loop().time() + 30)


@pytest.fixture
async def exporter() -> AsyncIterator[Exporter]:
    answers: dict[str, bytes] = {}
    async with serving(pages(answers)) as served:
        made = Exporter(f"{served.url}/metrics", answers)
        yield made
        await made.source.aclose()


def xids(gathered: Gathered) -> dict[str, float]:
    """Those that were counted."""
    series = [(s, v) for gpu in gathered.gpus for s, v in gpu.values.items() if s.metric == "gpu_xid_errors_total"]
    assert {s.label("xid") for s, _ in series} >= {str(x) for x in XIDS}
    return {s.label("xid"): v for s, v in series if v}


def last_xid(number: int) -> str:
    of = {"gpu": "0", "UUID": "GPU-aaaa", "modelName": "NVIDIA H100", "err_code": str(number), "err_msg": "…"}
    return page({"_XID_ERRORS": number}, of)


def reasons(gpu: GpuObservation) -> list[str]:
    return [f.reason for f in gpu.findings]


async def test_an_xid_is_an_event_when_the_gauge_changes_and_never_again(exporter: Exporter) -> None:
    assert xids(await exporter.collect(last_xid(0), later=0)) == {}
    at_60 = await exporter.collect(last_xid(31))
    assert xids(at_60) == {"31": 1}
    assert reasons(at_60.gpus[0]) == ["gpu_xid_application"]
    assert at_60.gpus[0].findings[0].severity == "warning"
    at_120 = await exporter.collect(last_xid(31))
    assert xids(at_120) == {"31": 1}
    assert reasons((await exporter.collect(later=240)).gpus[0]) == []


async def test_an_xid_that_was_there_before_us_is_no_event(exporter: Exporter) -> None:
    assert xids(await exporter.collect(last_xid(79))) == {}
    assert xids(await exporter.collect(last_xid(0))) == {}
    assert xids(await exporter.collect(last_xid(79))) == {"79": 1}
    assert xids(await exporter.collect(last_xid(48))) == {"79": 1, "48": 1}


async def test_an_xid_is_not_counted_again_after_the_page_was_away(exporter: Exporter) -> None:
    await exporter.collect(last_xid(0))
    await exporter.collect(last_xid(31))
    await exporter.collect("")
    assert xids(await exporter.collect(last_xid(31))) == {"31": 1}


def lately(**counts: int) -> str:
    """DCGM_EXP_XID_ERRORS_COUNT: how many there were in the last minutes."""
    none = page({"DCGM_EXP_XID_ERRORS_COUNT": 0}, labels(window_size_in_ms="300000")) if not counts else ""
    return none + "".join(
        page({"DCGM_EXP_XID_ERRORS_COUNT": n}, labels(window_size_in_ms="300000", xid=xid[1:]))
        for xid, n in counts.items()
    )


async def test_counts_of_the_last_minutes_show_repetitions(exporter: Exporter) -> None:
    assert xids(await exporter.collect(lately() + last_xid(0).replace("GPU-aaaa", "GPU-0"))) == {}
    assert xids(await exporter.collect(lately(_31=1) + last_xid(31).replace("GPU-aaaa", "GPU-0"))) == {"31": 1}
    assert xids(await exporter.collect(lately(_31=3))) == {"31": 3}
    assert xids(await exporter.collect(lately(_31=1, _48=1))) == {"31": 3, "48": 1}
    assert xids(await exporter.collect(lately())) == {"31": 3, "48": 1}
    assert xids(await exporter.collect(lately(_31=1))) == {"31": 4, "48": 1}


async def test_a_gpu_that_is_gone_from_the_page_is_lost_until_it_is_back(exporter: Exporter) -> None:
    both = page(DEFAULT) + page(DEFAULT, labels(1))
    assert [(g.uuid, g.up) for g in (await exporter.collect(both)).gpus] == [("GPU-0", True), ("GPU-1", True)]
    lost = (await exporter.collect(page(DEFAULT))).gpus[1]
    assert (lost.uuid, lost.up, reasons(lost), lost.info["name"]) == (
        "GPU-1", False, ["gpu_lost"], "NVIDIA H100 80GB HBM3",
    )  # fmt: skip
    assert lost.value("gpu_up") == 0
    assert lost.value("gpu_power_watts") is None
    assert all(g.up for g in (await exporter.collect(both)).gpus)


async def test_a_page_that_names_other_gpus_each_time_does_not_pile_up(exporter: Exporter) -> None:
    for first in range(0, 1000, 200):
        text = "".join(page({"_GPU_TEMP": 50}, labels(number)) for number in range(first, first + 200))
        seen = len((await exporter.collect(text)).gpus)
        assert seen <= 200 + 256


@pytest.mark.parametrize(
    ("text", "detail"),
    [("", "no GPU is on the page"), ("<html>", "invalid_exposition: line 1"), ("up 1\n", "no GPU is on the page")],
)
async def test_a_page_that_is_none_takes_all_gpus_down(exporter: Exporter, text: str, detail: str) -> None:
    await exporter.collect(page(DEFAULT))
    failed = await exporter.collect(text)
    assert not failed.available
    assert [f.reason for f in failed.findings] == ["gpu_page_unreadable"]
    assert failed.findings[0].detail.startswith(detail)
    assert [(g.uuid, g.up, reasons(g)) for g in failed.gpus] == [("GPU-0", False, ["gpu_page_unreadable"])]


async def test_a_dcgm_exporter_that_does_not_run_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    source = DcgmSource("n1", "http://127.0.0.1:1/metrics")
    with caplog.at_level("INFO"):
        await source.collect(asyncio.get_running_loop().time() + 30)
        gathered = await source.collect(asyncio.get_running_loop().time() + 30)
    assert (gathered.available, gathered.gpus) == (False, ())
    assert gathered.findings[0].detail == "connection_refused: 127.0.0.1:1"
    assert len([r for r in caplog.records if "unavailable" in r.message]) == 1
    await source.aclose()


async def test_servers_come_from_the_configuration(exporter: Exporter) -> None:
    assert [g.servers for g in (await exporter.collect(page(DEFAULT) + page(DEFAULT, labels(1)))).gpus] == [("a",), ()]
    gathered = await exporter.collect(page(DEFAULT, labels(1)))
    assert [f.reason for f in gathered.findings] == []
