"""Whose own bounds do not tell a latency objective's threshold, by group of the objective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from alerts.burn import DAY, HOUR
from alerts.slo.spec import Slo
from alerts.slo.thresholds import Blur, blurs
from monitor.evaluate.members import Group
from monitor.evaluate.once import Once
from monitor.history.planning import Span
from monitor.history.tables import Tier

Blurred = Mapping[Group, tuple[Blur, ...]]


def blurred(once: Once, slo: Slo, until: int) -> Blurred:
    """Of the day before `until`, where it had requests; by framework."""
    latency = slo.indicator.latency
    if latency is None:
        return {}
    found: defaultdict[Group, list[Blur]] = defaultdict(list)
    for group, framework, native in sorted(set(_native(once, slo, latency.phase, until))):
        found[group] += blurs(latency.phase, latency.below, {framework: native})
    return {group: tuple(of) for group, of in found.items() if of}


def _native(once: Once, slo: Slo, phase: str, until: int) -> Iterator[tuple[Group, str, tuple[float, ...]]]:
    of = once.members(slo)
    if not of.groups:
        return
    for engine, native in once.native(phase, _spans(until), of.engine_ids):
        yield of.groups[of.engine_group[engine]], of.engine_framework[engine], native


def _spans(until: int) -> tuple[Span, ...]:
    """The last hours are not rolled up yet."""
    fine = until // HOUR * HOUR - HOUR
    return Span(Tier.HOUR, fine - DAY + HOUR, fine), Span(Tier.MINUTE, fine, until)
