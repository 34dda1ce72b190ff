"""Observations made by hand, for tests that know what should come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporters.findings import finding
from exporters.histogram import Histogram
from exporters.observation import Labels, Observation, Series, labels
from exporters.schema import IDENTITY, METRICS

ENGINE = {"framework": "vllm", "model": "m-a", "role": "unified", "engine": "0"}


def series(metric: str, *, node: str = "n1", server: str = "s1", **more: str) -> Series:
    """With the identity labels of the metric's scope; `more` adds to them or overrides them."""
    base = {"node": node, "server": server, **ENGINE}
    identity = {name: base[name] for name in IDENTITY[METRICS[metric].scope]}
    return Series(metric, labels({**identity, **more}))


def observation(
    at: float,
    values: Mapping[Series, float] | None = None,
    histograms: Mapping[Series, Histogram] | None = None,
    **more: Any,
) -> Observation:
    facts: dict[str, Any] = {"node": "n1", "server": "s1", "up": True, "available": True} | more
    return Observation(at=at, values=values or {}, histograms=histograms or {}, **facts)


def empty_page(at: float, **more: Any) -> Observation:
    """Of a server that is known and shows no series yet."""
    info, state = series("llm_server_info", frontend="sglang"), series("llm_server_state", state="unknown")
    return observation(at, {info: 1, state: 1}, available=False, findings=(finding("empty_body"),), **more)


def in_part(at: float, values: Mapping[Series, float] | None = None, **more: Any) -> Observation:
    """A document of the server has not answered yet."""
    return observation(at, values, findings=(finding("documents_unread"),), **more)


def identity(of: Series) -> Labels:
    """Of the engine or target that the series belongs to."""
    return tuple((name, value) for name, value in of.labels if name not in METRICS[of.metric].labels)


ENGINE_0 = identity(series("llm_requests_running"))
TARGET = identity(series("llm_up"))
