"""Holds the page of a face to a recorded one: the same families, types, labels and bounds, whatever the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

Series = tuple[str, tuple[tuple[str, str], ...]]

FREE = frozenset({"model_name", "pid"})
"""Labels of which only the name is held: their values are the operator's, or chance."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Of one family: its samples' names and labels, with the bounds of those that are buckets."""

    kind: str
    series: Mapping[Series, frozenset[tuple[str, ...]]]


@lru_cache(maxsize=8)
def families(body: str) -> tuple[Metric, ...]:
    """As prometheus_client reads them."""
    return tuple(text_string_to_metric_families(body))


def shapes(body: str, *, free: frozenset[str] = FREE) -> dict[str, Shape]:
    return {family.name: Shape(family.type, _series(family, free)) for family in families(body)}


def _series(family: Metric, free: frozenset[str]) -> dict[Series, frozenset[tuple[str, ...]]]:
    """With the bounds of its buckets; series of other values of free labels are one, and mostly have the same."""
    bounds: dict[Series, list[str]] = {}
    for sample in family.samples:
        own, is_bucket = dict(sample.labels), family.type == "histogram" and sample.name.endswith("_bucket")
        bound = own.pop("le") if is_bucket else ""
        bounds.setdefault((sample.name, tuple(sorted(own.items()))), []).append(bound)
    found: dict[Series, set[tuple[str, ...]]] = {}
    for (name, labels), each in bounds.items():
        kept = tuple((n, "" if n in free else v) for n, v in labels)
        found.setdefault((name, kept), set()).add(tuple(each))
    return {series: frozenset(each) for series, each in found.items()}


def differences(body: str, recorded: str, *, free: frozenset[str] = FREE) -> list[str]:
    """What the body has otherwise than the recorded one, one sentence each; none where they are alike."""
    ours, theirs = shapes(body, free=free), shapes(recorded, free=free)
    absent = [f"{name} is missing" for name in theirs if name not in ours]
    added = [f"{name} is not in the recording" for name in ours if name not in theirs]
    return absent + added + [d for name in ours if name in theirs for d in _within(name, ours[name], theirs[name])]


def _within(name: str, ours: Shape, theirs: Shape) -> Iterator[str]:
    if ours.kind != theirs.kind:
        yield f"{name} is a {ours.kind}, recorded as {theirs.kind}"
    for series in theirs.series.keys() - ours.series.keys():
        yield f"{_told(series)} is missing"
    for series in ours.series.keys() - theirs.series.keys():
        yield f"{_told(series)} is not in the recording"
    for series in ours.series.keys() & theirs.series.keys():
        if ours.series[series] != theirs.series[series]:
            yield f"{_told(series)} has other bounds: {sorted(ours.series[series] ^ theirs.series[series])}"


def _told(series: Series) -> str:
    name, labels = series
    return name + "{" + ",".join(f"{n}={v}" if v else n for n, v in labels) + "}"


def held(body: str, recorded: str, known: Mapping[str, str] | None = None, *, free: frozenset[str] = FREE) -> None:
    """`known`: the differences that there are, each with its reason. One that is not there any more must go as well."""
    assert sorted(differences(body, recorded, free=free)) == sorted(known or {})


@dataclass(slots=True)
class _Buckets:
    bounds: list[float] = field(default_factory=list)
    counts: list[float] = field(default_factory=list)


def consistent(body: str) -> None:
    """No sample twice, and buckets that grow up to a last one, which is the count."""
    for family in families(body):
        keys = [_key(sample) for sample in family.samples]
        assert len(keys) == len(set(keys)), f"{family.name} has a sample twice"
        if family.type == "histogram":
            _consistent_buckets(family)


def _consistent_buckets(family: Metric) -> None:
    found: dict[tuple[tuple[str, str], ...], _Buckets] = {}
    counts = {_key(s)[1]: s.value for s in family.samples if s.name.endswith("_count")}
    for sample in family.samples:
        if sample.name.endswith("_bucket"):
            labels = tuple(sorted((n, v) for n, v in sample.labels.items() if n != "le"))
            buckets = found.setdefault(labels, _Buckets())
            buckets.bounds.append(float(sample.labels["le"]))
            buckets.counts.append(sample.value)
    assert {labels: buckets.counts[-1] for labels, buckets in found.items()} == counts, family.name
    for buckets in found.values():
        assert buckets.bounds == sorted(set(buckets.bounds)), family.name
        assert buckets.bounds[-1] == inf, family.name
        assert buckets.counts == sorted(buckets.counts), family.name


def grown(before: str, after: str) -> None:
    """Counters and histograms of the first body are in the second, and have not fallen."""
    later = {_key(s): s.value for family in families(after) for s in family.samples}
    for family in families(before):
        if family.type in {"counter", "histogram", "summary"}:
            for sample in family.samples:
                assert later[_key(sample)] >= sample.value, _key(sample)


def value(body: str, name: str, **labels: str) -> float:
    """The sum over the samples of this name that have these labels; it fails where there is none."""
    found = [s.value for s in _samples(body) if s.name == name and labels.items() <= s.labels.items()]
    assert found, f"no {name}{labels}"
    return sum(found)


def values(body: str, name: str, by: str) -> dict[str, float]:
    """By the value of one label."""
    return {s.labels[by]: s.value for s in _samples(body) if s.name == name}


def _samples(body: str) -> Iterator[Sample]:
    return (sample for family in families(body) for sample in family.samples)


def _key(sample: Sample) -> Series:
    return sample.name, tuple(sorted(sample.labels.items()))
