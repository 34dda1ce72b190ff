"""The page of simulated GPUs, as prometheus_client and the sidecar read it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from demo.dcgm import DcgmExporter, Load
from exporters.gpu import dcgm_page
from exporters.gpu.dcgm import DcgmSource
from exporters.gpu.gathered import Gathered
from tests.demo.faces import held
from tests.exporters.servers import Served, response, serving

START = 1_796_000_000.0
MIB = 2**20
NEWER_THAN_THE_PAGE = {"sw_thermal", "hw_thermal", "power_brake"}
"""Reasons that dcgm-exporter tells since DCGM 4."""


class Node:
    """A node with its GPUs' load under the test's hands."""

    def __init__(self, gpus: int = 2) -> None:
        self.loads = [Load(0.0, 0.0)] * gpus
        self.now = START
        self.exporter = DcgmExporter("rack-1", [70_000] * gpus, lambda gpu, _: self.loads[gpu], START)

    def page(self, later: float = 0.0) -> str:
        self.now += later
        answer = self.exporter.answer("/metrics", self.now)
        assert (answer.status, answer.content_type) == (200, "text/plain; charset=utf-8")
        return answer.body.decode()

    def told(self, gpu: int = 0) -> dict[str, float]:
        """As the sidecar reads the page of this moment."""
        reading = dcgm_page.read(self.page()).gpus[gpu]
        return {f"{metric} {label}".strip(): value for (metric, label), value in reading.values.items()}


def test_every_line_has_the_labels_and_their_order_of_dcgm_exporter() -> None:
    uuid = "GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    line = re.compile(
        rf'DCGM_(FI|EXP)_[A-Z_]+{{gpu="\d",UUID="{uuid}",pci_bus_id="00000000:[0-9A-F]{{2}}:00.0",device="nvidia\d",'
        r'modelName="NVIDIA H100 80GB HBM3",Hostname="rack-1",DCGM_FI_DRIVER_VERSION="570.124.06"'
        r'(,window_size_in_ms="300000"(,xid="\d+")?)?} \d+(\.\d{6})?'
    )
    text = Node().page()
    assert [row for row in text.splitlines() if row[0] != "#" and not line.fullmatch(row)] == []
    assert text.count("# TYPE ") == len(held.families(text))
    held.consistent(text)


def test_whatever_the_sidecar_can_read_of_a_page_of_its_release_is_there() -> None:
    found = dcgm_page.read(Node().page())
    assert found.dropped == {}
    for gpu in found.gpus:
        missing = {f.field.partition("{")[2].rstrip("}") for f in gpu.fields if f.quality != "exact"}
        assert missing == NEWER_THAN_THE_PAGE
        assert gpu.findings == ()


def test_gpus_of_two_nodes_are_never_the_same_and_those_of_one_always_are() -> None:
    first, again = Node(8).exporter.gpus, Node(8).exporter.gpus
    assert [gpu.uuid for gpu in first] == [gpu.uuid for gpu in again]
    other = DcgmExporter("rack-2", [0] * 8, lambda *_: Load(0.0, 0.0), START).gpus
    assert len({gpu.uuid for gpu in (*first, *other)}) == 16
    assert len({gpu.pci_bus_id for gpu in first}) == 8


def test_an_idle_gpu_with_a_loaded_model_computes_nothing() -> None:
    node = Node()
    node.page(60)
    told = node.told()
    assert told["gpu_memory_used_bytes"] == 70_000 * MIB
    assert told["gpu_memory_total_bytes"] == 81_559 * MIB
    assert told["gpu_clock_hertz sm"] == 345e6
    for reading in ("gpu_utilization_ratio", "gpu_sm_active_ratio", "gpu_tensor_active_ratio", "gpu_dram_active_ratio"):
        assert told[reading] == 0
    assert all(70 <= watts <= 120 for watts in held.values(Node(8).page(60), "DCGM_FI_DEV_POWER_USAGE", "gpu").values())


def test_load_shows_in_utilisation_activity_power_and_heat() -> None:
    node = Node()
    node.loads[0] = Load(1.0, 1.0)
    node.page(600)
    full, idle = node.told(), node.told(1)
    assert full["gpu_power_watts"] == full["gpu_power_limit_watts"] == 700
    assert (full["gpu_utilization_ratio"], full["gpu_clock_hertz sm"]) == (1, 1980e6)
    assert full["gpu_tensor_active_ratio"] == pytest.approx(0.45)
    assert full["gpu_throttled_seconds_total power"] == 600
    assert 60 <= full["gpu_temperature_celsius core"] <= 75 < full["gpu_temperature_celsius memory"] <= 90
    assert idle["gpu_power_watts"] < 120
    assert 30 <= idle["gpu_temperature_celsius core"] <= 40
    node.loads[0] = Load(1.0, 1 / 256)
    node.page(600)
    alone = node.told()
    assert alone["gpu_utilization_ratio"] == 1
    assert 300 < alone["gpu_power_watts"] < 420
    assert alone["gpu_dram_active_ratio"] > 10 * alone["gpu_tensor_active_ratio"]


def test_energy_is_the_integral_of_power() -> None:
    node, joules = Node(1), 0.0
    for seconds, busy, batch in ((15, 0.2, 0.5), (15, 1, 0.9), (61.5, 0.75, 0.01), (15, 0, 0), (3600, 1, 1)):
        node.loads[0] = Load(busy, batch)
        watts = held.value(node.page(seconds), "DCGM_FI_DEV_POWER_USAGE")
        joules += watts * seconds
    assert node.told()["gpu_energy_joules_total"] == pytest.approx(joules, abs=0.01)
    # 81 W idle would be the second GPU; the first takes 76 W, and 700 W in its last hour.
    assert node.told()["gpu_energy_joules_total"] > 700 * 3600


def test_two_readers_of_one_moment_see_the_same_and_no_energy_is_lost_between_them() -> None:
    node = Node(1)
    node.loads[0] = Load(1.0, 1.0)
    assert node.page(10) == node.page(0.5)
    node.page(9.5)
    assert node.told()["gpu_energy_joules_total"] == pytest.approx(700 * 20)


def test_counters_never_fall() -> None:
    node = Node()
    before = node.page(15)
    node.loads = [Load(0.5, 0.5), Load(0.9, 1.0)]
    for gpu in node.exporter.gpus:
        gpu.ecc_corrected += 1
        gpu.is_hot = True
    between = node.page(15)
    held.grown(before, between)
    node.loads = [Load(0.7, 0.5), Load(1.0, 1.0)]
    held.grown(between, node.page(15))


def test_a_hot_gpu_is_slow_and_says_for_how_long() -> None:
    node = Node()
    node.loads = [Load(1.0, 0.5)] * 2
    node.page(60)
    node.exporter.gpus[0].is_hot = True
    node.page(120)
    hot, cool = node.told(), node.told(1)
    assert hot["gpu_throttled_seconds_total thermal"] == pytest.approx(120)
    assert cool["gpu_throttled_seconds_total thermal"] == 0
    assert hot["gpu_clock_hertz sm"] < 0.6 * cool["gpu_clock_hertz sm"]
    assert hot["gpu_power_watts"] < cool["gpu_power_watts"]
    assert hot["gpu_temperature_celsius core"] > 80


def test_errors_are_counted_where_they_were() -> None:
    node = Node()
    gpu = node.exporter.gpus[1]
    gpu.ecc_corrected, gpu.ecc_uncorrected, gpu.rows_corrected, gpu.rows_uncorrected = 7, 2, 5, 1
    gpu.link_crc_errors, gpu.link_replays, gpu.link_recoveries = 120, 30, 4
    gpu.is_remap_pending = gpu.has_remap_failed = True
    wrong = {
        "gpu_ecc_errors_total corrected": 7, "gpu_ecc_errors_total uncorrected": 2,
        "gpu_remapped_rows_total corrected": 5, "gpu_remapped_rows_total uncorrected": 1,
        "gpu_remapped_rows_total pending": 1, "gpu_remapped_rows_total failed": 1,
        "gpu_nvlink_errors_total crc": 120, "gpu_nvlink_errors_total replay": 30,
        "gpu_nvlink_errors_total recovery": 4,
    }  # fmt: skip
    assert wrong.items() <= node.told(1).items()
    assert dict.fromkeys(wrong, 0).items() <= node.told(0).items()


class Sidecar:
    """What reads the page over HTTP."""

    def __init__(self, node: Node, served: Served) -> None:
        self.node = node
        self.source = DcgmSource("n1", f"{served.url}/metrics", configured={"a": [0]}, clock=lambda: node.now)

    async def collect(self, later: float = 15.0) -> Gathered:
        self.node.now += later
        return await self.source.collect(asyncio.get_running_loop().time() + 30)


@pytest.fixture
async def sidecar() -> AsyncIterator[Sidecar]:
    node = Node()

    async def handler(path: str, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = node.exporter.answer(path, node.now)
        writer.write(response(answer.body, status=answer.status, content_type=answer.content_type))

    async with serving(handler) as served:
        made = Sidecar(node, served)
        yield made
        await made.source.aclose()


async def test_healthy_gpus_have_no_findings_and_the_server_that_was_configured(sidecar: Sidecar) -> None:
    await sidecar.collect()
    gathered = await sidecar.collect()
    assert gathered.available
    assert gathered.findings == ()
    assert [(gpu.up, gpu.findings) for gpu in gathered.gpus] == [(True, ())] * 2
    assert [gpu.servers for gpu in gathered.gpus] == [("a",), ()]
    assert gathered.gpus[1].info == {
        "name": "NVIDIA H100 80GB HBM3", "driver": "570.124.06", "pci_bus_id": "0000:43:00.0",
    }  # fmt: skip


async def test_each_xid_is_one_event_also_when_it_comes_again(sidecar: Sidecar) -> None:
    await sidecar.collect()
    gpu = sidecar.node.exporter.gpus[0]
    for number in (79, 31, 31):
        gpu.report_xid(number, sidecar.node.now)
    observed = (await sidecar.collect()).gpus[0]
    assert observed.value("gpu_xid_errors_total", xid="79") == 1
    assert observed.value("gpu_xid_errors_total", xid="31") == 2
    assert [f.reason for f in observed.findings] == ["gpu_xid_application", "gpu_xid_hardware"]
    gpu.report_xid(31, sidecar.node.now)
    assert (await sidecar.collect()).gpus[0].value("gpu_xid_errors_total", xid="31") == 3
    later = (await sidecar.collect(600)).gpus[0]
    assert later.value("gpu_xid_errors_total", xid="31") == 3
    assert later.findings == ()


async def test_a_lost_gpu_is_gone_from_the_page_until_it_is_found_again(sidecar: Sidecar) -> None:
    await sidecar.collect()
    sidecar.node.exporter.gpus[1].is_lost = True
    lost = (await sidecar.collect()).gpus[1]
    assert (lost.up, [f.reason for f in lost.findings]) == (False, ["gpu_lost"])
    joules = sidecar.node.exporter.gpus[1].joules
    await sidecar.collect(3600)
    sidecar.node.exporter.gpus[1].is_lost = False
    found = (await sidecar.collect()).gpus[1]
    assert found.up
    assert sidecar.node.exporter.gpus[1].joules == pytest.approx(joules + 15 * 81)


async def test_a_node_without_any_gpu_left_says_so(sidecar: Sidecar) -> None:
    await sidecar.collect()
    for gpu in sidecar.node.exporter.gpus:
        gpu.is_lost = True
    gathered = await sidecar.collect()
    assert [f.detail for f in gathered.findings] == ["no GPU is on the page"]
    assert [gpu.up for gpu in gathered.gpus] == [False, False]


async def test_uncorrected_errors_are_a_finding(sidecar: Sidecar) -> None:
    sidecar.node.exporter.gpus[0].ecc_uncorrected = 1
    sidecar.node.exporter.gpus[0].has_remap_failed = True
    reasons = [f.reason for f in (await sidecar.collect()).gpus[0].findings]
    assert reasons == ["gpu_ecc_uncorrected", "gpu_row_remap_failed"]


def test_other_paths_are_those_of_dcgm_exporter() -> None:
    exporter = Node().exporter
    assert exporter.answer("/health", START).body == b"KO"
    assert exporter.answer("/", START).status == 200
    assert exporter.answer("/metricsx", START).status == exporter.answer("/v1/models", START).status == 404
