"""Comparisons of simulated engines, held to what these do in the long run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from alerts.reference import AT_ONCE
from monitor.compare.asked import NO_PRICES, Asked
from monitor.compare.compare import compare
from monitor.compare.model import Cell, Measure
from monitor.compare.rows import Number
from tests.monitor.compare.simulated import Life, live, observed

SEEDS = 20
"""Of each framework here."""
COMPARED = ("vllm", "tensorrt_llm")
"""One counts tokens while requests run, the other when they finish."""
MINUTES = 22
TIMED = {"ttft": (Measure.TTFT_P50, Measure.TTFT_P99), "e2e": (Measure.E2E_P50, Measure.E2E_P99)}

Lives = Mapping[tuple[str, int, int], Life]


@pytest.fixture(scope="module")
def lives() -> Lives:
    return {
        (framework, at_once, seed): live(framework, at_once, seed, MINUTES)
        for framework in COMPARED
        for at_once in AT_ONCE
        for seed in range(SEEDS)
    }


def cells(*lives: Life) -> list[Cell]:
    return list(compare(observed(lives), Asked(0, 1), NO_PRICES).told)


def test_intervals_hold_what_an_engine_does_in_the_long_run(lives: Lives) -> None:
    """At least 95 of 100 of each number, over 20 seeds of each of two frameworks at three concurrencies.

    The long run of an engine are all its other seeds: what holds of 22 minutes is worked out from them alone, what is
    true from 19 times as many others, percentiles from every request.
    """
    held: dict[Measure, list[bool]] = {}
    for framework in COMPARED:
        for at_once in AT_ONCE:
            own = [lives[framework, at_once, seed] for seed in range(SEEDS)]
            for seed, life in enumerate(own):
                [cell] = cells(life)
                for measure, true in _truth([*own[:seed], *own[seed + 1 :]]).items():
                    held.setdefault(measure, []).append(_holds(cell, measure, true))
    assert {len(each) for each in held.values()} == {len(COMPARED) * len(AT_ONCE) * SEEDS}
    assert {measure: share for measure, each in held.items() if (share := float(np.mean(each))) < 0.95} == {}


def _holds(cell: Cell, measure: Measure, true: float) -> bool:
    estimate = cell.of(measure)
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= true <= estimate.high


def _truth(of: Sequence[Life]) -> dict[Measure, float]:
    total = np.concatenate([life.numbers for life in of]).sum(axis=0)
    rates = {
        Measure.TOKENS: total[Number.PROMPT] + total[Number.GENERATION],
        Measure.OUTPUT_TOKENS: total[Number.GENERATION],
        Measure.REQUESTS: total[Number.FINISHED],
    }
    found = {measure: float(counted / total[Number.SECONDS]) for measure, counted in rates.items()}
    for phase, measures in TIMED.items():
        every = np.sort(np.concatenate([minute for life in of for minute in getattr(life, phase)]))
        for measure, q in zip(measures, (0.5, 0.99), strict=True):
            found[measure] = float(every[math.ceil(q * len(every)) - 1])
    return found
