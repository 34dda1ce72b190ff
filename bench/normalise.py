"""Normalising one page, text to text, against parsing and rewriting it with prometheus_client."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from exporters import exposition
from exporters.normalise import Identity, Normaliser
from exporters.tables import FRONTENDS

BODY = Path(__file__).parent.parent / "tests" / "captures" / "vllm" / "0.32.0" / "A-2-after.prom"
LEAST_RATIO = 20.0
_PAIRS = 60
_INNER = 10


@dataclass(frozen=True, slots=True)
class Result:
    ours_ms: float
    peer_ms: float
    ratio: float
    """Median of the ratios of paired runs."""


class _Parsed(Collector):
    def __init__(self, text: str) -> None:
        self._text = text

    def collect(self) -> list[Metric]:
        return list(text_string_to_metric_families(self._text))


def measure(text: str) -> Result:
    normaliser = Normaliser(FRONTENDS["vllm"], Identity("bench", "vllm"))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Parsed(text))

    def ours() -> object:
        return exposition.page([normaliser.normalise(text).chunks()])

    ours()
    pairs = [(_seconds(ours, _INNER), _seconds(lambda: generate_latest(registry), 1)) for _ in range(_PAIRS)]
    return Result(
        statistics.median(a for a, _ in pairs) * 1e3,
        statistics.median(b for _, b in pairs) * 1e3,
        statistics.median(b / a for a, b in pairs),
    )


def _seconds(run: Callable[[], object], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - started) / times


def differing(text: str) -> list[str]:
    """Samples that our reader and prometheus_client's parser read differently: none, or the speed means nothing."""
    ours = {(s.name, tuple(sorted(s.labels.items()))): s.value for s in exposition.read_samples(text)}
    theirs = {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }
    return [str(key) for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)]
