"""What is worth knowing of objectives that are valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from alerts.burn import duration
from alerts.promql import number
from alerts.rules.availability import SUCCESSES_ALONE
from alerts.slo import sticking
from alerts.slo.outcomes import untold
from alerts.slo.spec import LatencyBelow, Slo, Specs
from alerts.slo.thresholds import blurs, defaults, unmeasured
from exporters.exposition import format_bound
from exporters.rhythm import STICKS
from exporters.schema import FRAMEWORKS
from exporters.tables import FRONTENDS


@dataclass(frozen=True, slots=True)
class Seen:
    """What an objective selects at present: frameworks of servers, and bounds of its phase by who has them."""

    frameworks: frozenset[str] = frozenset()
    bounds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


SeenBy = Mapping[str, Seen]
"""By the name of the objective."""


def warnings(specs: Specs, seen: SeenBy | None = None) -> list[str]:
    return [f"slos[{i}] {slo.name}: {text}" for i, slo in enumerate(specs.slos) for text in _of(slo, _at(slo, seen))]


def errors(specs: Specs, seen: SeenBy | None = None) -> list[str]:
    """Objectives that nobody in their scope can judge."""
    return [
        f"slos[{i}] {slo.name}: {text}"
        for i, slo in enumerate(specs.slos)
        for text in (*_beyond_all(slo, _at(slo, seen)), *_always_bad(slo, _at(slo, seen)))
    ]


def _at(slo: Slo, seen: SeenBy | None) -> Seen | None:
    return None if seen is None else seen.get(slo.name, Seen())


def _frameworks(slo: Slo, seen: Seen | None) -> tuple[str, ...]:
    return tuple(sorted(seen.frameworks)) if seen else slo.select.get("framework", FRAMEWORKS)


def _beyond_all(slo: Slo, seen: Seen | None) -> Iterator[str]:
    """All servers' bounds end below the threshold."""
    if latency := slo.indicator.latency:
        bounds = _bounds(slo, latency, seen)
        largest = max((b[-1] for b in bounds.values()), default=inf)
        if largest < latency.below:
            yield (
                f"{format_bound(latency.below)} s is beyond the largest bound of {latency.phase} of all its servers: "
                f"allowed: at most {format_bound(largest)} s"
            )


def _always_bad(slo: Slo, seen: Seen | None) -> Iterator[str]:
    """Every request is unknown, and unknown is bad."""
    frameworks = _frameworks(slo, seen)
    if slo.indicator.availability and slo.unknown == "bad" and frameworks:
        untelling = {FRONTENDS[name].framework for name, goes_well in untold(frameworks).items() if not goes_well}
        if set(frameworks) <= untelling:
            yield (
                f"unknown: 'bad': {', '.join(frameworks)} does not tell how requests ended, so all would be bad: "
                "allowed: exclude, or more frameworks"
            )


def _of(slo: Slo, seen: Seen | None) -> Iterator[str]:
    yield from _left_out(slo)
    if seen is not None and not seen.frameworks:
        yield "selects no server that there was within the last hour"
    elif slo.indicator.availability:
        yield from _untold(slo, seen)
    elif slo.indicator.latency:
        yield from _blurred(slo, slo.indicator.latency, seen)
    elif slo.indicator.slices:
        yield from _misleading(slo.indicator.slices.metric, _frameworks(slo, seen))


def _untold(slo: Slo, seen: Seen | None) -> Iterator[str]:
    for name, goes_well in untold(_frameworks(slo, seen)).items():
        what = "does not tell failed requests from cancelled ones" if goes_well else "does not tell how requests ended"
        all_bad = "bad, so that it always burns" if not goes_well else "bad"
        then = all_bad if slo.unknown == "bad" else "left out, and only minutes without any server are bad"
        yield f"{name}: {what}: they are unknown and {then}"
    for name in SUCCESSES_ALONE:
        if FRONTENDS[name].framework in _frameworks(slo, seen):
            then = "bad" if slo.unknown == "bad" else "left out"
            yield f"{name}: old releases count no request that fails: all of theirs are unknown and {then}"


def _blurred(slo: Slo, latency: LatencyBelow, seen: Seen | None) -> Iterator[str]:
    yield from (blur.text for blur in blurs(latency.phase, latency.below, _bounds(slo, latency, seen)))
    if seen is None:
        for frontend in unmeasured(latency.phase, _frameworks(slo, seen)):
            yield f"{frontend}: does not measure {latency.phase}; its requests do not count"
    elif not seen.bounds:
        yield f"no server measures {latency.phase} at present"


def _misleading(metric: str, frameworks: tuple[str, ...]) -> Iterator[str]:
    """Gauges that say of an idle server what they said of a busy one."""
    for frontend in sticking.always(metric):
        if frontend.framework in frameworks:
            yield f"{frontend.name}: {metric} {STICKS}: minutes in which nothing finishes do not count"
    for frontend in sticking.in_some_releases(metric):
        if frontend.framework in frameworks:
            yield f"{frontend.name}: {metric} {STICKS}, of old releases: there minutes without requests count by it"
    if metric == "llm_kv_cache_utilization_ratio" and "lmdeploy" in frameworks:
        yield "lmdeploy: what the prefix cache keeps counts as used: an idle server may look full, and burn for ever"


def _bounds(slo: Slo, latency: LatencyBelow, seen: Seen | None) -> Mapping[str, tuple[float, ...]]:
    return defaults(latency.phase, _frameworks(slo, None)) if seen is None else seen.bounds


def _left_out(slo: Slo) -> Iterator[str]:
    for w in slo.burn_windows()[1]:
        yield (
            f"the {w.severity} at {w.factor}x over {duration(w.long)} is left out: {w.factor} times a budget of "
            f"{number(slo.budget * 100)} % is all requests or more"
        )
