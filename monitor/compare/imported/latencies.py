"""Percentiles of a load test, held to what must be true of any: they rise, and a first token is within its request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from monitor.compare.imported.document import Document
from monitor.compare.imported.run import Measures
from monitor.compare.model import PERCENTILES

QS = {0.5: "p50", 0.75: "p75", 0.9: "p90", 0.95: "p95", 0.99: "p99"}
_ROUNDED = 1.001
"""Tools round, and not all phases in the same unit."""


@dataclass(frozen=True, slots=True)
class _Percentile:
    q: float
    path: str
    seconds: float

    @property
    def said(self) -> str:
        return f"{self.seconds:g} s"


def latencies(
    document: Document,
    paths: Mapping[str, str],
    seconds: Callable[[str], float | None],
    names: Mapping[float, str] = QS,
) -> Measures:
    """`paths` are by phase, with {} in place of the percentile's name. Raises ForeignFile."""
    told = {phase: list(_told(path, seconds, names)) for phase, path in paths.items()}
    for percentiles in told.values():
        _rise(document, percentiles)
    _within(document, told.get("ttft", ()), told.get("e2e", ()))
    known = {(phase, each.q): each.seconds for phase, percentiles in told.items() for each in percentiles}
    return {measure: known[of] for measure, of in PERCENTILES.items() if of in known}


def _told(path: str, seconds: Callable[[str], float | None], names: Mapping[float, str]) -> Iterator[_Percentile]:
    for q, name in sorted(names.items()):
        where = path.format(name)
        if (found := seconds(where)) is not None:
            yield _Percentile(q, where, found)


def _rise(document: Document, percentiles: Sequence[_Percentile]) -> None:
    for lower, higher in pairwise(percentiles):
        if higher.seconds < lower.seconds:
            raise document.wrong(higher.path, f"no less than {lower.path}, which is {lower.said}", higher.said)


def _within(document: Document, first: Sequence[_Percentile], whole: Sequence[_Percentile]) -> None:
    ends = {each.q: each for each in whole}
    for each in first:
        end = ends.get(each.q)
        if end is not None and each.seconds > end.seconds * _ROUNDED:
            raise document.wrong(each.path, f"no more than {end.path}, which is {end.said}", each.said)
