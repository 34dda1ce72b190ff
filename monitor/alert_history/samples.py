"""Samples of Prometheus' ALERTS as stretches in which an alert was active. Pure.

Prometheus writes a sample at each evaluation of the rule: of ALERTS, and of ALERTS_FOR_STATE, whose value is the moment
since when the alert has been active. As long as that moment is the same it is the same activation, also where an
evaluation failed or was missed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isnan

from exporters.observation import Labels, labels
from monitor.history.storable import storable
from monitor.sources.prometheus.answers import Points

ALERTS, FOR_STATE = "ALERTS", "ALERTS_FOR_STATE"
CONTEXT_SECONDS = 600.0
"""How far around a sample the distance of evaluations is looked for."""
_NOT_OF_THE_ALERT = ("__name__", "alertstate")
_USUAL_INTERVAL = 60.0
_LOOKBACK_SECONDS = 300.0
"""Of an instant query, by default."""
_MISSED = 1.5
"""Without ALERTS_FOR_STATE: so many intervals without a sample are a new activation."""


@dataclass(frozen=True, slots=True)
class Activation:
    """Moments are unix seconds. `series` are all labels, those of the replica too; `labels` without them."""

    series: Labels
    labels: Labels
    since: float
    first_firing: float | None
    last_firing: float | None
    last: float
    interval: float
    """From one evaluation to the next."""

    @property
    def told_at(self) -> float:
        """After the evaluation that said no, if one did, and while Prometheus would still look back to the last sample.
        Infinite where there is no such moment."""
        if self.interval >= _LOOKBACK_SECONDS:
            return inf
        return self.last + min(_MISSED * self.interval, (self.interval + _LOOKBACK_SECONDS) / 2)


@dataclass(slots=True)
class _Series:
    firing: set[float] = field(default_factory=set)
    active_since: dict[float, float] = field(default_factory=dict)


def identity(of: Mapping[str, str], dropped: Collection[str] = ()) -> Labels:
    kept = (name for name in of if name not in _NOT_OF_THE_ALERT and name not in dropped)
    return labels({name: storable(of[name]) for name in kept})


def activations(matrix: Iterable[Points], dropped: Collection[str]) -> list[Activation]:
    """`dropped` are the labels that tell replicas apart."""
    found: defaultdict[Labels, _Series] = defaultdict(_Series)
    for series in matrix:
        of = found[identity(series.labels)]
        points = [(at, value) for at, value in series.points if not isnan(value)]  # VictoriaMetrics' mark of an end
        if series.labels.get("__name__") == ALERTS:
            of.firing.update(at for at, _ in points)
        else:
            of.active_since.update(points)
    return [a for key, of in sorted(found.items()) for a in _of_series(key, identity(dict(key), dropped), of)]


def _of_series(key: Labels, own: Labels, of: _Series) -> Iterator[Activation]:
    moments = sorted(of.firing | of.active_since.keys())
    for start, end in _cuts(moments, of.active_since):
        stretch = moments[start:end]
        firing = [at for at in stretch if at in of.firing]
        interval = _interval(moments, end - 1)
        told = [of.active_since[at] for at in stretch if at in of.active_since]
        yield Activation(
            series=key,
            labels=own,
            since=min(told[0], stretch[0]) if told else stretch[0] - interval,
            first_firing=firing[0] if firing else None,
            last_firing=firing[-1] if firing else None,
            last=stretch[-1],
            interval=interval,
        )


def _cuts(moments: Sequence[float], active_since: Mapping[float, float]) -> Iterator[tuple[int, int]]:
    """Where each activation begins, and where it ended."""
    most = _MISSED * _shortest(moments)
    begun = [i for i in range(len(moments)) if i == 0 or _is_new(moments[i - 1], moments[i], active_since, most)]
    return zip(begun, [*begun[1:], len(moments)], strict=False)


def _is_new(before: float, now: float, active_since: Mapping[float, float], most: float) -> bool:
    if before in active_since and now in active_since:
        return active_since[before] != active_since[now]
    return now - before > most


def _interval(moments: Sequence[float], index: int) -> float:
    """A longer distance is of an evaluation that failed, or that said no."""
    at = moments[index]
    return _shortest(moments[bisect_left(moments, at - CONTEXT_SECONDS) : bisect_right(moments, at + CONTEXT_SECONDS)])


def _shortest(moments: Sequence[float]) -> float:
    return min((after - before for before, after in pairwise(moments)), default=_USUAL_INTERVAL)
