"""Small questions about the series of observations, asked in more than one place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from exporters.observation import Labels, Observation, Series, labels
from exporters.schema import METRICS, SERVER_INFO_LABELS, Scope, Type

_ENGINE_METRICS = {name for name, metric in METRICS.items() if metric.scope is Scope.ENGINE}


def counters(values: Mapping[Series, float]) -> dict[Series, float]:
    return {s: v for s, v in values.items() if s.metric in METRICS and METRICS[s.metric].type is Type.COUNTER}


def of_metric(values: Mapping[Series, float], metric: str) -> Iterator[tuple[Series, float]]:
    return ((s, v) for s, v in values.items() if s.metric == metric)


@lru_cache(maxsize=100_000)
def identity(series: Series) -> Labels:
    """Identity and user labels: what remains without the labels of the metric's own.

    Remembered, since all readings ask it of the same series.
    """
    own = METRICS[series.metric].labels
    return tuple((name, value) for name, value in series.labels if name not in own)


def own_labels(series: Series) -> Labels:
    own = METRICS[series.metric].labels
    return tuple((name, value) for name, value in series.labels if name in own)


def total(values: Iterable[float]) -> float | None:
    """None of nothing: missing is missing, never 0."""
    known = list(values)
    return sum(known) if known else None


def target(observation: Observation) -> Labels:
    """Identity of the target as a whole."""
    return labels({**dict(observation.user_labels), "node": observation.node, "server": observation.server})


def engines(observation: Observation) -> list[Labels]:
    """Identities of the engines that have readings, in a stable order."""
    found = {identity(s) for s in (*observation.values, *observation.histograms) if s.metric in _ENGINE_METRICS}
    return sorted(found, key=in_order)


def in_order(identity: Labels) -> list[tuple[str, int, str]]:
    """A key to sort by: engine 2 before engine 10."""
    return [(name, len(value) if name == "engine" else 0, value) for name, value in identity]


def first_engines(observation: Observation, most: int) -> tuple[Observation, int]:
    """Without the engines beyond `most`, and how many those are. What is of no engine stays."""
    beyond = [of for of in engines(observation) if dict(of).get("engine")][most:]
    if not beyond:
        return observation, 0
    hidden = set(beyond)

    def is_shown(series: Series) -> bool:
        return series.metric not in _ENGINE_METRICS or identity(series) not in hidden

    values = {s: v for s, v in observation.values.items() if is_shown(s)}
    histograms = {s: h for s, h in observation.histograms.items() if is_shown(s)}
    return replace(observation, values=values, histograms=histograms), len(beyond)


def replicas(observation: Observation) -> list[str]:
    """Numbers of the engines that have readings; values that stand for all of them together carry none."""
    return sorted({number for of in engines(observation) if (number := dict(of).get("engine", ""))})


def facts(observation: Observation) -> dict[str, str]:
    """What the target says it is, as far as it is known; several values of several engines are joined by ", "."""
    identities = [dict(i) for i in engines(observation)]
    info = [series for series, _ in of_metric(observation.values, "llm_server_info")]
    state = [series for series, value in of_metric(observation.values, "llm_server_state") if value == 1]
    found = {name: [i.get(name, "") for i in identities] for name in ("framework", "model", "role")}
    found |= {name: [series.label(name) for series in info] for name in SERVER_INFO_LABELS}
    found["state"] = [series.label("state") for series in state]
    return {name: text for name, values in found.items() if (text := ", ".join(sorted({v for v in values if v})))}
