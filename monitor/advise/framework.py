"""Which framework for a workload: an article's opinion as the prior, overruled by what was measured. Pure.

Every sentence says which of the two it rests on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from alerts.conditions.condition import Limit
from alerts.reference import WORD
from exporters.schema import FRAMEWORKS
from monitor.advise.matrix import MOST, NOT_SEEN, SHARED_PREFIXES, STARS, TO_START_WITH, Criterion
from monitor.advise.workload import Traits
from monitor.compare.model import LEAST_MINUTES, Band, Cell, Comparison, Measure, Verdict, band_of, verdict

NAMES: Mapping[str, str] = {"vllm": "vLLM", "sglang": "SGLang", "lmdeploy": "LMDeploy", "tensorrt_llm": "TensorRT-LLM"}
FEW = Limit("few requests at once: up to", 16, "", "the smallest load of the article's own table")
SHARED = Limit("prompts share prefixes: hit ratio, at least", 0.3, "ratio", "a third of the prompts' work is saved")
UNLIKE = Limit("mean lengths unlike: times the other, above", 1.25, "", "a longer answer is more tokens for less work")
_HOT_SWAP = 3
"""Stars for LoRA, of which the article says that fewer cannot exchange adapters while they run."""


class Basis(StrEnum):
    SEEN = "seen in the history"
    REFERENCE = WORD
    MEASURED = "measured here"
    NOTHING = "not known"


@dataclass(frozen=True, slots=True)
class Sentence:
    text: str
    basis: Basis


@dataclass(frozen=True, slots=True)
class Choice:
    """For one model. `first` is the framework to take, "" where nothing speaks for one more than for another."""

    traits: Traits
    first: str
    basis: Basis
    sentences: tuple[Sentence, ...]


def choose(of: Traits, compared: Comparison | None) -> Choice:
    """`compared` is what was measured of the model, if anything was."""
    criteria = list(_criteria(of))
    by_article = _best(criteria, of)
    measured = _measured(of, compared)
    usable = [cell for cell in measured if not _is_ruled_out(cell.group.framework, of)]
    winner = _winner(usable)
    first, basis = (winner, Basis.MEASURED) if winner else (by_article, Basis.REFERENCE)
    if usable and not winner:
        first, basis = "", Basis.MEASURED
    sentences = (
        *_of_workload(of), *_of_article(criteria, of), Sentence(_told_by_article(by_article), Basis.REFERENCE),
        *_of_measured(of, measured), _conclusion(first, basis, by_article, usable),
    )  # fmt: skip
    return Choice(of, first, basis, sentences)


def _criteria(of: Traits) -> Iterator[Criterion]:
    if of.adapters:
        yield Criterion.LORA
    if of.at_once is not None:
        yield Criterion.LOW_LATENCY if of.at_once <= FEW.value else Criterion.THROUGHPUT
    if of.quantisation:
        yield Criterion.QUANTISATION


def _shares(of: Traits) -> bool:
    return of.hit_ratio is not None and of.hit_ratio >= SHARED.value


def _is_ruled_out(framework: str, of: Traits) -> bool:
    return bool(of.adapters) and STARS[Criterion.LORA].get(framework, MOST) < _HOT_SWAP


def _best(criteria: Sequence[Criterion], of: Traits) -> str:
    """By the stars of what applies; a shared prefix counts as a criterion of its own."""
    if _shares(of) and not of.adapters:
        return SHARED_PREFIXES
    if not criteria:
        return TO_START_WITH
    sums = {f: sum(STARS[c][f] for c in criteria) for f in FRAMEWORKS if not _is_ruled_out(f, of)}
    best = [framework for framework, stars in sums.items() if stars == max(sums.values())]
    return best[0]


def _of_workload(of: Traits) -> Iterator[Sentence]:
    hits = None if of.hit_ratio is None else of.hit_ratio * 100
    for what, value, unit in (
        ("Requests under way at once at a server, median", of.at_once, ""),
        ("Length of prompts, median", of.prompt_tokens, " tokens"),
        ("Length of answers, median", of.generation_tokens, " tokens"),
        ("Prompt tokens found in the prefix cache", hits, " %"),
        ("LoRA adapters that run at once, most", of.adapters, ""),
    ):
        known = value is not None
        yield Sentence(
            f"{what}: {f'{value:,.0f}{unit}' if known else 'not known'}.", Basis.SEEN if known else Basis.NOTHING
        )
    if of.quantisation:
        yield Sentence(f"The weights are quantised: {of.quantisation}.", Basis.SEEN)


def _of_article(criteria: Iterable[Criterion], of: Traits) -> Iterator[Sentence]:
    for criterion in criteria:
        stars = sorted(STARS[criterion].items(), key=lambda each: -each[1])
        told = ", ".join(f"{NAMES[framework]} {many}" for framework, many in stars)
        yield Sentence(f"For {criterion.value} the article gives, of {MOST} stars: {told}.", Basis.REFERENCE)
    if _shares(of):
        told = f"Where many requests share a system prompt the article takes {NAMES[SHARED_PREFIXES]}."
        yield Sentence(told, Basis.REFERENCE)
    if of.adapters:
        out = [NAMES[f] for f in FRAMEWORKS if _is_ruled_out(f, of)]
        yield Sentence(f"{' and '.join(out)} cannot exchange LoRA adapters while they run, it says.", Basis.REFERENCE)
    unseen = ", ".join(criterion.value for criterion in NOT_SEEN)
    yield Sentence(f"What no history tells, and the article rates too: {unseen}.", Basis.NOTHING)


def _told_by_article(framework: str) -> str:
    return f"By the article alone it would be {NAMES[framework]}; its releases are older than most in use."


def _measured(of: Traits, compared: Comparison | None) -> list[Cell]:
    """Of the model's frameworks side by side, at the band of its load with the most minutes for two or more."""
    wanted = None if of.at_once is None else band_of(of.at_once)
    cells = [] if compared is None else [c for c in compared.told if c.group.model == of.model and c.of(Measure.TOKENS)]
    sides: dict[tuple[Band, str, str], dict[str, Cell]] = {}
    for cell in cells:
        group = cell.group
        if not group.is_imported:
            sides.setdefault((cell.band, group.gpu, group.role), {})[group.framework] = cell
    several = [(key, list(by.values())) for key, by in sides.items() if len(by) > 1]
    if not several or wanted is None:
        return []
    return min(several, key=lambda each: (_distance(each[0][0], wanted), -min(c.minutes for c in each[1])))[1]


