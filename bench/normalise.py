"""Normalising one page, text to text, against parsing and rewriting it with prometheus_client."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from bench.paired import Paired, seconds
from exporters import exposition
from exporters.normalise import Identity, Normaliser
from exporters.tables import FRONTENDS

CAPTURES = Path(__file__).parent.parent / "tests" / "captures"
BODIES = {
    "vllm": CAPTURES / "vllm" / "0.32.0" / "A-2-after.prom",
    "sglang": CAPTURES / "sglang" / "0.5.23" / "tp1-2_load.prom",
    "lmdeploy": CAPTURES / "lmdeploy" / "0.18.0" / "mid-2.prom",
    "trtllm_serve": CAPTURES / "trtllm_serve" / "main2026" / "page-load2.prom",
    "triton": CAPTURES / "triton" / "24.10" / "cppnames018-load2.prom",
}
"""A page under load of the newest release recorded, by frontend. NIM's is made by hand: no real one."""
LEAST_RATIO = 20.0
_PAIRS = 60
_INNER = 10


class _Parsed(Collector):
    def __init__(self, text: str) -> None:
        self._text = text

    def collect(self) -> list[Metric]:
        return list(text_string_to_metric_families(self._text))


def measure(frontend: str, text: str) -> Paired:
    normaliser = Normaliser(FRONTENDS[frontend], Identity("bench", frontend))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Parsed(text))

    def ours() -> object:
        return exposition.page([normaliser.normalise(text).chunks()])

    ours()
    return Paired.of([(seconds(ours, _INNER), seconds(lambda: generate_latest(registry))) for _ in range(_PAIRS)])


def differing(text: str) -> list[str]:
    """Samples that our reader and prometheus_client's parser read differently: none, or the speed means nothing."""
    ours = {(s.name, tuple(sorted(s.labels.items()))): repr(s.value) for s in exposition.read_samples(text)}
    bare_counters = set(re.findall(r"^# TYPE (\S+(?<!_total)) counter$", text, re.MULTILINE))
    theirs = {
        (_written(s.name, family.name, bare_counters), tuple(sorted(s.labels.items()))): repr(float(s.value))
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }
    return [str(key) for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)]


def _written(name: str, family: str, bare_counters: set[str]) -> str:
    """As it stood on the page: the parser adds `_total` to counters that are declared without it."""
    return name.removesuffix("_total") if family in bare_counters else name
