"""One server in full."""

from __future__ import annotations

import math
from collections.abc import Sequence

from exporters.observation import Observation
from exporters.schema import METRICS
from monitor.api.events import event_out
from monitor.api.models import HistogramOut, ServerDetail, ValueOut
from monitor.fleet import ServerRow
from monitor.history.life import Seen
from monitor.history.minutes import Event
from monitor.readings import first_engines

MAX_ENGINES = 128
"""In one answer, whatever a server makes up."""


def detail(row: ServerRow, observation: Observation, seen: Seen, events: Sequence[Event]) -> ServerDetail:
    observation, left_out = first_engines(observation, MAX_ENGINES)
    return ServerDetail(
        server=row,
        observed_at=observation.at,
        first_seen=seen.first,
        last_seen=row.last_seen if row.last_seen is not None else seen.last,
        values=_values(observation),
        histograms=_histograms(observation),
        engines_left_out=left_out,
        events=[event_out(event) for event in events],
    )


def _values(observation: Observation) -> list[ValueOut]:
    """In the order of the schema."""
    order = list(METRICS)
    known = (item for item in observation.values.items() if item[0].metric in METRICS)
    return [
        ValueOut(
            metric=series.metric,
            unit=METRICS[series.metric].unit.value,
            labels=dict(series.labels),
            value=value if math.isfinite(value) else None,
        )
        for series, value in sorted(known, key=lambda item: (order.index(item[0].metric), item[0].labels))
    ]


def _histograms(observation: Observation) -> list[HistogramOut]:
    return [
        HistogramOut(
            metric=series.metric,
            unit=METRICS[series.metric].unit.value,
            labels=dict(series.labels),
            bounds=list(histogram.bounds),
            counts=list(histogram.counts),
            sum=histogram.sum,
        )
        for series, histogram in observation.histograms.items()
    ]
