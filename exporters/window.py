"""What the schema says over the last 5 minutes: prefix-cache hit ratio and latency quantiles, from increases."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from exporters.delta import Deltas, Increase
from exporters.histogram import Histogram, quantile
from exporters.observation import Series, labels
from exporters.schema import PHASE_OF_METRIC, QUANTILE_WINDOW_SECONDS, QUANTILES

_HITS, _QUERIES = "llm_prefix_cache_hit_tokens_total", "llm_prefix_cache_query_tokens_total"
_HIT_RATIO, _QUANTILE = "llm_prefix_cache_hit_ratio", "llm_latency_quantile_seconds"
Parts = dict[tuple[float, ...], Histogram]
"""Counts by bounds: more than one entry where bounds changed."""

_STEP_SECONDS = 5.0
"""Increases closer together than this are kept as one."""


@dataclass(slots=True)
class _Sums:
    """What was added by series; counts are whole numbers, so taking away again is exact."""

    values: dict[Series, float] = field(default_factory=dict)
    histograms: dict[Series, Parts] = field(default_factory=dict)

    def add(self, values: Mapping[Series, float], histograms: Mapping[Series, Parts], sign: int = 1) -> None:
        for series, value in values.items():
            self.values[series] = self.values.get(series, 0.0) + sign * value
        for series, parts in histograms.items():
            mine = self.histograms.setdefault(series, {})
            for bounds, histogram in parts.items():
                _add_into(mine, bounds, histogram, sign)


@dataclass(slots=True)
class _Step(_Sums):
    start: float = 0.0


class Recent:
    """Increases of one target over the last `window` seconds.

    A step is left out once it began before the window did, so nothing older is counted; a target that is scraped less
    often than once a window keeps its last step.
    """

    def __init__(self, window: float = QUANTILE_WINDOW_SECONDS) -> None:
        self._window = window
        self._deltas = Deltas()
        self._steps: deque[_Step] = deque()
        self._total = _Sums()
        self._last: float | None = None

    def advance(
        self,
        at: float,
        values: Mapping[Series, float],
        histograms: Mapping[Series, Histogram],
        *,
        start_time: float | None = None,
        proves_absence: bool = True,
    ) -> dict[Series, float]:
        """Takes the next complete reading; returns the windowed series. Nothing observed: nothing returned."""
        watched = {s: v for s, v in values.items() if s.metric in (_HITS, _QUERIES)}
        window_start = None if start_time is None else at - self._window
        added = self._deltas.advance(
            at,
            watched,
            histograms,
            start_time=start_time,
            window_start=window_start,
            proves_absence=proves_absence,
        )
        self._keep(at, added)
        return {**self._hit_ratios(), **self._quantiles()}

    def histograms(self) -> dict[Series, list[Histogram]]:
        """Counts of the window by series; several entries where bounds changed inside it. Sums are not kept."""
        return {series: list(parts.values()) for series, parts in self._total.histograms.items()}

    def _keep(self, at: float, added: Increase) -> None:
        start = at if self._last is None else self._last
        self._last = at if self._last is None else max(at, self._last)
        if not self._steps or at - self._steps[-1].start >= _STEP_SECONDS:
            self._steps.append(_Step(start=start))
        parts = {series: {h.bounds: h} for series, h in added.histograms.items()}
        for sums in (self._steps[-1], self._total):
            sums.add(added.values, parts)
        while len(self._steps) > 1 and self._steps[0].start < at - self._window:
            old = self._steps.popleft()
            self._total.add(old.values, old.histograms, -1)

    def _hit_ratios(self) -> dict[Series, float]:
        found: dict[Series, float] = {}
        for series, asked in self._total.values.items():
            hits = self._total.values.get(Series(_HITS, series.labels))
            # More hits than queries: a server that counts the two at different moments.
            if series.metric == _QUERIES and hits is not None and hits <= asked != 0:
                found[Series(_HIT_RATIO, series.labels)] = hits / asked
        return found

    def _quantiles(self) -> dict[Series, float]:
        found: dict[Series, float] = {}
        for series, parts in self._total.histograms.items():
            phase = PHASE_OF_METRIC[series.metric]
            if not phase.quantiles:
                continue
            for q in QUANTILES:
                result = quantile(list(parts.values()), q, phase.grid)
                if result is not None:
                    values = (result.estimate, result.lower, result.upper)
                    found |= zip(_quantile_series(series, phase.name, q), values, strict=True)
        return found


@lru_cache(maxsize=4096)
def _quantile_series(series: Series, phase: str, q: float) -> list[Series]:
    base = {**dict(series.labels), "phase": phase, "q": str(q)}
    return [Series(_QUANTILE, labels({**base, "bound": bound})) for bound in ("estimate", "lower", "upper")]


def _add_into(parts: Parts, bounds: tuple[float, ...], histogram: Histogram, sign: int) -> None:
    known = parts.get(bounds)
    before = known.counts if known is not None else (0.0,) * len(histogram.counts)
    counts = tuple([a + sign * b for a, b in zip(before, histogram.counts, strict=True)])
    parts[bounds] = Histogram(bounds, counts)
