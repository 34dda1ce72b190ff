"""A comparison in words and numbers for people. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from monitor.compare.model import (
    LEAST_MINUTES,
    LESS_IS_BETTER,
    PERCENTILES,
    Cell,
    Comparison,
    Estimate,
    Left,
    Measure,
    Verdict,
    Workload,
    verdict,
)
from monitor.compare.notes import name_of, side_by_side
from monitor.page import quantities

TITLES = {
    Measure.TOKENS: "tokens/s",
    Measure.OUTPUT_TOKENS: "output tokens/s",
    Measure.TOKENS_PER_GPU: "tokens/s and GPU",
    Measure.REQUESTS: "requests/s",
    Measure.TTFT_P50: "first token P50",
    Measure.TTFT_P99: "first token P99",
    Measure.ITL_P50: "between tokens P50",
    Measure.ITL_P99: "between tokens P99",
    Measure.E2E_P50: "request P50",
    Measure.E2E_P99: "request P99",
    Measure.HIT_RATIO: "prefix hits",
    Measure.JOULES: "J/token",
    Measure.COST: "cost of a million tokens",
}
SHOWN = (
    Measure.TOKENS, Measure.TOKENS_PER_GPU, Measure.TTFT_P50, Measure.TTFT_P99, Measure.ITL_P99, Measure.E2E_P99,
    Measure.HIT_RATIO, Measure.JOULES, Measure.COST,
)  # fmt: skip
"""In tables for people; programs get all."""
RANKED = (Measure.TOKENS, Measure.TTFT_P99)
_SIGNS = {
    Verdict.BETTER: " > ", Verdict.WORSE: " ? ", Verdict.NO_DIFFERENCE: " ≈ ", Verdict.UNKNOWN: " ? ",
}  # fmt: skip
READING = (
    "Tokens per second count prompt and output tokens. In brackets: the interval that holds the true value in 95 of "
    "100 cases; of a percentile it takes in the bounds of the buckets. Where two intervals overlap no difference is "
    "shown, which is not to say that there is none."
)
SIGNS = "A > B: A is better. A ≈ B: no difference shown. A ? B: not known."


def title(measure: Measure, currency: str) -> str:
    return ", ".join(filter(None, (TITLES[measure], currency if measure is Measure.COST else "")))


def value(measure: Measure, estimate: Estimate) -> str:
    if measure in PERCENTILES and estimate.lower is not None:
        return quantities.quantile(estimate.value, estimate.lower, estimate.upper)[0]
    return _number(measure, estimate.value)


def interval(measure: Measure, estimate: Estimate) -> str:
    """Empty where there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    if math.isinf(estimate.high):
        return f"at least {_edge(measure, estimate.low)}"
    return f"{_edge(measure, estimate.low)} – {_edge(measure, estimate.high)}"


def _edge(measure: Measure, number: float) -> str:
    return quantities.bound(number) if measure in PERCENTILES else _number(measure, number)


def _number(measure: Measure, number: float) -> str:
    if measure in PERCENTILES:
        return quantities.duration(number)
    if measure is Measure.HIT_RATIO:
        return quantities.percent(number)
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def with_interval(measure: Measure, estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    between = interval(measure, estimate)
    return f"{value(measure, estimate)} ({between})" if between else value(measure, estimate)


def asked_for(of: Workload) -> tuple[str, str, str]:
    """Mean prompt and output, and the share of aborted requests."""
    prompt, output = ("–" if mean is None else f"{mean:,.0f}" for mean in (of.prompt_tokens, of.generation_tokens))
    return prompt, output, "–" if of.abort_ratio is None else quantities.percent(of.abort_ratio)


@dataclass(frozen=True, slots=True)
class Section:
    """What is compared with each other: one model on one type of GPU in one role."""

    model: str
    gpu: str
    role: str
    cells: tuple[Cell, ...]

    @property
    def title(self) -> str:
        role = "" if self.role == "unified" else f", {self.role} servers"
        return f"{self.model or 'unknown model'} on {self.gpu or 'GPUs of unknown type'}{role}"

    def rankings(self) -> Iterator[str]:
        for cells in side_by_side([cell for cell in self.cells if cell.is_told]):
            for measure in RANKED:
                if told := ranking(cells, measure):
                    yield f"{TITLES[measure]} at about {cells[0].band.at_once}: {told}"


def sections(told: Comparison) -> list[Section]:
    keys = dict.fromkeys((cell.group.model, cell.group.gpu, cell.group.role) for cell in told.cells)
    return [
        Section(*key, tuple(c for c in told.cells if (c.group.model, c.group.gpu, c.group.role) == key)) for key in keys
    ]


def ranking(cells: Sequence[Cell], measure: Measure) -> str:
    """The best first, each beside the next; empty where there is nothing to compare."""
    known = [(estimate.value, cell) for cell in cells if (estimate := cell.of(measure)) is not None]
    in_order = [c for _, c in sorted(known, key=lambda pair: pair[0], reverse=measure not in LESS_IS_BETTER)]
    if len(in_order) < 2:
        return ""
    signs = [_SIGNS[verdict(a, b, measure)] for a, b in pairwise(in_order)]
    return "".join(f"{sign}{name_of(cell.group)}" for sign, cell in zip(["", *signs], in_order, strict=True))


def left_out(left: Left) -> str:
    """Empty where nothing was."""
    parts = (
        (left.idle, "idle"),
        (left.restarted, "with a restart or another change"),
        (left.partial, "seen in part"),
        (left.unsteady, "without a steady concurrency"),
        (left.unlike, "with other lengths"),
    )
    told = ", ".join(f"{minutes:,} {why}" for minutes, why in parts if minutes)
    return f"Minutes of servers left out: {told}." if told else ""


def too_few(told: Comparison) -> str:
    """Empty where all are told."""
    few = [cell for cell in told.cells if not cell.is_told]
    names = ", ".join(f"{name_of(c.group)} at about {c.band.at_once} ({c.minutes})" for c in few)
    return f"With fewer than {LEAST_MINUTES} minutes, so not told: {names}." if few else ""


def without_interval(told: Comparison) -> Iterator[str]:
    """Of measured ones: where there is none, and why."""
    for cell in told.told:
        for why, measures in {} if cell.group.is_imported else cell.without_interval.items():
            which = "" if len(measures) == len(cell.measures) else f", {', '.join(TITLES[each] for each in measures)}"
            yield f"Without an interval, {name_of(cell.group)} at about {cell.band.at_once}{which}: {why}."


def remarks(told: Comparison) -> list[str]:
    """All that is to be read beside the numbers."""
    return [each for each in (*told.notes, left_out(told.left), too_few(told), *without_interval(told)) if each]


def nothing(told: Comparison) -> str:
    """What stands in the place of cells."""
    if told.split:
        why = "no server has minutes with requests both before and after"
    elif told.left.unlike:
        why = "no minutes have lengths that all have"
    else:
        why = "no minute of this time has a server with steady requests"
    return f"Nothing to compare: {why}."
