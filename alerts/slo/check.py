"""What is worth knowing of objectives that are valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf

from alerts.burn import duration
from alerts.promql import number
from alerts.slo.spec import LatencyBelow, Slo, Specs
from alerts.slo.thresholds import blurs, defaults, unmeasured
from exporters.exposition import format_bound
from exporters.schema import FRAMEWORKS

Seen = Mapping[str, Mapping[str, tuple[str, tuple[float, ...]]]]
"""Bounds that servers really have, by phase: who has them, that one's framework, and the bounds."""


def warnings(specs: Specs, seen: Seen | None = None) -> list[str]:
    return [f"slos[{i}] {slo.name}: {text}" for i, slo in enumerate(specs.slos) for text in _of(slo, seen)]


def errors(specs: Specs, seen: Seen | None = None) -> list[str]:
    """Objectives that nobody in their scope can judge, since every server's bounds end below the threshold."""
    return [f"slos[{i}] {slo.name}: {text}" for i, slo in enumerate(specs.slos) for text in _beyond_all(slo, seen)]


def _beyond_all(slo: Slo, seen: Seen | None) -> Iterator[str]:
    if latency := slo.indicator.latency:
        bounds = _bounds(latency, slo.select.get("framework", FRAMEWORKS), seen)
        largest = max((b[-1] for b in bounds.values()), default=inf)
        if largest < latency.below:
            yield (
                f"{format_bound(latency.below)} s is beyond the largest bound of {latency.phase} of all its servers: "
                f"allowed: at most {format_bound(largest)} s"
            )


def _of(slo: Slo, seen: Seen | None) -> Iterator[str]:
    yield from _left_out(slo)
    latency, frameworks = slo.indicator.latency, slo.select.get("framework", FRAMEWORKS)
    if latency is None:
        return
    yield from (blur.text for blur in blurs(latency.phase, latency.below, _bounds(latency, frameworks, seen)))
    if seen is None:
        for frontend in unmeasured(latency.phase, frameworks):
            yield f"{frontend}: does not measure {latency.phase}; its requests do not count"
    elif not seen.get(latency.phase):
        yield f"no server measures {latency.phase} at present"


def _bounds(latency: LatencyBelow, frameworks: tuple[str, ...], seen: Seen | None) -> dict[str, tuple[float, ...]]:
    if seen is None:
        return defaults(latency.phase, frameworks)
    found = seen.get(latency.phase, {})
    return {who: bounds for who, (framework, bounds) in found.items() if framework in frameworks}


def _left_out(slo: Slo) -> Iterator[str]:
    for w in slo.burn_windows()[1]:
        yield (
            f"the {w.severity} at {w.factor}x over {duration(w.long)} is left out: {w.factor} times a budget of "
            f"{number(slo.budget * 100)} % is all requests or more"
        )
