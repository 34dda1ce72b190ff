"""Servers of the simulated fleet whose metrics are switched off, in the ways of their releases: each is told the flag
that shows them, as far as the server lets itself be recognised."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.fleet import Service
from demo.server import Spec
from demo.workload import CHAT, Rate
from monitor.advise.model import Confidence, Finding
from tests.end_to_end.advised import MINUTE, NODE, Lived, findings, lived, names

END = 35 * MINUTE
_RELEASES = {
    "vllm": ("vllm", "0.32.0"), "sglang": ("sglang", "0.5.23"), "lmdeploy": ("lmdeploy", "0.18.0"),
    "lmdeploy-old": ("lmdeploy", "0.9.2"), "trtllm": ("trtllm_serve", "1.3.0"), "seen": ("vllm", "0.32.0"),
}  # fmt: skip
SPECS = (
    *(Spec(name, NODE, *release, f"m-{name}", (gpu,), tells_iterations=not name.startswith("trtllm"),
           tells_metrics=name == "seen", slowness=4.0) for gpu, (name, release) in enumerate(_RELEASES.items())),
    Spec("trtllm-records", NODE, "trtllm_serve", "1.2.1", "m-records", (len(_RELEASES),), tells_metrics=False,
         slowness=4.0),
)  # fmt: skip
"""The last one has its iteration statistics alone, `seen` shows all."""
SERVICES = tuple(Service(f"of-{spec.name}", (spec.name,), CHAT, Rate(0.2)) for spec in SPECS)
FLAGS = {
    "vllm": "Start vLLM without `--disable-log-stats`.",
    "sglang": "SGLang has metrics only with --enable-metrics",
    "lmdeploy": "later ones must not run with --disable-metrics",
    "lmdeploy-old": "0.9.2 to 0.10.2 need --enable-metrics",
    "trtllm": "1.1 and later have a metrics page besides, with `return_perf_metrics: true`",
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    with lived(SPECS, SERVICES, END, tmp_path_factory.mktemp("unseen")) as made:
        yield made


@pytest.fixture(scope="module")
def found(fleet: Lived) -> dict[str, list[Finding]]:
    return findings(fleet.advice(0, END, now=END))


def test_those_without_metrics_are_told_and_no_others(fleet: Lived) -> None:
    """trtllm-serve 1.2 tells by its iterations what alerts and objectives rest on."""
    assert names(fleet.advice(0, END, now=END)) == {server: ["metrics_missing"] for server in FLAGS}


@pytest.mark.parametrize("server", FLAGS)
def test_each_is_told_its_own_flag(found: dict[str, list[Finding]], server: str) -> None:
    (finding,) = found[server]
    assert (finding.confidence, finding.seconds) == (Confidence.HIGH, END)
    assert FLAGS[server] in finding.instead
    assert [(each.what, each.value) for each in finding.evidence] == [("metrics available", 0)]


def test_from_the_history_alone_the_flags_of_all_frameworks_are_told_with_little_confidence(fleet: Lived) -> None:
    told = fleet.advice(0, END)
    assert names(told) == {server: ["metrics_missing"] for server in FLAGS}
    for (finding,) in findings(told).values():
        assert finding.confidence is Confidence.LOW
        assert finding.instead.startswith("By framework: vllm: start without `--disable-log-stats`; sglang: start with")


def test_they_served_requests_all_the_while(fleet: Lived) -> None:
    assert all(fleet.fleet.truth.summary(engines=fleet.engines(server)).arrived > 300 for server in FLAGS)
