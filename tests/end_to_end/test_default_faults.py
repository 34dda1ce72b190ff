"""Each kind of fault as it is ordered without a parameter, by night and by day: it must bring its own alert."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

from demo.faults import KINDS
from demo.fleet import Fleet, Service
from demo.model import Limits
from demo.server import Spec
from demo.workload import CHAT, RAG, Mix, Rate
from tests.end_to_end.simulated import HOUR, MINUTE, START, Lived, read_until

MINUTES = 50
_LIMITS = Limits(running=64, waiting=64, kv_tokens=40_000)


def _spec(gpu: int, name: str, frontend: str = "vllm", release: str = "0.32.0", model: str = "") -> Spec:
    """Slow, so that few requests are much to do."""
    renamed = {"vllm:time_to_first_token_seconds": "vllm:ttft_seconds"}
    return Spec(name, "sim", frontend, release, model or name, (gpu,), _LIMITS, slowness=8.0, renamed=renamed)


SERVERS = ("flooded", "cramped", "failing", "first", "second", "third", "upgraded")
SPECS = (
    *(_spec(n, name) for n, name in enumerate(SERVERS)),
    _spec(7, "forgetful", "sglang", "0.5.23"),
    *(_spec(8 + n, f"twin-{n}", model="twins") for n in range(2)),
)
SICK = 10
"""The first GPU that no server is on."""


def _services() -> Iterator[Service]:
    for spec in SPECS[:-2]:
        yield _service(spec.name, RAG if spec.name == "forgetful" else CHAT, 0.3, spec.name)
    yield _service("twins", CHAT, 0.6, "twin-0", "twin-1")


def _service(name: str, mix: Mix, mean: float, *servers: str) -> Service:
    return Service(name, servers, mix, Rate(mean, 0.6))


@dataclass(frozen=True)
class Ordered:
    """In minute `at`, and the alerts that it must bring."""

    kind: str
    target: str
    at: int
    alerts: Sequence[tuple[str, str]] = ()


def _gpu(kind: str, number: int, alert: str) -> Ordered:
    return Ordered(kind, f"sim/{SICK + number}", 20, [(alert, str(SICK + number))])


FAULTS = (
    Ordered("restart", "upgraded", 3),
    Ordered("slow_body", "upgraded", 6),
    Ordered("renamed", "upgraded", 22, [("UnmappedFamilies", "upgraded")]),
    Ordered("frozen_gauges", "upgraded", 47),
    Ordered("down", "first", 8, [("ServerDown", "first"), ("SloBurnPage", "first")]),
    Ordered("truncated_body", "first", 30, [("MetricsMissing", "first")]),
    Ordered("silent", "second", 8, [("ServerDown", "second"), ("SloBurnPage", "second")]),
    Ordered("unauthorized", "second", 30, [("MetricsMissing", "second")]),
    Ordered("outage", "third", 8, [("ServerDown", "third"), ("SloBurnPage", "third")]),
    Ordered("hang", "third", 30, [("ServerStuck", "third")]),
    Ordered("empty", "failing", 5, [("MetricsMissing", "failing")]),
    Ordered("errors", "failing", 22, [("SloBurnPage", "failing")]),
    Ordered("kv_exhaustion", "cramped", 22, [("PreemptionsFrequent", "cramped"), ("KvCacheSaturated", "cramped")]),
    Ordered("overload", "flooded", 22, [("QueueGrowing", "flooded"), ("SloBurnPage", "flooded")]),
    Ordered("prefix_collapse", "forgetful", 24, [("PrefixHitsCollapsed", "forgetful")]),
    Ordered("imbalance", "twins", 22, [("ReplicasImbalanced", "twins")]),
    _gpu("thermal", 0, "GpuSlowedDown"),
    _gpu("gpu_lost", 1, "GpuLost"),
    _gpu("xid", 2, "GpuXidHardware"),
    _gpu("ecc", 3, "GpuEccUncorrected"),
)


@pytest.fixture(scope="module", params=[3, 15], ids=["by night", "by day"])
def lived(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    start = START + request.param * HOUR
    fleet = Fleet(SPECS, _services(), {"sim": SICK + 4}, seed=5, start=start)
    fleet.order([{"kind": f.kind, "target": f.target, "after": f.at * MINUTE} for f in FAULTS], start)
    made = read_until(start + MINUTES * MINUTE, fleet, tmp_path_factory.mktemp("lived"))
    yield made
    made.monitor.close()


def test_every_kind_is_ordered_once() -> None:
    assert sorted(fault.kind for fault in FAULTS) == sorted(KINDS)


def test_each_fault_as_it_is_by_default_brings_its_own_alert(lived: Lived) -> None:
    start = lived.until - MINUTES * MINUTE
    alerts = [(a.name, _about(a.labels), (a.starts_at - start) / MINUTE) for a in lived.alerts()]
    missing = [
        (fault.kind, wanted)
        for fault in FAULTS
        for wanted in fault.alerts
        if not any((name, about) == wanted and at >= fault.at for name, about, at in alerts)
    ]
    assert missing == []


def _about(labels: Mapping[str, str]) -> str:
    return labels.get("gpu") or labels.get("server") or labels.get("model", "")
