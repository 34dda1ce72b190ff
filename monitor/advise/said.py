"""Advice in words: numbers with their units, and the sentences about capacity."""

from __future__ import annotations

import math
from collections.abc import Mapping

from exporters.schema import Unit
from monitor.advise.capacity import Capacity
from monitor.advise.model import Evidence
from monitor.page import quantities
from monitor.page.charts import units

_UNITS: Mapping[str, units.Unit] = {
    Unit.RATIO.value: units.RATIO, Unit.SECONDS.value: units.SECONDS, Unit.BYTES.value: units.BYTES,
}  # fmt: skip


def number(of: Evidence) -> str:
    return _UNITS.get(of.unit, units.counted(of.unit)).said(of.value)


def window(of: Evidence) -> str:
    return f"{quantities.moment(of.since)} to {quantities.moment(of.until)}"


def capacity(of: Capacity) -> str:
    """How far the objective is, and how sure that is."""
    limits, now = of.limits, f"{_rate(of.now)} are asked for now"
    if math.isinf(limits.value):
        return (
            f"At least {_rate(limits.seen)} requests/s; {now}. The threshold was never approached: no limit is known."
        )
    high = "not known" if math.isinf(limits.high) else _rate(limits.high)
    beyond = f", by a line beyond the {_rate(limits.seen)} that were seen" if limits.extrapolated else ""
    more = of.more[0]
    room = f"{_rate(more)} more are possible" if more >= 0 else f"{_rate(-more)} too many"
    return (
        f"The limit is about {_rate(limits.value)} requests/s (95 % interval: {_rate(limits.low)} to {high}{beyond}); "
        f"{now}: {room}."
    )


def _rate(per_second: float) -> str:
    return f"{per_second:.3g}"
