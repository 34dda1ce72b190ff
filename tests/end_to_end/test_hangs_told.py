"""Servers that hang, or whose page becomes empty, in the simulated fleet's own time: which alert tells, and when."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.fleet import Fleet, Service
from demo.model import Limits
from demo.server import Spec
from demo.workload import CHAT, Rate
from tests.end_to_end.simulated import MINUTE, START, Lived, read_until

MINUTES, FAULT = 44, 6
_LIMITS = Limits(running=64, waiting=64, kv_tokens=40_000)
BUSY, IDLE = 0.2, 0.002
"""Requests a second."""
SERVERS = {
    "old-sglang": ("sglang", "0.4.9", BUSY),
    "idle-vllm": ("vllm", "0.32.0", IDLE),
    "idle-lmdeploy": ("lmdeploy", "0.18.0", IDLE),
    "idle-sglang": ("sglang", "0.5.23", IDLE),
    "emptied": ("sglang", "0.5.23", BUSY),
}
HANGING = [name for name in SERVERS if name != "emptied"]


def orders() -> Iterator[dict[str, object]]:
    """Of those that are idle when they hang, requests come from then on."""
    lasting = {"after": FAULT * MINUTE, "seconds": (MINUTES - FAULT) * MINUTE}
    for name in HANGING:
        yield {"kind": "hang", "target": name, **lasting}
        if name.startswith("idle"):
            yield {"kind": "overload", "target": name, "factor": 50, **lasting, "after": (FAULT + 1) * MINUTE}
    yield {"kind": "empty", "target": "emptied", **lasting}


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    specs = [
        Spec(name, "sim", frontend, release, name, (gpu,), _LIMITS)
        for gpu, (name, (frontend, release, _)) in enumerate(SERVERS.items())
    ]
    services = [Service(name, (name,), CHAT, Rate(mean, 0.0)) for name, (*_, mean) in SERVERS.items()]
    fleet = Fleet(specs, services, {"sim": len(specs)}, seed=7, start=START)
    fleet.order(list(orders()), START)
    made = read_until(START + MINUTES * MINUTE, fleet, tmp_path_factory.mktemp("lived"))
    yield made
    made.monitor.close()


def told(lived: Lived, server: str) -> dict[str, float]:
    """Minutes from the fault to each alert."""
    of_server = [a for a in lived.alerts() if a.labels.get("server") == server]
    return {a.name: (a.starts_at - START) / MINUTE - FAULT for a in of_server}


def test_an_old_sglang_that_hangs_at_work_is_a_ticket_once_no_usual_generation_takes_longer(lived: Lived) -> None:
    """It counts when requests finish. A minute more than in Prometheus, as minutes are complete later."""
    found = told(lived, "old-sglang")
    assert found.keys() == {"ProgressUnknown"}
    assert 35 <= found["ProgressUnknown"] <= 37


@pytest.mark.parametrize("server", ["idle-vllm", "idle-lmdeploy"])
def test_a_server_that_hung_while_it_was_idle_is_told_by_those_that_wait(lived: Lived, server: str) -> None:
    found = told(lived, server)
    assert 6 <= found["ServerStuck"] <= 9
    assert found.keys() <= {"ServerStuck", "QueueGrowing"}


def test_an_sglang_that_hung_while_it_was_idle_shows_nothing_of_it(lived: Lived) -> None:
    """Its scheduler sets the gauges; this one's health answers without a token, and nobody asks for one."""
    assert max(shown.waiting for shown in lived.shown["idle-sglang"]) > 10
    assert told(lived, "idle-sglang") == {}


def test_a_page_that_was_full_and_is_empty_is_told(lived: Lived) -> None:
    found = told(lived, "emptied")
    assert found.keys() == {"MetricsMissing"}
    assert 10 <= found["MetricsMissing"] <= 12
