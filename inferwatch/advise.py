"""What to change, from a history."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from alerts.slo.spec import Slo
from exporters.config import default_path
from exporters.terminal import printable
from inferwatch.misuse import problems_end
from inferwatch.place import Place, opened
from inferwatch.process import load
from monitor.advise.adviser import Adviser
from monitor.api.advice import AdviceFindingOut, AdviceOut, AdviceQuery, advice_out, asked
from monitor.config import MonitorConfig
from monitor.evaluate.objectives import slos_of
from monitor.history.ask import History
from monitor.page import quantities


@dataclass(frozen=True, slots=True)
class Style:
    """How lines are marked: for a terminal, or as Markdown."""

    heading: str
    item: str
    inner: str
    code: bool


_MOST = 8
"""Targets in a line."""

TEXT, MARKDOWN = Style("", "", "  ", code=False), Style("## ", "- ", "  - ", code=True)


def advise(at: Place, query: AdviceQuery, form: str) -> None:
    slos = _slos(at)
    with opened(at.settings, current=True) as engine:
        told = advice_out(asked(Adviser(History(engine), lambda: slos), query, time.time()))
    if form == "json":
        print(told.model_dump_json(indent=2))
        return
    style = MARKDOWN if form == "markdown" else TEXT
    for line in _lines(told, style):
        sys.stdout.write(printable(line if style.code else line.replace("`", "")) + "\n")


def _slos(at: Place) -> Sequence[Slo]:
    """Those of the configuration; without any, what needs a goal says so."""
    with problems_end():
        return slos_of(load(at.config or default_path(), MonitorConfig).slos)


def _lines(told: AdviceOut, style: Style) -> Iterator[str]:
    yield f"{style.heading.replace('##', '#')}Advice from {_moment(told.since)} to {_moment(told.until)}"
    if told.simulated:
        share = f"{len(told.simulated)} of {len(told.servers)} servers"
        yield f"Simulated are {share}: what is said of them is true of no real one."
    parts: tuple[tuple[str, Callable[[AdviceOut, Style], Iterator[str]]], ...] = (
        ("What to change", _findings), ("Which framework", _frameworks), ("How many more requests", _capacity),
        ("What could not be judged", _missing),
    )  # fmt: skip
    for title, lines in parts:
        yield ""
        yield f"{style.heading}{title}"
        yield ""
        yield from lines(told, style)


def _moment(at: float) -> str:
    return quantities.moment(at)


def _findings(told: AdviceOut, style: Style) -> Iterator[str]:
    if not told.servers:
        yield "No server was observed in this time."
    elif not told.findings:
        yield f"Nothing was found to be wrong. Servers observed: {len(told.servers)}."
    for number, finding in enumerate(told.findings, 1):
        yield f"{number}. {finding.title}: {finding.text}"
        yield from _of_finding(finding, "   " + style.item)
        yield ""


def _of_finding(finding: AdviceFindingOut, mark: str) -> Iterator[str]:
    if finding.change is not None:
        yield f"{mark}change: {finding.change.text}"
    if finding.instead:
        yield f"{mark}{'besides' if finding.change else 'do'}: {finding.instead}"
    for evidence in finding.evidence:
        window = f"{_moment(evidence.since)} to {_moment(evidence.until)}"
        yield f"{mark}{evidence.what}: {evidence.said}, {window} ({evidence.page})"
    yield f"{mark}confidence: {finding.confidence} ({finding.why}); held {quantities.duration(finding.held_seconds)}"


def _frameworks(told: AdviceOut, style: Style) -> Iterator[str]:
    if told.not_compared:
        yield f"Frameworks were not compared: {told.not_compared}"
    if not told.frameworks:
        yield "No model was served."
    for choice in told.frameworks:
        yield f"{style.item}{choice.model}:"
        for sentence in choice.sentences:
            yield f"{style.inner}{sentence.text} [{sentence.basis}]"


def _capacity(told: AdviceOut, style: Style) -> Iterator[str]:
    if not told.capacity:
        yield "No objective tells it."
    for each in told.capacity:
        labels = " ".join(f"{name}={value}" for name, value in each.labels.items())
        yield f"{style.item}{each.slo} {labels}: {each.text}"


def _missing(told: AdviceOut, style: Style) -> Iterator[str]:
    if not told.missing:
        yield "Nothing."
    for each in told.missing:
        shown = [*each.targets[:_MOST], *([f"{len(each.targets) - _MOST} more"] if each.targets[_MOST:] else [])]
        of = f" ({', '.join(shown)})" if shown else ""
        yield f"{style.item}{each.title}{of}: needs {each.needs}"
