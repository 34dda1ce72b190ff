"""A lost GPU is named as the cause where it may be one, and is not where it cannot."""

from __future__ import annotations

import pytest

from alerts.conditions import CONDITIONS
from monitor.fleet import ServerRow
from monitor.gpus import GpuRow
from monitor.page.cause import HELD, cause
from monitor.remarks import FindingOut
from tests.monitor.page.rows import row

DOWN = row("chat", up=False, available=False)
UP = row("chat")
HERS, SOMEBODYS = "and this server was on it.", "and which servers were on it is not known."


def gpu(
    number: str, *servers: str, up: bool = False, node: str = "n", silent: bool = False, parent: str = ""
) -> GpuRow:
    reason = "no_observation" if silent else "gpu_lost"
    why = [] if up else [FindingOut(reason=reason, severity="error", message="", remedy="", detail="")]
    return GpuRow(
        node=node, uuid=f"GPU-{number}", gpu=number, parent=parent or None, up=up, observed_at=0.0,
        last_servers=list(servers), findings=why,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("server", "alerts", "gpus", "expected"),
    [
        (DOWN, [], [gpu("3", "chat"), gpu("4", up=True)], f"GPU 3 is lost, {HERS}"),
        (DOWN, [], [gpu("3", "chat", "code"), gpu("4")], f"GPU 3 is lost, {HERS}"),
        (DOWN, [], [gpu("3")], f"GPU 3 of this node is lost, {SOMEBODYS}"),
        (DOWN, [], [gpu("1", "chat"), gpu("3", "chat")], "GPUs 1 and 3 are lost, and this server was on them."),
        (DOWN, [], [gpu("1"), gpu("2"), gpu("3")],
         "GPUs 1, 2 and 3 of this node are lost, and which servers were on them is not known."),
        (UP, ["ServerStuck"], [gpu("3", "chat")], f"GPU 3 is lost, {HERS}"),
        (DOWN, [], [gpu("0"), gpu("0:1", "chat", parent="GPU-0")], f"GPU 0:1 is lost, {HERS}"),
        (DOWN, [], [gpu("3", "code")], ""),
        (DOWN, [], [gpu("3", "chat", node="m")], ""),
        (DOWN, [], [gpu("3", "chat", up=True)], ""),
        (DOWN, [], [gpu("3", "chat", silent=True)], ""),
        (DOWN, [], [], ""),
        (UP, [], [gpu("3", "chat")], ""),
        (UP, ["ServerDown"], [gpu("3", "chat")], ""),
        (UP, ["ServerDown"], [gpu("3")], ""),
        (UP, ["KvCacheSaturated"], [gpu("3", "chat")], ""),
    ],
)  # fmt: skip
def test_a_lost_gpu_is_the_cause_of_a_server_that_is_down_or_stuck(
    server: ServerRow, alerts: list[str], gpus: list[GpuRow], expected: str
) -> None:
    assert cause(server, alerts, gpus) == expected


def test_it_is_the_cause_of_what_its_alert_holds_back() -> None:
    assert HELD == {"ServerDown", "ServerStuck"} <= CONDITIONS.keys()
