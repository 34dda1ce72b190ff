"""What the schema says over the last 5 minutes: prefix-cache hit ratio and latency quantiles, from increases."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from exporters.delta import Deltas, Increase
from exporters.histogram import Histogram, add, quantile
from exporters.observation import Series, labels
from exporters.schema import PHASE_OF_METRIC, QUANTILE_WINDOW_SECONDS, QUANTILES

_HITS, _QUERIES = "llm_prefix_cache_hit_tokens_total", "llm_prefix_cache_query_tokens_total"
_HIT_RATIO, _QUANTILE = "llm_prefix_cache_hit_ratio", "llm_latency_quantile_seconds"
Parts = dict[tuple[float, ...], Histogram]
"""Counts by bounds: more than one entry where bounds changed."""

_STEP_SECONDS = 5.0
"""Increases closer together than this are kept as one."""


@dataclass(slots=True)
class _Step:
    start: float
    values: dict[Series, float]
    histograms: dict[Series, Parts]


class Recent:
    """Increases of one target over the last `window` seconds.

    A step is left out once it began before the window did, so nothing older is counted; a target that is scraped less
    often than once a window keeps its last step.
    """

    def __init__(self, window: float = QUANTILE_WINDOW_SECONDS) -> None:
        self._window = window
        self._deltas = Deltas()
        self._steps: deque[_Step] = deque()
        self._last: float | None = None

    def advance(
        self,
        at: float,
        values: Mapping[Series, float],
        histograms: Mapping[Series, Histogram],
        *,
        start_time: float | None = None,
    ) -> dict[Series, float]:
        """Takes the next successful reading; returns the windowed series. Nothing observed: nothing returned."""
        watched = {s: v for s, v in values.items() if s.metric in (_HITS, _QUERIES)}
        window_start = None if start_time is None else at - self._window
        added = self._deltas.advance(at, watched, histograms, start_time=start_time, window_start=window_start)
        self._keep(at, added)
        return {**self._hit_ratios(), **self._quantiles()}

    def _keep(self, at: float, added: Increase) -> None:
        start = at if self._last is None else self._last
        self._last = at if self._last is None else max(at, self._last)
        newest = self._steps[-1] if self._steps else None
        if newest is not None and at - newest.start < _STEP_SECONDS:
            _merge(newest, added)
        else:
            newest = _Step(start, {}, {})
            self._steps.append(newest)
            _merge(newest, added)
        while len(self._steps) > 1 and self._steps[0].start < at - self._window:
            self._steps.popleft()

    def _hit_ratios(self) -> dict[Series, float]:
        queries, hits = self._sums(_QUERIES), self._sums(_HITS)
        return {
            Series(_HIT_RATIO, series.labels): min(hits[Series(_HITS, series.labels)] / asked, 1.0)
            for series, asked in queries.items()
            if asked > 0 and Series(_HITS, series.labels) in hits
        }

    def _sums(self, metric: str) -> dict[Series, float]:
        total: dict[Series, float] = {}
        for step in self._steps:
            for series, value in step.values.items():
                if series.metric == metric:
                    total[series] = total.get(series, 0.0) + value
        return total

    def _quantiles(self) -> dict[Series, float]:
        found: dict[Series, float] = {}
        for series, parts in self.histograms().items():
            phase = PHASE_OF_METRIC[series.metric]
            if not phase.quantiles:
                continue
            for q in QUANTILES:
                result = quantile(parts, q, phase.grid)
                if result is None:
                    continue
                values = (result.estimate, result.lower, result.upper)
                found |= zip(_quantile_series(series, phase.name, q), values, strict=True)
        return found

    def histograms(self) -> dict[Series, list[Histogram]]:
        """Observations of the window by series; several entries where bounds changed inside it."""
        parts: dict[Series, Parts] = {}
        for step in self._steps:
            for series, by_bounds in step.histograms.items():
                for histogram in by_bounds.values():
                    _add_into(parts.setdefault(series, {}), histogram)
        return {series: list(by_bounds.values()) for series, by_bounds in parts.items()}


@lru_cache(maxsize=4096)
def _quantile_series(series: Series, phase: str, q: float) -> list[Series]:
    base = {**dict(series.labels), "phase": phase, "q": str(q)}
    return [Series(_QUANTILE, labels({**base, "bound": bound})) for bound in ("estimate", "lower", "upper")]


def _add_into(parts: Parts, histogram: Histogram) -> None:
    known = parts.get(histogram.bounds)
    parts[histogram.bounds] = histogram if known is None else add(known, histogram)


def _merge(step: _Step, added: Increase) -> None:
    for series, value in added.values.items():
        step.values[series] = step.values.get(series, 0.0) + value
    for series, histogram in added.histograms.items():
        _add_into(step.histograms.setdefault(series, {}), histogram)
