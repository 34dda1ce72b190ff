from typing import Any

import pytest

from monitor.gpus import GpuHost, GpuRow
from monitor.page.gpu_view import GpuLine, gpu_view, gpus_of_server, own_gpus
from monitor.page.trends import GPUS, Trends
from monitor.remarks import FindingOut
from tests.monitor.gpu_data import GIB
from tests.monitor.page.fleet_data import NOW, Past
from tests.monitor.page.rows import row as server
from tests.monitor.page.rows import status

HOST = GpuHost(node="n", available=True, observed_at=0)


def row(gpu: str = "0", **more: Any) -> GpuRow:
    facts = {"node": "n", "uuid": f"GPU-{gpu}", "gpu": gpu, "up": True, "observed_at": 0}
    return GpuRow.model_validate(facts | more)


def found(reason: str, severity: str = "error", detail: str = "") -> FindingOut:
    return FindingOut(reason=reason, severity=severity, message="", remedy="", detail=detail)


def line(**facts: Any) -> GpuLine:
    [node] = gpu_view([HOST], [row(**facts)], [])
    return node.lines[0]


def words(line: GpuLine) -> list[tuple[str, str]]:
    return [(mark.condition.word, mark.condition.look) for mark in line.marks]


def test_figures_stand_beside_what_limits_them() -> None:
    told = line(
        utilization=0.93, sm_active=0.41, memory_used_bytes=71.24 * GIB, memory_total_bytes=79.6 * GIB,
        power_watts=642.25, power_limit_watts=700, temperature_celsius=54, memory_temperature_celsius=61,
    )  # fmt: skip
    assert (told.utilization.text, told.utilization.aside) == ("93 %", "SMs 41 %")
    assert (told.memory.text, told.memory.aside) == ("71.2", "/ 79.6 GiB")
    assert told.memory_share == pytest.approx(0.895, abs=0.0001)
    assert (told.power.text, told.power.aside) == ("642", "/ 700 W")
    assert (told.temperature.text, told.temperature.aside) == ("54 °C", "memory 61 °C")


def test_a_number_without_its_limit_keeps_its_unit() -> None:
    told = line(memory_used_bytes=GIB, power_watts=100)
    assert (told.memory.text, told.memory_share, told.power.text) == ("1.0 GiB", None, "100 W")
    assert told.power.note == "limit not known: the GPU does not tell"


def test_utilisation_says_what_it_does_not_say() -> None:
    assert "“not idle”, never “how full”" in line(utilization=1.0).utilization.note


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"up": False}, "the GPU does not answer: nothing is known of it now"),
        ({"fields": [status("gpu_power_watts", "unavailable", "not permitted")]}, "not permitted"),
        ({"fields": [status("gpu_power_watts", "exact", "fine")]}, "the GPU does not tell"),
        ({"parent": "GPU-x"}, "only the whole GPU has it"),
        ({}, "the GPU does not tell"),
    ],
)
def test_a_missing_number_says_why(facts: dict[str, Any], why: str) -> None:
    power = line(**facts).power
    assert (power.text, power.note) == (None, why)


def test_the_reason_of_a_reading_with_a_label_is_found() -> None:
    fields = [status("gpu_temperature_celsius{core}", "unavailable", "too old a driver")]
    assert line(fields=fields).temperature.note == "too old a driver"


def test_a_number_that_is_zero_is_no_missing_one() -> None:
    told = line(utilization=0, memory_used_bytes=0, memory_total_bytes=GIB, power_watts=0, temperature_celsius=0)
    assert (told.utilization.text, told.memory.text, told.power.text) == ("0 %", "0.0", "0 W")
    assert (told.memory_share, told.temperature.text) == (0, "0 °C")


