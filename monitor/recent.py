"""Increases of one target over the last minutes, for rates and quantiles of the fleet as it is now."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import takewhile

from exporters.delta import Deltas, Increase
from exporters.histogram import Quantile, quantile
from exporters.observation import Observation
from exporters.schema import Phase
from monitor.readings import counters, of_metric, total


@dataclass(frozen=True, slots=True)
class _Step:
    at: float
    seconds: float
    increase: Increase


class RecentSteps:
    """Keeps the steps that end within the last `window` seconds before the newest one."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._deltas = Deltas()
        self._steps: deque[_Step] = deque()
        self._since: dict[str, float] = {}
        """Base line of a metric: before it nothing is known. Not of one that began at zero."""

    def advance(self, observation: Observation) -> None:
        values = counters(observation.values)
        is_from_zero = self._deltas.knows_zero and observation.proves_absence
        for metric in {series.metric for series in values}:
            self._since.setdefault(metric, -math.inf if is_from_zero else observation.at)
        increase = self._deltas.advance(
            observation.at,
            values,
            observation.histograms,
            start_time=observation.start_time,
            proves_absence=observation.proves_absence,
        )
        if increase.seconds:
            self._steps.append(_Step(observation.at, increase.seconds, increase))
        while self._steps and self._steps[0].at <= observation.at - self._window:
            self._steps.popleft()

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self._steps)

    def increase(self, metric: str) -> float | None:
        return total(v for step in self._steps for _, v in of_metric(step.increase.values, metric))

    def rate(self, metric: str, window: float) -> float | None:
        """Per second over the steps that end within the last `window` seconds; the newest step always counts."""
        if not self._steps:
            return None
        since = max(self._steps[-1].at - window, self._since.get(metric, math.inf))
        steps = list(takewhile(lambda step: step.at > since, reversed(self._steps)))
        added = total(v for step in steps for _, v in of_metric(step.increase.values, metric))
        return None if added is None else added / sum(step.seconds for step in steps)

    def quantile(self, phase: Phase, q: float) -> Quantile | None:
        added = [h for step in self._steps for s, h in step.increase.histograms.items() if s.metric == phase.metric]
        return quantile(added, q, phase.grid)
