"""What the rows of one group in one band come to. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exporters.histogram import quantile
from exporters.schema import PHASES
from monitor.compare.bootstrap import LEAST_BLOCKS, Draws, Together, block_rows, draws, enclosed, likeness, ranks
from monitor.compare.model import LEAST_MINUTES, PERCENTILES, Band, Cell, Estimate, Group, Measure, Workload
from monitor.compare.rows import MINUTE, Number, Rows, known
from monitor.compare.windows import histograms, longest
from monitor.history.packed import Floats

_SEED = 7
_HOUR = 3600.0
_MILLION = 1e6
_TOO_SELDOM = "known in too few of its minutes"
_WHY = {
    Measure.TOKENS_PER_GPU: "which GPUs its servers ran on is not known, or they share them",
    Measure.HIT_RATIO: "not measured here",
    Measure.JOULES: "the energy of its servers' GPUs is not known, or they share them",
    Measure.COST: "no price of an hour of this type of GPU is configured, or its GPUs are not known or shared",
    **dict.fromkeys(PERCENTILES, "not measured here"),
}


def cell(group: Group, band: Band, rows: Rows, price: float | None = None) -> Cell:
    """`price` is that of one GPU for an hour."""
    minutes = int(rows.number(Number.MINUTES).sum())
    concurrency = float(rows.number(Number.AT_ONCE).sum() / minutes)
    if minutes < LEAST_MINUTES:
        return Cell(group, band, minutes, concurrency)
    drawn = _drawn(rows)
    measures = {**_ratios(rows, drawn, price), **_percentiles(rows, drawn)}
    why = _TOO_SELDOM if drawn else _too_little_time(rows)
    told = {name: _explained(measures[name], why) for name in Measure if name in measures}
    missing = {name: why for name, why in _WHY.items() if name not in told}
    return Cell(group, band, minutes, concurrency, told, workload(rows), missing)


def _explained(of: Estimate, why: str) -> Estimate:
    return of if of.low is not None else replace(of, no_interval=why)


def _too_little_time(rows: Rows) -> str:
    together, of_row, least = _blocks(rows)
    block, short = (block_rows(len(together), minutes, of_row) * of_row for minutes in (least, 0.0))
    longest_requests = ", for its longest requests (P99)" if block > short else ""
    return (
        f"only {len(together) * of_row} minutes of time, and an interval takes {LEAST_BLOCKS * block}: "
        f"{LEAST_BLOCKS} blocks of {block}{longest_requests}"
    )


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Sums by replicate, of columns by row."""

    together: Together
    draws: Draws

    def sums(self, columns: NDArray[np.floating[Any]]) -> Floats:
        return self.draws.sums(self.together.sums(columns))


def _drawn(rows: Rows) -> _Drawn | None:
    together, of_row, least = _blocks(rows)
    alike = max(likeness(_over_time(together, *both)) for both in _wandering(rows))
    found = draws(len(together), least, _SEED, of_row, alike)
    return None if found is None else _Drawn(together, found)


