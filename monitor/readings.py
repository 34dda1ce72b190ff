"""Small questions about the series of observations, asked in more than one place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from exporters.observation import Labels, Observation, Series
from exporters.schema import METRICS, Type


def counters(values: Mapping[Series, float]) -> dict[Series, float]:
    return {s: v for s, v in values.items() if s.metric in METRICS and METRICS[s.metric].type is Type.COUNTER}


def of_metric(values: Mapping[Series, float], metric: str) -> Iterator[tuple[Series, float]]:
    return ((s, v) for s, v in values.items() if s.metric == metric)


def identity(series: Series) -> Labels:
    """Identity and user labels: what remains without the labels of the metric's own."""
    own = METRICS[series.metric].labels
    return tuple((name, value) for name, value in series.labels if name not in own)


def own_labels(series: Series) -> Labels:
    own = METRICS[series.metric].labels
    return tuple((name, value) for name, value in series.labels if name in own)


def total(values: Iterable[float]) -> float | None:
    """None of nothing: missing is missing, never 0."""
    known = list(values)
    return sum(known) if known else None


def engines(observation: Observation) -> list[Labels]:
    """Identities of the engines that have readings, in a stable order."""
    found = {
        identity(series)
        for series in (*observation.values, *observation.histograms)
        if series.metric in METRICS and series.label("engine")
    }
    return sorted(found)