def _distance(band: Band, wanted: Band) -> float:
    return max(band.at_once, wanted.at_once) / min(band.at_once, wanted.at_once)


def _winner(cells: Sequence[Cell]) -> str:
    """The framework that made more tokens than each of the others, beyond chance; "" where none did."""
    for cell in cells:
        others = [other for other in cells if other is not cell]
        if others and all(verdict(cell, other, Measure.TOKENS) is Verdict.BETTER for other in others):
            return cell.group.framework
    return ""


def _of_measured(of: Traits, cells: Sequence[Cell]) -> Iterator[Sentence]:
    if not cells:
        told = "Two frameworks were not measured side by side: it takes ten minutes of each at a like concurrency."
        yield Sentence(told, Basis.NOTHING)
        return
    band = cells[0].band.at_once
    for cell in sorted(cells, key=lambda c: -_tokens(c)):
        yield Sentence(_told(cell, band), Basis.MEASURED)
    if unlike := _unlike(cells):
        yield Sentence(unlike, Basis.MEASURED)
    wanted = None if of.at_once is None else band_of(of.at_once)
    if wanted is not None and wanted.at_once != band:
        told = f"That is the nearest load at which two of them were seen; usual here are about {wanted.at_once}."
        yield Sentence(told, Basis.MEASURED)
    out = sorted(
        {NAMES.get(c.group.framework, c.group.framework) for c in cells if _is_ruled_out(c.group.framework, of)}
    )
    if out:
        yield Sentence(f"{' and '.join(out)} is left out, for its LoRA adapters.", Basis.REFERENCE)


def _unlike(cells: Sequence[Cell]) -> str:
    """Why the difference may be one of what they were asked for."""
    for what, values in (
        ("prompts", [cell.workload.prompt_tokens for cell in cells]),
        ("answers", [cell.workload.generation_tokens for cell in cells]),
    ):
        known = [value for value in values if value]
        if len(known) > 1 and max(known) > UNLIKE.value * min(known):
            return (
                f"Their {what} were not of one length ({min(known):,.0f} to {max(known):,.0f} tokens): a part of the "
                "difference is theirs, and `inferwatch compare --matched` leaves that out."
            )
    return ""


def _tokens(cell: Cell) -> float:
    found = cell.of(Measure.TOKENS)
    return 0.0 if found is None else found.value


def _told(cell: Cell, band: int) -> str:
    tokens, p99 = cell.of(Measure.TOKENS), cell.of(Measure.TTFT_P99)
    name = NAMES.get(cell.group.framework, cell.group.framework)
    between = ""
    if tokens is not None and tokens.low is not None and tokens.high is not None:
        between = f" ({tokens.low:,.0f} to {tokens.high:,.0f})"
    first = "" if p99 is None else f", P99 of the first token {p99.value:.3g} s"
    return f"{name} at about {band} at once: {_tokens(cell):,.0f} tokens/s{between}{first}, in {cell.minutes} minutes."


def _conclusion(first: str, basis: Basis, by_article: str, cells: Sequence[Cell]) -> Sentence:
    if basis is Basis.REFERENCE:
        told = (
            f"{NAMES[first]}, by the reference figures alone. For measured ones let two frameworks serve this model "
            f"for {LEAST_MINUTES} minutes each at a like load."
        )
        return Sentence(told, basis)
    if not first:
        names = " and ".join(sorted(NAMES.get(c.group.framework, c.group.framework) for c in cells))
        return Sentence(f"No difference is shown between {names}: nothing speaks for a change.", basis)
    overruled = "" if first == by_article else ", whatever the article says"
    return Sentence(f"So {NAMES.get(first, first)}: it was measured to make the most tokens{overruled}.", basis)