def _blocks(rows: Rows) -> tuple[Together, int, float]:
    """Rows by time, the minutes of each, and how many a block has at least."""
    of_row = max(1, round(float(rows.number(Number.MINUTES).mean())))
    return Together.at(rows.start // (of_row * MINUTE)), of_row, longest(rows).value / MINUTE


def _wandering(rows: Rows) -> Iterator[tuple[Floats, Floats]]:
    """What tells how alike minutes are: the load, and what is made of it."""
    yield rows.number(Number.AT_ONCE), rows.number(Number.MINUTES)
    yield rows.number(Number.PROMPT) + rows.number(Number.GENERATION), rows.number(Number.SECONDS)


def _over_time(together: Together, part: Floats, whole: Floats) -> Floats:
    parts, wholes = together.sums(np.stack(known(part, whole), axis=1)).T
    found: Floats = np.divide(parts, wholes, out=np.full(len(parts), np.nan), where=wholes > 0)
    return found


def _ratios(rows: Rows, drawn: _Drawn | None, price: float | None) -> dict[Measure, Estimate]:
    parts = {measure: known(*both) for measure, both in _fractions(rows, price).items()}
    parts = {measure: both for measure, both in parts.items() if both[1].sum() > 0}
    columns = np.array([column for both in parts.values() for column in both]).reshape(2 * len(parts), len(rows)).T
    sums = None if drawn is None else drawn.sums(columns)
    return {
        measure: _ratio(columns[:, 2 * i : 2 * i + 2].sum(axis=0), drawn, sums, 2 * i)
        for i, measure in enumerate(parts)
    }


def _fractions(rows: Rows, price: float | None) -> Mapping[Measure, tuple[Floats, Floats]]:
    """Part and whole of each row."""
    seconds, generated = rows.number(Number.SECONDS), rows.number(Number.GENERATION)
    tokens, gpu_seconds = rows.number(Number.PROMPT) + generated, rows.number(Number.GPU_SECONDS)
    return {
        Measure.TOKENS: (tokens, seconds),
        Measure.OUTPUT_TOKENS: (generated, seconds),
        Measure.TOKENS_PER_GPU: (tokens, gpu_seconds),
        Measure.REQUESTS: (rows.number(Number.FINISHED), seconds),
        Measure.HIT_RATIO: (rows.number(Number.HIT), rows.number(Number.QUERIED)),
        Measure.JOULES: (rows.number(Number.JOULES), tokens),
        Measure.COST: (gpu_seconds * (math.nan if price is None else price / _HOUR), tokens / _MILLION),
    }


def _ratio(total: Floats, drawn: _Drawn | None, sums: Floats | None, column: int) -> Estimate:
    value = float(total[0] / total[1])
    if drawn is None or sums is None:
        return Estimate(value)
    whole = sums[:, column + 1]
    ratios = np.divide(sums[:, column], whole, out=np.full(len(sums), np.nan), where=whole > 0)
    return _with_interval(Estimate(value), drawn.draws.interval(ratios, ratios))


def _percentiles(rows: Rows, drawn: _Drawn | None) -> dict[Measure, Estimate]:
    told = ((measure, _percentile(rows, phase, q), phase, q) for measure, (phase, q) in PERCENTILES.items())
    found = {measure: (estimate, phase, q) for measure, estimate, phase, q in told if estimate is not None}
    if drawn is None:
        return {measure: estimate for measure, (estimate, *_) in found.items()}
    sums = {phase: [(each.bounds, drawn.sums(each.counts)) for each in parts] for phase, parts in rows.phases.items()}
    return {
        measure: _with_interval(estimate, _wide(rows, phase, q, drawn.draws.interval(*enclosed(sums[phase], q))))
        for measure, (estimate, phase, q) in found.items()
    }


def _wide(rows: Rows, phase: str, q: float, drawn: tuple[float, float] | None) -> tuple[float, float] | None:
    """At least as wide as so many requests allow."""
    if drawn is None:
        return None
    told = histograms(rows.phases[phase])
    low, high = ranks(q, sum(each.count for each in told))
    least, most = (quantile(told, rank, PHASES[phase].grid) for rank in (low, high))
    lowest = min(drawn[0], least.lower) if least is not None and low > 0 else 0.0
    return lowest, max(drawn[1], most.upper) if most is not None and high < 1 else math.inf


def _percentile(rows: Rows, phase: str, q: float) -> Estimate | None:
    found = quantile(histograms(rows.phases[phase]), q, PHASES[phase].grid)
    return None if found is None else Estimate(found.estimate, lower=found.lower, upper=found.upper)


def _with_interval(estimate: Estimate, interval: tuple[float, float] | None) -> Estimate:
    return estimate if interval is None else replace(estimate, low=interval[0], high=interval[1])


def workload(rows: Rows) -> Workload:
    """Tokens by requests that finished: over a few minutes as good as their lengths."""
    return Workload(
        _mean(rows, Number.PROMPT, Number.FINISHED),
        _mean(rows, Number.GENERATION, Number.FINISHED),
        _mean(rows, Number.HIT, Number.QUERIED),
        _mean(rows, Number.ABORTED, Number.FINISHED),
        _mean(rows, Number.GPU_SECONDS, Number.SECONDS),
    )


def _mean(rows: Rows, part: Number, whole: Number) -> float | None:
    of, by = (column.sum() for column in known(rows.number(part), rows.number(whole)))
    return float(of / by) if by > 0 else None
