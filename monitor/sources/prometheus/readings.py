"""Raw samples of a Prometheus back into the scrapes that they came with. Pure.

All series of a scrape have its timestamp. A target may be there several times, through several jobs or replicas: each
is a copy, told apart by labels that are none of the target's own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Generic, TypeVar

from exporters.exposition import Sample
from exporters.gpu import text
from exporters.gpu.gathered import Gathered
from exporters.observation import Labels, Observation, labels
from exporters.schema import METRICS, Scope, Type
from monitor.sources import rebuild
from monitor.sources.prometheus.answers import Points
from monitor.sources.rebuild import Part

K = TypeVar("K")
S = TypeVar("S")

Copy = Labels
Target = tuple[str, str]
"""node, server"""

_UP, _AVAILABLE, _GPU_AVAILABLE = "llm_up", "llm_metrics_available", "inferwatch_gpu_available"
_OWN_OF_SERVERS = ("inferwatch_finding", "inferwatch_scrape_duration_seconds")
_OWN_OF_GPUS = (_GPU_AVAILABLE, "inferwatch_gpu_finding", "inferwatch_gpu_read_duration_seconds")
_OF_SCRAPER = ("job", "instance")
_PARTS = ("bucket", "sum", "count")


def _stored(metrics: Iterable[str]) -> Iterator[str]:
    for name in metrics:
        if METRICS[name].type is Type.HISTOGRAM:
            yield from (f"{name}_{part}" for part in _PARTS)
        else:
            yield name


SERVER_NAMES = (_UP, *_OWN_OF_SERVERS, *_stored(name for name in METRICS if name.startswith("llm_") and name != _UP))
"""What an observation is made of, as it is stored; first what every scrape has."""
GPU_NAMES = (*_OWN_OF_GPUS, *(name for name, metric in METRICS.items() if metric.scope is Scope.GPU))
_KNOWN_OF_SERVERS, _KNOWN_OF_GPUS = frozenset(SERVER_NAMES), frozenset(GPU_NAMES)


@dataclass(frozen=True, slots=True)
class Scrape(Generic[S]):
    """What one scrape tells of one server, or of one node's GPUs; `at` in unix seconds."""

    at: float
    samples: list[S]


ServerSample = tuple[Part, float]


def dropped_labels(replica_labels: Iterable[str]) -> frozenset[str]:
    """Those that say who scraped, and nothing of the target."""
    return frozenset((*_OF_SCRAPER, *replica_labels))


def servers(matrix: Iterable[Points], dropped: Collection[str]) -> dict[Target, dict[Copy, list[Scrape[ServerSample]]]]:
    """In order of time. A moment without `llm_up` is no scrape: ask for that too."""
    return _scrapes(_of_servers(matrix, dropped))


def gpus(matrix: Iterable[Points], dropped: Collection[str]) -> dict[str, dict[Copy, list[Scrape[Sample]]]]:
    """By node, in order of time. A moment without `inferwatch_gpu_available` is no scrape: ask for that too."""
    return _scrapes(_of_gpus(matrix, dropped))


def observation(target: Target, scrape: Scrape[ServerSample]) -> Observation:
    return rebuild.observation(*target, scrape.at, scrape.samples)


def gathered(node: str, scrape: Scrape[Sample]) -> Gathered:
    return text.gathered(scrape.samples, scrape.at)[node]


def newest_server(copies: Mapping[Copy, Sequence[Scrape[ServerSample]]]) -> Scrape[ServerSample]:
    def is_down(sample: ServerSample) -> bool:
        return sample[0].series.metric in (_UP, _AVAILABLE) and sample[1] == 0

    return _newest(copies, is_down)


def newest_gpus(copies: Mapping[Copy, Sequence[Scrape[Sample]]]) -> Scrape[Sample]:
    return _newest(copies, lambda sample: sample.name == _GPU_AVAILABLE and sample.value == 0)


def _newest(copies: Mapping[Copy, Sequence[Scrape[S]]], is_short_because: Callable[[S], bool]) -> Scrape[S]:
    """Of all copies. One with fewer samples than the one before may still be on its way, where samples are passed on
    one by one (remote write): then it is the one before, unless a sample tells why there are few."""

    def last(scrapes: Sequence[Scrape[S]]) -> Scrape[S]:
        before, after = scrapes[-2:] if len(scrapes) > 1 else (scrapes[0], scrapes[0])
        is_whole = len(after.samples) >= len(before.samples) or any(map(is_short_because, after.samples))
        return after if is_whole else before

    return max((last(scrapes) for _, scrapes in sorted(copies.items())), key=lambda scrape: scrape.at)


def _of_servers(
    matrix: Iterable[Points], dropped: Collection[str]
) -> Iterator[tuple[Target, Copy, bool, list[tuple[float, ServerSample]]]]:
    for series in matrix:
        name, own, copy = _divided(series.labels, dropped)
        node, server = own.get("node"), own.get("server")
        part = rebuild.part_of(name, own) if node and server and name in _KNOWN_OF_SERVERS else None
        if node and server and part:
            yield (node, server), copy, name == _UP, [(at, (part, value)) for at, value in _numbers(series)]


def _of_gpus(
    matrix: Iterable[Points], dropped: Collection[str]
) -> Iterator[tuple[str, Copy, bool, list[tuple[float, Sample]]]]:
    for series in matrix:
        name, own, copy = _divided(series.labels, dropped)
        if (node := own.get("node")) and name in _KNOWN_OF_GPUS:
            yield node, copy, name == _GPU_AVAILABLE, [(at, Sample(name, own, value)) for at, value in _numbers(series)]


def _divided(of: Mapping[str, str], dropped: Collection[str]) -> tuple[str, dict[str, str], Copy]:
    """Name, the target's own labels, and those that say which copy it is."""
    own = {name: value for name, value in of.items() if name not in dropped}
    return own.pop("__name__", ""), own, labels({name: value for name, value in of.items() if name in dropped})


def _numbers(series: Points) -> Iterator[tuple[float, float]]:
    """No sidecar writes NaN, which marks the end of a series, nor what is infinite, which no sum would get rid of."""
    return ((at, value) for at, value in series.points if isfinite(value))


def _scrapes(
    parts: Iterable[tuple[K, Copy, bool, list[tuple[float, S]]]],
) -> dict[K, dict[Copy, list[Scrape[S]]]]:
    samples: defaultdict[tuple[K, Copy], defaultdict[float, list[S]]] = defaultdict(lambda: defaultdict(list))
    moments: defaultdict[tuple[K, Copy], set[float]] = defaultdict(set)
    for subject, copy, is_in_every_scrape, dated in parts:
        of = samples[subject, copy]
        for at, sample in dated:
            of[at].append(sample)
        if is_in_every_scrape:
            moments[subject, copy].update(at for at, _ in dated)
    found: defaultdict[K, dict[Copy, list[Scrape[S]]]] = defaultdict(dict)
    for (subject, copy), whole in moments.items():
        if whole:
            found[subject][copy] = [Scrape(at, samples[subject, copy][at]) for at in sorted(whole)]
    return dict(found)