@pytest.mark.parametrize(
    ("facts", "marks"),
    [
        ({}, [("up", "good")]),
        ({"up": False}, [("down", "bad")]),
        ({"up": False, "findings": [found("gpu_no_driver")]}, [("down", "bad")]),
        (
            {"up": False, "findings": [found("gpu_lost"), found("gpu_xid_hardware", detail="XID 79: a; XID 74: b")]},
            [("lost", "bad"), ("XID 79, 74", "bad")],
        ),
        (
            {"up": False, "findings": [found("gpu_xid_application", "warning", "XID 13: x")]},
            [("down", "bad"), ("XID 13", "warning")],
        ),
        ({"findings": [found("gpu_xid_other", "warning")]}, [("XID", "warning")]),
        ({"findings": [found("gpu_ecc_uncorrected")]}, [("ECC errors", "bad")]),
        ({"findings": [found("gpu_no_permission", "warning")]}, [("up", "good")]),
        ({"throttled": {"power": 0.5}}, [("up", "good"), ("at its power limit", "quiet")]),
        ({"throttled": {"sync_boost": 0.5}}, [("up", "good"), ("clocks kept in step", "quiet")]),
        (
            {"throttled": {"power": 0.5, "hw_thermal": 0.1}},
            [("up", "good"), ("throttled: hw thermal", "warning")],
        ),
        ({"throttled": {}}, [("up", "good")]),
    ],
)
def test_trouble_has_a_word_and_a_look(facts: dict[str, Any], marks: list[tuple[str, str]]) -> None:
    assert words(line(**facts)) == marks


def test_throttling_says_how_much_of_the_time() -> None:
    [_, mark] = line(throttled={"hw_thermal": 0.12, "thermal": 1.0}).marks
    assert mark.note == "share of the time since the reading before: hw thermal 12 %, thermal 100 %"


def test_instances_stand_beneath_their_gpu_which_says_why_it_has_no_such_readings() -> None:
    rows = [row("0"), row("0:1", parent="GPU-0"), row("0:2", parent="GPU-0"), row("1")]
    [node] = gpu_view([HOST], rows, [])
    assert [[each.row.gpu, *(i.row.gpu for i in each.instances)] for each in node.lines] == [["0", "0:1", "0:2"], ["1"]]
    assert node.lines[0].memory.note == "told of its instances, so that sums count nothing twice"


def test_servers_are_linked_where_the_fleet_knows_them() -> None:
    servers = [server("a/b", node="n"), server("c", node="elsewhere")]
    [node] = gpu_view([HOST], [row(servers=["a/b", "c"])], servers)
    assert [(s.name, s.href) for s in node.lines[0].servers] == [("a/b", "/servers/n/a%2Fb"), ("c", None)]


def test_a_server_shows_its_gpus_and_instances_alone() -> None:
    rows = [
        row("0", servers=["s"]),
        row("1"),
        row("1:0", parent="GPU-1", servers=["s"]),
        row("2", servers=["other"]),
        row("3", node="m", servers=["s"]),
    ]
    trends = Trends(Past(gpus={("n", "GPU-0"): {"gpu_power_watts": lambda _: 300.0}}), GPUS)
    [node] = gpus_of_server(own_gpus(rows, server("s")), server("s"), trends, NOW)
    assert [each.row.gpu for each in node.lines] == ["0", "1:0"]
    assert [each.trends["power"].scale for each in node.lines] == ["500 W", ""]
    assert own_gpus(rows, server("none")) == []
    assert gpus_of_server([], server("none"), trends, NOW) == ()


def test_what_is_said_of_several_gpus_stands_there_once() -> None:
    driver, ecc, old = found("gpu_no_driver"), found("gpu_ecc_uncorrected"), found("gpu_old_driver", "info")
    slow = found("gpu_read_failed", "warning")
    host = GpuHost(node="n", available=False, observed_at=0, findings=[driver])
    rows = [row("0", findings=[driver, slow, old]), row("1", findings=[driver, slow, ecc])]
    [node] = gpu_view([host], rows, [])
    assert [(f.gpus, f.finding.reason) for f in node.findings] == [
        ("", "gpu_no_driver"), ("1", "gpu_ecc_uncorrected"), ("0, 1", "gpu_read_failed"),
    ]  # fmt: skip


def test_hosts_without_gpus_come_last_and_say_why() -> None:
    none = found("gpu_none", "info")
    bare = GpuHost(node="a", available=False, observed_at=0, findings=[none])
    first, last = gpu_view([bare, HOST], [row()], [])
    assert (first.node, first.unavailable) == ("n", None)
    assert (last.node, last.lines, last.unavailable) == ("a", (), none)


def test_where_gpus_are_not_read_there_is_nothing() -> None:
    assert gpu_view([], [], [server("s")]) == ()
