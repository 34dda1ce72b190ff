"""Whose own bounds do not tell a latency objective's threshold, by group of the objective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
from sqlalchemy import Connection

from alerts.burn import DAY, HOUR
from alerts.slo.spec import Slo
from alerts.slo.thresholds import Blur, blurs
from exporters.schema import Scope
from monitor.evaluate.members import Group, members
from monitor.evaluate.reader import Scan
from monitor.history.native import bounds
from monitor.history.packed import add_up
from monitor.history.planning import Span
from monitor.history.tables import Tier

Blurred = Mapping[Group, tuple[Blur, ...]]


def blurred(connection: Connection, slo: Slo, until: int, read: Scan) -> Blurred:
    """Of the day before `until`, where it had requests; by framework."""
    latency = slo.indicator.latency
    if latency is None:
        return {}
    found: defaultdict[Group, list[Blur]] = defaultdict(list)
    for group, framework, native in sorted(set(_native(connection, slo, latency.phase, until, read))):
        found[group] += blurs(latency.phase, latency.below, {framework: native})
    return {group: tuple(of) for group, of in found.items() if of}


def _native(
    connection: Connection, slo: Slo, phase: str, until: int, read: Scan
) -> Iterator[tuple[Group, str, tuple[float, ...]]]:
    of, column = members(connection, slo), f"{phase}_histogram"
    if not of.groups:
        return
    rows = read(connection, Scope.ENGINE, _spans(until), [column], of.engine_ids)
    known = np.array([value is not None for value in rows[column]], bool)
    engines = rows["series"][known]
    for merged in add_up(rows[column][known].tolist(), engines, bounds(connection)) if known.any() else ():
        for engine in merged.cells.tolist():
            yield of.groups[of.engine_group[engine]], of.engine_framework[engine], merged.bounds


def _spans(until: int) -> tuple[Span, ...]:
    """The last hours are not rolled up yet."""
    fine = until // HOUR * HOUR - HOUR
    return Span(Tier.HOUR, fine - DAY + HOUR, fine), Span(Tier.MINUTE, fine, until)
